"""A case -> rows: what its trials said, then real full runs: of the chosen rung under the trial's cap, of the rung above and of what is
asked under the whole budget. Every step whose row is there already is left out, so that a command that was cut off is begun again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autofit_launcher.cli import suggestions
from autofit_launcher.common.files import tail
from autofit_launcher.common.memory_failures import lost_in, memory_failure
from autofit_launcher.common.report import TrialReport
from autofit_launcher.common.sizes import GIB, format_size, parse_size
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine import prepare
from autofit_launcher.engine.launch import Screen
from autofit_launcher.full_run import run as launch
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine import devices, nvml, process, ranks
from autofit_launcher.machine.devices import Budget
from autofit_launcher.pretended.cards import MARK
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from benchmarks.gpu_check import cases
from benchmarks.gpu_check.cases import Case
from benchmarks.gpu_check.rows import ROOT, Rows

WALKED = ("ladder.search=walk", "trial.proof_timeout_s=0")
"""Of every rung above the one that fits there is a figure then; a search that estimates lead leaves most of them out. Whether a rung
is the same training is another question than memory's."""
RUN_TIMEOUT_S, PLAYED_TIMEOUT_S = 400.0, 3600.0
"""Of a full run; on a card that is played, the CPU does what little is computed, and makes all batches."""
STEP_S = 60.0
"""No step is begun that has less time left."""
CAPS = (4, 8, 16, 24, 40, 80, 97)
BACKENDS = {"native": "", "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}


class Lines(Screen):
    """A line for each trial, and a row at once: a command may be cut off."""

    def __init__(self, row: Callable[[Trial], None]) -> None:
        self.row = row

    def trial_ended(self, trial: Trial) -> None:
        print(f"  rung {trial.rung.index} {trial.verdict.kind.value}: {trial.verdict.why} ({trial.seconds:.0f} s)", flush=True)
        self.row(trial)


# ---- A: facts


def card() -> tuple[Budget, str]:
    """The whole card, and its driver's version."""
    budget = devices.find("cuda", headroom=0.0)
    return budget, str(nvml.opened()[0].nvmlSystemGetDriverVersion())


def ask(words: Sequence[str], env: dict[str, str]) -> tuple[dict[str, Any], str]:
    """One fact, by a process of its own; (answer, what it said where it failed)."""
    log = Path(os.environ.get("TMPDIR", "/tmp")) / f"gpu-check-{os.getpid()}"
    out, err = log.with_suffix(".out"), log.with_suffix(".err")
    for one in (out, err):
        one.unlink(missing_ok=True)
    argv = (sys.executable, "-m", "benchmarks.gpu_check.facts", *words)
    child = process.start(argv, env={"PYTHONPATH": behind(str(ROOT)), **env}, cwd=ROOT, stdout=out, stderr=err)
    ending = process.wait(child, timeout_s=120, stderr=err)
    lines = out.read_text(encoding="utf-8").strip().splitlines()
    return (json.loads(lines[-1]), "") if ending.returncode == 0 and lines else ({}, ending.stderr_tail.strip()[-600:])


def questions(budget: Budget) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """(step, words, environment) of every fact that this card is large enough for."""
    yield "meters", ["meters"], {}
    yield "outside", ["outside"], {}
    for cap in (cap * GIB for cap in CAPS if cap * GIB <= budget.free_bytes):
        for name, setting in BACKENDS.items():
            env = {"PYTORCH_CUDA_ALLOC_CONF": setting} if setting else {}
            yield f"fill {cap // GIB} GiB {name}", ["fill", "--cap", str(cap)], env
    yield "cudnn", ["cudnn", "--cap", str(min(16 * GIB, budget.free_bytes // 2))], {}
    for name in ("native", "expandable"):
        env = {"PYTORCH_CUDA_ALLOC_CONF": BACKENDS[name]} if BACKENDS[name] else {}
        yield f"fragments {name}", ["fragments", "--cap", str(min(40 * GIB, budget.free_bytes))], env


def all_facts(rows: Rows, budget: Budget) -> None:
    """Case A. How long the card takes to give back what a dead process held is measured on the way."""
    for step, words, env in questions(budget):
        if rows.of("A", step):
            continue
        idle = devices.free_now(budget) or 0
        answer, failed = ask([*words, "--uuid", budget.uuid, "--idle", str(idle)], {**env, "CUDA_VISIBLE_DEVICES": budget.uuid})
        began = time.monotonic()
        settled = devices.settle(budget, idle_free_bytes=idle)
        more = {"settled": settled, "settle_seconds": round(time.monotonic() - began, 3)}
        rows.add("A", step, "fact", **answer, **more, failed=failed)
        print(f"  {step}: {failed or answer}", flush=True)


# ---- B to F: trials, then real runs


def case(rows: Rows, one: Case, place: Path, *, scale: float = 1.0, ends: float = math.inf) -> None:
    """Its steps in order. ``ends``: monotonic seconds; what can't be begun before is left for another command, and said."""
    data = made(one, place, scale)
    words = (*(word.format(place=data, workers=cases.workers()) for word in one.words), *WALKED)
    for step, act in _steps(rows, one, words, place, ends):
        if ends - time.monotonic() < STEP_S:
            print(f"{one.name}: {step} is left for another command", flush=True)
            return
        act()


def left_out(rows: Rows, one: Case, budget: Budget) -> bool:
    """Whether the card is smaller than the one that the case plays, or there are fewer; there is a row of it then."""
    step, there = f"{one.name}: left out", ranks.world_size("all", "cuda")
    large_enough = parse_size(one.memory) <= budget.total_bytes * devices.NOMINAL
    if large_enough and one.cards <= there:
        return False
    if not rows.of(one.letter, step):
        why = f"the card has {format_size(budget.total_bytes)}" if not large_enough else f"cards seen: {there}"
        rows.add(one.letter, step, "left out", why=why)
    return True


def _steps(rows: Rows, one: Case, words: Sequence[str], place: Path, ends: float) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is still to be done, each with its name."""

    def missing(step: str) -> bool:
        return not rows.of(one.letter, f"{one.name}: {step}")

    if missing("fitted"):
        yield "trials", lambda: _fitted(rows, one, words, place)
    chosen = next((row for row in rows.of(one.letter, f"{one.name}: trial") if row["verdict"] == Kind.FITS), None)
    if chosen is not None and missing("run"):
        yield "run", lambda: _run(rows, one, words, place, chosen, step="run", budget="cap", ends=ends)
    if chosen is not None and (above := _above(rows, one, chosen)) and missing("above"):
        yield "above", lambda: _run(rows, one, words, place, above, step="above", budget="whole", ends=ends)
    if one.control is not None and missing("control"):
        yield "control", lambda: _control(rows, one, str(one.control), words, place, ends)


def made(one: Case, place: Path, scale: float) -> Path:
    """The case's data, made where it isn't there."""
    data = place / one.data
    if not (data / "MADE").exists():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        cases.MAKERS[one.data](data, scale)
        (data / "MADE").touch()
    return data


def prepared(one: Case, words: Sequence[str], place: Path, *, memory: str) -> Job:
    line = (*words, f"device.memory={memory}", "device.turns=false", "trial.fresh=true", f"run.root={place / 'runs'}")
    (draft,) = suggestions.drafts(line, program="gpu-check")
    return prepare.prepare(draft)


def _fitted(rows: Rows, one: Case, words: Sequence[str], place: Path) -> None:
    step = f"{one.name}: trial"
    job = prepared(one, words, place, memory=one.memory)
    print(f"{one.name}: trials", flush=True)

    fit = engine.begin(job, Lines(lambda trial: rows.add(one.letter, step, "trial", **_of_trial(trial, job))))
    chosen = fit.chosen.rung.index if fit.chosen else None
    rows.add(one.letter, f"{one.name}: fitted", "fit", status=fit.status, rung_index=chosen, seconds=round(fit.trial_seconds, 1))


def _of_trial(trial: Trial, job: Job) -> dict[str, Any]:
    verdict, budget = trial.verdict, job.budget
    return {
        "rung_index": trial.rung.index,
        "rung": dict(trial.rung.values),
        "accumulation": trial.rung.accumulation,
        "verdict": verdict.kind,
        "phase": verdict.phase,
        "source": verdict.source,
        "asked_bytes": verdict.asked_bytes,
        "why": verdict.why,
        "text": verdict.evidence[:400],
        "seconds": round(trial.seconds, 1),
        "peak_bytes": verdict.peak_bytes,
        "cap_bytes": budget.cap_bytes,
        "budget_bytes": budget.budget_bytes,
        "emulated": budget.emulated,
        "base_bytes": trial.report.base_bytes,
        "uses": trial.report.uses,
        "ranks": [report.uses for path in sorted(trial.folder.glob("ranks/*/report.json")) if (report := TrialReport.read(path))],
    }


def _above(rows: Rows, one: Case, chosen: dict[str, Any]) -> dict[str, Any] | None:
    """The last rung above the chosen one whose trial really failed."""
    failed = [row for row in rows.of(one.letter, f"{one.name}: trial") if row["rung_index"] < chosen["rung_index"]]
    return max(failed, key=lambda row: row["rung_index"], default=None)


def _run(
    rows: Rows,
    one: Case,
    words: Sequence[str],
    place: Path,
    row: dict[str, Any],
    *,
    step: str,
    budget: str,
    memory: str = "",
    ends: float = math.inf,
) -> None:
    """A real full run at a row's rung. ``budget``: "cap", what its trial was held to, or "whole"; ``memory``: another card's."""
    micro_batch, accumulation = int(row["rung"]["micro_batch"]), int(row["accumulation"])
    longer = cases.long_enough(one, micro_batch=micro_batch, accumulation=accumulation)
    job = prepared(one, (*words, *longer), place, memory=memory or one.memory)
    allowed = job.budget.cap_bytes if budget == "cap" else job.budget.budget_bytes
    rung = job.ladder.rungs[row["rung_index"]]
    print(f"{one.name}: {step}, rung {rung.index} under {allowed / GIB:.1f} GiB", flush=True)
    each = tuple(replace(rank, budget_bytes=allowed) for rank in job.budget.ranks)
    ended = really(replace(job, budget=replace(job.budget, budget_bytes=allowed, ranks=each)), rung, place, ends=ends)
    missed = row["peak_bytes"] - row["cap_bytes"]
    more = {
        "held_to": budget,
        "allowed_bytes": allowed,
        "headroom_bytes": row["budget_bytes"] - row["cap_bytes"],
        "missed_by_bytes": missed,
    }
    rows.add(one.letter, f"{one.name}: {step}", "run", rung_index=rung.index, rung=dict(rung.values), **more, **ended)


def _control(rows: Rows, one: Case, memory: str, words: Sequence[str], place: Path, ends: float) -> None:
    """What is asked, on a card that can't hold it: its trial must say so, and a real run under the whole budget must die."""
    job = prepared(one, words, place, memory=memory)
    print(f"{one.name}: control on {memory}", flush=True)
    tried = trial.run(job, job.ladder.asked)
    job.forks.end()
    said = rows.add(one.letter, f"{one.name}: control trial", "trial", control=True, **_of_trial(tried, job))
    _run(rows, one, words, place, said, step="control", budget="whole", memory=memory, ends=ends)


def really(job: Job, rung: Rung, place: Path, *, ends: float = math.inf) -> dict[str, Any]:
    """Launches the full run as `autofit train` would, with its own peaks told on its way and at its end."""
    peaks = place / "peaks.json"
    for old in place.glob(f"{peaks.name}*"):
        old.unlink()
    files, idle = job.folder.attempt(1), [devices.free_now(rank) or 0 for rank in job.budget.each]
    with _told(peaks, job.budget, idle), open(os.devnull, "wb") as nowhere:
        command = launch.native_command(job, rung)  # whose own PYTHONPATH goes before what is told here
        child = launch.start(job, command, files, show=(nowhere, nowhere))
        most = PLAYED_TIMEOUT_S if job.budget.name.endswith(MARK) else RUN_TIMEOUT_S
        ending = process.wait(child, timeout_s=min(most, ends - time.monotonic()), stderr=files.stderr)
    for rank, free in zip(job.budget.each, idle, strict=True):
        devices.settle(rank, idle_free_bytes=free)
    said = ending.stderr_tail + tail(files.stdout)
    failure = memory_failure(said, last=True) if ending.returncode else None
    shutil.rmtree(job.folder.run, ignore_errors=True)  # weights of gigabytes
    return {
        "returncode": ending.returncode,
        "timed_out": ending.timed_out,
        "seconds": round(ending.seconds, 1),
        "failure": failure,
        "said": said[-400:] if ending.returncode and failure is None else "",
        "lost": lost_in(files.stdout, files.stderr, on_card=True) if not ending.returncode else (),
        "run": peaks_of(peaks, len(job.budget.each)),
    }


def peaks_of(peaks: Path, count: int) -> dict[str, Any]:
    """What the processes of a run have told: the most of each, and the fewest micro-batches and steps (0 where one told nothing)."""
    paths = [peaks] if count == 1 else [peaks.with_name(f"{peaks.name}.{rank}") for rank in range(count)]
    told = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    if count == 1 or not told:
        return told[0] if told else {}
    counts = {name: min(one[name] for one in told) if len(told) == count else 0 for name in ("micro_batches", "steps")}
    most = {name: max(one[name] for one in told) for name in ("allocated_bytes", "reserved_bytes", "outside_bytes", "ooms", "retries")}
    return {**most, **counts, "sizes": sorted({size for one in told for size in one["sizes"]}), "ranks": told}


@contextlib.contextmanager
def _told(peaks: Path, budget: Budget, idle: Sequence[int]) -> Iterator[None]:
    """The environment in which a run's processes tell their peaks, each in a file of its own."""
    given = {
        "GPU_CHECK_PEAKS": str(peaks),
        "GPU_CHECK_UUID": ",".join(one.uuid for one in budget.each),
        "GPU_CHECK_IDLE": ",".join(map(str, idle)),
        "YOLO_OFFLINE": "true",
        "PYTHONPATH": behind(str(ROOT / "launcher"), str(Path(__file__).parent / "peaks")),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def behind(*folders: str) -> str:
    """PYTHONPATH with these at its end: a pretended card's own folder stays first, and runs the sitecustomize behind it."""
    return os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), *folders])
