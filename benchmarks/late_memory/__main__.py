"""Runs whose memory limit is lowered midway -> their rows behind those in the data file, and the table made anew from all of them.

python -m benchmarks.late_memory --slice 10            ten more cases
python -m benchmarks.late_memory --only yolo           cases of the trainings whose names begin so
python -m benchmarks.late_memory --seed 17             seed 17 once more; nothing is written down
python -m benchmarks.late_memory --slice 0             only the table
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.rows import ROOT, append, read
from benchmarks.late_memory import cases, table
from benchmarks.late_memory.play import ARMS, Training, play

Row = dict[str, Any]


def seeds_left(rows: Sequence[Row], *, only: str, slice_: int) -> list[int]:
    """The next seeds without a row of this generator, in their order: all trainings and moments in turn."""
    played = {row["seed"] for row in rows if row["generator"] == cases.GENERATOR}
    left = (seed for seed in itertools.count() if seed not in played and cases.make(seed).training.startswith(only))
    return list(itertools.islice(left, slice_))


def seeds_again(rows: Sequence[Row]) -> list[int]:
    """Those whose last run was restarted or lost, though its trainer can take parts."""
    newest = {row["seed"]: row for row in rows if row["generator"] == cases.GENERATOR}
    return [seed for seed, row in newest.items() if row["verdict"] in ("restarted", "lost")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--slice", type=int, default=len(cases.PAIRS), metavar="N", help="so many more cases")
    amount.add_argument("--again", action="store_true", help="those once more that were restarted or lost")
    amount.add_argument("--seed", type=int, help="one case once more; its folder is kept")
    parser.add_argument("--only", default="", choices=["", *cases.TRAININGS], help="of one training alone")
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks" / "results" / "late_memory.jsonl")
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "late_memory.md")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "late_memory", help="where cases are played")
    chosen = parser.parse_args()
    place = chosen.folder.resolve()
    if chosen.seed is not None:
        case = cases.make(chosen.seed)
        print(json.dumps(play(case, Training(case.training, place / case.training)), indent=1))
        return 0
    trainings: dict[str, Training] = {}  # each with the undisturbed run that all its cases are held against
    rows = read(chosen.data)
    for seed in seeds_again(rows) if chosen.again else seeds_left(rows, only=chosen.only, slice_=chosen.slice):
        case = cases.make(seed)
        if case.training not in trainings:
            trainings[case.training] = Training(case.training, place / case.training)
        row = play(case, trainings[case.training])
        append(chosen.data, row)
        print(_line(row), flush=True)
    if rows := read(chosen.data):
        chosen.table.write_text(table.document(rows), encoding="utf-8")
    return 0


def _line(row: Row) -> str:
    told = [
        f"{arm}: {'+'.join(row[arm]['ended'])} {row[arm].get('lost_s')} s off {row[arm].get('weights_off')}" for arm in ARMS if row[arm]
    ]
    what = f"seed {row['seed']:>3}  {row['training']:<25} {row['moment']:<10} at {row['step']} left {row['left']}"
    return f"{what}  {row['verdict']:<9} {'; '.join(told)}"


if __name__ == "__main__":
    sys.exit(main())
