"""A case -> a row: `autofit train` with its limit lowered midway, with parts and with a restart, each held against an undisturbed run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.late_memory import places
from benchmarks.late_memory.cases import EVERY, GENERATOR, STEPS, Case, kind_of

Row = dict[str, Any]
RUN_S = 600.0
"""A launch that takes longer has hung: that is a finding."""
ARMS = {"parts": "whole", "restart": "restart"}
"""What is done where memory runs out -> its recipe."""


class Training:
    """One training in its folder, with the undisturbed runs that its cases are held against."""

    def __init__(self, name: str, place: Path) -> None:
        self.name, self.place = name, place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        places.make(name, place)
        self.undisturbed = self._launch("parts", None)
        if self.undisturbed["ended"] != ["done"]:
            raise RuntimeError(f"{name}: the undisturbed run ended {self.undisturbed['ended']}; see {place}")
        self._weights = places.weights(name, self.run)
        shutil.copytree(place / "state", place / "state.kept")  # with its fit: no case makes trials before its run
        self.undisturbed = self._launch("parts", None)

    @property
    def run(self) -> Path:
        return next((self.place / "runs").glob("*")) / "run"

    def arm(self, arm: str, case: Case) -> Row:
        """What became of a case, by parts or by a restart."""
        said = self._launch(arm, case)
        return {key: value for key, value in said.items() if key not in ("logs", "done_at")} | self._held_against(said)

    def _launch(self, arm: str, case: Case | None) -> Row:
        self._clear()
        moment = {"moment": case.moment, "step": case.step, "left": case.left} if case else {"moment": "", "step": 0, "left": 0.0}
        (self.place / "strike.json").write_text(json.dumps(moment), encoding="utf-8")
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(places.PATH), "YOLO_OFFLINE": "1", "LATE_MEMORY": str(self.place)}
        env |= {"XDG_STATE_HOME": str(self.place / "state"), "OMP_NUM_THREADS": "1"}  # on a shared machine, threads wait for each other
        argv = [sys.executable, "-P", "-m", "launcher", "train", f"recipe={ARMS[arm]}", "--json"]
        began, status = time.time(), None
        with (
            (self.place / "stderr").open("w") as err,
            (self.place / "stdout").open("w") as out,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            status = subprocess.run(
                argv, cwd=self.place, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=RUN_S, check=False
            ).returncode  # fmt: skip
        return {"status": status, "seconds": round(time.time() - began, 1), **self._seen()}

    def _clear(self) -> None:
        """As before the first case: its fit is kept, nothing has run."""
        for name in ("runs", "state"):
            shutil.rmtree(self.place / name, ignore_errors=True)
        for path in [*self.place.glob("log-*.jsonl"), *self.place.glob("struck")]:
            path.unlink()
        if (self.place / "state.kept").exists():
            shutil.copytree(self.place / "state.kept", self.place / "state")

    def _seen(self) -> Row:
        """What a launch has said, and what its processes have told of their steps."""
        attempts: list[Row] = []
        with contextlib.suppress(OSError, ValueError, StopIteration):
            record = next((self.place / "runs").glob("*")) / "record.json"
            attempts = json.loads(record.read_text(encoding="utf-8"))["attempts"]
        logs = [[json.loads(line) for line in path.read_text().splitlines()] for path in self.place.glob("log-*.jsonl")]
        logs = sorted((log for log in logs if log), key=lambda log: float(log[0]["at"]))
        struck = [line for log in logs for line in log if line["what"] == "struck"]
        return {
            "ended": [one["ended"] for one in attempts], "rungs": [one["rung_index"] for one in attempts],
            "taken_again": [said for one in attempts for said in one["taken_again"]],
            "evidence": [one["evidence"][:200] for one in attempts],
            "struck": {key: value for key, value in struck[0].items() if key != "what"} if struck else None,
            "made_steps": sum(line["what"] == "step" for log in logs for line in log), "logs": logs,
        }  # fmt: skip

    def _held_against(self, said: Row) -> Row:
        """How far it is from the undisturbed run: steps made twice, weights, seconds, speed."""
        row: Row = {"repeated_steps": said["made_steps"] - STEPS[kind_of(self.name)]}
        if said["ended"][-1:] == ["done"]:
            with contextlib.suppress(OSError, StopIteration):
                found = places.weights(self.name, self.run)
                row["weights_off"] = max(float((found[name] - value).abs().max()) for name, value in self._weights.items())
        if said["struck"] is None:
            return row
        usual = _between(self.undisturbed["logs"][0])
        at = said["struck"]["steps"]
        first = _between(said["logs"][0])
        if len(said["logs"]) == 1 and len(first) == len(usual) and at < len(usual):
            row["lost_s"] = round(first[at] - usual[at], 2)
            plain = [number for number in range(1, len(usual)) if number % EVERY[kind_of(self.name)]]
            before, after = ([first[number] / usual[number] for number in plain if there(number)] for there in (at.__gt__, at.__lt__))
            row["step_ratio"] = [round(statistics.median(part), 3) if part else None for part in (before, after)]
        else:
            row["lost_s"] = round(_course(said["logs"]) - _course(self.undisturbed["logs"]), 2)
        return row


def _between(log: Sequence[Row]) -> list[float]:
    """Seconds before each optimizer step, since the one before; of the first since nothing."""
    at = [float(line["at"]) for line in log if line["what"] == "step"]
    return [0.0, *(later - sooner for sooner, later in pairwise(at))]


def _course(logs: Sequence[Sequence[Row]]) -> float:
    """Seconds from the first step of the first process to the last step of the last."""
    return float(logs[-1][-1]["at"]) - float(logs[0][0]["at"])


def play(case: Case, training: Training) -> Row:
    """One case by parts, and with a restart where something was lost, or where the case is one of those that show what a restart costs."""
    row: Row = {**asdict(case), "generator": GENERATOR, "parts": training.arm("parts", case), "restart": None}
    row["verdict"] = verdict(row)
    if case.compared or row["verdict"] in ("restarted", "lost"):
        row["restart"] = training.arm("restart", case)
    row["undisturbed_s"] = training.undisturbed["seconds"]
    return {
        **row,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
    }


def verdict(row: Row) -> str:
    """What a case shows of parts: ``over`` (nothing was lowered), ``room`` (it went on as it was), ``parts``, ``restarted`` or ``lost``."""
    parts = row["parts"]
    if parts["struck"] is None:
        return "over"
    if parts["ended"][-1:] != ["done"] or parts["status"] != 0:
        return "lost"
    if len(parts["ended"]) > 1:
        return "restarted"
    return "parts" if parts["taken_again"] else "room"
