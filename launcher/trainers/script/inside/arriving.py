"""Tells, at the first training batch, at which loader a command's batch size arrives, and which of the person's numbers that is.

The loader that trains is the one that gave the last batch before the first forward pass in training mode with gradients: neither its
shuffling nor its name tells. What is found goes to a file, and the process ends there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ....inside.after_import import Hook, after_import
from ..native.loaders import maker
from . import marks, off_the_card

FOUND = "found.json"


def install(records: Path, *, marked: bool) -> None:
    """Looks in this process. ``marked``: with the script's own numbers remembered by where they are written."""
    if marked:
        marks.install()
    after_import(Arriving(records).hooks())


class Arriving:
    """In one process."""

    def __init__(self, records: Path) -> None:
        self._records = records
        self._made: dict[int, dict[str, Any]] = {}
        self._kept: list[Any] = []
        """Loaders, so that none gets the identity of another."""
        self._drawn: Any = None
        self._backwards = 0

    def hooks(self) -> dict[str, Hook]:
        """Module -> what is done with it when it has been imported."""
        return {"torch.utils.data.dataloader": self._into_loaders, "torch.nn.modules.module": self._into_modules, "torch": self._into_torch}

    def _into_loaders(self, module: Any) -> None:
        module.DataLoader.__init__ = self._making(module.DataLoader.__init__)
        module._BaseDataLoaderIter.__init__ = _after(module._BaseDataLoaderIter.__init__, lambda this, loader: setattr(this, "_of", loader))
        module._BaseDataLoaderIter.__next__ = _after(module._BaseDataLoaderIter.__next__, self._draws)

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(this: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
            self._made[id(this)] = {**_place(maker(sys._getframe(1))), "places": sorted(marks.places(batch_size))}
            self._kept.append(this)
            plain = int(batch_size) if isinstance(batch_size, marks.Marked) else batch_size
            kwargs.pop("pin_memory", None)  # of which a card's context would come
            make(this, dataset, plain, *args, **kwargs)

        made.__wrapped__ = make  # type: ignore[attr-defined]
        return made

    def _draws(self, this: Any) -> None:
        self._drawn = getattr(this, "_of", None)

    def _into_modules(self, module: Any) -> None:
        module.register_module_forward_pre_hook(self._forward)

    def _forward(self, module: Any, _: Any) -> None:
        """Before any module's."""
        import torch

        trains = self._drawn is not None and torch.is_grad_enabled() and module.training
        if trains and any(one.requires_grad for one in module.parameters()):
            self._found()

    def _into_torch(self, torch: Any) -> None:
        off_the_card.keep(torch)
        backward = torch.autograd.backward

        def first(*args: Any, **kwargs: Any) -> Any:
            self._backwards += 1
            if self._drawn is None and self._backwards > 1:
                self._tell(batch=None, places=[], why="it trains without a DataLoader")
            return backward(*args, **kwargs)

        torch.autograd.backward = first

    def _found(self) -> NoReturn:
        loader = self._source(self._drawn)
        self._tell(**self._made.get(id(loader), {"file": "", "line": 0, "places": []}), batch=loader.batch_size)

    def _source(self, loader: Any) -> Any:
        """The loader that a library has made this one of: both have one batch sampler."""
        sampler, seen = loader.batch_sampler, 0
        while loader.batch_size is None and sampler is not None and seen < 5:
            same = next((one for one in self._kept if one.batch_size is not None and one.batch_sampler is sampler), None)
            if same is not None:
                return same
            sampler, seen = getattr(sampler, "batch_sampler", None), seen + 1
        return loader

    def _tell(self, **what: Any) -> NoReturn:
        path = self._records / FOUND
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(what), encoding="utf-8")
        os.replace(part, path)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing of the script runs any more


def _after(method: Callable[..., Any], act: Callable[..., None]) -> Callable[..., Any]:
    def done(this: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(this, *args, **kwargs)
        act(this, *args, **kwargs)
        return found

    return done


def _place(frame: FrameType) -> dict[str, Any]:
    """Where a loader is made; which library makes it, where it isn't the person's own line."""
    file = os.path.realpath(frame.f_code.co_filename)
    library = "" if marks.persons(file) else str(frame.f_globals.get("__name__", ""))
    return {"file": file, "line": frame.f_lineno, "library": library}
