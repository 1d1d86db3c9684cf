"""Checks everything that can be checked without running the trainer, then makes the run folder; or reads one, to go on with its launch.

Raises BadInput with all that is wrong.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from autofit_launcher.adapter import build
from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.common import files
from autofit_launcher.common.activity import doing
from autofit_launcher.common.sizes import format_size
from autofit_launcher.config import recipe as recipes
from autofit_launcher.config import yaml_text
from autofit_launcher.config.recipe import Draft, Provenance, as_yaml
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import COMMAND_LINE, BadInput, Fault, refusal
from autofit_launcher.history import owner
from autofit_launcher.history.owner import State
from autofit_launcher.history.records import FORMAT, AttemptRecord, Record, Status
from autofit_launcher.history.run_folder import RunFolder, no_run_folder
from autofit_launcher.ladder.rungs import Ladder
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.machine import device_lock, host, process, ranks
from autofit_launcher.machine.device_lock import Turn
from autofit_launcher.machine.devices import Budget
from autofit_launcher.paths import short, tell_launched
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job, Say, quiet
from autofit_launcher.trial.trial import Trial

T = TypeVar("T")


def ladder_of(draft: Draft) -> Ladder:
    """The draft's ladder. Runs nothing and reads no data. Raises BadInput with all faults."""
    faults, recipe = list(draft.faults), draft.recipe
    ladder = _collect(faults, lambda: build.ladder_of(load_adapter(recipe.trainer.adapter)(recipe))) if recipe is not None else None
    if faults or ladder is None:
        raise BadInput(draft.provenance.placed(faults))
    return ladder


def prepare(draft: Draft, say: Say = quiet, *, folder: RunFolder | None = None) -> Job:
    """Checks everything that can be checked without running the trainer, waits for the device's turn, then makes the run folder.

    Raises BadInput with all faults; nothing was launched then, except perhaps the recipe's own ``prepare`` command.
    ``folder``: the one that ``enter`` has made.
    """
    recipe = draft.needed()
    with doing("checking the recipe, its data and the device"):
        faults = list(draft.faults)
        budget = _collect(faults, lambda: _budget(recipe))
        faults = [fault for fault in faults if fault.key != SHARE]  # perhaps another launch holds it, which is waited for
        adapter, ladder = checked(draft, faults, make_data=True)
        try:
            turn = turn_of(recipe, say)
            with ExitStack() as undone:
                undone.enter_context(turn)
                budget = budget if budget is not None and not turn.waited else budget_in_turn(recipe, waited=turn.waited)
                folder = folder or _folder(recipe)
                undone.pop_all()
        except BadInput as refused:
            raise BadInput(draft.provenance.placed(refused.faults)) from refused
        tell_launched(folder.path)
        return Job(adapter=adapter, ladder=ladder, budget=budget, folder=folder, turn=turn, say=say)


def enter(draft: Draft, *more: Fault) -> RunFolder:
    """The folder of a launch that another machine will begin, made after all checks that need no device of this one. Raises BadInput with
    all faults, ``more`` among them; nothing is there then."""
    recipe = draft.needed()
    with doing("checking the recipe and its data"):
        checked(draft, [*draft.faults, *more], make_data=False)
    return _folder(recipe)


def refuse_a_rung(draft: Draft) -> None:
    """Raises BadInput where a rung is named, for a verb that finds it by itself."""
    if draft.recipe is not None and draft.recipe.rung is not None:
        rung = draft.recipe.rung
        cure = f"Leave it out; `autofit trial ... rung={rung}` tries that one."
        named = Fault(key="rung", found=f"{rung} is named, and this verb finds the rung by itself", cure=cure)
        raise BadInput(draft.provenance.placed([*draft.faults, named]))


LEAST_DISK_BYTES = 512 * 2**20
"""A run folder with less room than this can't take checkpoints (weights, their average and optimizer state of a small model)."""


def disk_faults(root: Path) -> list[Fault]:
    """A fault if ``root`` can't be written or its disk is too full for a run, so that it shows before the trials and not after an epoch."""
    if (wrong := host.not_writable(root)) is not None:
        return [no_run_folder(root, wrong)]
    free = host.disk_free(root)
    if free >= LEAST_DISK_BYTES:
        return []
    found = f"{root} has {format_size(free)} of disk left, too little for checkpoints"
    return [Fault(key="run.root", found=found, cure="Free space there, or set run.root to a folder on another disk.")]


def _folder(recipe: Recipe) -> RunFolder:
    """Makes a new run folder with the recipe in it."""
    folder = RunFolder.create(Path(recipe.run.root), recipe.name)
    folder.replace(folder.recipe, as_yaml(recipe))
    return folder


def checked(draft: Draft, faults: list[Fault], *, make_data: bool) -> tuple[Adapter, Ladder]:
    """Checks all that needs no device. Raises BadInput with ``faults`` and all that are found. ``make_data``: the recipe's own command
    makes the data where it isn't there."""
    recipe = draft.needed()
    try:
        adapter = load_adapter(recipe.trainer.adapter)(recipe)
    except BadInput as refused:
        raise BadInput(draft.provenance.placed([*faults, *refused.faults])) from refused
    ladder = _collect(faults, lambda: build.ladder_of(adapter))
    faults += disk_faults(Path(recipe.run.root))
    if _to_be_made(draft):  # what is wrong beside the data is told before a command is run
        faults += [fault for fault in _collect(faults, adapter.check) or [] if fault.key != "data"]
        if make_data and not faults and ladder is not None:
            _collect(faults, lambda: _make_data(recipe))
            adapter = type(adapter)(recipe)
    if not _to_be_made(draft):
        faults += _collect(faults, adapter.check) or []
    if faults or ladder is None:
        raise BadInput(draft.provenance.placed(faults))
    return adapter, ladder


