"""Turns a command into the words that start it once per device: itself, or torchrun. Trials and full runs use it alike. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

TORCHRUN = ("-P", "-m", "torch.distributed.run")
"""``-P``: a person's ``queue.py`` in the working folder isn't torchrun's."""
HERE = "--local_addr=localhost"
"""Ranks of one machine meet there. Where a machine's own name doesn't resolve (a container), torchrun would wait for itself forever."""


def launched(command: Sequence[str], *, devices: int = 1) -> tuple[str, ...]:
    """The words that start ``command`` on so many devices of this machine."""
    if devices == 1:
        return tuple(command)
    python, program = _program(command)
    return (python, *TORCHRUN, "--nproc_per_node", str(devices), HERE, *program)


def _program(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Splits a command into (the interpreter that runs torchrun, the program in torchrun's terms)."""
    first, *rest = command
    is_python = os.path.basename(first).startswith("python")
    if is_python and rest and (rest[0] == "-m" or not rest[0].startswith("-")):
        return first, tuple(rest)
    return first if is_python else sys.executable, ("--no-python", *command)
