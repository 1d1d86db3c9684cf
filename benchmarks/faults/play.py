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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from autofit_launcher.common.memory_failures import OF_MACHINE
from autofit_launcher.history import owner
from benchmarks.common.provenance import commit, machine, versions
from benchmarks.faults import inject, places
from benchmarks.faults.cases import GENERATOR, INTERRUPTIONS, Case

Row = dict[str, Any]
MARK = "AUTOFIT_FAULTS_CASE"
RUN_S = 1500.0
"""A case that takes longer has hung: that is a finding."""
MOST_LAUNCHES = 4
TORN_BYTES = 40_000
"""A checkpoint file gets no longer than this where it can't be written to its end."""
DISK_BYTES = 2**30
"""Of the small disk: autofit asks for 512 MiB."""
MOST_LEFT = {"small_disk": 2 * 2**20, "small_shm": 2**19, "few_files": 8}
"""What such a fault leaves at most: bytes, files."""
FEW_AT_LAUNCH = 10, 48
"""``ulimit -n`` where there are few files from the beginning."""
BRIEF_S = 4.0
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
        self.first_words: list[str] = []
        """What the first launch that didn't come to its end said last."""
        self.running: subprocess.Popen[str] | None = None
        self.undo: list[Callable[[], None]] = []
        """What ends a fault that lasts, once the launch in which it was done is over."""

    # -- launches

    def launch(self, *words: str) -> None:
        env = {**os.environ, "PYTHONPATH": str(places.ROOT), "YOLO_OFFLINE": "1", MARK: str(self.place)}
        with (self.place / "stderr").open("a") as err, (self.place / "stdout").open("w") as out:
            argv = [*self._within(), sys.executable, "-P", "-m", "autofit_launcher", *words, "--json"]
            self.running = subprocess.Popen(argv, cwd=self.place, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True)

    def _within(self) -> list[str]:
        """What a launch is begun under; a person who is told of a limit has raised it before the next."""
        case, at_launch = self.case, self.case.moment == "launch" and not self.statuses
        if case.fault == "small_shm":
            filled = inject.SHM_BYTES - self._amount("small_shm") if at_launch else 0
            return inject.own_mount("/dev/shm", inject.SHM_BYTES, filled_bytes=filled)
        if case.fault == "few_files" and at_launch:
            least, most = FEW_AT_LAUNCH
            return ["sh", "-c", f'ulimit -n {int(least + case.amount * (most - least))} && exec "$@"', "sh"]
        return []

    def _amount(self, fault: str) -> int:
        return int(self.case.amount * MOST_LEFT[fault])

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
        return max((path for path in (self.place / "runs").glob("*") if path.is_dir()), key=_made, default=self.place / "none")

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
        if self.case.moment in ("launch", "trial"):
            return self.case.moment == "launch" or self._in_a_trial(fault)
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

    def _in_a_trial(self, fault: str) -> bool:
        """A moment after a trial has begun, or been made to go on."""
        assert self.running is not None
        pid = self.running.pid
        self.until(lambda: inject.trial(pid))
        time.sleep(10 * self.case.delay_s)
        if not self.until(lambda: inject.trial(pid)):
            return False
        self.done_at.append(f"{fault} in a trial")
        with contextlib.suppress(psutil.Error, OSError, IndexError):
            self._take(fault, inject.trial(pid))
            return True
        return False

    def _moment(self) -> bool:
        """Waits for it. What comes while the next attempt loads is done to that one, after this one was killed."""
        trainer, name = self.trainers()[0], self.case.trainer
        match self.case.moment:
            case "saving":
                return self.until(lambda: places.saving(name, self.folder), 300)
            case "validating":
                return self.until(lambda: re.search(places.VALIDATING[name], _end_of(self.folder)), 60)
            case "loading":
                trainer.kill()
                again = self.until(lambda: self.trainers() and self.trainers()[0].pid != trainer.pid)
                time.sleep(5 * self.case.delay_s)
                return again and bool(self.trainers())
        return True

    def _take(self, fault: str, processes: list[psutil.Process]) -> None:
        """Takes from them what a machine has beside its device."""
        match fault:
            case "few_files":
                inject.few_files(processes[-1] if self.case.trainer == "ranks" else processes[0], self._amount(fault))
            case "small_shm":
                inject.fill(Path(f"/proc/{processes[0].pid}/root/dev/shm"), left=self._amount(fault))
            case "small_disk":
                filled = inject.fill(self.place / "runs", left=self._amount(fault))
                self.undo.append(filled.unlink)
                if self.case.brief:
                    threading.Timer(BRIEF_S, filled.unlink, kwargs={"missing_ok": True}).start()
            case "group_memory":
                least, most = inject.GROUP_BYTES
                name = f"autofit-faults-{os.getpid()}-{self.case.seed}"
                self.undo.append(inject.into_a_small_group(processes, name, int(least + self.case.amount * (most - least))).rmdir)

    def _kill(self) -> bool:
        """All of them and autofit at once, as where a machine is reset; or one."""
        assert self.running is not None
        found = self.trainers()
        if self.case.whom == "all":
            self.running.kill()
        for one in found if self.case.whom == "all" else found[-1:] if self.case.whom == "last" else found[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        return bool(found)

    def _done(self, fault: str) -> bool:
        assert self.running is not None
        if self.case.moment and not self._moment():
            return False
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
            case "few_files" | "small_shm" | "small_disk" | "group_memory":
                self._take(fault, self.trainers())
            case "kill_saving" | "kill_loading":
                return self._kill()
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


def _made(folder: Path) -> float:
    recipe = folder / "recipe.yaml"
    return recipe.stat().st_mtime if recipe.exists() else time.time()


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
        **({"moment": case.moment, "amount": case.amount, "whom": case.whom, "brief": case.brief} if case.moment else {}),
        **({"corruption": case.corruption} if case.fault == "corrupt_checkpoint" else {}),
        "done_at": played.done_at, "statuses": played.statuses, "first_words": played.first_words, **_judged(played, before, losses),
        "seconds": round(time.monotonic() - began, 1), "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(), "machine": machine(), "commit": commit(),
    }  # fmt: skip
    if small and keep:
        shutil.copytree(place / "runs", place / "runs-kept", symlinks=True)
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
    again = case.fault in INTERRUPTIONS or case.moment == "trial" or case.whom == "all"
    while struck and again and status not in (0, None) and len(played.statuses) < MOST_LAUNCHES:
        played.first_words = played.first_words or _words(played)[-6:]
        anew = case.moment in ("launch", "trial") and not played.said.get("attempts")
        played.launch(*(("train", "recipe=night") if anew else ("resume", str(played.folder))))
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
    elif not attempts and any(one.get("source") in OF_MACHINE for one in said.get("trials", [])):
        verdict = "reported"  # its trials say what the machine is short of
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
