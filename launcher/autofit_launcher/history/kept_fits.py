"""Keeps fits with everything that they depend on; finds one that is still valid, or says what has changed. docs/decisions/011.

All that is known of launches that depend on the same is one JSON file: their newest fit, the runs that disproved one, and who relies on it.
A file is written whole, one launch at a time. No run depends on them: what can't be read isn't used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from autofit_launcher import paths
from autofit_launcher.common import files
from autofit_launcher.common.sizes import format_size
from autofit_launcher.history import owner
from autofit_launcher.history.digests import short
from autofit_launcher.history.records import KeptTrialRecord, RecordPart

ANY_CAP = 2**63 - 1
"""``most_cap_bytes`` of a fit at rung 0: more memory changes nothing."""
VERSION = 2
"""Version of the files' shape. It is part of their folder's name, so that two versions of autofit on a machine don't disturb each other."""


class KeptFit(RecordPart):
    """A fit that was proven by trials."""

    id: int = 0
    made: str
    """Time at which it was made, UTC."""
    training: str
    """Name of what is trained."""
    digest: str
    """Digest of everything it depends on (``digest_of``)."""
    depends_on: dict[str, str]
    device: str
    rung_index: int
    rung: dict[str, Any]
    least_cap_bytes: int
    """The fit is valid for caps from here on: its trial stays below them."""
    most_cap_bytes: int
    """The fit is valid for caps up to here: every rung above needed more."""
    trials: list[KeptTrialRecord]
    run_dir: str
    """Run folder in which the trials were made."""
    same: dict[str, Any]
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
        return next((one.peak_bytes for one in self.trials if one.rung_index == self.rung_index), 0)


class RunFailure(RecordPart):
    """A full run that ran out of memory at a rung whose trial had fitted."""

    digest: str
    rung_index: int
    training: str
    at: str
    why: str
    run_dir: str
    cap_bytes: int
    """The cap of the trials that had fitted."""


class KnownFits(RecordPart):
    """Everything that is known of launches that depend on the same. Lists are in the order of time."""

    model_config = ConfigDict(frozen=False)
    fit: KeptFit | None = None
    failures: list[RunFailure] = Field(default_factory=list)
    uses: list[str] = Field(default_factory=list)
    """Run folders of launches that rely on a fit now, or did and never noted their end."""

    def find(self, cap_bytes: int) -> KeptFit | str:
        """The fit, if it is valid at this cap; else why it isn't, empty if there never was one."""
        if self.failures:
            newest = self.failures[-1]
            return f"a run of the same launch failed at rung {newest.rung_index} on {day(newest.at)}: {newest.why}"
        if self.fit is not None and not self.fit.holds_at(cap_bytes):
            return f"the cap is {format_size(cap_bytes)}, and the fit of {day(self.fit.made)} holds {self.fit.caps}"
        return self.fit or ""

    def failures_at(self, cap_bytes: int) -> list[RunFailure]:
        """Lists the failures of runs with as much memory or more, newest first."""
        return [one for one in self.failures[::-1] if cap_bytes <= one.cap_bytes]

    @property
    def killed(self) -> list[str]:
        """Folders of launches that don't run: perhaps killed for lack of memory, autofit included. What became of them says nothing."""
        return [folder for folder in self.uses if owner.who(Path(folder)).state is not owner.State.RUNNING]

    @property
    def number(self) -> int:
        return self.fit.id if self.fit is not None else 0


def folder() -> Path:
    return paths.state_folder() / f"fits-{VERSION}"


def _file(training: str, digest: str) -> Path:
    return folder() / f"{short(training)}-{digest[:20]}.json"


def of(training: str, digest: str) -> KnownFits:
    """Reads what is known of launches with this digest; nothing where it can't be read."""
    return _read(_file(training, digest)) or KnownFits()


def everything(training: str | None = None) -> list[KnownFits]:
    """Reads what is known of all launches, or of those of one training, whatever they depended on."""
    return [known for known in _files(training).values() if known is not None]


@contextmanager
def changed(training: str, digest: str) -> Iterator[KnownFits]:
    """Yields what is known of launches with this digest, to be changed while this is open and then written whole; one launch at a time.

    Raises OSError where it can't be written.
    """
    with _locked():
        path = _file(training, digest)
        known = _read(path) or KnownFits()
        yield known
        files.replace(path, known.model_dump_json(indent=1))


@contextmanager
def _locked() -> Iterator[None]:
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder() / ".lock").open("w") as lock:
        with suppress(OSError):  # a file system without locks: of two launches at the same moment the last one wins
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def keep(fit: KeptFit) -> KeptFit | None:
    """Keeps a fit that was just proven, whatever killed others, and numbers it; None if a run has failed at its rung before."""
    with changed(fit.training, fit.digest) as known:
        if any(one.rung_index == fit.rung_index for one in known.failures):
            return None
        known.fit = fit.model_copy(update={"id": 1 + max(one.number for one in (*everything(), known))})
        known.uses = [*(run for run in known.uses if run not in known.killed), fit.run_dir]
        return known.fit


def forget(number: int | None) -> int:
    """Forgets one fit, or all (None). Returns how many. What runs have disproved stays known."""
    forgotten = 0
    with _locked():
        for path, known in _files().items():
            if known is not None and known.fit is not None and number in (None, known.number):
                forgotten += 1
                files.replace(path, known.model_copy(update={"fit": None}).model_dump_json(indent=1))
    return forgotten


def _files(training: str | None = None) -> dict[Path, KnownFits | None]:
    """Reads the files of one training, or of all: file -> what it says; None for one that can't be read."""
    pattern = "*.json" if training is None else f"{short(training)}-*.json"
    return {path: _read(path) for path in folder().glob(pattern)}


def _read(path: Path) -> KnownFits | None:
    with suppress(OSError, ValidationError):
        return KnownFits.model_validate_json(files.read(path, mine=True))
    return None


def day(at: str) -> str:
    """A stored time as text, in the local time zone."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%-d %b %H:%M")
    except (ValueError, OverflowError):
        return "an unknown day"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest_of(depends_on: Mapping[str, str]) -> str:
    """Digest of everything that a fit depends on, name -> value as texts."""
    return hashlib.sha256(json.dumps(dict(depends_on), sort_keys=True).encode()).hexdigest()


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Tells in one line what has changed, three things by name; empty if nothing has."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    names.sort(key=lambda name: name.startswith("environment "))
    told = ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])
    return f"another {told}" if told else ""
