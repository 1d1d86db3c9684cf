"""Launches a case twice, each time in a copy of its repository, and holds what came of it against the case's key and the plain command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autofit_launcher.machine.devices import DEFAULT, budget_for
from benchmarks.common.rows import ROOT, Row
from benchmarks.third_party.cases import Case

HERE = Path(__file__).parent
LONGEST_S = 2400
ROUNDED = 1e-5
"""Distance of weights up to which they are the same: what is the same lies at 1e-8, and training moves them by 2e-3 and more."""
WHEELS = re.compile(r"^  (?:micro_batch|accumulation|val_micro_batch|checkpointing|image_size|sequence_length|segment)\b.*", re.MULTILINE)
"""A line in which it is said what a setting is taken for."""


def tried(case: Case, repos: Path, python: str, work: Path) -> Row:
    """Both launches of a case, as its row."""
    typed = " ".join([*case.own, *(["--"] if case.own else []), *case.command])
    row: Row = {"case": case.name, "repo": case.repo, "command": typed, "date": time.strftime("%Y-%m-%d", time.gmtime())}
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
    second = place.launch((_below(peak, case.tight),), "tight")
    if second.get("status") == "no_rung_fits":  # most of it is there whatever the batch: a little less than asked, then
        second = place.launch((_below(peak, (1 + case.tight) / 2),), "tighter")
    row |= {"tight": brief(second), "key": {"batch": case.batch, "steps": case.steps, "refuses": case.refuses}}
    if case.leaves and second.get("status") == "done":
        row["weights"] = place.held_against(work / f"{case.name}-plain", source)
    wrong = differs(case, first, second) or silent(row)
    return {**row, "status": "fault" if wrong or row["touched"] else "ok", "why": wrong}


def _below(peak: int, part: float) -> str:
    """The budget whose cap is that part of a peak."""
    return f"device.memory={budget_for(int(peak * part), DEFAULT['cpu'])}"


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


def silent(row: Row) -> str:
    """That the weights at the end are others than the plain command's, and nothing was said of it."""
    weights, same = row.get("weights"), (row["tight"] or {}).get("same_training") or {}
    if weights is None or weights.get("apart", 1.0) <= ROUNDED:
        return ""
    if "apart" not in weights:
        return f"its weights could not be compared: {weights['why']}"
    told = any(str(same.get(part)) != "proven" for part in ("gradient", "steps", "schedule", "samples"))
    return "" if told else f"its weights lie {weights['apart']:.0e} from the plain command's, and nothing was said of it"


def unpacked(case: Case, repos: Path) -> Path | None:
    return next((place for place in _places(case.repo, repos) if (place / case.script).is_file()), None)


def place_of(repo: str, repos: Path) -> Path | None:
    """Where a repository lies, of the ways in which it may."""
    return next((place for place in _places(repo, repos) if place.is_dir()), None)


def _places(repo: str, repos: Path) -> tuple[Path, ...]:
    owner, name = repo.split("/")
    return (repos / f"{owner}+{name}", repos / owner / name, repos / name)


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
        self.python = python
        subprocess.run([python, str(HERE / "data.py"), case.data, str(self.data)], check=True)
        path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
        caches = {"HF_HOME": str(self.home / "hf"), "TORCH_HOME": str(self.home / "torch"), "XDG_CACHE_HOME": str(self.home / "cache")}
        own = {name: value.replace("{data}", str(self.data)) for name, value in case.env.items()}
        self.env = {**os.environ, **caches, **own, "PATH": path, "HF_HUB_OFFLINE": "1"}
        places = [*([str(self._aside())] if case.aside else []), str(ROOT), *filter(None, [own.get("PYTHONPATH")])]
        self.env["PYTHONPATH"] = os.pathsep.join(places)

    def _aside(self) -> Path:
        place = self.folder / "aside"
        place.mkdir()
        shutil.copy(HERE / "aside.py", place / "sitecustomize.py")
        return place

    def words(self) -> list[str]:
        """The person's own."""
        return [word.replace("{data}", str(self.data)) for word in self.case.command]

    def _nobodys(self, said: str) -> str:
        """Without where it was played, which is nobody's business."""
        return said.replace(str(self.data), "{data}").replace(str(self.folder), "{work}")

    def held_against(self, folder: Path, source: Path) -> Row:
        """How far the weights that were left lie from those that the plain command leaves in a folder; or why that isn't known.

        What the plain command left there before is taken as it is, if case and data are those of then.
        """
        asked = repr(self.case) + (HERE / "data.py").read_text(encoding="utf-8")
        kept = folder / f"weights-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
        if not kept.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            if why := Place(self.case, source, folder, self.python).ends_plainly(kept):
                return {"why": why}
        plain, own = next(kept.iterdir()), newest(self.cwd, self.case.leaves)
        if own is None:
            return {"why": f"no {self.case.leaves} was left"}
        argv = [self.python, str(HERE / "weights.py"), str(plain), str(own)]
        return dict(json.loads(subprocess.run(argv, cwd=self.cwd, capture_output=True, text=True, check=True).stdout.splitlines()[-1]))

    def ends_plainly(self, kept: Path) -> str:
        """Runs the plain command and keeps the weights that it leaves; or says why there are none."""
        log = self.folder / "plain.log"
        with log.open("w") as said:
            argv = [shutil.which(self.words()[0], path=self.env["PATH"]) or self.words()[0], *self.words()[1:]]
            ended = subprocess.run(argv, cwd=self.cwd, env=self.env, stdout=said, stderr=said, timeout=LONGEST_S, check=False).returncode
        left = newest(self.cwd, self.case.leaves)
        if ended or left is None:
            return f"the plain command ended with {ended}" if ended else f"no {self.case.leaves} was left"
        kept.mkdir()
        shutil.copy(left, kept)
        return ""

    def launch(self, words: tuple[str, ...], name: str) -> dict[str, Any]:
        """``autofit run`` with these words, and what it answered; what it touched where nothing should be."""
        before = {**listed(self.folder / "repository"), **listed(self.home)}
        overrides = ("device=cpu", "trial.timeout_s=900", "trial.proof_timeout_s=900", f"run.root={self.folder / 'runs' / name}", "--json")
        argv = [sys.executable, "-m", "autofit_launcher", "run", *self.case.own, *words, *overrides, "--", *self.words()]
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
        answer: dict[str, Any] = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {"status": "no answer"}
        after = {**listed(self.folder / "repository"), **listed(self.home)}
        touched = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        head = list(dict.fromkeys(WHEELS.findall(said)))
        why = [trial["why"] for trial in answer.get("trials", ()) if trial["verdict"] != "fits"][-1:] or said.strip().splitlines()[-1:]
        why += [line for line in said.splitlines() if line.startswith("No rung fits")]
        return {
            **answer,
            "touched": touched[:10],
            "understood": [self._nobodys(" ".join(line.split())) for line in head],
            "said": self._nobodys("; ".join(why))[:400],
        }


def newest(folder: Path, pattern: str) -> Path | None:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns, default=None)


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
