"""Reuses a fit of an earlier launch where nothing that it depends on has changed, and keeps the new ones.

A fit that is no longer true would end in a run out of memory. So if anything it depends on can't be checked, trials are made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autofit_launcher import paths
from autofit_launcher.common.files import CODE, plain
from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.common.sizes import format_size
from autofit_launcher.config.schema import Recipe
from autofit_launcher.history import digests, kept_fits, owner
from autofit_launcher.history.digests import UnknownIdentity
from autofit_launcher.history.kept_fits import KeptFit, KnownFits, RunFailure, digest_of
from autofit_launcher.history.records import KeptRecord
from autofit_launcher.ladder.same_training import SameTraining
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import process
from autofit_launcher.machine.meter import HostMeter
from autofit_launcher.trial import judge
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
    known: KnownFits | None = None
    """The file's text at the launch's end, with the fit that it relies on, used or just proven, unless a run disproves it."""
    trials: Sequence[Trial] = ()
    """The trials of a kept fit that is used."""
    failures: Sequence[RunFailure] = ()
    """Rungs at which full runs of the same launch, with as much memory or more, have failed. They are not tried again."""

    @property
    def fit(self) -> KeptFit | None:
        """The fit that this launch relies on."""
        return self.known.fit if self.known is not None else None


def look_up(job: Job) -> Reuse:
    """Looks for a kept fit that is valid for this launch, and takes it."""
    try:
        wanted = depends_on(job)
        known, cap, failures = kept_fits.of(job.training, digest_of(wanted)), job.budget.cap_bytes, list[RunFailure]()
        if job.recipe.trial.fresh or job.recipe.ladder.search == "exhaustive":
            why = "trials are made whatever is kept, as trial.fresh or ladder.search says"
        else:
            failures, found = known.failures_at(cap), known.find(cap) or _changes_since_the_last(job, wanted)
            trials, why = _trials_of(found, job) if isinstance(found, KeptFit) else ([], found)
            if trials:
                return _relied_on(job, Reuse(depends_on=wanted, known=known, trials=trials), used=True)
            why = f"no kept fit holds, {why}" if why else ""
    except (UnknownIdentity, OSError) as unknown:
        return Reuse(record=KeptRecord(why=f"no fit is kept, or used: {unknown}"))
    return Reuse(record=KeptRecord(digest=known.digest, why=why), depends_on=wanted, failures=failures)


def _relied_on(job: Job, found: Reuse, *, used: bool) -> Reuse:
    """Takes the fit for this launch. Raises OSError where that can't be written down."""
    assert found.known is not None and found.fit is not None
    found.known.write(fit=None, taken_by=str(job.folder.path))
    told = KeptRecord(used=used, digest=found.known.digest, made=found.fit.made, made_in=found.fit.run_dir, why=found.record.why)
    return replace(found, record=told)


def _changes_since_the_last(job: Job, wanted: Mapping[str, str]) -> str:
    """Says what has changed since the newest fit of the same training, in words; returns an empty text if there never was one."""
    fits = [(one.fit.made, one.depends_on) for one in kept_fits.everything(job.training) if one.fit is not None]
    made, before = max(fits, key=lambda one: one[0], default=("", wanted))
    return f"since the fit of {kept_fits.day(made)}: {kept_fits.changes(before, wanted)}" if made else ""


def _trials_of(kept: KeptFit, job: Job) -> tuple[list[Trial], str]:
    """Returns (the trials of a valid fit, with their reports copied into this launch's folder, where ``resume`` looks for them; why it
    isn't used all the same, in words, or an empty text)."""
    room = judge.short_of(judge.today(kept.chosen.rooms, HostMeter(job.adapter.saved(job.folder.path).place).use))
    if room is not None:
        return [], f"for its run needs {format_size(room.needed)} of {room.name}, and {format_size(room.there or 0)} are there now"
    try:
        for said, report in zip(kept.trials, kept.reports, strict=True):
            job.folder.replace_json(job.folder.trial(said.rung_index) / "report.json", report)
        told = {"kept": kept.made}
        made = [one.model_copy(update={**told, "folder": str(job.folder.trial(one.rung_index))}) for one in (kept.chosen, *kept.trials)]
        return [of_record(one, job.ladder) for one in made][1:], ""
    except (ValueError, IndexError):
        return [], "for its trials are none of this ladder's: its file was changed"


