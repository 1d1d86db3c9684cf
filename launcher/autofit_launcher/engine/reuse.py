"""Reuses a fit of an earlier launch where nothing that it depends on has changed, and keeps the new ones.

A fit that is no longer true would end in a run out of memory. So if anything it depends on can't be checked, trials are made.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autofit_launcher import paths
from autofit_launcher.adapter.commands import Inputs
from autofit_launcher.common.files import CODE, plain
from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.sizes import format_size
from autofit_launcher.config.schema import Recipe
from autofit_launcher.history import digests, kept_fits, owner
from autofit_launcher.history.digests import UnknownIdentity
from autofit_launcher.history.kept_fits import KeptFit, RunFailure, digest_of
from autofit_launcher.history.records import KeptRecord, KeptTrialRecord
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.meter import HostMeter
from autofit_launcher.trial import judge, rung_zero
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial, of_record

MARGIN = 1.01
"""A kept fit is used only if its peak, times this, stays below the cap: identical processes differ by about 1 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reuse:
    """The kept fit of a launch, and the record of it."""

    record: KeptRecord = field(default_factory=KeptRecord)
    """The record's section on it: a run that fails disproves the fit by the digest in it."""
    depends_on: Mapping[str, str] | None = None
    """Everything that the fit depends on, as it was before any trial; None if that can't be worked out."""
    fit: KeptFit | None = None
    """The fit that this launch relies on, used or just proven: it goes back into its file at the end, unless a run disproves it."""
    trials: Sequence[Trial] = ()
    """The trials of a kept fit that is used."""
    failures: Sequence[RunFailure] = ()
    """Rungs at which full runs of the same launch, with as much memory or more, have failed. They are not tried again."""


def look_up(job: Job) -> Reuse:
    """Looks for a kept fit that is valid for this launch, and takes it."""
    try:
        wanted = depends_on(job)
        digest, cap, failures = digest_of(wanted), job.budget.cap_bytes, list[RunFailure]()
        if job.recipe.trial.fresh or job.recipe.ladder.search == "exhaustive":
            why = "trials are made whatever is kept, as trial.fresh or ladder.search says"
        else:
            known = kept_fits.of(job.training, digest)
            found, failures = known.find(cap) or _changes_since_the_last(job, wanted), known.failures_at(cap)
            trials, doubt = _trials_of(found, job) if isinstance(found, KeptFit) else ([], found)
            if isinstance(found, KeptFit) and not doubt:
                return _relied_on(job, Reuse(depends_on=wanted, fit=found, trials=trials), used=True)
            why = f"no kept fit holds, {doubt}" if doubt else ""
    except (UnknownIdentity, OSError) as unknown:
        return Reuse(record=KeptRecord(why=f"no fit is kept, or used: {unknown}"))
    return Reuse(record=KeptRecord(digest=digest, why=why), depends_on=wanted, failures=failures)


def _relied_on(job: Job, found: Reuse, *, used: bool) -> Reuse:
    """Takes the fit for this launch. Raises OSError where that can't be written down."""
    assert found.fit is not None
    kept_fits.take(found.fit.training, found.fit.digest, run_dir=str(job.folder.path))
    told = {"id": found.fit.id or None, "made": found.fit.made, "made_in": found.fit.run_dir}
    return replace(found, record=KeptRecord(used=used, digest=found.fit.digest, why=found.record.why, **told))


def _changes_since_the_last(job: Job, wanted: Mapping[str, str]) -> str:
    """Says what has changed since the newest fit of the same training, in words; returns an empty text if there never was one."""
    fits = [one.fit for one in kept_fits.everything(job.training) if one.fit is not None]
    last = max(fits, key=lambda one: one.id, default=None)
    return f"since the fit of {kept_fits.day(last.made)}: {kept_fits.changes(last.depends_on, wanted)}" if last else ""


