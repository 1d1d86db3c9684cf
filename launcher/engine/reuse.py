"""Reuses a fit of an earlier launch where nothing that it depends on has changed, and keeps the new ones.

A fit that is no longer true would end in a run out of memory. So if anything it depends on can't be checked, trials are made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.engine.fingerprint import NOT_HERE, fingerprint_of
from launcher.history import kept_fits, owner
from launcher.history.database import HistoryUnusableError
from launcher.history.digests import UnknownIdentity
from launcher.history.kept_fits import Fingerprint, FitHistory, KeptFit, RunFailure
from launcher.history.records import KeptTrialRecord
from launcher.ladder.same_training import SameTraining
from launcher.ladder.verdict import Kind
from launcher.machine.host_meter import HostMeter
from launcher.shared.files import plain
from launcher.shared.memory_failures import OF_MACHINE
from launcher.shared.report import WRITTEN
from launcher.trial import host_rooms
from launcher.trial.job import Job
from launcher.trial.trial import Trial, of_record

MARGIN = 1.01
"""A kept fit is used only if its peak, times this, stays below the cap: identical processes differ by about 1 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reuse:
    """What a launch found among the kept fits, or kept itself."""

    fingerprint: Fingerprint | None = None
    """What the fit depends on, as it was before any trial; None if that can't be worked out."""
    fit: KeptFit | None = None
    """The valid fit: used without a trial, or just proven."""
    used: bool = False
    why: str = ""
    """Why no kept fit was used, or none is kept."""
    remarks: Sequence[str] = ()
    """What is wrong with the history."""
    failures: Sequence[RunFailure] = ()
    """Rungs at which full runs of the same launch, with as much memory or more, have failed. They are not tried again."""

    def as_record(self) -> dict[str, Any]:
        one = self.fit
        kept = {"id": one.id, "made": one.made, "made_in": one.run_dir} if one is not None else {}
        return {"used": self.used, "digest": self.fingerprint.digest if self.fingerprint is not None else None, **kept, "why": self.why}


def look_up(job: Job) -> Reuse:
    """Looks for a kept fit that is valid for this launch."""
    try:
        with kept_fits.opened() as fits:
            found = _looked_up(job, fits)
            return replace(found, remarks=(fits.remark,)) if fits.remark else found
    except HistoryUnusableError as unusable:
        return Reuse(why=f"no fit is kept, or used: {unusable}")


def _looked_up(job: Job, fits: FitHistory) -> Reuse:
    try:
        wanted = fingerprint_of(job, written=fits.written(job.training, folder=os.getcwd()))
    except (UnknownIdentity, OSError) as unknown:
        return Reuse(why=f"no fit is kept, or used: {unknown}")
    if job.recipe.trial.fresh or job.recipe.ladder.search == "exhaustive":
        return Reuse(fingerprint=wanted, why="trials are made whatever is kept, as trial.fresh or ladder.search says")
    found = fits.find(wanted, cap_bytes=job.budget.cap_bytes)
    if isinstance(found, KeptFit) and (killed := _killed(fits.not_ended(wanted.digest))):
        found = f"{killed[0]} relied on it and was killed together with autofit, for an unknown reason"
    if isinstance(found, KeptFit) and (short := _short_today(found, job.adapter.saved(job.folder.path).place)):
        found = short
    if isinstance(found, KeptFit):
        fits.begin(wanted.digest, run_dir=str(job.folder.path))
        return Reuse(fingerprint=wanted, fit=found, used=True)
    failures = [one for one in fits.failures(wanted.digest) if job.budget.cap_bytes <= one.cap_bytes]
    return Reuse(fingerprint=wanted, why=f"no kept fit holds, {found}" if found else "", failures=failures)


def _short_today(found: KeptFit, saves_in: Path) -> str:
    """What the machine has too little of now for the rung of a kept fit, in words; empty if it has room."""
    rooms = next((one.rooms for one in found.trials if one.rung_index == found.rung_index and one.verdict == Kind.FITS), [])
    room = host_rooms.short_of(host_rooms.today(rooms, HostMeter(saves_in).use))
    if room is None:
        return ""
    needed, there = host_rooms.words(room)
    return f"for its run needs {needed} of {room.name}, and {there} are there now"


def _killed(folders: Sequence[str]) -> list[str]:
    """Those of the launches that recorded no end and aren't running: they may have been killed for lack of memory, autofit included."""
    return [folder for folder in folders if owner.who(Path(folder)).state is not owner.State.RUNNING]


def ended(job: Job, digest: str | None) -> None:
    """Notes in the history that this launch has ended and that its fit was struck out if it was wrong."""
    if digest is not None:
        with suppress(HistoryUnusableError), kept_fits.opened() as fits:
            fits.end(digest, run_dir=str(job.folder.path))


def resumed(job: Job, digest: str | None) -> None:
    """Notes in the history that this launch is resumed."""
    if digest is not None:
        with suppress(HistoryUnusableError), kept_fits.opened() as fits:
            fits.begin(digest, run_dir=str(job.folder.path))


