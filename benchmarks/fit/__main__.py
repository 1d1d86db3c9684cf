"""Cases of (model, ask, budget) -> how each search found the rung, in how many trials and seconds, and how far forecasts were off.

python -m benchmarks.fit --slice 4              four more cases, with real trials on CPU budgets (resumable: a row a search)
python -m benchmarks.fit --only yolo            all cases of the asks of that name
python -m benchmarks.fit --exhaustive           instead: what rules out nothing untried, the reference for all others
python -m benchmarks.fit --slice 0              only the table and the plot

An ask is measured first: rung 0 is tried with all the memory that it wants. Its budgets are parts of that. Each search then makes its own
trials in a launch of its own, as a person would launch it:

    walk        down the ladder (``ladder.search=walk``)
    predicted   led by the trials made so far
    again       the very same launch: its fit is kept
"""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from pathlib import Path

from benchmarks.common.rows import ROOT, read
from benchmarks.fit import table
from benchmarks.fit.cases import REFERENCE, SEARCHES, left
from benchmarks.fit.play import DATA, play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", type=int, metavar="N", help="so many more cases; all of them where it isn't said")
    parser.add_argument("--exhaustive", action="store_true", help="instead: the reference that rules out nothing untried")
    parser.add_argument("--only", help="cases of asks whose names begin so")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--table", type=Path, default=table.PAGE)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "fit", help="where cases are played")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    searches = REFERENCE if chosen.exhaustive else SEARCHES
    for case in islice(left(read(chosen.data), only=chosen.only, searches=searches), chosen.slice):
        print(case.name, flush=True)
        play(case, chosen.data, folder, searches=searches)
    table.write(read(chosen.data), chosen.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
