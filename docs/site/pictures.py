"""Draws the pictures of docs/ladder.md: python docs/site/pictures.py writes docs/pictures/*.svg. Light and dark, no fonts fetched.

The ladder is that of the recipe yolov8x_a100 as it is built; its trials are drawn as `autofit plan` plays them for an RTX 4090.
"""

from __future__ import annotations

import json
import subprocess
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs" / "pictures"
STYLE = """
text{font:14px system-ui,sans-serif;fill:#1b1f24}.small{font-size:12px;fill:#57606a}.line{stroke:#8c959f}
.b{fill:#2f6fbd;stroke:#fff}.failed{fill:#c9463d}.out{fill:#b6bdc6}.chosen{fill:#2b8a3e}.left{fill:none;stroke:#8c959f;stroke-dasharray:3 3}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9aa4af}.out{fill:#4b545e}.b{stroke:#0d1117}}
"""
SHOWN = 11
FAILED, CHOSEN = {0, 3, 4, 8}, 9
RULED_OUT_BY = {1: 3, 2: 3, 5: 8, 6: 8, 7: 8}
"""As `autofit plan recipe=yolov8x_a100 gpu=rtx_4090` plays it."""


def effective_batch() -> str:
    """Steps of 64 samples, in 1, 2, 4 and 8 pieces."""
    parts = []
    for row, pieces in enumerate((1, 2, 4, 8)):
        y, width = 20 + 52 * row, 448 / pieces
        parts.append(f'<text x="0" y="{y + 21}">{64 // pieces} x {pieces}</text>')
        parts += [f'<rect class="b" x="{80 + width * at:g}" y="{y}" width="{width:g}" height="32" rx="3"/>' for at in range(pieces)]
        parts.append(f'<text class="small" x="540" y="{y + 21}">{64 // pieces} samples in memory at once</text>')
    return _svg(760, 250, [*parts, '<text class="small" x="80" y="242">one optimizer step: 64 samples in each row</text>'])


def ladder(rungs: list[dict[str, object]]) -> str:
    """The first rungs of a ladder, with what might become of each."""
    parts = []
    for row, told in enumerate(rungs[:SHOWN]):
        y, kind, words = 12 + 38 * row, *_fate(row)
        values = told["rung"]
        assert isinstance(values, dict)
        said = f"{values['micro_batch']} x {told['accumulation']}, {values['image_size']} px"
        parts.append(f'<rect class="{kind}" x="0" y="{y}" width="14" height="26" rx="3"/>')
        parts.append(f'<text x="28" y="{y + 18}">rung {row}</text><text x="100" y="{y + 18}">{escape(said)}</text>')
        parts.append(f'<text class="small" x="260" y="{y + 18}">{escape(words)}</text>')
    y = 12 + 38 * SHOWN
    rest = f"{len(rungs) - SHOWN} more rungs: smaller images, checkpointing, a fixed size, smaller models"
    parts.append(f'<rect class="left" x="0" y="{y}" width="14" height="26" rx="3"/><text class="small" x="28" y="{y + 18}">{rest}</text>')
    return _svg(760, y + 40, parts)


def _fate(rung: int) -> tuple[str, str]:
    if rung in FAILED:
        return "failed", "tried: out of memory in training"
    if rung in RULED_OUT_BY:
        return "out", f"ruled out: it asks more than rung {RULED_OUT_BY[rung]}, which failed"
    return ("chosen", "tried: fits, and is launched") if rung == CHOSEN else ("left", "not tried: it gives up more")


def _svg(width: int, height: int, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, f"<style>{STYLE.strip()}</style>", *parts, "</svg>", ""])


def rungs() -> list[dict[str, object]]:
    """The ladder of the recipe, by the command."""
    argv = [sys.executable, "-m", "autofit_launcher", "ladder", "recipe=yolov8x_a100", "--json"]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: list[dict[str, object]] = json.loads(said.splitlines()[-1])["rungs"]
    return found


def main() -> None:
    PLACE.mkdir(exist_ok=True)
    (PLACE / "effective_batch.svg").write_text(effective_batch(), encoding="utf-8")
    (PLACE / "ladder.svg").write_text(ladder(rungs()), encoding="utf-8")


if __name__ == "__main__":
    main()