def trials_of(kept: KeptFit, job: Job) -> list[Trial]:
    """The kept fit's trials, with their reports copied into this launch's folder, where ``resume`` looks for them."""
    made = []
    for said in kept.trials:
        folder = job.folder.trial(said.rung_index)
        job.folder.replace_json(folder / "report.json", said.report)
        made.append(of_record(said.model_copy(update={"folder": str(folder), "kept": kept.made}), job.ladder))
    return made


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvenFit:
    """A fit that was just proven."""

    trials: Sequence[Trial]
    chosen: Trial
    same: SameTraining


def keep(job: Job, found: Reuse, proven: ProvenFit) -> Reuse:
    """Keeps the fit that was just proven. Returns it, or why it isn't kept."""
    before = found.fingerprint
    if before is None:
        return found
    try:
        with kept_fits.opened() as fits:
            found = replace(found, remarks=(*found.remarks, *filter(None, [fits.remark])))
            return _kept(job, fits, found, before, proven)
    except HistoryUnusableError as unusable:
        return replace(found, why=f"no fit is kept: {unusable}")


def _kept(job: Job, fits: FitHistory, found: Reuse, before: Fingerprint, proven: ProvenFit) -> Reuse:
    known = fits.written(before.training, folder=os.getcwd())
    written = sorted({path for one in proven.trials for path in _written_in(one)}.difference(known))
    try:
        now = fingerprint_of(job, written=known)
        without = fingerprint_of(job, written=[*known, *written]) if written else now
    except (UnknownIdentity, OSError) as unknown:
        return replace(found, why=f"no fit is kept: {unknown}")
    if now.depends_on.get(f"model {proven.chosen.rung.values.get('model')}") == NOT_HERE:
        return replace(found, why="no fit is kept: where its model lies isn't known")
    if any(one.verdict.source in OF_MACHINE for one in proven.trials):
        return replace(found, why="no fit is kept: a rung found too little beside the device, of which there may be more another time")
    if changed := kept_fits.changes(_settled(before.depends_on, now.depends_on), now.depends_on):
        return replace(found, why=f"no fit is kept: while the trials were made, {changed}")
    fits.add_written(without.training, written, folder=os.getcwd())
    fit = _fit(job, without, proven)
    number = fits.keep(fit, settled=_killed(fits.not_ended(fit.digest)))
    if number is None:
        why = "no fit is kept: a run of the same launch ran out of memory at this very rung before"
        return replace(found, fingerprint=without, why=why)
    return replace(found, fingerprint=without, fit=replace(fit, id=number))


def _written_in(tried: Trial) -> list[str]:
    said = tried.report.facts.get(WRITTEN)
    return [path for path in said if isinstance(path, str)] if isinstance(said, list) else []


def _settled(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The fingerprint from before the trials, with the models that the trials have downloaded since."""
    return {key: now[key] if value == NOT_HERE and key.startswith("model ") and key in now else value for key, value in before.items()}


def _fit(job: Job, now: Fingerprint, proven: ProvenFit) -> KeptFit:
    chosen = proven.chosen
    made = [one for one in proven.trials if one.verdict.kind is not Kind.CARD_TAKEN]
    failed = [one for one in made if not one.verdict.fits]
    cap = job.budget.cap_bytes
    return KeptFit(
        made=kept_fits.now(), training=now.training, digest=now.digest, depends_on=dict(now.depends_on), device=str(job.budget),
        rung_index=chosen.rung.index, rung=dict(chosen.rung.values), least_cap_bytes=min(int(chosen.verdict.peak_bytes * MARGIN), cap),
        most_cap_bytes=min((_failed_up_to(one, job) for one in failed), default=cap) if chosen.rung.index else kept_fits.ANY_CAP,
        trials=[KeptTrialRecord(**one.as_record(), report=plain(one.report)) for one in made], run_dir=str(job.folder.path),
        same=plain(proven.same.as_record()),
    )  # fmt: skip


def _failed_up_to(failed: Trial, job: Job) -> int:
    """The largest cap at which this rung fails, too: above the cap of its trial only if its need was measured."""
    verdict, cap = failed.verdict, job.budget.cap_bytes
    measured = verdict.kind is Kind.OUT_OF_MEMORY and verdict.source == "measured" and job.budget.kind == "cpu"
    return max(cap, int(verdict.peak_bytes / MARGIN)) if measured else cap


def strike_out(job: Job, digest: str | None, *, rung_index: int, why: str, for_good: bool = True) -> str:
    """Strikes a fit out after a run failed at its rung. Returns what is wrong with the history, or an empty text.

    ``for_good``: the run ran out of memory. False: the cause isn't known, and new trials may prove the fit again.
    """
    if digest is None:
        return ""
    failure = RunFailure(
        digest=digest, rung_index=rung_index, training=job.training, at=kept_fits.now(), why=why, run_dir=str(job.folder.path),
        cap_bytes=job.budget.cap_bytes,
    )  # fmt: skip
    try:
        with kept_fits.opened() as fits:
            fits.strike_out(failure) if for_good else fits.doubt(digest)
    except HistoryUnusableError as unusable:
        return f"the fit that this run has disproved could not be struck out: {unusable}; say trial.fresh=true next time"
    return ""
