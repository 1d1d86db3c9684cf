"""What a real card has measured -> the same trainings played, and the table of both in docs/pretended.md.

python -m benchmarks.against_real --python PATH     plays what that interpreter's PyTorch has no row of yet
python -m benchmarks.against_real --table           only the table

Rows of a real card are lines that ``trainings.py`` has printed there. Only rows of one version of PyTorch are held against each other: what
libraries take as their workspaces differs from version to version, by 9 to 66 MiB between 2.11 and 2.15.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.against_real.trainings import CASES
from benchmarks.common import rows
from benchmarks.common.rows import ROOT, Row
from launcher.pretended.cards import MARK

DATA, PAGE = ROOT / "benchmarks" / "results" / "against_real.jsonl", ROOT / "docs" / "pretended.md"
BEGIN, END = "<!-- made by benchmarks/against_real/ -->", "<!-- end of it -->"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="against-real", allow_abbrev=False)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch, torchvision and transformers")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args(argv)
    if not asked.table:
        version = subprocess.check_output([asked.python, "-c", "import torch; print(torch.__version__)"], text=True).strip()
        known = {row["case"] for row in rows.read(DATA) if row["torch"] == version and row["card"].endswith(MARK)}
        for case in CASES:
            if case not in known:
                with DATA.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(played(asked.python, case)) + "\n")
    before, after = PAGE.read_text(encoding="utf-8").split(BEGIN)[0], PAGE.read_text(encoding="utf-8").split(END)[1]
    PAGE.write_text("\n".join([before + BEGIN, *table(rows.read(DATA)), END + after]), encoding="utf-8")
    return 0


def played(python: str, case: str) -> Row:
    """A training's peaks on a pretended H200, with the segments that autofit sets."""
    script = str(ROOT / "benchmarks" / "against_real" / "trainings.py")
    argv = [sys.executable, "-m", "launcher.pretended", "gpu=h200", "computed=small", "--", python, script, case]
    env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    found: Row = json.loads(subprocess.check_output(argv, cwd=ROOT, env=env, text=True).splitlines()[-1])
    return found


def table(found: Sequence[Row]) -> list[str]:
    """A line a training that both have of one version."""
    real = {(row["case"], row["torch"]): row for row in found if not row["card"].endswith(MARK)}
    pairs = [(real[key], row) for row in found if row["card"].endswith(MARK) and (key := (row["case"], row["torch"])) in real]
    off = {kind: [100 * (b[kind] / a[kind] - 1) for a, b in pairs] for kind in ("allocated", "reserved")}
    lines = ["| training | card | torch | allocated: measured, played | reserved: measured, played |", "|---|---|---|---|---|"]
    for a, b in pairs:
        cells = (f"{a[kind]:,} {b[kind]:,} ({100 * (b[kind] / a[kind] - 1):+.2f}%)" for kind in off)
        lines.append(f"| {a['case']} | {a['card']} | {a['torch']} | {' | '.join(cells)} |")
    said = [f"{kind} {min(each):+.2f} to {max(each):+.2f} %, median {statistics.median(each):+.2f}" for kind, each in off.items()]
    return [*lines, "", f"{len(pairs)} trainings, bytes; played against measured: {'; '.join(said)}.  "]


if __name__ == "__main__":
    sys.exit(main())
