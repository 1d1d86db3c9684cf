"""Finds the idlest of the visible cards, for ``device=idle``. Only reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from launcher.errors import BadInput, Fault
from launcher.machine import nvml as nvml_module
from launcher.machine.nvml import Card
from launcher.shared.card_memory import busy


def card(*, nvml: Any = None, environ: Mapping[str, str] | None = None) -> tuple[int, Card]:
    """(its number among the visible cards, the card). A card without other processes comes first, then the least busy, then the most free.

    Raises BadInput where there is no card. ``nvml``: None imports pynvml.
    """
    with nvml_module.opened(nvml) as (api, absence):
        uuids: list[str] = []
        if absence is None:
            uuids, absence = nvml_module.visible(api, os.environ if environ is None else environ)
        if absence is not None:
            found = f"idle is asked, but {absence.found}"
            raise BadInput([Fault(key="device", found=found, cure=absence.cure or "device=cpu runs on the processor.")])
        cards = [(number, nvml_module.read_card(api, uuid), busy(api, uuid) or 0.0) for number, uuid in enumerate(uuids)]
    number, idlest, _ = min(cards, key=lambda one: (bool(one[1].neighbours), round(one[2], 1), -one[1].free_bytes, one[0]))
    return number, idlest
