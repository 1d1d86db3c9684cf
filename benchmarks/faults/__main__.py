"""How many more cases -> their rows behind those in the data file, and the table made anew from all of them.

python -m benchmarks.faults --slice 10      ten more cases
python -m benchmarks.faults --seed 17       seed 17 once more; nothing is written down
python -m benchmarks.faults --slice 0       only the table
python -m benchmarks.faults --slice 6 --faults small_disk,small_shm --trainers yolo    six more cases of these
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common.rows import append, read
from benchmarks.faults import cases, places, play, table

Row = dict[str, Any]


def losses(rows: Sequence[Row]) -> dict[str, float]:
    """Trainer -> the median loss of its undisturbed runs."""
    found = {
        trainer: [row["loss"] for row in rows if row["fault"] == "none" and row["trainer"] == trainer and row.get("loss")]
        for trainer in cases.ALL
    }
    return {trainer: statistics.median(values) for trainer, values in found.items() if values}


def seeds_left(rows: Sequence[Row]) -> list[int]:
    """Seeds without a row of this generator; the undisturbed ones of the first round before all others, which are held against them."""
    played = {row["seed"] for row in rows if row["generator"] == cases.GENERATOR}
    left = [seed for seed in range(len(played) + 2 * len(cases.PAIRS)) if seed not in played]
    first = [seed for seed in left if seed < len(cases.PAIRS) and cases.make(seed).fault == "none"]
    return first + [seed for seed in left if seed not in first]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--slice", type=int, default=len(cases.PAIRS), metavar="N", help="so many more cases")
    amount.add_argument("--seed", type=int, help="one case once more; its folder is kept")
    parser.add_argument("--faults", type=lambda said: said.split(","), default=[*cases.FAULTS], help="only cases of these")
    parser.add_argument("--trainers", type=lambda said: said.split(","), default=[*cases.ALL], help="only cases of these")
    parser.add_argument("--keep", action="store_true", help="the folders of cases are kept, to be read")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time")
    parser.add_argument("--data", type=Path, default=places.ROOT / "benchmarks" / "results" / "faults.jsonl")
    parser.add_argument("--table", type=Path, default=places.ROOT / "docs" / "faults.md")
    parser.add_argument("--folder", type=Path, default=places.ROOT / "runs" / "faults", help="where cases are played")
    chosen = parser.parse_args()
    place = chosen.folder.resolve()
    rows = read(chosen.data)
    if chosen.seed is not None:
        print(json.dumps(play.play(cases.make(chosen.seed), place, losses=losses(rows), keep=True), indent=1))
        return 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        wanted = (seed for seed in seeds_left(rows) if _is_of(cases.make(seed), chosen.faults, chosen.trainers))
        seeds = islice(wanted, chosen.slice)
        for one in as_completed([pool.submit(_played, seed, place, rows, keep=chosen.keep) for seed in seeds]):
            rows.append(row := one.result())
            append(chosen.data, row)
            print(_line(row), flush=True)
    if rows:
        chosen.table.write_text(table.document(rows), encoding="utf-8")
    return 0


def _is_of(case: cases.Case, faults: Sequence[str], trainers: Sequence[str]) -> bool:
    return case.fault in faults and case.trainer in trainers


def _played(seed: int, place: Path, rows: list[Row], *, keep: bool) -> Row:
    """``rows``: those so far, which grow meanwhile."""
    return play.play(cases.make(seed), place, losses=losses(list(rows)), keep=keep)


def _line(row: Row) -> str:
    struck = "" if row["struck"] else "  (over before its fault)"
    what = f"seed {row['seed']:>3}  {row['trainer']:<7} {row['fault']:<18} {row.get('moment', ''):<10} {row['verdict']:<9}"
    return f"{what} {row['seconds']:>5.0f} s  {row['broken']} {row['attempts']}{struck}"


if __name__ == "__main__":
    sys.exit(main())
