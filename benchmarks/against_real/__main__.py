"""What real cards have measured -> the same trainings played, and the table of both in docs/pretended.md.

python -m benchmarks.against_real --python PATH     plays what was measured with that interpreter's PyTorch and isn't played with it yet
python -m benchmarks.against_real --python PATH --only WORD     ... whichever PyTorch it was measured with, where its name has the word
python -m benchmarks.against_real                   only the table

Rows of a real card are lines that ``trainings.py`` has printed there, or what other people have published (``address``). What libraries
take as their workspaces differs from version to version, by 9 to 66 MiB between 2.11 and 2.15, so both versions are said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from autofit_launcher.pretended.cards import MARK
from benchmarks.against_real.trainings import CASES
from benchmarks.common import rows
from benchmarks.common.rows import ROOT, Row

DATA, PAGE = ROOT / "benchmarks" / "results" / "against_real.jsonl", ROOT / "docs" / "pretended.md"
BEGIN, END = "<!-- made by benchmarks/against_real/ -->", "<!-- end of it -->"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="against-real", allow_abbrev=False)
    parser.add_argument("--python", help="an interpreter with PyTorch, torchvision and transformers; peft and litgpt for their cases")
    parser.add_argument("--only", help="cases whose name has this word")
    asked = parser.parse_args(argv)
    if asked.python:
        version = subprocess.check_output([asked.python, "-c", "import torch; print(torch.__version__)"], text=True).strip()
        found = rows.read(DATA)
        known = {row["case"] for row in found if row["torch"] == version and row["card"].endswith(MARK)}
        for row in found:
            meant = asked.only in row["case"] if asked.only else release(row["torch"]) == release(version)
            if meant and not row["card"].endswith(MARK) and row["case"] not in known:
                with DATA.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(played(asked.python, row)) + "\n")
    before, after = PAGE.read_text(encoding="utf-8").split(BEGIN)[0], PAGE.read_text(encoding="utf-8").split(END)[1]
    PAGE.write_text("\n".join([before + BEGIN, *table(rows.read(DATA)), END + after]), encoding="utf-8")
    return 0


def release(version: str) -> str:
    return version.partition("+")[0]


def played(python: str, real: Row) -> Row:
    """A training's peaks on a pretended card; ours have the segments that autofit sets, others' PyTorch's own."""
    ours = real["case"] in CASES
    script = str(ROOT / "benchmarks" / "against_real" / ("trainings.py" if ours else "theirs.py"))
    argv = [sys.executable, "-m", "benchmarks.played.on_cards", f"gpu={real['gpu']}", "computed=small", "--", python, script, real["case"]]
    env = {**os.environ, **({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if ours else {})}
    found: Row = json.loads(subprocess.check_output(argv, cwd=ROOT, env=env, text=True).splitlines()[-1])
    return found


def table(found: Sequence[Row]) -> list[str]:
    """A line a training that was both measured and played, with the measured version of PyTorch where it was played with that."""
    real = {row["case"]: row for row in found if not row["card"].endswith(MARK)}
    plays: dict[str, Row] = {}
    for row in found:
        if row["card"].endswith(MARK) and (row["case"] not in plays or release(row["torch"]) == release(real[row["case"]]["torch"])):
            plays[row["case"]] = row
    lines = ["| training | card | torch | allocated: measured, played | reserved: measured, played |", "|---|---|---|---|---|"]
    off: dict[str, list[float]] = {"allocated": [], "reserved": []}
    for case, play in plays.items():
        cells = []
        for kind, each in off.items():
            each += [100 * (play[kind] / real[case][kind] - 1)] if kind in real[case] else []
            cells.append(f"{real[case][kind]:,} {play[kind]:,} ({each[-1]:+.2f}%)" if kind in real[case] else "")
        same = release(real[case]["torch"]) == release(play["torch"])
        version = real[case]["torch"] if same else f"{real[case]['torch']}, played {release(play['torch'])}"
        lines.append(f"| {case} | {real[case]['card']} | {version} | {' | '.join(cells)} |")
    said = [
        f"{kind} {min(each):+.2f} to {max(each):+.2f} %, {statistics.median(map(abs, each)):.2f} off in the median"
        for kind, each in off.items()
    ]
    cards = len({real[case]["gpu"] for case in plays})
    return [*lines, "", f"{len(plays)} measurements on {cards} kinds of cards, bytes; played against measured: {'; '.join(said)}.  "]


if __name__ == "__main__":
    sys.exit(main())
