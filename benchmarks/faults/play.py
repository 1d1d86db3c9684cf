"""A case -> a row: `autofit train` with the fault done to it on its way, `autofit resume` where a person would, and what became of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.faults import inject, places
from benchmarks.faults.cases import GENERATOR, INTERRUPTIONS, Case
from launcher.history import owner

Row = dict[str, Any]
MARK = "AUTOFIT_FAULTS_CASE"
RUN_S = 1500.0
"""A case that takes longer has hung: that is a finding."""
MOST_LAUNCHES = 4
TORN_BYTES = 40_000
"""A checkpoint file gets no longer than this where it can't be written to its end."""
DISK_BYTES = 2**30
"""Of the small disk: autofit asks for 512 MiB."""
_STATUS = {"sigterm": signal.SIGTERM, "sighup": signal.SIGHUP, "sigint": signal.SIGINT, "kill_autofit": signal.SIGKILL}
IN_TRIALS = 0.25
"""What interrupts autofit itself comes as well while it still tries: where its time is before this part of the run."""


class Play:
    """One case while it is played."""

    def __init__(self, case: Case, place: Path) -> None:
        self.case, self.place = case, place
        self.statuses: list[int | None] = []
        self.said: dict[str, Any] = {}
        self.done_at: list[str] = []
        self.running: subprocess.Popen[str] | None = None
        self.undo: list[Callable[[], None]] = []
        """What ends a fault that lasts, once the launch in which it was done is over."""

    # -- launches

    def launch(self, *words: str) -> None:
        env = {**os.environ, "PYTHONPATH": str(places.ROOT), "YOLO_OFFLINE": "1", MARK: str(self.place)}
        with (self.place / "stderr").open("a") as err, (self.place / "stdout").open("w") as out:
            argv = [*self._within(), sys.executable, "-P", "-m", "launcher", *words, "--json"]
            self.running = subprocess.Popen(argv, cwd=self.place, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True)

    def _within(self) -> list[str]:
        return inject.own_mount("/dev/shm", inject.SHM_BYTES) if self.case.fault == "small_shm" else []

    def wait(self) -> int | None:
        """The exit status; None where it had to be ended."""
        assert self.running is not None
        status: int | None
        try:
            status = self.running.wait(RUN_S)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()
            status = None
        self.statuses.append(status)
        while self.undo:
            with contextlib.suppress(OSError):
                self.undo.pop()()
        with contextlib.suppress(ValueError, IndexError):
            self.said = json.loads((self.place / "stdout").read_text().splitlines()[-1])
        return status

    @property
    def folder(self) -> Path:
        return next(iter((self.place / "runs").glob("*")), self.place / "none")

    # -- the fault

    def until(self, there: Callable[[], object], timeout_s: float = 900.0) -> bool:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and self.running is not None and self.running.poll() is None:
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                if there():
                    return True
            time.sleep(0.01)
        return False

    def trainers(self) -> list[psutil.Process]:
        assert self.running is not None
        return inject.trainers(self.running.pid, self.folder)

    def strike(self, fault: str, at: float) -> bool:
        """Does the fault once the training has come so far; False where it was over before."""
        if fault in _STATUS and at < IN_TRIALS:
            return self._interrupt_a_trial(fault)
        if not self.until(lambda: self.trainers() and places.progress(self.case.trainer, self.folder) >= at):
            return False
        time.sleep(self.case.delay_s)
        try:
            return self._done(fault)
        except (psutil.Error, OSError, IndexError, ValueError):
            return False  # it ended in this very moment

    def _interrupt_a_trial(self, fault: str) -> bool:
        assert self.running is not None
        if not self.until(lambda: any((self.folder / "trials").glob("*/report.json"))):
            return False
        time.sleep(2 * self.case.delay_s)
        self.done_at.append(f"{fault} in a trial")
        self.running.send_signal(_STATUS[fault])
        return True

    def _done(self, fault: str) -> bool:
        assert self.running is not None
        trainer = self.trainers()[0]
        self.done_at.append(f"{fault} at {places.progress(self.case.trainer, self.folder):.2f}")
        match fault:
            case "memory" | "memory_validating" | "memory_saving":
                return self._take_memory(fault, trainer)
            case "kill_trainer" | "corrupt_checkpoint":
                if fault == "corrupt_checkpoint":
                    trainer.suspend()  # so that nothing newer is written over what is torn here
                    newest = places.newest(self.case.trainer, self.folder, self.case.corruption)
                    if newest is not None:
                        inject.corrupt(newest, self.case.corruption)
                trainer.kill()
            case "kill_worker":
                return self.until(lambda: inject.loader_workers(trainer)) and inject.killed(inject.loader_workers(trainer))
            case "unwritable":
                inject.no_larger_files(trainer, TORN_BYTES)
            case "hang":
                inject.stop(trainer)
            case "few_files":
                inject.few_files(trainer)
            case "small_shm":
                inject.fill(Path(f"/proc/{trainer.pid}/root/dev/shm"))
            case "small_disk":
                self.undo.append(inject.fill(self.place / "runs").unlink)
            case "group_memory":
                self.undo.append(inject.into_a_small_group(self.trainers(), f"autofit-faults-{os.getpid()}-{self.case.seed}").rmdir)
            case "kill_saving":
                if there := self.until(lambda: places.saving(self.case.trainer, self.folder), 300):
                    trainer.kill()
                return there
            case "kill_loading":
                trainer.kill()
                again = self.until(lambda: self.trainers() and self.trainers()[0].pid != trainer.pid)
                time.sleep(4 * self.case.delay_s)
                return again and inject.killed(self.trainers()[:1])
            case "sigterm" | "sighup" | "sigint" | "kill_autofit":
                self.running.send_signal(_STATUS[fault])
            case "two":
                came_to = places.progress(self.case.trainer, self.folder)
                trainer.kill()
                again = self.until(lambda: self.trainers() and self.trainers()[0].pid != trainer.pid)
                return again and self.strike("memory", came_to + 0.01)  # in its training: what starts has nothing yet that could be taken
        return True

    def _take_memory(self, fault: str, trainer: psutil.Process) -> bool:
        if fault == "memory_saving":
            self.until(lambda: places.saving(self.case.trainer, self.folder), 60)
            inject.take_memory(trainer, watch_s=0.02, part=0.0)
            return True
        if fault == "memory_validating":
            pattern = re.compile(places.VALIDATING[self.case.trainer])
            self.until(lambda: pattern.search(_end_of(self.folder)), 60)
            inject.take_memory(trainer, watch_s=0.05, part=0.0)
            return True
        inject.take_memory(trainer, watch_s=0.5)
        return True


