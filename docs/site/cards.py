"""Writes docs/cards.md, which rung of a recipe fits which card as `autofit plan` plays it: python docs/site/cards.py (half an hour)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ("yolov8x_a100", "yolo11l_rtx4080s_component", "yolo11l_rtx4080s_solder")
HEAD = """# Recipes by card

*Made by `python docs/site/cards.py`; not edited by hand.*

The first rung of each recipe that fits as `autofit plan` plays it. Played, not measured: only a trial on the card decides.
A rung is written as micro-batch x accumulation, then what else is given up; *as asked* is rung 0.
"""
TAIL = """
Speech, text and separator recipes: `autofit plan recipe=whisper_breeze gpu=a100_40gb`, a minute or two for each card.
Their comments ([recipes](../recipes)) say what the weights and optimizer states alone take. A card that isn't here: `device.memory=16GiB`.
"""


def main() -> None:
    cards = sorted(path.stem for path in (ROOT / "conf" / "gpu").glob("*.yaml"))
    plans = [{card["gpu"]: card for card in _planned(recipe, cards)} for recipe in RECIPES]
    lines = [HEAD, f"| card | {' | '.join(RECIPES)} |", f"|{'---|' * (len(RECIPES) + 1)}"]
    for card in sorted(plans[0].values(), key=lambda one: (one["usable_bytes"], one["gpu"])):
        size = f"{card['usable_bytes'] / 2**30:.0f} GiB"
        lines.append(f"| {card['title']}, {size} (`{card['gpu']}`) | {' | '.join(_words(plan[card['gpu']]) for plan in plans)} |")
    with_what = ", ".join(f"{name} {version(name)}" for name in ("torch", "torchvision", "ultralytics"))
    (ROOT / "docs" / "cards.md").write_text("\n".join([*lines, "", f"Planned with {with_what}.", TAIL]), encoding="utf-8")


def _planned(recipe: str, cards: list[str]) -> Sequence[Mapping[str, Any]]:
    argv = [sys.executable, "-m", "autofit_launcher", "plan", f"recipe={recipe}", f"gpu={','.join(cards)}", "--json"]
    said = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    told: Sequence[Mapping[str, Any]] = json.loads(said.splitlines()[-1])["cards"]
    return told


def _words(card: Mapping[str, Any]) -> str:
    if card["rung"] is None:
        return "none"
    if not card["rung_index"]:
        return "as asked"
    lost = [f"{name.replace('_', ' ')} {_told(values['used'])}" for name, values in card["given_up"].items() if name != "micro_batch"]
    return ", ".join([f"{card['rung']['micro_batch']} x {card['accumulation']}", *lost])


def _told(value: object) -> str:
    return "on" if value is True else "off" if value in (False, 0) else str(value)


if __name__ == "__main__":
    main()
