"""Which versions -> a row of what works with each, and the table of them all.

python -m benchmarks.versions                       every point that has no row yet
python -m benchmarks.versions --only yolo-8.4.150   one of them, whether it has a row or not
python -m benchmarks.versions --list                the points
python -m benchmarks.versions --table               only the table

A point is an environment of its own, made by uv beside the others and never the person's: autofit from this checkout with other versions
of Ultralytics, transformers, Lightning or accelerate, torch and Python. In it run the tests that hold steps and gradients
against the plain run, the adapter's suite with its real trials, and a small fit with its full run. What is not named is the newest that
fits beside it. An environment in which all of it works is removed at the end; others stay, with what was printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.common.rows import ROOT
from benchmarks.versions.cases import POINTS, Point
from benchmarks.versions.play import tried
from benchmarks.versions.table import DATA, finished, read, works, write, write_table

MOST_AT_ONCE = 2


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="POINT", choices=POINTS, help="this one (may be given again)")
    parser.add_argument("--list", action="store_true", help="names the points")
    parser.add_argument("--table", action="store_true", help="only makes the table anew")
    parser.add_argument("--jobs", type=int, default=1, choices=range(1, MOST_AT_ONCE + 1), help="points at once (default 1)")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "versions", help="where the environments are")
    parser.add_argument("--fit-again", action="store_true", help="fit and run anew; tests stay those of the row")
    asked = parser.parse_args(argv)
    if asked.list:
        print("\n".join(POINTS))
        return 0
    left = [] if asked.table else [POINTS[name] for name in asked.only or POINTS if asked.only or not finished(read(DATA).get(name))]
    asked.folder.mkdir(parents=True, exist_ok=True)

    def one(point: Point) -> None:
        known = read(DATA).get(point.name) if asked.fit_again else None
        row = tried(point, asked.folder.absolute(), keep=lambda row: write(DATA, row), known=known)
        write(DATA, row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if works(row):  # what failed is left to be looked at
            for place in (point.name, f"{point.name}-cache", f"{point.name}-runs"):
                shutil.rmtree(asked.folder / place, ignore_errors=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, left))
    write_table(read(DATA).values())
    return 0


if __name__ == "__main__":
    sys.exit(main())
