"""Keeps fits with everything that they depend on; finds one that is still valid, or says what has changed. docs/decisions/011."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from launcher.history import database
from launcher.history.database import Database
from launcher.history.records import KeptTrialRecord
from launcher.shared.sizes import format_size

ANY_CAP = 2**63 - 1
"""``most_cap_bytes`` of a fit at rung 0: more memory changes nothing."""
MOST = 1000
"""Fits that are kept; the oldest go first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFit:
    """A fit that was proven by trials."""

    id: int = 0
    made: str
    """When, UTC."""
    training: str
    """Name of what is trained."""
    digest: str
    """Digest of everything it depends on (``Fingerprint.digest``)."""
    depends_on: Mapping[str, str]
    device: str
    rung_index: int
    rung: Mapping[str, Any]
    least_cap_bytes: int
    """The fit is valid for caps from here on: its trial stays below them."""
    most_cap_bytes: int
    """The fit is valid for caps up to here: every rung above needed more."""
    trials: Sequence[KeptTrialRecord]
    run_dir: str
    """Run folder in which the trials were made."""
    same: Mapping[str, Any]
    """The certificate of the chosen rung (``ladder.same_training``), as a record has it."""

    def holds_at(self, cap_bytes: int) -> bool:
        return self.least_cap_bytes <= cap_bytes <= self.most_cap_bytes

    @property
    def caps(self) -> str:
        """The caps for which it is valid, in words."""
        least = f"from {format_size(self.least_cap_bytes)}"
        return f"{least} up" if self.most_cap_bytes == ANY_CAP else f"{least} to {format_size(self.most_cap_bytes)}"

    @property
    def peak_bytes(self) -> int:
        """Peak of the chosen rung's trial."""
        return next(one.peak_bytes for one in self.trials if one.rung_index == self.rung_index)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFailure:
    """A full run that ran out of memory at a rung whose trial had fitted."""

    digest: str
    rung_index: int
    training: str
    at: str
    why: str
    run_dir: str
    cap_bytes: int
    """The cap of the trials that had fitted."""


