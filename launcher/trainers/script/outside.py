"""Makes the variables and files with which a script accumulates gradients or is checkpointed from outside, or has its update corrected.

The files are those of ``native/``, loaded by every Python process of the command through a ``sitecustomize``; they need nothing of
autofit, so that command.sh carries them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.commands import preloaded

_NATIVE = Path(__file__).parent / "native"
_ACCUMULATE = ("accumulate.py", "hooks.py", "steps.py", "loaders.py", "backward.py", "notes.py", "imported.py")
_UPDATE = ("update.py", "backward.py", "imported.py")
_FIELDS = ("fields.py", "imported.py")
_VALUES = ("values.py", "bindings.py", "imported.py")
_TRAINER_RESUME = ("trainer_resume.py", "imported.py")
_CHECKPOINTING = ("checkpointing.py", "repeated.py", "imported.py")
"""Files of ``native``, the one that is begun with first."""
KEPT_IN, RESUME = "TRAINER_KEPT_IN", "TRAINER_RESUME"
VARIABLE = "ACCUMULATE"
LOSS = "ACCUMULATE_LOSS"
SPLIT = "ACCUMULATE_SPLIT"


def placed(
    micro_batches: int, *, split: tuple[int, int, str] | None = None, place: Path, env: Mapping[str, str]
) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) of a command that steps once in so many micro-batches; ``env``: what the command is given already.

    ``split``: batch size in the script's source, the micro-batch that its loader shall have, and the loader's place.
    """
    said = {SPLIT: ":".join(filter(None, map(str, split)))} if split else {}
    return _loaded(_ACCUMULATE, {VARIABLE: str(micro_batches), **said}, place=place, env=env)


def checkpointed(share: float, *, place: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) by which the first modules of each stack that repeats, ``share`` of it, are computed again in backward passes."""
    return _loaded(_CHECKPOINTING, {"CHECKPOINTING": f"{share:g}"}, place=place, env=env)


def put_right(update: str, *, times: float, place: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) by which the update of ``times`` as many micro-batches is the asked one; ``update``: ``trainer.args.update``."""
    ways = {
        "average": f"times:{1 / times!r}", "add": f"times:{times!r}", "targets": f"targets:1:{round(times)}",
        "targets_divided": f"targets:{times!r}:{round(times)}",
    }  # fmt: skip
    return _loaded(_UPDATE, {"UPDATE": ways[update]}, place=place, env=env)


def set_fields(
    given: Mapping[str, Any], wanted: Mapping[str, Any], *, place: Path, env: Mapping[str, str]
) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) by which fields with the ``given`` values of a known trainer's call get the ``wanted`` ones."""
    orders = json.dumps({name: [given.get(name), value] for name, value in wanted.items()})
    return _loaded(_FIELDS, {"FIELDS": orders}, place=place, env=env)


def set_values(orders: Sequence[Sequence[Any]], *, place: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) by which values of the script's own are bound otherwise: (file, name, given, wanted)."""
    return _loaded(_VALUES, {"VALUES": json.dumps(orders)}, place=place, env=env)


def goes_on(kept_in: Path | None, *, place: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) by which the file ``kept_in`` gets the folder of transformers' Trainer, which can go on from one (``RESUME``)."""
    return _loaded(_TRAINER_RESUME, {KEPT_IN: str(kept_in.absolute())} if kept_in is not None else {}, place=place, env=env)


def _loaded(
    names: Sequence[str], variables: Mapping[str, str], *, place: Path, env: Mapping[str, str]
) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) that load files of ``native`` into every Python process, from a folder in ``place``."""
    first, *beside = names
    path, files = preloaded(first, beside, of=_NATIVE, to=place / Path(first).stem, env=env)
    return {**path, **variables}, files