def _collect(faults: list[Fault], make: Callable[[], T]) -> T | None:
    """Returns what ``make`` returns; on BadInput adds its faults to ``faults`` and returns None."""
    try:
        return make()
    except BadInput as refused:
        faults += [fault for fault in refused.faults if fault not in faults]
    except PermissionError as error:
        found = f"it may not be looked at: {error.strerror}"
        faults.append(Fault(key="", where=str(error.filename), found=found, cure="Let this user read it and enter its folders."))
    return None


def _budget(recipe: Recipe) -> Budget:
    device = recipe.device
    return ranks.budget_of(
        device.cards, device.kind, index=device.index, memory_bytes=device.memory, headroom=device.headroom, share=device.share
    )


SHARE = "device.share"
"""A fault with this key disappears when other processes leave the card, so it can be waited for."""
GIVEN_BACK_S = 10.0
"""A card may take this long to free the memory of the launch before."""


def turn_of(recipe: Recipe, say: Say = quiet) -> Turn:
    """Waits for other launches on the device and returns this launch's turn. Raises BadInput if it has to wait but mustn't."""
    device = recipe.device
    identities = ranks.identities(device.cards, device.kind, index=device.index)
    wanted = "cpu" not in identities if device.turns is None else device.turns
    if not all(identities) or not wanted:
        return Turn()

    def queued(holder: str) -> None:
        cure = "device.when_taken=stop would end it here, device.share=true for both would share the device"
        say(f"waiting for the turn of {holder} to end ({cure})", "yellow")

    with doing("waiting for this launch's turn on the device"):
        return device_lock.take(identities, share=device.share, wait=device.when_taken == "wait", told=queued)


@doing("looking whether the launch before has given the device back")
def budget_in_turn(recipe: Recipe, *, waited: bool) -> Budget:
    """Returns the budget once it is our turn; the launch before may still be freeing memory."""
    until = time.monotonic() + (GIVEN_BACK_S if waited else 0.0)
    while True:
        try:
            return _budget(recipe)
        except BadInput as refused:
            if time.monotonic() >= until or any(fault.key != SHARE for fault in refused.faults):
                raise
        time.sleep(0.5)


def _make_data(recipe: Recipe) -> None:
    """Runs the recipe's ``prepare`` command. Raises BadInput if it doesn't make the data."""
    assert recipe.prepare is not None and recipe.data is not None
    with doing(f"making the data: {' '.join(recipe.prepare)}"):
        status, said = process.output_of(recipe.prepare)
    if status or not os.path.exists(recipe.data):
        found = f"`{' '.join(recipe.prepare)}` did not make {recipe.data}: {said.strip()[-2000:]}"
        raise refusal(found, "Run it by hand, or set data=.", key="prepare")


def _to_be_made(draft: Draft) -> bool:
    """Tells whether the recipe's ``prepare`` command has to make the data. Data named on the command line is not made, unless ``prepare``
    is given there, too."""
    recipe = draft.recipe
    if recipe is None or recipe.prepare is None or recipe.data is None or os.path.exists(recipe.data):
        return False
    typed = draft.provenance.where("data") == COMMAND_LINE
    return not typed or draft.provenance.where("prepare") == COMMAND_LINE


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
        return self.draft.needed()

    def trials(self, ladder: Ladder) -> tuple[list[Trial], dict[int, SameTraining]]:
        """Reads (its trials, from their folders; the certificates of their rungs). Raises BadInput if they aren't of this ladder."""
        said = self.record.trials
        try:
            sames = {one.rung_index: one.same_training for one in said if one.same_training is not None}
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
        raise _refused(path / "record.json", torn, _ANEW)
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
        plain = dict(yaml_text.plain(files.read(recipe)))
    except (OSError, ValueError, TypeError) as error:
        raise _refused(recipe, f"can't be read: {error}", _ANEW) from error
    for word in words:
        key, equals, value = word.partition("=")
        section, _, name = key.partition(".")
        if not equals or section not in SECTIONS or not name:
            cure = f"When a run goes on, only {', '.join(f'{one}.*' for one in SECTIONS)} may be said otherwise."
            raise BadInput([Fault(key=key, where="command line", found=f"{word!r} can't be said here", cure=cure)])
        *inside, last = key.split(".")
        try:
            node = plain
            for part in inside:
                node = node.setdefault(part, {})
            node[last] = yaml_text.plain(value)
        except (ValueError, AttributeError, TypeError):
            raise refusal(f"{word!r} can't be read", "Write KEY=VALUE, as in recover.restarts=3.") from None
    draft = recipes.checked(plain, Provenance(overrides=tuple(words), file=recipe))
    if draft.faults:
        raise BadInput(draft.faults)
    return draft


def _refused(where: Path, found: str, cure: str) -> BadInput:
    return refusal(found, cure, where=short(where))
