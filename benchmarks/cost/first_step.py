"""Enter -> first optimizer step of the full run, autofit's beside the plain command's, and where the seconds between them go.

    python -m benchmarks.cost.first_step [--only script] [--pairs 2]      rows into benchmarks/results/cost.jsonl, table into docs/cost.md
    python -m benchmarks.cost.first_step --table                         the table alone

Each command is played plainly and with autofit, in turn, on a budget where what is asked fits and on one where only a lower rung does.
Both are ended with their first step. A launch begins with nothing known: no kept fit, no earlier trials. An interpreter whose site folder
has a mark of ours in it tells when each process of the tree began and first stepped an optimizer; autofit's own files tell the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT, Row, append, read

DATA, PAGE = ROOT / "benchmarks" / "results" / "cost.jsonl", ROOT / "docs" / "cost.md"
LONGEST_S = 400.0
MARK = """
import json, os, sys, time
def told(what):
    with open(os.environ["COST_MARKS"], "a") as file:
        file.write(json.dumps({"what": what, "at": time.time(), "pid": os.getpid(), "run": "AUTOFIT_HELD" in os.environ}) + "\\n")
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch.optim.optimizer":
            import importlib.util
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), module.register_optimizer_step_post_hook(stepped))
            return spec
def stepped(*args):
    if not steps:
        told("step")
    steps.append(1)
steps = []
if "COST_MARKS" in os.environ:
    told("began")
    sys.meta_path.insert(0, Finder())
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    name: str
    words: Sequence[str]
    """``{root}``, ``{python}``, ``{bin}`` and ``{data}`` stand for places."""
    peer: Sequence[str] = ()
    """Words with which the trainer's own finder looks for a batch that fits, before its first step: more words, or a whole command."""
    card: bool = False
    """It trains on a card, the whole of it; else on a CPU's budget."""
    tight: float = 0.8
    """Part of its peak in which what is asked no longer fits, and a lower rung does."""


CASES = {
    case.name: case
    for case in (
        Case(name="script", words=("{python}", "{root}/examples/classifier/train.py", "--width", "16", "--epochs", "20")),
        Case(
            name="trainer",
            words=("{python}", "{root}/examples/hf_trainer/train.py", "--output_dir", "out", "--per_device_train_batch_size", "128",
                   "--samples", "4096", "--report_to", "none"),
            peer=("--auto_find_batch_size", "True"),
        ),
        Case(
            name="lightning",
            words=("{python}", "{root}/examples/lightning/train.py", "--batch_size", "448", "--width", "16", "--epochs", "2"),
            peer=("{python}", "{root}/benchmarks/cost/finder.py", "{root}/examples/lightning/train.py"),
        ),
        Case(
            name="gpt on a card", card=True, tight=0.95,
            words=("{python}", "{root}/benchmarks/gpu_hour/train.py", "--batch-size", "16", "--steps", "400"),
        ),
        Case(
            name="yolo",
            words=("{bin}/yolo", "detect", "train", "model=yolov8n.yaml", "data={data}", "imgsz=160", "batch=32", "epochs=20", "workers=0"),
            peer=("batch=-1",),
        ),
    )
}  # fmt: skip


def interpreter(folder: Path) -> Path:
    """Of an environment that finds what this one has, with the mark in each process."""
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (site / "cost_mark.py").write_text(MARK, encoding="utf-8")
    (site / "a.pth").write_text(f"import sys; sys.path.append({str(site)!r}); import cost_mark\n", encoding="utf-8")
    (site / "z.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n", encoding="utf-8")
    python = folder / "bin" / "python"
    yolo = folder / "bin" / "yolo"
    yolo.write_text(f"#!{python}\nfrom ultralytics.cfg import entrypoint\nentrypoint()\n", encoding="utf-8")
    yolo.chmod(0o755)
    return python


def to_first_step(argv: Sequence[str], place: Path, *, run: bool) -> tuple[float, list[dict[str, Any]]]:
    """(when it was started, marks up to the first step), after which all of it is ended. ``run``: the step of the full run is meant."""
    place.mkdir(parents=True)
    marks = place / "marks"
    quiet = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env = {**quiet, "COST_MARKS": str(marks), "XDG_STATE_HOME": str(place / "state"), "HF_HUB_OFFLINE": "1"}
    began = time.time()
    with (place / "log").open("wb") as log:
        child = subprocess.Popen(argv, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        while True:
            found = read(marks)
            if any(one["what"] == "step" and one["run"] == run for one in found):
                return began, found
            if child.poll() is not None or time.time() - began > LONGEST_S:
                raise SystemExit(f"no first step: {' '.join(argv)}\n{(place / 'log').read_text(errors='replace')[-3000:]}")
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGINT)
        child.wait()


def parts(began: float, marks: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, Any]:
    """Where the seconds of a launch went: what the record in its run folder, and its trials' reports, say of them."""
    told = json.loads((folder / "record.json").read_text(encoding="utf-8"))["trials"]
    tried = [(Path(one["folder"]) / name).stat().st_mtime - began for one in told for name in ("orders.json", "verdict.json")]
    step = next(one for one in marks if one["what"] == "step" and one["run"])
    turn = folder / "native" / "turn"  # of a run that was begun ahead
    run = max(next(one["at"] for one in marks if one["pid"] == step["pid"]), turn.stat().st_mtime if turn.exists() else 0.0) - began
    trials = [_trial(Path(one["folder"]), one) for one in told]
    in_trials = sum(end - start for start, end in zip(tried[::2], tried[1::2], strict=True))
    found = {"launcher": tried[0], "trials": in_trials, "between": run - tried[0] - in_trials, "run": step["at"] - began - run}
    return {**{name: round(seconds, 2) for name, seconds in found.items()}, "each": trials}


