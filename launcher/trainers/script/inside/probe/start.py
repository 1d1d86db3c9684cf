"""Takes the settings' path; leaves hooks in this process that act when torch, transformers or Lightning are imported."""

from __future__ import annotations

import atexit
import os
from pathlib import Path

from .....worker import overlaid_libraries
from .....worker.after_import import Hook, after_import
from .....worker.overlay import Overlay
from ..same import install as same
from . import deepspeed, lightning, marks, torch_hooks
from . import transformers as hf
from .arriving import Arriving
from .session import Session
from .settings import LOADED, ProbeSettings


def install(path: str) -> None:
    """Hooks this process. Called once, before any code of the script."""
    settings = ProbeSettings.read(Path(path))
    if not settings.budget_only:
        Path(settings.records, LOADED).touch()
    if settings.look:
        _looks(settings)
        return
    session = Session(settings)
    if settings.overlay:
        overlay = Overlay(Path(settings.overlay), kept=(Path(settings.overlay).parent, *map(Path, settings.kept)))
        overlay.install()
        after_import(overlaid_libraries.hooks(overlay, forwarding=session.saves))
    after_import({"torch": lambda module: _torch(session)})
    if settings.same:
        after_import(same.libraries())
    if not settings.budget_only:
        after_import(_trainers(session))
        atexit.register(session.at_exit)
        os.register_at_fork(after_in_child=session.forked)


def _looks(settings: ProbeSettings) -> None:
    overlay = Overlay(Path(settings.overlay), kept=[*map(Path, settings.kept)])
    overlay.install()
    after_import(overlaid_libraries.hooks(overlay))
    if settings.look == "marks":
        marks.install()
    after_import(Arriving(Path(settings.records)).hooks())


def _torch(session: Session) -> None:
    torch_hooks.install(session)
    if session.settings.same:
        same.install(session.settings.same, Path(session.settings.records))


def _trainers(session: Session) -> dict[str, Hook]:
    hooked = _where_there_is("Callback", lambda module: lightning.install(session, module))
    return {
        "transformers.trainer": _where_there_is("TrainerCallback", lambda module: hf.install(session, module)),
        "transformers.generation.utils": _where_there_is("GenerationMixin", hf.hold_to_full_length),
        "lightning.pytorch.trainer.trainer": hooked,
        "pytorch_lightning.trainer.trainer": hooked,
        "deepspeed.runtime.engine": _where_there_is("DeepSpeedEngine", lambda module: deepspeed.install(session, module)),
    }


def _where_there_is(name: str, hook: Hook) -> Hook:
    """A person's own module may have a library's name: it is left alone."""
    return lambda module: hook(module) if hasattr(module, name) else None
