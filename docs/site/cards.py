"""Writes docs/cards.md, which rung of a recipe fits which card as `autofit plan` predicts it: python docs/site/cards.py (minutes)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ("yolov8x_a100", "yolo11l_rtx4080s_component", "yolo11l_rtx4080s_solder")
"""Those whose model is known without a network."""
HEAD = """# Recipes by card

*Made by `python docs/site/cards.py`; not edited by hand.*

The first rung of each recipe that `autofit plan` predicts to fit. Predicted, not measured.
Only a trial on the card decides. A rung is written as micro-batch x accumulation, then what else is given up; *as asked* is rung 0.
"""
TAIL = """
The speech and text recipes need their model's files to be planned: `autofit plan recipe=whisper_breeze ask.model=FOLDER gpu=a100_40gb`.
Their comments ([recipes](../recipes)) say what the weights and optimizer states alone take. A card that isn't here: `device.memory=16GiB`.
"""


def main() -> None:
    cards = sorted(path.stem for path in (ROOT / "conf" / "gpu").glob("*.yaml"))
    plans = {recipe: _planned(recipe, cards) for recipe in RECIPES}
    first = plans[RECIPES[0]]["cards"]
    lines = [HEAD, f"| card | {' | '.join(RECIPES)} |", f"|{'---|' * (len(RECIPES) + 1)}"]
    for card in sorted(first, key=lambda one: (one["usable_bytes"], one["gpu"])):
        size = f"{card['usable_bytes'] / 2**30:.0f} GiB"
        lines.append(f"| {card['title']}, {size} (`{card['gpu']}`) | {' | '.join(_words(plans[one], card['gpu']) for one in RECIPES)} |")
    with_what = ", ".join(f"{name} {version}" for name, version in plans[RECIPES[0]]["made_with"].items())
    (ROOT / "docs" / "cards.md").write_text("\n".join([*lines, "", f"Planned with {with_what}.", TAIL]), encoding="utf-8")


def _planned(recipe: str, cards: list[str]) -> Mapping[str, Any]:
    argv = [sys.executable, "-m", "launcher", "plan", f"recipe={recipe}", f"gpu={','.join(cards)}", "--json"]
    said = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    told: Mapping[str, Any] = json.loads(said.splitlines()[-1])
    return told


def _words(plan: Mapping[str, Any], gpu: str) -> str:
    index = next(card["rung_predicted_to_fit"] for card in plan["cards"] if card["gpu"] == gpu)
    if index is None:
        return "none"
    asked, rung = plan["rungs"][0], next(one for one in plan["rungs"] if one["rung_index"] == index)
    if not index:
        return "as asked"
    lost = [
        f"{name.replace('_', ' ')} {_told(value)}"
        for name, value in rung["rung"].items()
        if name != "micro_batch" and asked["rung"][name] != value
    ]
    return ", ".join([f"{rung['rung']['micro_batch']} x {rung['accumulation']}", *lost])


def _told(value: object) -> str:
    return "on" if value is True else "off" if value in (False, 0) else str(value)


if __name__ == "__main__":
    main()
