"""Published and owners' figures beside what the same training holds on a pretended card: ``python -m benchmarks.played [--only WORD]``.

Resumable: a point that ``results/played.jsonl`` has is left out. Another part in ``SHARES`` plays all again with
cuDNN's workspaces of that size. Writes the table in docs/pretended.md. Segments don't expand, as those runs had them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.pretended import catalogue
from autofit_launcher.pretended.cards import Cards, played
from benchmarks.played.points import POINTS, Point

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "played.jsonl", ROOT / "docs" / "pretended.md"
BEGIN, END = "<!-- made by benchmarks/played/ -->", "<!-- end -->"
SHARES = (0.0,)
Row = dict[str, Any]


def rows() -> list[Row]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def play(point: Point, share: float) -> Row:
    """One training on its card; what went wrong where it didn't come to its end."""
    (model,) = catalogue.named([point.card])
    argv = [sys.executable, "-m", f"benchmarks.played.subjects.{point.subject}", *map(str, point.words)]
    began = time.monotonic()
    with played(Cards(model=model, computed="small")) as environment:
        env = {**environment, "YOLO_OFFLINE": "true", "PRETENDED_CUDNN_SHARE": str(share)}
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    said = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.stderr[-400:]}
    return {
        "what": point.what, "card": point.card, "measured_bytes": point.measured_bytes, "cudnn_share": share, **said,
        "seconds": round(time.monotonic() - began, 1), "source": point.source,
    }  # fmt: skip


def table(found: Sequence[Row]) -> str:
    heads = ["training", "card", "measured GB", *(f"played, cudnn={share:g}" for share in SHARES), "alive"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for point in POINTS:
        ours = {row["cudnn_share"]: row for row in found if row["what"] == point.what and row["card"] == point.card}
        cells = [_cell(ours.get(share), "reserved_bytes") for share in SHARES]
        alive = _cell(ours.get(0.0), "allocated_bytes")
        lines.append(" | ".join([f"| {point.what}", point.card, f"{point.measured_bytes / 1e9:.2f}", *cells, f"{alive} |"]))
    return "\n".join([*lines, "", *(sentence(found, share) for share in SHARES)])


def _cell(row: Row | None, kind: str) -> str:
    if row is None or kind not in row:
        return "not played yet" if row is None else "failed"
    return f"{row[kind] / 1e9:.2f} ({row[kind] / row['measured_bytes'] - 1:+.1%})"


def sentence(found: Sequence[Row], share: float) -> str:
    ours = [row for row in found if row["cudnn_share"] == share and "reserved_bytes" in row]
    if not ours:
        return ""
    off = [row["reserved_bytes"] / row["measured_bytes"] - 1 for row in ours]
    size, above = sorted(map(abs, off)), sum(row["allocated_bytes"] > row["measured_bytes"] for row in ours)
    return (
        f"cudnn={share:g}: {len(ours)} figures, off by {statistics.median(size):.1%} (median), {size[-1]:.1%} at most, bias "
        f"{statistics.mean(off):+.1%}; what is alive is above the measured figure in {above}. Each took "
        f"{max(row['seconds'] for row in ours):.0f} s or less.  "
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="points whose name has this word")
    asked = parser.parse_args()
    there = {(row["what"], row["card"], row["cudnn_share"]) for row in rows()}
    for share in SHARES:
        for point in POINTS:
            if asked.only in point.what and (point.what, point.card, share) not in there:
                row = play(point, share)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(
                    f"{point.what}: {row.get('reserved_bytes', row.get('failed'))} of {point.measured_bytes}, {row['seconds']} s",
                    flush=True,
                )
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{table(rows())}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
