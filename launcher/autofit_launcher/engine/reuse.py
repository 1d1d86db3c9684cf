"""Reuses a fit of an earlier launch where nothing that it depends on has changed, and keeps the new ones.

A fit that is no longer true would end in a run out of memory. So if anything it depends on can't be checked, trials are made.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autofit_launcher import paths
from autofit_launcher.adapter.commands import Inputs
from autofit_launcher.common.files import CODE, plain
from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.sizes import format_size
from autofit_launcher.config.schema import Recipe
from autofit_launcher.history import digests, kept_fits
from autofit_launcher.history.digests import UnknownIdentity
from autofit_launcher.history.kept_fits import KeptFit, KnownFits, RunFailure, digest_of
from autofit_launcher.history.records import KeptRecord, KeptTrialRecord
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.meter import HostMeter
from autofit_launcher.trial import judge
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial, of_record

MARGIN = 1.01
"""A kept fit is used only if its peak, times this, stays below the cap: identical processes differ by about 1 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reuse:
    """A kept fit that a launch found or made itself, or the reason why there is none."""

    depends_on: Mapping[str, str] | None = None
    """Everything that the fit depends on, as it was before any trial; None if that can't be worked out."""
    fit: KeptFit | None = None
    """The valid fit: used without a trial, or just proven."""
    used: bool = False
    why: str = ""
    """The reason why no kept fit was used, or none is kept."""
    failures: Sequence[RunFailure] = ()
    """Rungs at which full runs of the same launch, with as much memory or more, have failed. They are not tried again."""

    def as_record(self) -> KeptRecord:
        digest = digest_of(self.depends_on) if self.depends_on is not None else None
        if self.fit is None:
            return KeptRecord(used=False, digest=digest, why=self.why)
        return KeptRecord(used=self.used, digest=digest, why=self.why, id=self.fit.id, made=self.fit.made, made_in=self.fit.run_dir)


def look_up(job: Job) -> Reuse:
    """Looks for a kept fit that is valid for this launch."""
    try:
        wanted = depends_on(job)
        return _looked_up(job, wanted, kept_fits.of(job.training, digest_of(wanted)))
    except (UnknownIdentity, OSError) as unknown:
        return Reuse(why=f"no fit is kept, or used: {unknown}")


def _looked_up(job: Job, wanted: Mapping[str, str], known: KnownFits) -> Reuse:
    if job.recipe.trial.fresh or job.recipe.ladder.search == "exhaustive":
        return Reuse(depends_on=wanted, why="trials are made whatever is kept, as trial.fresh or ladder.search says")
    found = known.find(job.budget.cap_bytes) or _changes_since_the_last(job, wanted)
    if isinstance(found, KeptFit):
        found = _in_doubt(job, found, known) or found
    if isinstance(found, KeptFit):
        begun(job, digest_of(wanted))
        return Reuse(depends_on=wanted, fit=found, used=True)
    why = f"no kept fit holds, {found}" if found else ""
    return Reuse(depends_on=wanted, why=why, failures=known.failures_at(job.budget.cap_bytes))


def _changes_since_the_last(job: Job, wanted: Mapping[str, str]) -> str:
    """Says what has changed since the newest fit of the same training, in words; returns an empty text if there never was one."""
    last = max(kept_fits.everything(job.training), key=lambda one: one.number, default=KnownFits()).fit
    return f"since the fit of {kept_fits.day(last.made)}: {kept_fits.changes(last.depends_on, wanted)}" if last else ""


def _in_doubt(job: Job, found: KeptFit, known: KnownFits) -> str:
    """Says why a valid fit isn't used all the same, in words; returns an empty text if it is used."""
    if killed := known.killed:
        return f"{killed[-1]} relied on it and was killed together with autofit, for an unknown reason"
    rooms = next((one.rooms for one in found.trials if one.rung_index == found.rung_index and one.verdict == Kind.FITS), [])
    room = judge.short_of(judge.today(rooms, HostMeter(job.adapter.saved(job.folder.path).place).use))
    if room is not None:
        return f"for its run needs {format_size(room.needed)} of {room.name}, and {format_size(room.there or 0)} are there now"
    try:
        [of_record(one, job.ladder) for one in found.trials]
    except (ValueError, IndexError):
        return "for its trials are none of this ladder's: its file was changed"
    return ""


def begun(job: Job, digest: str | None) -> None:
    """Notes that this launch relies on a fit, if it does. Done first: if it can't be written, a failure of the run couldn't be either."""
    if digest is not None:
        with kept_fits.changed(job.training, digest) as known:
            known.uses.append(str(job.folder.path))