def proven(job: Job, found: Reuse, trials: Sequence[Trial], chosen: Trial, same: SameTraining) -> Reuse:
    """Relies on the fit that was just proven; or says why it can't be kept."""
    assert found.depends_on is not None
    try:
        now = depends_on(job)
        known = kept_fits.of(job.training, digest_of(now))
        why = _unsure(found.depends_on, now, trials, chosen) or (known.find(job.budget.cap_bytes) if known.failures else "")
        if not why:
            known = KnownFits(training=known.training, digest=known.digest, depends_on=now, fit=_fit(job, trials, chosen, same))
            return _relied_on(job, replace(found, depends_on=now, known=known), used=False)
    except (UnknownIdentity, OSError) as unknown:
        why = str(unknown)
    return replace(found, record=found.record.model_copy(update={"why": f"no fit is kept: {why}"}))


def again(job: Job, kept: KeptRecord, *, relies: bool) -> Reuse:
    """The same for a launch that goes on. ``relies``: it has a rung already, by the fit or by its own trials."""
    known, found = kept_fits.of(job.training, kept.digest or ""), Reuse(record=kept)
    if relies and known.fit is not None:
        with suppress(OSError):
            known.write(fit=None, taken_by=str(job.folder.path))
            found = replace(found, known=known)
    return found if job.recipe.trial.fresh else replace(found, failures=known.failures_at(job.budget.cap_bytes))


def ended(found: Reuse) -> None:
    """Keeps the fit that stands at the launch's end."""
    if found.known is not None and not kept_fits.of(found.known.training, found.known.digest).failures:
        with suppress(OSError):
            found.known.write()


def disproved(job: Job, found: Reuse, *, rung_index: int, why: str, for_good: bool) -> tuple[Reuse, str]:
    """Returns (what is left of a fit after a run failed at its rung, why that couldn't be written down, or an empty text).

    ``for_good``: the run ran out of memory. False: the cause isn't known, and new trials may prove the fit again.
    """
    wrong = ""
    if for_good and found.record.digest is not None:
        failed = RunFailure(rung_index=rung_index, at=owner.now(), why=why, run_dir=str(job.folder.path), cap_bytes=job.budget.cap_bytes)
        known = kept_fits.of(job.training, found.record.digest)
        try:
            known.write(fit=None, taken_by="", failures=[*known.failures, failed])
        except OSError as error:
            wrong = f"{error}; say trial.fresh=true next time"
    return replace(found, known=None), wrong


def _unsure(before: Mapping[str, str], now: Mapping[str, str], trials: Sequence[Trial], chosen: Trial) -> str:
    """Says why the new proof may not hold another time; empty if it does. ``before``, ``now``: values of all that it depends on."""
    if now.get(f"model {chosen.rung.values.get('model')}") == NOT_HERE:
        return "where its model lies isn't known"
    if any(one.verdict.source in OF_MACHINE for one in trials):
        return "a rung found too little beside the device, of which there may be more another time"
    downloaded = {key: now.get(key, "") for key, value in before.items() if value == NOT_HERE}
    changed = kept_fits.changes({**before, **downloaded}, now)
    return f"while the trials were made, {changed}" if changed else ""


def _fit(job: Job, trials: Sequence[Trial], chosen: Trial, same: SameTraining) -> KeptFit:
    made, cap = [one for one in trials if one.verdict.kind is not Kind.CARD_TAKEN], job.budget.cap_bytes
    return KeptFit(
        made=owner.now(), run_dir=str(job.folder.path), rung_index=chosen.rung.index,
        least_cap_bytes=min(int(chosen.verdict.peak_bytes * MARGIN), cap), most_cap_bytes=cap if chosen.rung.index else kept_fits.ANY_CAP,
        trials=[one.record() for one in made], reports=[plain(one.report) for one in made], same=same,
    )  # fmt: skip


