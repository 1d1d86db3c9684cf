"""Hands commands to one of Hydra's own launchers (``hydra/launcher=submitit_slurm``, joblib, ...), one job for each.

Recipes are composed and checked before, where they are typed: in a job Hydra composes nothing of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from launcher.config.hydra_overrides import override_in, quoted
from launcher.errors import COMMAND_LINE, BadInput, Fault

CHOICE = "hydra/launcher"
_OURS = ("hydra/job_logging=none", "hydra/hydra_logging=none", "hydra.output_subdir=null", "hydra.sweep.subdir=.")


def words_of(words: Sequence[str]) -> list[str]:
    """The words that choose another launcher than Hydra's own and set it up; none where none is chosen."""
    said = [(word, override) for word in words if (override := override_in(word)) is not None]
    if not any(one.key == CHOICE and one.value not in ("basic", "null") for _, one in said):
        return []
    return [word for word, one in said if one.key.replace("/", ".").startswith(("hydra.launcher", "hydra.sweep"))]


def refuse_alone(words: Sequence[str]) -> None:
    """Raises BadInput for a launcher without a multirun: Hydra would pass it over without a word."""
    found = f"{words[0]} acts on a multirun only"
    cure = "Add -m; or say launch=slurm, which hands one launch to SLURM and goes on with it after a requeue."
    raise BadInput([Fault(key=CHOICE, found=found, cure=cure, where=COMMAND_LINE)])


def run(words: Sequence[str], commands: Sequence[Sequence[str]], *, task: Callable[[Any], int], place: str) -> None:
    """Has ``task(config)`` called in a job for each command, with ``config.argv``. Returns when Hydra's launcher does; it doesn't tell what
    came of the jobs. ``place``: folder for its own files. Raises BadInput for words that the launcher doesn't know."""
    import hydra

    from launcher.config import hydra_errors

    lists = ",".join(f"[{','.join(map(quoted, argv))}]" for argv in commands)
    before = sys.argv
    sys.argv = ["autofit", "--multirun", f"hydra.sweep.dir={quoted(place)}", *_OURS, *words, f"+argv={lists}"]
    try:
        with hydra_errors.told({word: word for word in words}):
            hydra.main(config_path=None, config_name=None, version_base="1.3")(task)()
    except Exception as error:  # each launcher has its own kinds
        if isinstance(error, BadInput):
            raise
        said = "; ".join(dict.fromkeys(line.strip() for line in str(error).splitlines() if line.strip()))
        fault = Fault(
            key=CHOICE, found=f"it ended with {type(error).__name__}: {said}", cure="Correct hydra.launcher.*.", where=COMMAND_LINE
        )
        raise BadInput([fault]) from error
    finally:
        sys.argv = before