def ended(job: Job, digest: str | None) -> None:
    """Notes that this launch has ended and that its fit was struck out if it was wrong."""
    run = str(job.folder.path)
    if digest is not None and run in kept_fits.of(job.training, digest).uses:
        with suppress(OSError), kept_fits.changed(job.training, digest) as known:
            known.uses = [one for one in known.uses if one != run]


def trials_of(kept: KeptFit, job: Job) -> list[Trial]:
    """The kept fit's trials, with their reports copied into this launch's folder, where ``resume`` looks for them."""
    made = []
    for said in kept.trials:
        folder = job.folder.trial(said.rung_index)
        job.folder.replace_json(folder / "report.json", said.report)
        made.append(of_record(said.model_copy(update={"folder": str(folder), "kept": kept.made}), job.ladder))
    return made


def keep(job: Job, found: Reuse, trials: Sequence[Trial], chosen: Trial, same: SameTraining) -> Reuse:
    """Keeps the fit that was just proven. Returns it, or why it isn't kept."""
    assert found.depends_on is not None
    try:
        now = depends_on(job)
        if why := _unsure(found.depends_on, now, trials, chosen):
            return replace(found, why=f"no fit is kept: {why}")
        fit = kept_fits.keep(_fit(job, now, trials, chosen, same))
    except (UnknownIdentity, OSError) as unknown:
        return replace(found, why=f"no fit is kept: {unknown}")
    why = "" if fit is not None else "no fit is kept: a run of the same launch ran out of memory at this very rung before"
    return replace(found, depends_on=now, fit=fit, why=why or found.why)


def _unsure(before: Mapping[str, str], now: Mapping[str, str], trials: Sequence[Trial], chosen: Trial) -> str:
    """Says why the new proof may not hold another time; empty if it does. ``before``, ``now``: values of all that it depends on."""
    if now.get(f"model {chosen.rung.values.get('model')}") == NOT_HERE:
        return "where its model lies isn't known"
    if any(one.verdict.source in OF_MACHINE for one in trials):
        return "a rung found too little beside the device, of which there may be more another time"
    downloaded = {key: now[key] for key, value in before.items() if value == NOT_HERE and key.startswith("model ") and key in now}
    changed = kept_fits.changes({**before, **downloaded}, now)
    return f"while the trials were made, {changed}" if changed else ""


def _fit(job: Job, now: Mapping[str, str], trials: Sequence[Trial], chosen: Trial, same: SameTraining) -> KeptFit:
    made = [one for one in trials if one.verdict.kind is not Kind.CARD_TAKEN]
    cap = job.budget.cap_bytes
    return KeptFit(
        made=kept_fits.now(), training=job.training, digest=digest_of(now), depends_on=dict(now), device=str(job.budget),
        rung_index=chosen.rung.index, rung=dict(chosen.rung.values), least_cap_bytes=min(int(chosen.verdict.peak_bytes * MARGIN), cap),
        most_cap_bytes=cap if chosen.rung.index else kept_fits.ANY_CAP,
        trials=[KeptTrialRecord(**one.record().written(), report=plain(one.report)) for one in made], run_dir=str(job.folder.path),
        same=plain(same.as_record()),
    )  # fmt: skip


def strike_out(job: Job, digest: str | None, *, rung_index: int, why: str, for_good: bool) -> str:
    """Strikes a fit out after a run failed at its rung. Returns why that couldn't be done, or an empty text.

    ``for_good``: the run ran out of memory. False: the cause isn't known, and new trials may prove the fit again.
    """
    if digest is None:
        return ""
    failure = RunFailure(
        digest=digest, rung_index=rung_index, training=job.training, at=kept_fits.now(), why=why, run_dir=str(job.folder.path),
        cap_bytes=job.budget.cap_bytes,
    )  # fmt: skip
    try:
        with kept_fits.changed(job.training, digest) as known:
            known.fit = None
            known.failures = [*known.failures, *([failure] if for_good else ())]
    except OSError as error:
        return f"the fit that this run has disproved could not be struck out: {error}; say trial.fresh=true next time"
    return ""


DISTRIBUTION = "autofit_launcher"
"""The name of autofit's own metadata folder; on the index, the name autofit is a stranger's project."""
NOT_HERE = "not here"
"""A model that must be fetched before it can be tried."""
_ELSEWHERE = {"name", "summary", "prepare", "run", "launch", "recover", "rung", "device"}
"""Sections of a recipe that don't say what is trained; what ``device`` comes to is the budget."""
_HOW = {"ladder": {"search"}, "trial": {"timeout_s", "fresh"}}
"""Keys that say how a rung is looked for, not what it needs."""


