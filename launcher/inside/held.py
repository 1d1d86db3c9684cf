"""Takes a person's command and a budget; becomes that command, each Python process of which takes the budget at its first model.

    python -m launcher.inside.held --device cpu --bytes 2000000000 --settings FILE COMMAND [ARGS...]

FILE is written for the probe that is loaded into the command's processes, as in its trial. The command itself is not changed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.inside.budgeted import limits
from launcher.inside.plainly import injected
from launcher.inside.settings import ProbeSettings
from launcher.shared.orders import Orders


def main(argv: Sequence[str]) -> None:
    parser = limits("held")
    parser.add_argument("--settings", type=Path, required=True, help="where the probe's settings are written")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args(argv)
    cards = _cards(chosen.device_uuid, chosen.idle_free, chosen.bytes)
    orders = Orders(
        module="", folder="", device=chosen.device, accumulation=1, payload={}, **cards[0], cards=cards if len(cards) > 1 else []
    )  # fmt: skip
    chosen.settings.parent.mkdir(parents=True, exist_ok=True)
    ProbeSettings(records=str(chosen.settings.parent), orders=dataclasses.asdict(orders), budget_only=True).write(chosen.settings)
    os.execvpe(chosen.command[0], chosen.command, {**os.environ, **injected(chosen.settings, os.environ)})


def _cards(uuids: str, idle: str, caps: str) -> list[dict[str, Any]]:
    """What the process on each card is told; of several on a CPU, each of which has as much, the first."""
    each = zip(*(said.split(",") for said in (uuids, idle, caps)), strict=False)
    return [{"device_uuid": uuid, "idle_free_bytes": int(free), "cap_bytes": int(cap)} for uuid, free, cap in each]


if __name__ == "__main__":
    main(sys.argv[1:])
