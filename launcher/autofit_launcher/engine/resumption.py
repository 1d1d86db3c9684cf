"""Reads the folder of an interrupted or failed run, so that the launch can be resumed. Changes nothing.

Raises BadInput, with what is wrong, for anything that can't be resumed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from autofit_launcher.config.recipe import Draft, Provenance, from_plain, without_withdrawn
from autofit_launcher.config.schema import Recipe
from autofit_launcher.engine.state import Status
from autofit_launcher.errors import BadInput, Fault
from autofit_launcher.history import owner, series
from autofit_launcher.history.owner import State
from autofit_launcher.history.records import FORMAT, AttemptRecord, Record
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.runs import WITHOUT_A_RECORD
from autofit_launcher.ladder.rungs import Ladder
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.trial import trial
from autofit_launcher.trial.trial import Trial

SECTIONS = ("recover", "device", "trial", "run", "launch")
"""Sections of the recipe that may be changed when a run is resumed; none of them changes the training itself."""
_OVER = (Status.NO_RUNG_FITS, Status.CRASHED, Status.STALLED, Status.VACUOUS, Status.DIVERGED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumable:
    """A launch that can be resumed."""

    folder: RunFolder
    draft: Draft
    record: Record

    @property
    def done(self) -> bool:
        return bool(self.record.status in (Status.DONE, Status.OTHER_TRAINING) and self.record.attempts)

    @property
    def recipe(self) -> Recipe:
        assert self.draft.recipe is not None
        return self.draft.recipe

    def trials(self, ladder: Ladder) -> tuple[list[Trial], dict[int, SameTraining]]:
        """Reads (its trials, from their folders; the certificates of their rungs). Raises BadInput if they aren't of this ladder."""
        said = self.record.trials
        try:
            sames = {one.rung_index: SameTraining.from_record(one.same_training.written()) for one in said if one.same_training is not None}
            if self.record.chosen_rung_index not in (None, *(one.rung_index for one in said)):
                raise ValueError(f"rung {self.record.chosen_rung_index} is chosen, and wasn't tried")
            return [trial.of_record(one, ladder) for one in said], sames
        except (ValueError, IndexError, TypeError) as error:
            raise _refused(self.folder.path, f"its trials aren't those of its recipe's ladder: {error}", _ANEW) from error

    def attempts(self, ladder: Ladder) -> list[AttemptRecord]:
        """Reads its attempts at the full run. Raises BadInput if ``ladder`` isn't the one it was launched on."""
        made = self.record.attempts
        for one in made:
            now = dict(ladder.rungs[one.rung_index].values) if 0 <= one.rung_index < len(ladder.rungs) else None
            if now != one.rung:
                words = f"rung {one.rung_index} is {now} now, and was {one.rung}"
                raise _refused(self.folder.path, f"its attempts aren't those of its recipe's ladder: {words}", _ANEW)
        if made and not made[-1].seconds:  # whoever would have written that down was ended, too
            seen = (line["at"] - made[-1].began for line in series.read(self.folder.series))
            made = [*made[:-1], made[-1].model_copy(update={"seconds": max((0.0, *seen))})]
        return list(made)


_ANEW = "Launch it anew; its command.sh still runs by itself."


def resumable(place: str | Path, words: Sequence[str] = ()) -> Resumable:
    """The launch in ``place``. ``words``: overrides of the ``SECTIONS``, as ``recover.allow_restart=true``."""
    path = Path(place).expanduser().resolve()
    record = _record(path)
    if (found := owner.who(path)).state in (State.RUNNING, State.ELSEWHERE):
        raise BadInput([owner.refusal(path, found)])
    if record.format != FORMAT:
        raise _refused(path, f"its record has the format {record.format}, and this autofit goes on with format {FORMAT}", _ANEW)
    if record.status in _OVER and not record.attempts:
        raise _refused(path, f"it never came to a full run: {record.status}", "Launch it anew, with what its trials have told.")
    if record.status == Status.DONE and not record.attempts and record.fit_only is not False:
        raise _refused(path, "only trials were asked of it (autofit fit)", f"Its full run is launched by {path / 'command.sh'}.")
    if not Path(record.cwd).is_dir():
        raise _refused(path, f"the folder it was launched in is gone: {record.cwd}", "Put it back: relative paths count from there.")
    return Resumable(folder=RunFolder(path), draft=draft_of(path, words), record=record)


def _record(path: Path) -> Record:
    record, has_recipe = Record.read(path / "record.json"), (path / "recipe.yaml").is_file()
    if record is None and has_recipe and (path / "record.json").is_file():
        torn = "the run's record is torn, or another autofit's, and nothing else says how far it had come"
        raise _refused(path / "record.json", torn, WITHOUT_A_RECORD)
    if record is None:
        found = "it isn't a run of autofit: it has no record.json that can be read" if path.is_dir() else "there is no such folder"
        raise _refused(path, found, "Give the folder of a run: runs/autofit/NAME-DATE-TIME.")
    if not record.status or not has_recipe:
        raise _refused(path, "it isn't a run of autofit that can be gone on with", _ANEW)
    return record


def draft_of(path: Path, words: Sequence[str] = ()) -> Draft:
    """The recipe in a run folder, with the overrides given now."""
    recipe = path / "recipe.yaml"
    try:
        plain = without_withdrawn(yaml.safe_load(recipe.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _refused(recipe, f"can't be read: {error}", _ANEW) from error
    for word in words:
        key, equals, value = word.partition("=")
        section, _, name = key.partition(".")
        if not equals or section not in SECTIONS or not name:
            cure = f"When a run goes on, only {', '.join(f'{one}.*' for one in SECTIONS)} may be said otherwise."
            raise BadInput([Fault(key=key, where="command line", found=f"{word!r} can't be said here", cure=cure)])
        *inside, last = name.split(".")
        node = plain.setdefault(section, {})
        for part in inside:
            node = node.setdefault(part, {})
        node[last] = yaml.safe_load(value)
    draft = from_plain(plain, Provenance(overrides=tuple(words), file=recipe))
    if draft.faults:
        raise BadInput(draft.faults)
    return draft


def _refused(where: Path, found: str, cure: str) -> BadInput:
    shown = os.path.relpath(where) if where.is_relative_to(Path.cwd()) else str(where)
    return BadInput([Fault(key="", where=shown, found=found, cure=cure)])
