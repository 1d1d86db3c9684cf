"""Takes a budget in a program's own process before the program begins; ``budgeted`` starts such a process."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from dataclasses import dataclass

from . import budget, steps

VARIABLE = "AUTOFIT_BUDGET"


@dataclass(frozen=True, kw_only=True, slots=True)
class Early:
    """What is taken."""

    device: str
    cap_bytes: int
    device_uuid: str = ""
    idle_free_bytes: int = 0
    imports: tuple[str, ...] = ()
    """Modules that count as base: imported first, as the program would find them."""

    def told(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def take(told: str) -> None:
    """Takes the budget that ``told`` spells. The process's children are programs like any other."""
    _forget()
    early = Early(**json.loads(told))
    for name in early.imports:
        importlib.import_module(_private(name))
    budget.limit(
        device=early.device, cap_bytes=early.cap_bytes, device_uuid=early.device_uuid, idle_free_bytes=early.idle_free_bytes
    )  # fmt: skip
    if "torch" in sys.modules:
        steps.count()


def _forget() -> None:
    """Leaves the environment as it was before ``budgeted`` added to it."""
    del os.environ[VARIABLE]
    rest = os.environ["PYTHONPATH"].split(os.pathsep)[1:]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        del os.environ["PYTHONPATH"]


def _private(name: str) -> str:
    """Our own modules by the name under which they are in this process."""
    ours, _, rest = name.partition(".")
    return f"_autofit.{rest}" if ours == "launcher" and rest else name