NOT_HERE = "not here"
"""A model that must be fetched before it can be tried."""
_ELSEWHERE: Any = {
    **dict.fromkeys(("name", "summary", "prepare", "run", "launch", "recover", "rung", "device"), True),
    "ladder": {"search"}, "trial": {"timeout_s", "fresh"},
}  # fmt: skip
"""Keys of a recipe that say nothing of the training, or only how a rung is looked for; what ``device`` comes to is the budget."""


def depends_on(job: Job) -> dict[str, str]:
    """Reads everything that a fit depends on, as it is now. Raises UnknownIdentity, with why, where it can't all be told."""
    inputs, package, budget = job.adapter.inputs(job.ladder), Path(paths.__file__).parent, job.budget
    if inputs.unknown:
        raise UnknownIdentity(inputs.unknown)
    ladder = [(dict(rung.values), rung.accumulation, rung.world_size) for rung in job.ladder.rungs]
    return {
        **dict(_flat(job.recipe.model_dump(mode="json", exclude=_ELSEWHERE))),
        "ladder": f"{len(ladder)} rungs [{digests.short(json.dumps(ladder, sort_keys=True))}]",
        "folder": os.getcwd(),
        **_named(job.recipe),
        "data": digests.files(*inputs.data),
        **{f"model {name}": digests.files(path) if path is not None else NOT_HERE for name, path in inputs.models.items()},
        "code": digests.files(*inputs.code, suffixes=CODE, without=inputs.written),
        **inputs.more,
        "autofit": digests.files(package, paths.home() / "conf", suffixes=(*CODE, ".json")),
        "program": shutil.which(inputs.program) or "",
        **digests.packages(_imports_from(inputs.program), without=[Path(job.recipe.run.root), *inputs.written]),
        **{f"files of {path.name}": digests.files(path, suffixes=CODE) for path in inputs.packages},
        **{f"environment {name}": value for name, value in digests.environment(os.environ).items()},
        **digests.system(),
        "device": f"{budget.kind}, {budget.name}, {budget.total_bytes} bytes",
        "device.headroom": f"{budget.headroom:g}",
        "device.emulated": str(budget.emulated),
        "device.may_spill": str(budget.may_spill),
        **({"driver": budget.driver or "unknown", "card": ",".join(one.uuid for one in budget.each)} if budget.kind == "cuda" else {}),
    }


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
    words = dict.fromkeys(part for text in said for part in (text, text.partition("=")[2]) if part)
    places = {word: os.path.abspath(os.path.expanduser(word)) for word in words}
    there = {word: Path(place) for word, place in places.items() if os.path.exists(place) and place != os.getcwd()}
    return {f"file {word}": digests.files(place, most=MOST_NAMED) for word, place in there.items()}


_WRITTEN = frozenset({"save_dir", "project", "name", "output_dir", "logging_dir", "run_name", "resume"})
"""Arguments that say where a run writes; a script's ``resume`` says how it would go on."""
MOST_NAMED = 100_000


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inside in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _texts(inside)


_STARTS_OTHERS = ("conda", "hatch", "pdm", "pipenv", "poetry")
"""Python programs that start a command in another environment than their own."""


def _imports_from(program: str) -> list[Path]:
    """Folders from which a program's Python imports; empty: this one's. Raises UnknownIdentity if that can't be told."""
    found = shutil.which(program or sys.executable)
    if found is None:
        raise UnknownIdentity(f"{program} is no program that is found")
    with open(found, "rb") as file:
        name, starts = os.path.basename(found), re.match(rb"#! ?(/\S*python[\d.]*)\n", file.read(400))
    python = found if name.startswith("python") else starts[1].decode() if starts and name not in _STARTS_OTHERS else ""
    if not python:
        raise UnknownIdentity(f"it can't be told with which packages {name} starts its command")
    status, said = process.output_of((python, "-c", "import sys; print(*sys.path, sep='\\n')"))
    if status:
        raise UnknownIdentity(f"{python} can't be asked for its packages: {said.strip()[-200:]}")
    return [Path(place) for place in said.splitlines() if place not in ("", os.getcwd())]