def _end_of(folder: Path) -> str:
    logs = sorted([*folder.glob("run.stdout*.log"), *folder.glob("run.stderr*.log")], key=lambda path: path.stat().st_mtime)
    return "".join(path.read_text(encoding="utf-8", errors="replace")[-160:] for path in logs[-2:])


def play(case: Case, table: Path, *, losses: dict[str, float], keep: bool = False) -> Row:
    """Plays one case. ``losses``: trainer -> the loss of an undisturbed run, where one is known."""
    began = time.monotonic()
    place = table / f"case-{case.seed:04d}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    places.make(case.trainer, place)
    small = case.fault == "small_disk"
    if small:
        (place / "runs").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place / "runs")], check=True)
    text = yaml.safe_dump(places.recipe(case.trainer, case.fault, case.overrides), sort_keys=False)
    (place / "recipes" / "night.yaml").write_text(f"# @package _global_\n{text}", encoding="utf-8")
    before = _files(place)
    played = Play(case, place)
    struck = _launches(played)
    row: Row = {
        "seed": case.seed, "generator": GENERATOR, "trainer": case.trainer, "fault": case.fault, "at": case.at, "struck": struck,
        **({"corruption": case.corruption} if case.fault == "corrupt_checkpoint" else {}),
        "done_at": played.done_at, "statuses": played.statuses, **_judged(played, before, losses),
        "seconds": round(time.monotonic() - began, 1), "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(), "machine": machine(), "commit": commit(),
    }  # fmt: skip
    if small:
        subprocess.run(["umount", "--lazy", str(place / "runs")], check=True)
    if row["verdict"] in ("finished", "reported") and not row["broken"] and not keep:
        shutil.rmtree(place, ignore_errors=True)
    return row


