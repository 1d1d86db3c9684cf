"""Takes a command and a budget; becomes that command, each Python process of which takes the budget at its first model, as in its trial.

    python -m launcher.inside.held --device cpu --bytes 2000000000 --settings FILE COMMAND [ARGS...]

FILE is written for the probe that is loaded into the command's processes. The command itself is not changed. On a CPU start it with
MALLOC_MMAP_THRESHOLD_=65536. The launcher runs full runs so where the device is an emulated, smaller card, or a CPU with a budget.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.inside.settings import ProbeSettings, injected
from launcher.shared.orders import Orders


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m launcher.inside.held", allow_abbrev=False)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--device-uuid", default="", help="the card, as NVML names it; of several ranks the card of each, in their order")
    parser.add_argument("--idle-free", default="0", help="bytes that were free on the card before this process; of each rank")
    parser.add_argument("--bytes", required=True, help="cap on device memory: a card's, or above what the imports take; of each rank")
    parser.add_argument("--base", nargs=2, action="append", default=[], metavar=("LIBRARY", "MODULES"), help="see Command.base")
    parser.add_argument("--settings", type=Path, required=True, help="where the probe's settings are written")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args(argv)
    cards = _cards(chosen.device_uuid, chosen.idle_free, chosen.bytes)
    payload = {"base": {library: modules.split(",") for library, modules in chosen.base}}
    orders = Orders(
        module="", folder="", device=chosen.device, accumulation=1, payload=payload, **cards[0],
        cards=cards if len(cards) > 1 else [],
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