def _trials_of(kept: KeptFit, job: Job) -> tuple[list[Trial], str]:
    """Returns (the trials of a valid fit, with their reports copied into this launch's folder, where ``resume`` looks for them; why it
    isn't used all the same, in words, or an empty text)."""
    rooms = next((one.rooms for one in kept.trials if one.rung_index == kept.rung_index and one.verdict == Kind.FITS), [])
    room = judge.short_of(judge.today(rooms, HostMeter(job.adapter.saved(job.folder.path).place).use))
    if room is not None:
        return [], f"for its run needs {format_size(room.needed)} of {room.name}, and {format_size(room.there or 0)} are there now"
    made = []
    for said in kept.trials:
        folder = job.folder.trial(said.rung_index)
        job.folder.replace_json(folder / "report.json", said.report)
        try:
            made.append(of_record(said.model_copy(update={"folder": str(folder), "kept": kept.made}), job.ladder))
        except (ValueError, IndexError):
            return [], "for its trials are none of this ladder's: its file was changed"
    asked = next((one for one in made if one.rung.index == 0), None)
    if job.adapter.general and (asked is None or rung_zero.misread(asked, unsaid=job.adapter.asked.unsaid) is not None):
        return [], "for its trials don't show that the command was read right"
    return made, ""


def proven(job: Job, found: Reuse, trials: Sequence[Trial], chosen: Trial, same: SameTraining) -> Reuse:
    """Relies on the fit that was just proven; or says why it can't be kept."""
    assert found.depends_on is not None
    try:
        now = depends_on(job)
        known = kept_fits.of(job.training, digest_of(now))
        why = _unsure(found.depends_on, now, trials, chosen) or (known.find(job.budget.cap_bytes) if known.failures else "")
        if not why:
            return _relied_on(job, replace(found, depends_on=now, fit=_fit(job, now, trials, chosen, same)), used=False)
    except (UnknownIdentity, OSError) as unknown:
        why = str(unknown)
    return replace(found, record=found.record.model_copy(update={"why": f"no fit is kept: {why}"}))


def again(job: Job, kept: KeptRecord, *, relies: bool) -> Reuse:
    """The same for a launch that goes on. ``relies``: it has a rung already, by the fit or by its own trials."""
    known, found = kept_fits.of(job.training, kept.digest or ""), Reuse(record=kept)
    if relies and known.fit is not None:
        with suppress(OSError):
            kept_fits.take(job.training, known.fit.digest, run_dir=str(job.folder.path))
            found = replace(found, fit=known.fit)
    return found if job.recipe.trial.fresh else replace(found, failures=known.failures_at(job.budget.cap_bytes))


def ended(found: Reuse) -> None:
    """Keeps the fit that stands at the launch's end."""
    if found.fit is not None:
        with suppress(OSError):
            kept_fits.keep(found.fit)


def disproved(job: Job, found: Reuse, *, rung_index: int, why: str, for_good: bool) -> tuple[Reuse, str]:
    """Returns (what is left of a fit after a run failed at its rung, why that couldn't be written down, or an empty text).

    ``for_good``: the run ran out of memory. False: the cause isn't known, and new trials may prove the fit again.
    """
    if for_good and found.record.digest is not None:
        failure = RunFailure(
            digest=found.record.digest, rung_index=rung_index, training=job.training, at=owner.now(), why=why,
            run_dir=str(job.folder.path), cap_bytes=job.budget.cap_bytes,
        )  # fmt: skip
        try:
            kept_fits.disprove(failure)
        except OSError as error:
            return replace(found, fit=None), f"{error}; say trial.fresh=true next time"
    return replace(found, fit=None), ""


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
        made=owner.now(), training=job.training, digest=digest_of(now), depends_on=dict(now), device=str(job.budget),
        rung_index=chosen.rung.index, rung=dict(chosen.rung.values), least_cap_bytes=min(int(chosen.verdict.peak_bytes * MARGIN), cap),
        most_cap_bytes=cap if chosen.rung.index else kept_fits.ANY_CAP,
        trials=[KeptTrialRecord(**one.record().written(), report=plain(one.report)) for one in made], run_dir=str(job.folder.path),
        same=same,
    )  # fmt: skip


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
    code = {"code": digests.files(*inputs.code, suffixes=CODE, without=inputs.written)} if inputs.code else {}
    return {**data, **models, **code, **inputs.more}


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
