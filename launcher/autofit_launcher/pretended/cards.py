"""The cards of a pretended machine, and the environment variables in which a command finds them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from autofit_launcher import paths
from autofit_launcher.common.sizes import MIB
from autofit_launcher.pretended import libraries
from autofit_launcher.pretended.catalogue import GpuModel

SHARED = Path("/dev/shm")
_NAMED = "autofit-pretended-"
MARK = " (pretended)"
"""Behind every card's name, so that no record, kept fit or figure passes for one of a real card."""
RESERVED_MIB = 479
"""Memory of a card that a driver keeps for itself: nvidia-smi's 81559 MiB less the 81080 that a program finds on an H100."""
SMALL_BYTES = 4_000_000
"""Operators on tensors up to this size are computed where only small ones are: labels, indices, losses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cards:
    """Cards of one kind."""

    model: GpuModel
    count: int = 1
    computed: Literal["all", "small"] = "all"
    """Operators that the CPU computes. ``all``: losses are right, and small models train. ``small``: a full-size training walks through in
    about a minute; numbers that are larger keep whatever their memory held."""
    usable_bytes: int = 0
    """Memory that a program finds on each; 0: what the model has."""

    def environment(self, built: Path, file: Path, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables for a command. ``built``: the libraries' folder; ``file``: where the cards' memory is counted."""
        usable = self.usable_bytes or self.model.usable_bytes
        copies = {} if self.computed == "all" else {"PRETENDED_COPY_BYTES": str(SMALL_BYTES), "PRETENDED_SMALL_BYTES": str(SMALL_BYTES)}
        return {
            "PRETENDED_FILE": str(file),
            "PRETENDED_CARDS": str(self.count),
            "PRETENDED_ID": str(int.from_bytes(os.urandom(3))),  # of the UUIDs: other pretended cards are other ones
            "PRETENDED_NAME": f"{self.model.title}{MARK}",
            "PRETENDED_TOTAL_MIB": str(usable // MIB + RESERVED_MIB),
            "PRETENDED_RESERVED_MIB": str(RESERVED_MIB),
            "PRETENDED_CONTEXT_MIB": str(self.model.context_mib),
            "PRETENDED_SM": str(self.model.capability),
            "PRETENDED_BINARY": str(libraries.binary_for(built, self.model.capability)),
            "XDG_STATE_HOME": str(paths.cache_folder() / "pretended" / "state"),  # what is played leads no launch on a real card
            **copies,
            "LD_PRELOAD": _first(" ".join(map(str, libraries.preloaded(built))), environ.get("LD_PRELOAD"), " "),
            "LD_LIBRARY_PATH": _first(str(built), environ.get("LD_LIBRARY_PATH"), ":"),
            "PYTHONPATH": _first(str(built / "inside"), environ.get("PYTHONPATH"), ":"),
        }


def _first(ours: str, theirs: str | None, between: str) -> str:
    return f"{ours}{between}{theirs}" if theirs else ours


@contextmanager
def played(cards: Cards, *, python: str = sys.executable) -> Iterator[dict[str, str]]:
    """The environment of commands that find these cards, new ones; they are gone afterwards.

    Raises BadInput where they can't be built for the PyTorch of ``python``.
    """
    environment = of_this_process(cards, python=python)
    try:
        yield environment
    finally:
        Path(environment["PRETENDED_FILE"]).unlink(missing_ok=True)


def of_this_process(cards: Cards, *, python: str = sys.executable) -> dict[str, str]:
    """The environment of commands that find these cards while this process lives; a later call removes what dead processes have left."""
    built = libraries.built(python)
    for left in SHARED.glob(f"{_NAMED}[0-9]*"):
        owner = left.name.removeprefix(_NAMED).partition("-")[0]
        if not psutil.pid_exists(int(owner)):
            left.unlink(missing_ok=True)
    file = SHARED / f"{_NAMED}{os.getpid()}-{os.urandom(4).hex()}"
    return {**os.environ, **cards.environment(built, file, os.environ)}