def _trial(folder: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    """Its seconds: of each phase, of the second process that goes on, and what is left (starting, ending, what was tried twice)."""
    first = _uses(folder / "report.json")
    first.pop("resume", None)  # which is the second's
    second_verdict = folder / "resumed" / "verdict.json"
    resumed = float(json.loads(second_verdict.read_text(encoding="utf-8"))["seconds"]) if second_verdict.exists() else 0.0
    rest = told["seconds"] - resumed - sum(first.values())
    seconds = {**first, "goes on": resumed, "rest": rest}
    what = {"rung": told["rung_index"], "verdict": told["verdict"], "peak_bytes": told["peak_bytes"]}
    return {**what, "seconds": {key: round(value, 2) for key, value in seconds.items()}}


def _uses(report: Path) -> dict[str, float]:
    if not report.exists():
        return {}
    return {use["phase"]: use["seconds"] for use in json.loads(report.read_text(encoding="utf-8"))["uses"]}


def played(case: Case, pairs: int, place: Path) -> Row:
    """Plain and both launches, in turn, after the command has once warmed the machine's caches."""
    from tests.conftest import write_yolo_dataset

    python = interpreter(place / "env")
    data = write_yolo_dataset(place / "data", train=32) if case.name == "yolo" else ""
    words, peer = (
        [word.format(root=ROOT, python=python, bin=python.parent, data=data) for word in said] for said in (case.words, case.peer)
    )
    autofit = [str(python), "-P", "-m", "autofit_launcher", "run", f"device={'cuda' if case.card else 'cpu'}", "run.root=runs"]
    taken: dict[str, list[dict[str, Any]]] = {"plain": [], **({"peer": []} if case.peer else {}), "fits": [], "lower": []}
    plainly = {"plain": words, "peer": peer if peer[:1] == words[:1] else [*words, *peer]}
    load, memory = os.getloadavg()[0], {"fits": "null" if case.card else str(LARGE), "lower": ""}
    to_first_step(words, place / "warm", run=False)
    for number in range(pairs):
        for way, rows in taken.items():
            there = place / f"{way}-{number}"
            ours = way not in plainly
            argv = [*autofit, f"device.memory={memory[way]}", "--", *words] if ours else plainly[way]
            began, marks = to_first_step(argv, there, run=ours)
            step = next(one["at"] for one in marks if one["what"] == "step" and one["run"] == ours) - began
            folder = next((one for one in there.glob("runs/*") if one.is_dir()), None)
            rows.append({"first_step": round(step, 2), **(parts(began, marks, folder) if folder is not None else {})})
            if way == "fits":
                peak = rows[-1]["each"][-1]["peak_bytes"]
                memory["lower"] = str(int(peak * case.tight) if case.card else too_little(peak, case.tight))
            print(case.name, way, rows[-1], file=sys.stderr, flush=True)
    quickest = {way: min(rows, key=lambda one: float(one["first_step"])) for way, rows in taken.items()}
    steps = {way: [one["first_step"] for one in rows] for way, rows in taken.items()}
    made = {"commit": commit(), "load_before": round(load, 1), "machine": machine(), "versions": versions()}
    return {"case": case.name, "command": " ".join(case.words), "first_steps": steps, "seconds": quickest, **made}


LARGE = 4 * 2**30


def too_little(peak: int, part: float = 0.8) -> int:
    """A budget with that part of a peak below its headroom (a quarter, 64 MiB at least)."""
    cap = peak * part
    return int(max(cap * 4 / 3, cap + 64 * 2**20))


def table(rows: Sequence[Row]) -> str:
    """One line for each case and budget."""
    lines = ["| command | what is tried | plain | its own finder | autofit | times | launcher's start | trials | between | run's start |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        plain = row["seconds"]["plain"]["first_step"]
        for way in ("fits", "lower"):
            one = row["seconds"][way]
            tried = ", ".join(f"rung {trial['rung']}: {_of(trial['seconds'])}" for trial in one["each"])
            cells = [f"{one['first_step']:.1f} s", f"{one['first_step'] / plain:.1f}", *(f"{one[name]:.1f}" for name in PARTS)]
            peer = f"{row['seconds']['peer']['first_step']:.1f} s" if "peer" in row["seconds"] else "-"
            lines.append(f"| {row['case']} | {tried} | {plain:.1f} s | {peer} | {' | '.join(cells)} |")
    return "\n".join(lines)


PARTS = ("launcher", "trials", "between", "run")


def _of(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in seconds.items() if value >= 0.05)


def write_page(rows: Sequence[Row]) -> None:
    latest = {row["case"]: row for row in rows}
    one = rows[-1]
    head, _, old = PAGE.read_text(encoding="utf-8").partition("<!-- made")
    _, *more = old.partition("\n## ")  # other benchmarks'
    plays = ", ".join(f"{name} {len(row['first_steps']['plain'])} (commit {row['commit']})" for name, row in latest.items())
    made = (
        f"<!-- made by `make cost` -->\n\n{one['machine']['cores']} cores, torch {one['versions']['torch']}, the quickest of: {plays}.\n\n"
    )
    PAGE.write_text(f"{head}{made}{table([latest[name] for name in CASES if name in latest])}\n{''.join(more)}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rows", type=Path, default=DATA, help="takes the rows; the page is made of the repository's")
    chosen = parser.parse_args()
    for name in [] if chosen.table else chosen.only or [name for name, case in CASES.items() if not case.card]:
        with tempfile.TemporaryDirectory(prefix="autofit-cost-") as place:
            append(chosen.rows, played(CASES[name], chosen.pairs, Path(place)))
    if chosen.rows == DATA:
        write_page(read(DATA))


if __name__ == "__main__":
    main()
