"""The optional ability of an adapter to have a rung's training traced on tensors without memory."""

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
    """A rung can't be traced, so it has no forecast. The message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tracing:
    """How one rung's training is traced without memory (``launcher.worker.tracing``), and the rung's sizes in that trace."""

    module: str
    """``python -m MODULE ORDERS`` makes traces."""
    payload: Mapping[str, Any]
    """JSON: everything that makes this a different trace from another rung's, except the sizes."""
    sizes: Mapping[str, int]
    """The sizes that memory grows with, at this rung: samples of a batch, side of an image, tokens."""
    samples: tuple[str, ...]
    """Names of the sizes that count samples."""
    packages: tuple[str, ...]
    """Packages whose versions the trace depends on."""
    environment: Callable[[Path], Mapping[str, str]]
    """Makes a child's variables in a folder of its own."""
    rests: Mapping[str, CpuRest]
    """By phase: what a process on a CPU needs in addition."""
    expandable: bool = False
    """On a card, segments are expandable at this rung."""
    emptied_above: float = 1.0
    """The trainer gives cached segments back before a validation where more than this part of the card is reserved; 1: never."""
    cublas_bytes: int = 0
    """What the trainer sets cuBLAS' workspace to; 0: PyTorch's own."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """By phase: bytes that the run keeps in addition to what is traced, mainly the predictions of a whole evaluation."""
    left_out: tuple[str, ...] = ()
    """Sentences: what the run needs in addition that no trace has."""

    def ask(self) -> Ask:
        return Ask(module=self.module, payload=self.payload, packages=self.packages)


class Traceable:
    """For adapters whose trainer can be traced. The body here is that of a trainer that can't."""

    def tracing(self, rung: Rung, *, cuda: bool) -> Tracing:
        """How to trace ``rung``. ``cuda``: as it runs on a card, whether there is one here or not. Raises Untraceable."""
        raise Untraceable("this trainer has nothing that traces it without memory")


def tracing_of(adapter: object) -> Traceable:
    """The adapter's ability to be traced; one that can't be if it has none."""
    return adapter if isinstance(adapter, Traceable) else Traceable()


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuRest:
    """What a process on a CPU needs in addition to live tensors: loaders, oneDNN's scratch and reordered weights, threads' arenas.

    Fitted on real trials on one machine (docs/prediction.md); the number of threads moves it by a tenth.
    """

    constant_bytes: int
    share: float = 0.0
    """Fraction of the live bytes."""


MAKERS = ("launcher.worker.tracing", "launcher.shared.trace")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request for one trace."""

    module: str
    payload: Mapping[str, Any]
    packages: tuple[str, ...]
    """Packages whose versions it depends on."""

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