def depends_on(job: Job) -> dict[str, str]:
    """Reads everything that a fit depends on, as it is now. Raises UnknownIdentity, with why, where it can't all be told."""
    inputs = job.adapter.inputs(job.ladder)
    if inputs.unknown:
        raise UnknownIdentity(inputs.unknown)
    ladder = [(dict(rung.values), rung.accumulation, rung.world_size) for rung in job.ladder.rungs]
    return {
        **_recipe(job.recipe),
        "ladder": f"{len(ladder)} rungs [{digests.short(json.dumps(ladder, sort_keys=True))}]",
        "folder": os.getcwd(),
        **_named(job.recipe),
        **_inputs(inputs),
        **_programs(inputs, without=Path(job.recipe.run.root)),
        **{f"environment {name}": value for name, value in digests.environment(os.environ).items()},
        **digests.system(),
        **_device(job.budget),
    }


def _recipe(recipe: Recipe) -> dict[str, str]:
    said = recipe.model_dump(mode="json", exclude=_ELSEWHERE)
    for section, keys in _HOW.items():
        said[section] = {key: value for key, value in said[section].items() if key not in keys}
    return dict(_flat(said))


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inside in value.items():
            yield from _flat(inside, f"{key}.{name}" if key else str(name))
    else:
        yield key, json.dumps(value)


def _named(recipe: Recipe) -> dict[str, str]:
    """Files and folders that the trainer's own arguments name, whatever they are for; not where a run that begins anew writes."""
    args = recipe.trainer.args
    goes_on = any(value for name, value in args.items() if name.startswith("resume"))
    said = [text for name, value in args.items() if goes_on or name not in _WRITTEN for text in _texts(value)]
    found = {}
    for word in dict.fromkeys(part for text in said for part in (text, text.partition("=")[2]) if part):
        place = _place(word)
        if place is not None and place.is_file():
            found[f"file {word}"] = digests.content(place)
        elif place is not None and os.path.abspath(place) != os.getcwd():
            found[f"file {word}"] = digests.files(place, most=MOST_NAMED)
    return found


_WRITTEN = frozenset({"save_dir", "project", "name", "output_dir", "logging_dir", "run_name", "resume"})
"""Arguments that say where a run writes; a script's ``resume`` says how it would go on."""
MOST_NAMED = 100_000


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inside in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _texts(inside)


def _place(word: str) -> Path | None:
    """The path that a word is; None for what is none of this machine."""
    try:
        place = Path(word).expanduser()
        return place if place.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _inputs(inputs: Inputs) -> dict[str, str]:
    data = {"data": digests.files(*inputs.data)} if inputs.data else {}
    models = {f"model {name}": digests.files(path) if path is not None else NOT_HERE for name, path in inputs.models.items()}
    texts = {f"file {path}": digests.content(path) for path in inputs.texts}
    code = {"code": digests.files(*inputs.code, suffixes=CODE, without=inputs.written)} if inputs.code else {}
    return {**data, **models, **texts, **code, **inputs.more}


def _programs(inputs: Inputs, *, without: Path) -> dict[str, str]:
    """autofit by its own files, every installed package, and the trainer's by theirs: people edit those."""
    package = Path(paths.__file__).parent
    ours = {"autofit": digests.files(package, paths.home() / "conf", suffixes=(*CODE, ".json"))}
    folders = digests.site_folders(inputs.program)
    shadowing = [Path(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    shadows = {"PYTHONPATH": digests.files(*shadowing, suffixes=CODE, without=[without])} if shadowing else {}
    edited = {f"files of {path.name}": digests.files(path, suffixes=CODE) for path in inputs.packages}
    installed = {f"package {name}": value for name, value in digests.packages(folders, without=[without]).items() if name != DISTRIBUTION}
    program = {"program": shutil.which(inputs.program) or ""} if inputs.program else {}
    return {**ours, **program, **installed, **shadows, **edited}


def _device(budget: Budget) -> dict[str, str]:
    card = {"driver": budget.driver or "unknown", "card": ",".join(one.uuid for one in budget.each)} if budget.kind == "cuda" else {}
    return {
        "device": f"{budget.kind}, {budget.name}, {budget.total_bytes} bytes",
        "device.headroom": f"{budget.headroom:g}",
        "device.emulated": str(budget.emulated),
        "device.may_spill": str(budget.may_spill),
        **card,
    }