class FitHistory:
    """The kept fits, and the full runs that disproved some."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def remark(self) -> str:
        """A sentence for the user about the file; empty if there is nothing to say."""
        return self._database.remark

    def find(self, wanted: Fingerprint, *, cap_bytes: int) -> KeptFit | str:
        """The newest fit of the same launch that is valid at this cap; else why none is, empty if there never was one."""
        if failures := self.failures(wanted.digest):
            newest = failures[0]
            return f"a run of the same launch failed at rung {newest.rung_index} on {day(newest.at)}: {newest.why}"
        same = self._fits("where digest = ? order by id desc", wanted.digest)
        if (holding := next((one for one in same if one.holds_at(cap_bytes)), None)) is not None:
            return holding
        if same:
            return f"the cap is {format_size(cap_bytes)}, and the fit of {day(same[0].made)} holds {same[0].caps}"
        last = next(iter(self._fits("where training = ? order by id desc limit 1", wanted.training)), None)
        return f"since the fit of {day(last.made)}: {changes(last.depends_on, wanted.depends_on)}" if last is not None else ""

    def keep(self, fit: KeptFit, *, settled: Sequence[str] = ()) -> int | None:
        """Stores a fit and returns its number; None if a run has failed at that rung before. Replaces older fits valid at the same caps.

        ``settled``: run folders of launches with unknown ends, which these trials have made irrelevant.
        """
        with self._database.change():
            if any(one.rung_index == fit.rung_index for one in self.failures(fit.digest)):
                return None
            overlaps = "digest = ? and least_cap_bytes <= ? and most_cap_bytes >= ?"
            self._database.execute(f"delete from fits where {overlaps}", fit.digest, fit.most_cap_bytes, fit.least_cap_bytes)
            for folder in settled:
                self._database.execute("delete from uses where digest = ? and run_dir = ?", fit.digest, folder)
            self._begin(fit.digest, fit.run_dir)
            number = self._database.add("fits", fit)
            self._database.execute("delete from fits where id <= ?", number - MOST)
        return number

    def strike_out(self, failure: RunFailure) -> None:
        """Removes the fits of the launch for good; none at the same rung will be kept again."""
        with self._database.change():
            self._database.execute("delete from fits where digest = ?", failure.digest)
            self._database.add("failures", failure)

    def doubt(self, digest: str) -> None:
        """Removes the fits of a launch; new trials may bring them back."""
        with self._database.change():
            self._database.execute("delete from fits where digest = ?", digest)

    def begin(self, digest: str, *, run_dir: str) -> None:
        """Notes that a launch relies on a fit. Done first, since if it can't be written, a failure of the run couldn't be either."""
        with self._database.change():
            self._begin(digest, run_dir)

    def _begin(self, digest: str, run_dir: str) -> None:
        self._database.execute("insert or replace into uses (digest, run_dir, at, ended) values (?, ?, ?, '')", digest, run_dir, now())

    def end(self, digest: str, *, run_dir: str) -> None:
        """Notes that the launch has ended, and that the history has what its end shows."""
        with self._database.change():
            self._database.execute("update uses set ended = ? where digest = ? and run_dir = ?", now(), digest, run_dir)

    def not_ended(self, digest: str) -> list[str]:
        """Run folders of launches that rely on a fit now, or did and never noted their end."""
        found = self._database.execute("select run_dir from uses where digest = ? and ended = '' order by at desc", digest)
        return [run_dir for (run_dir,) in found]

    def written(self, training: str, *, folder: str) -> list[str]:
        """Paths beside its code that trials of this training, launched in ``folder``, were seen to write."""
        found = self._database.execute("select path from written where training = ? and folder = ? order by path", training, folder)
        return [path for (path,) in found]

    def add_written(self, training: str, paths: Sequence[str], *, folder: str) -> None:
        with self._database.change():
            for path in paths:
                self._database.execute("insert or ignore into written values (?, ?, ?)", training, folder, path)

    def uses(self) -> dict[str, int]:
        """Digest -> how many launches have relied on it, the one that made it included."""
        return dict(self._database.execute("select digest, count(*) from uses group by digest").fetchall())

    def forget(self, number: int | None) -> int:
        """Forgets one fit, or all (None). Returns how many. What runs have disproved stays known."""
        with self._database.change():
            if number is None:
                return self._database.execute("delete from fits").rowcount
            return self._database.execute("delete from fits where id = ?", number).rowcount

    def all(self) -> list[KeptFit]:
        """Newest first."""
        return self._fits("order by id desc")

    def _fits(self, condition: str, *values: object) -> list[KeptFit]:
        rows = self._database.rows(KeptFit, "fits", condition, *values)
        return [replace(one, trials=[KeptTrialRecord.model_validate(trial) for trial in one.trials]) for one in rows]

    def all_failures(self) -> list[RunFailure]:
        """Newest first."""
        return self._database.rows(RunFailure, "failures", "order by rowid desc")

    def failures(self, digest: str) -> list[RunFailure]:
        """Failures of full runs of this launch, newest first."""
        return self._database.rows(RunFailure, "failures", "where digest = ? order by rowid desc", digest)


@contextmanager
def opened() -> Iterator[FitHistory]:
    """Opens the kept fits. Raises HistoryUnusableError if the history can't be used."""
    with database.opened() as history:
        yield FitHistory(history)


def day(at: str) -> str:
    """A stored time as text, in the local time zone."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%-d %b %H:%M")
    except ValueError:
        return "an unknown day"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fingerprint:
    """Everything that a fit of a launch depends on."""

    training: str
    """Name of what is trained. What has changed is told against the last fit with the same name."""
    depends_on: Mapping[str, str]
    """Name -> value, as texts."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(dict(self.depends_on), sort_keys=True).encode()).hexdigest()


def changes(before: Mapping[str, str], now: Mapping[str, str], *, most: int = 3) -> str:
    """The changes in one line; empty if there are none."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    names.sort(key=lambda name: (name.startswith("environment "), list({**now, **before}).index(name)))
    told = [_change(name, before.get(name), now.get(name)) for name in names[:most]]
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return "; ".join([*told, *more])


def _change(name: str, before: str | None, now: str | None) -> str:
    was, is_now = (_bare(value) for value in (before, now))
    if name.startswith(("file ", "environment ")) and before is not None and now is not None and was == is_now:
        return f"{name} is another"
    if before is None or now is None:
        return f"{name} is {'new' if before is None else 'gone'}"
    return f"{name} is not what it was" if was == is_now else f"{name.removeprefix('package ')}: {was} -> {is_now}"


def _bare(value: str | None) -> str:
    """The value without its digest, shortened."""
    words = (value or "").partition(" [")[0] if value is None or not value.startswith("[") else ""
    return words if len(words) <= 80 else f"{words[:77]}..."
