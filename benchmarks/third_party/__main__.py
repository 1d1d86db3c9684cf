"""Unpacked repositories of other people's -> a row for each of how autofit got on with it, and the table of them in docs/scripts.md.

    python -m benchmarks.third_party REPOS                    every case that has no row yet
    python -m benchmarks.third_party REPOS --only mnist       one of them, whether it has a row or not
    python -m benchmarks.third_party --table                  only the table

REPOS holds the repositories, unpacked, as ``name``, ``owner+name`` or ``owner/name``. ``--python`` is the interpreter that has what they
need (default: this one). Nothing of theirs is changed: each case works on copies, in WORK (default: a temporary folder).
A case is two launches: with enough memory and ``--fit-only``, after which folder and caches must be as they were; then with less than
the first one needed, up to the end of the full run. A repository or package that isn't there is a row that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.rows import ROOT
from benchmarks.third_party.cases import CASES, Case

DATA = ROOT / "benchmarks" / "results" / "third_party.jsonl"
TABLE = ROOT / "docs" / "scripts.md"
BEGIN, END = "<!-- made by `make third-party` -->", "<!-- end -->"
LONGEST_S = 2400
HEADROOM = 0.9
"""What a trial may use of a budget."""
Row = dict[str, Any]


# ----------------------------------------------------------------------------------------------------------------------
# One case


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
        overrides = ("device=cpu", "trial.timeout_s=900", f"run.root={self.folder / 'runs' / name}", "--json")
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


# ----------------------------------------------------------------------------------------------------------------------
# Rows and their table


def rows(path: Path = DATA) -> dict[str, Row]:
    """The newest row of each case."""
    if not path.exists():
        return {}
    return {row["case"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def keep(row: Row, path: Path = DATA) -> None:
    """Puts a row in its case's place."""
    every = {**rows(path), row["case"]: row}
    order = [case.name for case in CASES if case.name in every]
    beside = path.with_suffix(".new")
    beside.write_text("".join(json.dumps(every[name], ensure_ascii=False) + "\n" for name in order), encoding="utf-8")
    beside.replace(path)


def table(every: Iterable[Row]) -> str:
    """The rows for people."""
    lines = [
        "| repository | command | batch, accumulation | with less memory than it asks | effective batch | the same training "
        "| optimizer steps | full run | folder, caches |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in every:
        cells = [row["repo"], f"`{_script(row['command'])} …`"]
        if row["status"] == "not here":
            lines.append(f"| {' | '.join([*cells, 'not here: ' + row['why'], *[''] * 6])} |")
            continue
        lines.append(f"| {' | '.join([*cells, *_told(row)])} |")
    return "\n".join(lines)


def _script(command: str) -> str:
    """The command up to its script."""
    words = command.split()
    end = next((at for at, word in enumerate(words) if word.endswith(".py")), len(words) - 1)
    return " ".join(words[: end + 1])


def _told(row: Row) -> list[str]:
    words = [line.split() for line in row["understood"]]
    spelled = {wheel: (value, name) for wheel, value, name, *_ in (line for line in words if len(line) > 2)}
    known = ", ".join(
        f"{name} {value}" for wheel in ("micro_batch", "accumulation") if wheel in spelled for value, name in [spelled[wheel]]
    )
    tight = row.get("tight")
    folder = "untouched" if not row["touched"] else f"touched: {', '.join(row['touched'][:3])}"
    if row["status"] == "breaks":
        return [known, f"breaks without autofit, too, and that is said: {row['why']}", *[""] * 4, folder]
    if tight is None:
        return [known, f"the asked one: {row['asked']['status']}; {row['why']}", *[""] * 4, folder]
    if tight["rung"] is None:
        why = row["why"] or f"refused: {row['key']['refuses']}"
        return [known, f"{tight['status']}: {why}".replace("|", "/").replace("\n", " "), *[""] * 4, folder]
    first = next((one["verdict"] for one in tight["trials"] if one["verdict"] != "fits"), "fits")
    turned = f"{tight['rung']['micro_batch']} x {tight['accumulation']}{' from outside' if tight['outside'] else ''}"
    memory = tight.get("memory") or {}
    ratio = f", {memory['run_peak_bytes'] / memory['trial_peak_bytes']:.0%} of its trial" if memory.get("run_peak_bytes") else ""
    batch = str(tight["effective_batch"])
    return [known, f"{first}, then {turned}", batch, _proof(tight), _steps(row), f"{tight['status']}{ratio}", folder]


PARTS = ("gradient", "steps", "schedule", "samples")


def _proof(tight: Row) -> str:
    """The certificate of the rung that ran; nothing for a row of a time when there was none."""
    same = tight.get("same_training")
    if not same:
        return ""
    open_parts = list(dict.fromkeys(same[part] for part in PARTS if same[part] != "proven"))
    cured = " (put right)" if same["cure"] else ""
    apart = f", updates {same['apart']:.0e} apart" if same["apart"] is not None else ""
    return f"proven{apart}{cured}" if not open_parts else "; ".join(open_parts).replace("|", "/")


def _steps(row: Row) -> str:
    """Made by the run, of those that the key says."""
    made, key = (row["tight"].get("steps") or {}).get("made"), (row.get("key") or {}).get("steps")
    return f"{made if made is not None else 'not seen'} of {key}" if key else str(made or "")


def write_table(path: Path = TABLE) -> None:
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{table(rows().values())}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repos", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--python", default=sys.executable, help="the scripts' interpreter")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "autofit-third-party")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if not chosen.table and chosen.repos is None:
        parser.error("say where the unpacked repositories lie: make third-party REPOS=folder")
    wanted = set(filter(None, chosen.only.split(",")))
    for case in () if chosen.table else CASES:
        if case.name in wanted or (not wanted and rows().get(case.name, {}).get("status") in (None, "not here")):
            row = tried(case, chosen.repos.resolve(), shutil.which(chosen.python) or chosen.python, chosen.work.resolve())
            keep(row)
            print(json.dumps({key: row.get(key) for key in ("case", "status", "why", "understood")}), flush=True)
    write_table()


if __name__ == "__main__":
    main()
