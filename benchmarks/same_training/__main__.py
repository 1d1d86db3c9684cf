"""Trainings at lower rungs -> rows of what autofit said and what was measured, and the page made anew from all of them.

python -m benchmarks.same_training --slice 10              ten more rows
python -m benchmarks.same_training --only trainer-masked   one case, at every rung that has no row yet; plain-2x4,gan-1x8: two rows
python -m benchmarks.same_training --again --only ...      the same, though there are rows: they are put in place of those
python -m benchmarks.same_training --slice 0               only the page

A case whose packages the interpreter lacks gets no row; --python names one that has lightning and trl, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.common.rows import ROOT, Row, append, read
from benchmarks.same_training import interpreter, play, table
from benchmarks.same_training.cases import WHOLE, Case, name_of, plays

DATA = ROOT / "benchmarks" / "results" / "same_training.jsonl"
PAGE = ROOT / "docs" / "same_training.md"


def left(rows: Sequence[Row], *, only: str = "", again: bool = False) -> Iterator[tuple[Case, int]]:
    """What has no row yet, or is to be played again."""
    played = set() if again else {(row["case"], row["rung"]) for row in rows}
    for case, micro in plays():
        if (not only or {case.name, name_of(case, micro)} & set(only.split(","))) and (
            case.name,
            f"{micro}x{WHOLE // micro}",
        ) not in played:
            yield case, micro


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", type=int, metavar="N", help="so many more rows; without it all that are left")
    parser.add_argument("--only", default="", help="cases, or cases at a rung, with commas between them")
    parser.add_argument("--again", action="store_true", help="also what has a row")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with the trainers' packages")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--table", type=Path, default=PAGE)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "same_training", help="where cases are played")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all rows, not of findings only")
    chosen = parser.parse_args()
    more(chosen)
    if rows := read(chosen.data):
        chosen.table.write_text(table.document(rows), encoding="utf-8")
    return 0


def more(chosen: argparse.Namespace) -> None:
    """Plays rows one after the other; each is written when it is over. Ctrl-C loses the one that plays."""
    wanted = list(left(read(chosen.data), only=chosen.only, again=chosen.again))[: chosen.slice]
    if not wanted:
        return
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    place = play.Place(folder=folder, python=interpreter.made(chosen.python, folder / "interpreter"), keep=chosen.keep)
    for case, micro in wanted:
        if missing := [name for name in case.needs if not interpreter.has(place.python, name)]:
            print(f"{name_of(case, micro):<28} left out: {missing[0]} is not installed", flush=True)
            continue
        append(chosen.data, row := play.play(case, micro, place))
        print(_line(row), flush=True)


def _line(row: Row) -> str:
    found = "; ".join(row.get("differs", {}).values()) or ("the same" if "measured" in row else "nothing")
    name = f"{row['case']}-{row['rung']}"
    return f"{name:<28} {row['verdict']:<30} {row['seconds']:>5.0f} s  said: {row['words'][:100]}  measured: {found}"


if __name__ == "__main__":
    sys.exit(main())
