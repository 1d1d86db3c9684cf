"""The optional ability of an adapter to have a rung traced without memory."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from launcher.ladder.rungs import Rung
from launcher.shared import files, trace


class Untraceable(Exception):
    """There is no forecast of this rung. The message says why; the search does without."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracing:
    """How the training of one rung can be traced without memory (``launcher.worker.tracing``), and where it stands in that trace."""

    module: str
    """``python -m MODULE ORDERS`` makes traces."""
    payload: Mapping[str, Any]
    """Everything that makes it another trace than another rung's, as JSON; not the sizes."""
    sizes: Mapping[str, int]
    """What the trace grows with, at this rung: samples of a batch, side of an image, tokens."""
    samples: tuple[str, ...]
    """Those of the sizes that count samples."""
    packages: tuple[str, ...]
    """Whose versions a trace hangs on."""
    environment: Callable[[Path], Mapping[str, str]]
    """Makes a child's variables in a folder of its own."""
    rests: Mapping[str, CpuRest]
    """By phase: what a CPU's process takes beside."""
    expandable: bool = False
    """A card's segments are expandable at this rung."""
    emptied_above: float = 1.0
    """The trainer gives cached segments back before a validation where more than this part of the card is reserved; 1: never."""
    cublas_bytes: int = 0
    """What the trainer sets cuBLAS' workspace to; 0: PyTorch's own."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """By phase: bytes that the run keeps beside what is traced, predictions of a whole evaluation above all."""
    left_out: tuple[str, ...] = ()
    """What the run needs beside and no trace holds."""

    def ask(self) -> Ask:
        return Ask(module=self.module, payload=self.payload, packages=self.packages)


class Traceable:
    """What an adapter adds whose trainer can be traced; as it stands here, for one that can't. An adapter of somebody else's needs none."""

    def tracing(self, rung: Rung, *, cuda: bool) -> Tracing:
        """Raises Untraceable. ``cuda``: as on a card, whether there is one or not."""
        raise Untraceable("this trainer has nothing that traces it without memory")


def tracing_of(adapter: object) -> Traceable:
    """How this adapter's runs are foreseen."""
    return adapter if isinstance(adapter, Traceable) else Traceable()


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuRest:
    """What a CPU's process takes beside the storages that are alive: loaders, oneDNN's scratch and reordered weights, threads' arenas.

    Fitted on real trials on one machine (docs/prediction.md); the number of threads moves it by a tenth.
    """

    constant_bytes: int
    share: float = 0.0
    """Of what is alive."""


MAKERS = ("launcher.worker.tracing", "launcher.shared.trace")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One trace."""

    module: str
    payload: Mapping[str, Any]
    packages: tuple[str, ...]
    """Whose versions it hangs on."""

    @cached_property
    def key(self) -> str:
        made_with = [files.plain(self.payload), [(name, _installed(name)) for name in (*self.packages, "torch")], trace.FORMAT]
        texts = [_text(module) for module in (self.module, *MAKERS)]
        return hashlib.sha256(b"\0".join([json.dumps(made_with, sort_keys=True).encode(), *texts])).hexdigest()[:24]


def _installed(name: str) -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return ""


def _text(module: str) -> bytes:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin).read_bytes() if spec is not None and spec.origin else b""
