"""`make gpu-check`: the evidence that only a card gives. CASE=A..F picks; what is measured already (same commit, same card) is left out.

python -m benchmarks.gpu_check [CASE ...] [--place FOLDER] [--results FILE] [--minutes N] [--page] [--files FILE ...]
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.rows import append
from benchmarks.gpu_check import checks, play, rows, sent, table
from benchmarks.gpu_check.cases import CASES


def main(argv: Sequence[str]) -> int:
    """Exit status 1 where a claim that was measured doesn't hold."""
    parser = argparse.ArgumentParser(prog="gpu-check", allow_abbrev=False)
    parser.add_argument("case", nargs="*", default=[], help="A to F; all where none is named")
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "gpu-check", help="takes data and runs")
    parser.add_argument("--results", type=Path, default=rows.RESULTS)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begins no step after that; the same command later goes on")
    parser.add_argument("--page", action="store_true", help="only write docs/gpu.md from the rows")
    parser.add_argument(
        "--files", nargs="+", type=Path, default=[], help="what others have sent (`make gpu-hour`, the notebook); measures nothing"
    )
    asked = parser.parse_args(argv)
    for path in asked.files:
        append(asked.results, sent.taken(path))
    if not asked.page and not asked.files:
        measured(asked.case or list("ABCDEF"), place=asked.place, results=asked.results, minutes=asked.minutes)
    if asked.results == rows.RESULTS:
        table.write()
    failed = 0
    for case in CASES:
        for check in checks.of(case, [row for row in rows.read(asked.results) if row["case"] == case.letter]):
            if check.holds is not None:
                print(f"{'holds' if check.holds else 'FAILS'}  {case.name}: {check.claim} ({check.figures})")
            failed += check.holds is False
    return int(failed > 0)


def measured(letters: Sequence[str], *, place: Path, results: Path, scale: float = 1.0, minutes: float = math.inf) -> None:
    ends = time.monotonic() + 60 * minutes
    budget, driver = play.card()
    found = rows.Rows(path=results, common=rows.common(card=budget.name, uuid=budget.uuid, driver=driver))
    place.mkdir(parents=True, exist_ok=True)
    if "A" in letters:
        play.all_facts(found, budget)
    for case in CASES:
        if case.letter in letters and not play.left_out(found, case, budget):
            play.case(found, case, place, scale=scale, ends=ends)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