def _launches(played: Play) -> bool:
    """From `autofit train` to the end, with `autofit resume` in between as a person, or a scheduler, would say it."""
    case = played.case
    played.launch("train", "recipe=night")
    struck = case.fault in ("none", "nan") or played.strike(case.fault, case.at)
    status = played.wait()
    while struck and case.fault in INTERRUPTIONS and status not in (0, None) and len(played.statuses) < MOST_LAUNCHES:
        played.launch("resume", str(played.folder))
        status = played.wait()
    return struck


def _judged(played: Play, before: dict[str, str], losses: dict[str, float]) -> Row:
    """What became of it, and everything that is wrong with that."""
    case, folder, said = played.case, played.folder, played.said
    attempts = said.get("attempts", [])
    verdict = "lost"
    if played.statuses[-1] == 0 and said.get("status") == "done":
        verdict = "finished"
    elif attempts and attempts[-1].get("next", {}).get("move") == "stop" and attempts[-1]["next"]["why"]:
        verdict = "reported"
    elif played.statuses[-1] is None:
        verdict = "hung"
    broken = _left(played, before)
    wanted = places.EFFECTIVE[case.trainer]
    if any(one["effective_batch"] != wanted for one in attempts):
        broken.append("effective batch")
    rungs = [one["rung_index"] for one in attempts]
    if rungs != sorted(rungs):
        broken.append("a rung was raised")
    row: Row = {
        "verdict": verdict, "attempts": [f"{one['ended']} in {one['phase']} at rung {one['rung_index']}" for one in attempts],
        "words": _words(played) if verdict != "finished" else [],
    }  # fmt: skip
    if verdict == "finished":
        row |= _came_to(case, folder, attempts, losses, broken)
    return {**row, "broken": broken}


def _came_to(case: Case, folder: Path, attempts: list[Row], losses: dict[str, float], broken: list[str]) -> Row:
    """What a finished run has really done; what is wrong with it is added to ``broken``."""
    came = places.came_to(case.trainer, folder, attempts)
    if not came["whole"]:
        broken.append("not the amount of training that was asked")
    if came["batches"] != [places.EFFECTIVE[case.trainer]]:
        broken.append(f"effective batches {came['batches']}")
    allowed = max(1, len(attempts) - 1) + (case.fault == "corrupt_checkpoint")  # one for each failure
    if came["repeated"] > allowed:
        broken.append(f"{came['repeated']:g} checkpoint intervals lost")
    usual = losses.get(case.trainer)
    off = abs(came["loss"] - usual) / abs(usual) if came["loss"] is not None and usual else None
    if off is not None and off > places.LOSS_OFF[case.trainer]:
        broken.append(f"loss {came['loss']:.4f} instead of {usual:.4f}")
    return {"repeated": came["repeated"], "loss": came["loss"], "loss_off": off}


def _left(played: Play, before: dict[str, str]) -> list[str]:
    """Processes, locks and changed files."""
    broken = []
    end = time.monotonic() + 30  # what a killed launcher leaves is ended within its grace
    while (orphans := _orphans(played.place)) and time.monotonic() < end:
        time.sleep(0.2)
    if orphans:
        broken.append(f"processes left: {orphans}")
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    if owner.who(played.folder).state is owner.State.RUNNING:
        broken.append("the folder is still held")
    after = _files(played.place)
    if changed := sorted(name for name, said in before.items() if after.get(name) != said):
        broken.append(f"files changed: {changed[:5]}")
    return broken


def _orphans(place: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == str(place):
                found.append(process.pid)
    return found


def _files(place: Path) -> dict[str, str]:
    """Every file of the person's: name -> hash. Not the run's own, and not the label caches that a plain Ultralytics writes, too."""
    own = ("runs", "stderr", "stdout")
    paths = [
        path for path in place.rglob("*") if path.is_file() and path.relative_to(place).parts[0] not in own and path.suffix != ".cache"
    ]
    return {str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def _words(played: Play) -> list[str]:
    return [line[:300] for line in (played.place / "stderr").read_text(encoding="utf-8", errors="replace").splitlines()[-20:]]
