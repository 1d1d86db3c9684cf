"""Keeps fits with everything that they depend on; finds one that is still valid, or says what has changed. docs/decisions/011.

All that is known of launches that depend on the same is one JSON file, which is written whole: a fit, or the runs that disproved one. While
a launch relies on a fit, no file has it: what ends together with autofit is never relied on again. No run depends on the files: what can't
be read isn't used, and of launches that end at the same moment the last one wins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from autofit_launcher import paths
from autofit_launcher.common import files
from autofit_launcher.common.sizes import format_size
from autofit_launcher.history.digests import short
from autofit_launcher.history.records import RecordPart, TrialRecord
from autofit_launcher.ladder.same_training import SameTraining

ANY_CAP = 2**63 - 1
"""``most_cap_bytes`` of a fit at rung 0: more memory changes nothing."""
VERSION = 4
"""Version of the files' shape. It is part of their folder's name, so that two versions of autofit on a machine don't disturb each other."""


class KeptFit(RecordPart):
    """A fit that was proven by trials."""

    made: str
    """Time at which it was made, UTC."""
    run_dir: str
    """Run folder in which the trials were made."""
    rung_index: int
    least_cap_bytes: int
    """The fit is valid for caps from here on: its trial stays below them."""
    most_cap_bytes: int
    """The fit is valid for caps up to here: every rung above needed more."""
    trials: list[TrialRecord]
    reports: list[dict[str, Any]]
    """The trials' reports, in their order."""
    same: SameTraining
    """The certificate of the chosen rung."""

    @property
    def chosen(self) -> TrialRecord:
        """The trial that fits; an empty one where the file was changed."""
        return next((one for one in self.trials if (one.rung_index, one.verdict) == (self.rung_index, "fits")), TrialRecord())

    @property
    def caps(self) -> str:
        """The caps for which it is valid, in words."""
        least = f"from {format_size(self.least_cap_bytes)}"
        return f"{least} up" if self.most_cap_bytes == ANY_CAP else f"{least} to {format_size(self.most_cap_bytes)}"


class RunFailure(RecordPart):
    """A full run that ran out of memory at a rung whose trial had fitted."""

    rung_index: int
    at: str
    why: str
    run_dir: str
    cap_bytes: int
    """The cap of the trials that had fitted."""


class KnownFits(RecordPart):
    """Everything that is known of launches that depend on the same."""

    training: str
    """Name of what is trained."""
    digest: str
    """Digest of everything that they depend on (``digest_of``)."""
    depends_on: dict[str, str] = Field(default_factory=dict)
    fit: KeptFit | None = None
    taken_by: str = ""
    """Run folder of the launch that relies on the fit now, or did and never put it back."""
    failures: list[RunFailure] = Field(default_factory=list)
    """Runs that have disproved a fit, the newest last."""

    @property
    def id(self) -> str:
        return self.digest[:8]

    def find(self, cap_bytes: int) -> KeptFit | str:
        """The fit, if it is valid at this cap; else why it isn't, empty if there never was one."""
        if self.failures:
            newest = self.failures[-1]
            return f"a run of the same launch failed at rung {newest.rung_index} on {day(newest.at)}: {newest.why}"
        if self.taken_by:
            return f"{self.taken_by} relies on it just now, or was killed together with autofit, for an unknown reason"
        if self.fit is not None and not self.fit.least_cap_bytes <= cap_bytes <= self.fit.most_cap_bytes:
            return f"the cap is {format_size(cap_bytes)}, and the fit of {day(self.fit.made)} holds {self.fit.caps}"
        return self.fit or ""

    def failures_at(self, cap_bytes: int) -> list[RunFailure]:
        """Lists the failures of runs with as much memory or more, newest first."""
        return [one for one in self.failures[::-1] if cap_bytes <= one.cap_bytes]

    def write(self, **changed: Any) -> None:
        """Writes the file, with what has changed. Raises OSError."""
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(_file(self.training, self.digest), self.model_copy(update=changed).model_dump_json(indent=1))


def folder() -> Path:
    return paths.state_folder() / f"fits-{VERSION}"


def _file(training: str, digest: str) -> Path:
    return folder() / f"{short(training)}-{digest[:20]}.json"


def of(training: str, digest: str) -> KnownFits:
    """Reads what is known of launches with this digest; nothing where it can't be read."""
    return _read(_file(training, digest)) or KnownFits(training=training, digest=digest)


def everything(training: str | None = None) -> list[KnownFits]:
    """Reads what is known of all launches, or of those of one training, whatever they depended on."""
    pattern = "*.json" if training is None else f"{short(training)}-*.json"
    return [known for path in folder().glob(pattern) if (known := _read(path)) is not None]


def forget(beginning: str) -> int:
    """Forgets the fits whose id begins so. Returns how many. What runs have disproved stays known."""
    forgotten = [known for known in everything() if known.fit is not None and known.id.startswith(beginning)]
    for known in forgotten:
        _file(known.training, known.digest).unlink(missing_ok=True)
    return len(forgotten)


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


def digest_of(depends_on: Mapping[str, str]) -> str:
    """Digest of everything that a fit depends on, name -> value as texts."""
    return hashlib.sha256(json.dumps(dict(depends_on), sort_keys=True).encode()).hexdigest()


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Tells in one line what has changed, three things by name; empty if nothing has."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    names.sort(key=lambda name: name.startswith("environment "))
    told = ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])
    return f"another {told}" if told else ""
