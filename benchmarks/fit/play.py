"""One case, or one ask's rungs, in -> rows of what autofit really did there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from autofit_launcher.machine import devices
from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT, Row, append, read
from benchmarks.fit.cases import ASKS, DEEP, REFERENCE, SEARCHES, Case

DATA = ROOT / "benchmarks" / "results" / "fit.jsonl"
HEADROOM = 0.1
AMPLE = "16GiB"
LONGEST_S = 3600.0


class Place:
    """Where one ask is played: its runs, autofit's history beside them; none of the person's are touched."""

    def __init__(self, path: Path, words: Sequence[str]) -> None:
        self.path, self._words = path, words
        path.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(cls, ask: str, folder: Path) -> Place:
        return cls(folder / ask, {**ASKS, **DEEP}[ask])

    def forget(self) -> None:
        """Kept fits, and what trials have measured."""
        shutil.rmtree(self.path / "state" / "autofit", ignore_errors=True)

    def answer(self, verb: str, *words: str) -> Row:
        """What autofit answers, in how many seconds (``took_s``), and each trial's ``report``."""
        env = {f"XDG_{name}_HOME": str(self.path / name.lower()) for name in ("STATE", "CACHE")}
        argv = [str(Path(sys.executable).parent / "autofit"), verb, "--json", *self._words, "device=cpu", *words]
        began = time.monotonic()
        ended = subprocess.run(
            argv,
            cwd=self.path,
            env={**os.environ, **env, "OMP_WAIT_POLICY": "passive"},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        seconds = time.monotonic() - began
        try:
            said: Row = json.loads(ended.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            said = {"status": f"no answer, exit status {ended.returncode}: {ended.stderr.strip()[-300:]}"}
        for one in [said, *said.get("trials", ())]:
            one["report"] = _report(one.get("folder", ""))
        shutil.rmtree(self.path / "runs", ignore_errors=True)
        return {**said, "took_s": round(seconds, 2)}


def _report(folder: str) -> Row:
    """Empty where there is none."""
    try:
        report: Row = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return report


def play(case: Case, data: Path, folder: Path, *, searches: Iterable[str] = SEARCHES) -> None:
    """Whatever is missing of a case, each answer written down as it comes."""
    place = Place.of(case.ask, folder)
    asked = measured(case.ask, place, data)
    played = {(row["ask"], row["part"], row["search"]) for row in read(data) if row["what"] == "searched"}
    budget = budget_of(case, asked)
    for search in searches if asked["peak_bytes"] else ():
        if (case.ask, case.part, search) not in played:
            row = {"what": "searched", "ask": case.ask, "part": case.part, "search": search, "budget_bytes": budget, "commit": commit()}
            append(data, {**row, **_searched(place, search, budget)})


def budget_of(case: Case, asked: Row) -> int:
    return devices.budget_for(int(asked["peak_bytes"] * case.part), HEADROOM)


def measured(ask: str, place: Place, data: Path) -> Row:
    """What rung 0 needs where it may have all it wants; its row is written where there is none."""
    row = next((row for row in read(data) if row["what"] == "measured" and row["ask"] == ask), None)
    if row is None:
        said = place.answer("trial", "rung=0", f"device.memory={AMPLE}")
        row = {"what": "measured", "ask": ask, "peak_bytes": said.get("peak_bytes", 0), "seconds": said["took_s"]}
        append(data, row := {**row, "verdict": said.get("verdict", said["status"]), **made_with()})
    return row


def _searched(place: Place, search: str, budget: int) -> Row:
    if search == "predicted":
        place.forget()
    said = place.answer("fit", f"device.memory={budget / 2**20:.3f}MiB", f"device.headroom={HEADROOM}", *{**SEARCHES, **REFERENCE}[search])
    names = ("rung_index", "verdict", "phase", "peak_bytes", "seconds")
    trials = [{name: one[name] for name in names} for one in said.get("trials", ()) if "kept" not in one]
    return {"status": said["status"], "rung_index": said.get("chosen_rung_index"), "trials": trials, "seconds": said["took_s"]}


def made_with() -> Row:
    return {"commit": commit(), "versions": versions("accelerate"), "machine": machine()}
