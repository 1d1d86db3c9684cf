"""Makes the variables and files of what acts in a script's processes: accumulation and checkpointing from outside, a trainer's fields.

The files are those of ``native/``, loaded by every Python process of the command through a ``sitecustomize``; they need nothing of
autofit, so that command.sh carries them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autofit_launcher.adapter.commands import preloaded

NATIVE = Path(__file__).parent / "native"
ACCUMULATE, LOSS, SPLIT = "ACCUMULATE", "ACCUMULATE_LOSS", "ACCUMULATE_SPLIT"
UPDATE, CHECKPOINTING, FIELDS = "UPDATE", "CHECKPOINTING", "FIELDS"
KEPT_IN, RESUME = "TRAINER_KEPT_IN", "TRAINER_RESUME"
_FILES: Mapping[str, tuple[str, ...]] = {
    ACCUMULATE: ("accumulate.py", "steps.py", "loaders.py", "imported.py"),
    UPDATE: ("update.py", "imported.py"),
    CHECKPOINTING: ("checkpointing.py", "imported.py"),
    FIELDS: ("fields.py", "imported.py"),
    KEPT_IN: ("trainer_resume.py", "imported.py"),
}
"""Variable -> the files of ``native`` that act on it, the one that is begun with first."""


def placed(said: Mapping[str, str], *, place: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """Makes (variables, files) of a command in whose Python processes acts what ``said`` asks for, in folders of ``place``. ``said``:
    variable -> value, as the files of ``native`` read them; ``env``: what the command is given already."""
    variables, files = dict(said), dict[Path, str]()
    for first, *beside in (names for variable, names in _FILES.items() if variable in said):
        path, more = preloaded(first, beside, of=NATIVE, to=place / Path(first).stem, env={**env, **variables})
        variables |= path
        files |= more
    return variables, files
