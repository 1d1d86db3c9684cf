"""How many more cases -> their rows behind those in the data file, and the page made anew from all of them.

python -m benchmarks.ranks --slice 10     ten more cases
python -m benchmarks.ranks --seed 17      seed 17 once more; nothing is written down
python -m benchmarks.ranks --costs 2      two more undisturbed trials of each number of ranks
python -m benchmarks.ranks --slice 0      only the page
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from benchmarks.common.rows import ROOT, append, read
from benchmarks.ranks import play, table
from benchmarks.ranks.cases import COSTS, GENERATOR, Case, make


def _left(rows: list[play.Row]) -> Iterator[Case]:
    """Cases without a row of this generator."""
    played = {row["seed"] for row in rows if row["generator"] == GENERATOR}
    return (make(seed) for seed in count() if seed not in played)


def _data() -> None:
    """The rows that transformers' trials learn from, made by the recipe's own command."""
    place = ROOT / "runs" / "ranks" / "sums"
    if not place.exists():
        subprocess.run([sys.executable, str(ROOT / "examples" / "text" / "make_text.py"), str(place)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", type=int, default=24, metavar="N", help="so many more cases")
    parser.add_argument("--costs", type=int, default=0, metavar="N", help="so many more undisturbed trials of each number of ranks")
    parser.add_argument("--seed", type=int, help="one case once more; nothing is written down")
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks" / "results" / "ranks.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "ranks.md")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ranks", help="where cases are played")
    chosen = parser.parse_args()
    _data()
    if chosen.seed is not None:
        print(json.dumps(play.play(make(chosen.seed), chosen.folder.resolve()), indent=1))
        return 0
    for case in (*COSTS * chosen.costs, *islice(_left(read(chosen.data)), chosen.slice)):
        for row in play.play(case, chosen.folder.resolve()):
            append(chosen.data, row)
            said = ("seed", "trainer", "ranks", "fault", "where", "verdict", "seconds", "named", "left", "took_s")
            print(json.dumps({name: row[name] for name in said}), flush=True)
    chosen.page.write_text(table.document(read(chosen.data)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
