"""A trial that crashed, and the same command run plainly -> whose fault the crash is.

Plainly: nothing watched, cut, sped up or accumulated from outside, in a throw-away copy of the folder; the budget holds it, and what it
writes outside that folder is redirected as ever. It gets a little longer than the trial took to crash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from launcher.inside.lifeline import die_with_parent
from launcher.inside.settings import ProbeSettings, injected
from launcher.shared.memory_failures import memory_failure
from launcher.shared.orders import Orders
from launcher.shared.report import NOT_EXACT, OVER_CAP, Failure, TrialReport

NOTHING_FROM_OUTSIDE = {"ACCUMULATE": "1", "UPDATE": "", "UPDATE_LOGGED": "", "CHECKPOINTING": ""}
"""With these ``native/accumulate.py`` holds nothing back, ``native/update.py`` weights nothing, and nothing is checkpointed."""
LARGEST_FOLDER = 256 * 2**20
MOST_FILES = 5000
LONGEST_S = 120.0


def speaks_of_memory(failure: Failure) -> bool:
    """As against a crash that is to be proven."""
    return OVER_CAP in failure.types or memory_failure(failure.message, types=failure.types) is not None


def refuses(failure: Failure) -> bool:
    """Whether it is no crash, but our own word that the trial can't be what was asked."""
    return NOT_EXACT in failure.types


def proven(report: TrialReport, orders: Orders, env: Mapping[str, str], *, seconds: float, cure: str) -> TrialReport:
    """The report of a crash, after the command was run plainly: the trainer's own crash, or one that our watching made.

    ``seconds``: how long the trial took to crash, with its start. ``cure``: what helps where it is fast-forward that breaks it.
    """
    assert report.failure is not None
    first = (report.failure.message.strip().splitlines() or ["?"])[0][:200]
    forwarded = f"fast-forward broke the script ({first}); {cure}" if report.facts.get("failed_forwarding") else ""
    longest = min(2 * seconds + 20.0, LONGEST_S)
    place = orders.scratch / "plain"
    folder = _copied(Path.cwd(), place / "folder", without=orders.scratch)
    if folder is None and forwarded:
        return dataclasses.replace(report, failure=None, hint=forwarded)
    if folder is None:
        return dataclasses.replace(report, notes=(*report.notes, "the crash was not tried without the trial's hooks: the folder is large"))
    went_on, said = _ran(orders, env, place, folder, longest)
    if not went_on:
        return report
    hint = f"the script broke under the trial's own hooks ({first}), and {said} without them: the fault is autofit's; please report it"
    return dataclasses.replace(report, failure=None, hint=forwarded or hint)


def _ran(orders: Orders, env: Mapping[str, str], place: Path, folder: Path, longest: float) -> tuple[bool, str]:
    """(whether the command did well by itself, in words)."""
    settings = place / "probe.json"
    temporary = place / "t"
    temporary.mkdir()
    ProbeSettings(
        records=str(place / "records"), orders=dataclasses.asdict(orders), overlay=str(place / "overlay"),
        kept=(str(folder), str(temporary), str(orders.scratch)), budget_only=True,
    ).write(settings)  # fmt: skip
    plain = {**env, **{name: value for name, value in NOTHING_FROM_OUTSIDE.items() if name in env}}
    argv = [_in_copy(word, Path.cwd(), folder) for word in orders.payload["argv"]]
    with (place / "log").open("wb") as log:
        child = subprocess.Popen(
            argv, env={**plain, "TMPDIR": str(temporary), **injected(settings, plain)}, cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, preexec_fn=_apart,
        )  # fmt: skip
        began = time.monotonic()
        try:
            status = child.wait(timeout=longest)
        except subprocess.TimeoutExpired:
            return True, f"was still at it after {time.monotonic() - began:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return status == 0, "came to its end"


def _apart() -> None:
    die_with_parent()
    os.setsid()


def _in_copy(word: str, own: Path, copy: Path) -> str:
    """A word of the command, for the copy of the folder: what leads out of the folder (``../venv/bin/python``) leads there still."""
    if word.startswith(str(own)):
        return word.replace(str(own), str(copy))
    leads = os.path.abspath(own / word)
    out = os.sep in word and not os.path.isabs(word) and os.path.relpath(leads, own).startswith(os.pardir)
    return leads if out and os.path.lexists(leads) else word


def _copied(source: Path, target: Path, *, without: Path) -> Path | None:
    """A copy of the folder the command runs in, or None where it is too large to be copied for this. Virtual environments are linked.

    ``without``: the trial's own scratch, which lies in it where runs are kept there, and the copy with it.
    """

    def own(folder: str, names: list[str]) -> list[str]:
        own_scratch = without.name in names and os.path.realpath(os.path.join(folder, without.name)) == away
        return [name for name in names if (name == without.name and own_scratch) or _environment(os.path.join(folder, name))]

    away, files, size = os.path.realpath(without), 0, 0
    environments: list[str] = []
    for folder, folders, names in os.walk(source):
        for name in own(folder, folders):
            folders.remove(name)
            if _environment(found := os.path.join(folder, name)):
                environments.append(os.path.relpath(found, source))
        files += len(names)
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
        if files > MOST_FILES or size > LARGEST_FOLDER:
            return None
    with contextlib.suppress(shutil.Error):
        shutil.copytree(source, target, symlinks=True, ignore=own)
    for one in environments:
        (target / one).symlink_to(source / one)
    return target


def _environment(folder: str) -> bool:
    """Whether it is a virtual environment's: nothing of the script's own, and larger than all of it."""
    return os.path.isfile(os.path.join(folder, "pyvenv.cfg"))
