"""Launches a case twice, each time in a copy of its repository, and holds what came of it against the case's key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.rows import ROOT, Row
from benchmarks.third_party.cases import Case

LONGEST_S = 2400
HEADROOM = 0.9
"""What a trial may use of a budget."""


def tried(case: Case, repos: Path, python: str, work: Path) -> Row:
    """Both launches of a case, as its row."""
    row: Row = {"case": case.name, "repo": case.repo, "command": " ".join(case.command), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    source = unpacked(case, repos)
    if source is None:
        return {**row, "status": "not here", "why": f"no {case.repo} with {case.script}"}
    if missing := lacking(case, python):
        return {**row, "status": "not here", "why": f"the scripts' Python has no {', '.join(missing)}"}
    shutil.rmtree(work / case.name, ignore_errors=True)
    place = Place(case, source, work / case.name, python)
    first = place.launch(("--fit-only", f"device.memory={case.enough}"), "asked")
    row |= {"understood": first["understood"], "asked": brief(first), "touched": first["touched"]}
    if case.breaks and first.get("status") == "crashed" and case.breaks in first["said"] and not row["touched"]:
        return {**row, "status": "breaks", "why": case.breaks}
    if first.get("status") != "done":
        return {**row, "status": "fault", "why": first["said"]}
    peak = next(one["peak_bytes"] for one in first["trials"] if one["rung_index"] == first["rung_index"])
    second = place.launch((f"device.memory={int(peak * case.tight / HEADROOM)}",), "tight")
    if second.get("status") == "no_rung_fits":  # most of it is there whatever the batch: a little less than asked, then
        second = place.launch((f"device.memory={int(peak * (1 + case.tight) / 2 / HEADROOM)}",), "tighter")
    row |= {"tight": brief(second), "key": {"batch": case.batch, "steps": case.steps, "refuses": case.refuses}}
    wrong = differs(case, first, second)
    return {**row, "status": "fault" if wrong or row["touched"] else "ok", "why": wrong}


def differs(case: Case, asked: Mapping[str, Any], tight: Mapping[str, Any]) -> str:
    """What the launches did or said otherwise than the key has it; nothing where all is right."""
    seen = asked.get("effective_batch")
    if case.batch and seen != case.batch:
        return f"it asks for {case.batch} samples in an optimizer step, and {seen} were understood"
    if tight.get("status") != "done":
        said = f"{(tight.get('same_training') or {}).get('refused', '')} {tight['said']}"
        return "" if case.refuses and case.refuses in said else str(tight["said"])
    if case.refuses and tight.get("accumulation", 1) > asked.get("accumulation", 1):
        return f"it was launched with more accumulation, and should have been refused: {case.refuses}"
    same, made = tight.get("same_training") or {}, (tight.get("steps") or {}).get("made")
    if case.steps and made is not None and made != case.steps and str(same.get("steps")) == "proven":
        return f"it made {made} optimizer steps of the {case.steps} that are asked, and said nothing of it"
    return ""


def unpacked(case: Case, repos: Path) -> Path | None:
    owner, name = case.repo.split("/")
    places = (repos / name, repos / f"{owner}+{name}", repos / owner / name)
    return next((place for place in places if (place / case.script).is_file()), None)


def lacking(case: Case, python: str) -> list[str]:
    code = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))"
    return subprocess.run([python, "-c", code, *case.needs], capture_output=True, text=True, check=True).stdout.split()


class Place:
    """Where a case runs: a copy of the repository with its data, and a home of its own for caches."""

    def __init__(self, case: Case, source: Path, folder: Path, python: str) -> None:
        self.case, self.folder = case, folder
        repository = folder / "repository"
        shutil.copytree(source, repository, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        self.cwd = repository / case.folder
        self.data = (self.cwd / case.data_at).resolve() if case.data_at else folder / "data"
        self.home = folder / "home"
        self.home.mkdir()
        subprocess.run([python, str(Path(__file__).with_name("data.py")), case.data, str(self.data)], check=True)
        path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
        caches = {"HF_HOME": str(self.home / "hf"), "TORCH_HOME": str(self.home / "torch"), "XDG_CACHE_HOME": str(self.home / "cache")}
        self.env = {**os.environ, **caches, **case.env, "PATH": path, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}

    def launch(self, words: tuple[str, ...], name: str) -> dict[str, Any]:
        """``autofit run`` with these words, and what it answered; what it touched where nothing should be."""
        before = {**listed(self.folder / "repository"), **listed(self.home)}
        command = [word.replace("{data}", str(self.data)) for word in self.case.command]
        overrides = ("device=cpu", "trial.timeout_s=900", "trial.proof_timeout_s=900", f"run.root={self.folder / 'runs' / name}", "--json")
        argv = [sys.executable, "-m", "launcher", "run", *words, *overrides, "--", *command]
        log = self.folder / f"{name}.log"
        with log.open("w") as errors:
            try:
                done = subprocess.run(
                    argv, cwd=self.cwd, env=self.env, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=LONGEST_S, check=False
                )
                lines = done.stdout.splitlines()
            except subprocess.TimeoutExpired:
                lines = []
        said = log.read_text(errors="replace")
        answer = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"status": "no answer"}
        after = {**listed(self.folder / "repository"), **listed(self.home)}
        touched = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        head = said.partition("autofit takes this for")[2].partition("╭")[0].strip().splitlines()[1:]
        why = [trial["why"] for trial in answer.get("trials", ()) if trial["verdict"] != "fits"][-1:] or said.strip().splitlines()[-1:]
        return {**answer, "touched": touched[:10], "understood": [" ".join(line.split()) for line in head], "said": " ".join(why)[:300]}


def listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below: path -> size and time."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            state = path.stat()
            found[str(path.relative_to(folder.parent))] = (state.st_size, state.st_mtime_ns)
    return found


def brief(answer: Mapping[str, Any]) -> Row:
    """What is kept of an answer."""
    keys = (
        "status", "rung", "accumulation", "effective_batch", "effective_batch_asked", "trial_seconds", "memory", "same_training", "steps",
    )  # fmt: skip
    trials = [
        {key: trial[key] for key in ("rung", "verdict", "phase", "peak_bytes", "seconds", "why")} for trial in answer.get("trials", ())
    ]
    return {**{key: answer.get(key) for key in keys}, "trials": trials, "outside": "ACCUMULATE=" in (answer.get("command") or "")}
