"""A case -> a row: its needs measured, a budget near one of them, `autofit train` to the end, and what became of it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import yaml

from autofit_launcher.common import procfs
from autofit_launcher.common.memory_failures import memory_failure
from autofit_launcher.common.report import TrialReport
from autofit_launcher.machine import devices
from benchmarks.common.provenance import commit, machine, versions
from benchmarks.survival import cases
from benchmarks.survival.cases import Case

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
AMPLE_BYTES = 6 * 2**30
"""The budget under which needs are measured."""
CONTEXT_BYTES = 450 * 2**20
"""What a pretended card's context takes; a small model's need beside it is less."""
IN_REACH = 6
"""A budget is aimed at one of so many rungs: each one above it costs a trial."""
AT_CAP = 0.98
"""A run that failed with so much of its budget in use died of memory, whatever it says."""
LAUNCHED = ("done", "died", "failed")
"""The outcomes of a run that was launched."""
_MORE_WORDS = re.compile(r"could not (create|execute) a (primitive|memory)|can't start new thread|bad allocation|[Oo]ut of memory")
_SAMPLE_S = 0.1

Row = dict[str, Any]


class Stopped(RuntimeError):
    """The person has interrupted; the case has no row and will be played again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Where cases are played, and how long one may take."""

    folder: Path
    trial_s: float = 420.0
    run_s: float = 1500.0
    keep: bool = False
    """Keep the folders of all cases, not of failures only."""
    stopping: threading.Event = field(default_factory=threading.Event)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """In which autofit is started; a pretended card's, where there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a command of ours ended."""

    returncode: int | None
    """None: it was ended after its time."""
    answer: Mapping[str, Any]
    """The last line of standard output, where it is JSON."""
    out: str
    err: str
    seconds: float
    by_rank: Mapping[str, int] = field(default_factory=dict)
    """Most VmData of a process of its full run, seen from outside, by its rank; "" is a process that has none."""

    @property
    def data_bytes(self) -> int:
        return max(self.by_rank.values(), default=0)

    @property
    def last_words(self) -> list[str]:
        return [line[:400] for line in (self.out + self.err).strip().splitlines()[-25:]]


def play(case: Case, table: Table, *, budget: int | None = None) -> Row:
    """Plays one case. ``budget``: repeats it with these bytes, needs unmeasured. Raises Stopped where the person interrupts."""
    began = time.monotonic()
    place = table.folder / f"case-{case.seed:04d}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    on_card = case.device == "cuda"
    environment = table.environment if on_card else os.environ
    table = replace(table, environment={**environment, **case.allocator, **(_telling(table, place) if on_card else {})})
    row: Row = {"seed": case.seed, "generator": cases.GENERATOR, "trainer": case.trainer, "task": case.task, "headroom": case.headroom}
    row |= _told(case) | {
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    if case.needs and importlib.util.find_spec(case.needs) is None:
        row |= {"status": "not_here", "words": [f"{case.needs} is not installed"]}
    else:
        row |= _played(case, table, place, budget)
    row["seconds"] = round(time.monotonic() - began, 1)
    if not table.keep and row["status"] in ("done", "no_rung_fits", "not_here"):
        shutil.rmtree(place, ignore_errors=True)
    return row


def _played(case: Case, table: Table, place: Path, budget: int | None) -> Row:
    made = _command([sys.executable, "-m", "benchmarks.survival.data", str(case.seed), str(place)], place, table, table.trial_s, cwd=ROOT)
    if made.returncode != 0:
        return {"status": "no_data", "words": made.last_words}
    places = {"data": made.out.strip().splitlines()[-1], "python": sys.executable, "here": str(HERE), "root": str(ROOT)}
    name, words = _written(case, place, places, table)
    if name is None:
        return {"status": "refused", "words": words}
    row: Row = {}
    if budget is None:
        row, budget = _measured(case, name, place, table)
        if budget is None:
            return row
    argv = _argv(case, name, places, budget)
    row |= {"argv": argv, "budget_bytes": budget}
    if case.command:
        shutil.rmtree(place / "recipes")  # from here on the command is understood anew
    ended = _command([_program(), *argv], place, table, table.run_s)
    row |= judged(ended, place, budget=budget)
    return row | (_of_ranks(case, ended, place, row) if case.ranks > 1 and row["status"] in LAUNCHED else {})


def _told(case: Case) -> Row:
    """The case itself, for a reader of the row."""
    told = {"data": case.data, "recipe": case.recipe, "command": list(case.command), "overrides": list(case.overrides), "files": case.files}
    return {"case": {key: value for key, value in told.items() if value}, "factor": case.factor}


# -- what is launched -----------------------------------------------------------------------------------------------------


def _program() -> str:
    return str(Path(sys.executable).parent / "autofit")


def filled(value: Any, places: Mapping[str, str]) -> Any:
    """``value`` with {data}, {python} and the like put in."""
    if isinstance(value, str):
        return re.sub(r"\{(data|python|here|root)\}", lambda found: places[found[1]], value)
    if isinstance(value, Mapping):
        return {key: filled(one, places) for key, one in value.items()}
    return [filled(one, places) for one in value] if isinstance(value, (list, tuple)) else value


def _written(case: Case, place: Path, places: Mapping[str, str], table: Table) -> tuple[str | None, list[str]]:
    """Writes the case's files and its recipe (``autofit init`` writes a command's). Returns (the recipe's name or None, what was said)."""
    for name, what in case.files.items():
        (place / name).write_text(yaml.safe_dump(filled(what, places), allow_unicode=True), encoding="utf-8")
    if case.recipe is not None:
        (place / "recipes").mkdir()
        text = yaml.safe_dump(filled(case.recipe, places), sort_keys=False, allow_unicode=True)
        (place / "recipes" / "survival.yaml").write_text(f"# @package _global_\n{text}", encoding="utf-8")
        return "survival", []
    ended = _command([_program(), "init", "--json", "--", *filled(case.command, places)], place, table, table.trial_s)
    if ended.returncode != 0:
        return None, ended.last_words
    return Path(str(ended.answer["recipe"])).stem, []


def _device(case: Case, budget: int) -> list[str]:
    """A run that fails and is started again would hide that its fit was wrong."""
    memory = f"device.memory={budget / 2**20:.3f}MiB"
    return [*_cards(case), memory, f"device.headroom={case.headroom}", "recover.restarts=0", "trial.fresh=true", "run.root=runs"]


def _cards(case: Case) -> list[str]:
    """Where it trains; a command that has several ranks starts them itself."""
    return [f"device={case.device}", *([f"device.cards={case.ranks}"] if case.ranks > 1 and not case.command else [])]


def _argv(case: Case, name: str, places: Mapping[str, str], budget: int) -> list[str]:
    """autofit's words for the launch: a recipe's, or a command's behind its own."""
    if case.command:
        return ["run", "--json", *_device(case, budget), *case.overrides, "--", *filled(case.command, places)]
    return ["train", "--json", f"recipe={name}", *_device(case, budget), *case.overrides]


# -- what is needed -------------------------------------------------------------------------------------------------------


def _measured(case: Case, name: str, place: Path, table: Table) -> tuple[Row, int | None]:
    """Really tries the rung that the case is aimed at with ample memory; returns what was found, and a budget near its need."""
    argv = [_program(), "ladder", "--json", f"recipe={name}", *_cards(case), *case.overrides]
    ladder = _command(argv, place, table, table.trial_s)
    rungs = ladder.answer.get("rungs")
    if not rungs:
        return {"status": "refused", "words": ladder.last_words}, None
    index = int(case.aim * min(len(rungs), IN_REACH))
    words = ["trial", "--json", f"recipe={name}", f"rung={index}", *_device(case, _ample()), *case.overrides]
    tried = _command([_program(), *words], place, table, table.trial_s)
    row = {
        "rungs": len(rungs),
        "aim": index,
        "need": {key: tried.answer.get(key) for key in ("rung", "verdict", "peak_bytes", "why", "seconds")},
    }
    if tried.answer.get("verdict") != "fits":
        faults = [json.dumps(fault) for fault in tried.answer.get("faults", ())]
        said = [*filter(None, [tried.answer.get("why")]), *faults, *tried.last_words]
        status = "timeout" if tried.returncode is None else "refused" if faults else "trial_failed"
        return {**row, "status": status, "words": said}, None
    return row, budget_for(case, tried.answer["peak_bytes"], last=index == len(rungs) - 1)


def budget_for(case: Case, need: int, *, last: bool) -> int:
    """The budget whose cap is the case's factor times ``need``. The last rung gets what it needs: else nothing would be launched."""
    base = CONTEXT_BYTES if case.device == "cuda" else 0
    cap = int(base + (need - base) * (max(case.factor, 1.0) if last else case.factor))
    return devices.budget_for(cap, case.headroom, kind=case.device)


def _ample() -> int:
    return min(AMPLE_BYTES, int(psutil.virtual_memory().available * 0.8))


# -- a command, watched -----------------------------------------------------------------------------------------------------


def _command(argv: Sequence[str], place: Path, table: Table, timeout_s: float, *, cwd: Path | None = None) -> Ended:
    """Runs one command to its end, sampling the memory of its full run from outside. Raises Stopped where the person interrupts."""
    out, err = place / "last.stdout", place / "last.stderr"
    env = {**table.environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    began = time.monotonic()
    by_rank, timed_out = dict[str, int](), False
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            argv, cwd=cwd or place, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        while process.poll() is None:
            for rank, size in _run_bytes(process.pid, place):
                by_rank[rank] = max(by_rank.get(rank, 0), size)
            timed_out = time.monotonic() - began > timeout_s
            if timed_out or table.stopping.is_set():
                _end(process)
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_SAMPLE_S)
    if table.stopping.is_set():
        raise Stopped
    said = out.read_text(encoding="utf-8", errors="replace")
    return Ended(
        returncode=None if timed_out else process.returncode,
        answer=_answer(said),
        out=said,
        err=err.read_text(encoding="utf-8", errors="replace"),
        seconds=time.monotonic() - began,
        by_rank=by_rank,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """TERM (autofit ends its children at that), then KILL."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _answer(said: str) -> Mapping[str, Any]:
    for line in reversed(said.splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            return found if isinstance(found, dict) else {}
    return {}


def _run_bytes(pid: int, place: Path) -> Iterator[tuple[str, int]]:
    """(rank, VmData now) of each process of the full run; none until it has been started. Trials are over by then."""
    if not any('"status": "running"' in path.read_text(encoding="utf-8") for path in place.glob("runs/*/record.json")):
        return
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                yield child.environ().get("RANK", ""), _data_bytes(child.pid)


def _data_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        return procfs.data_bytes(pid)
    return 0


# -- what became of it ------------------------------------------------------------------------------------------------------


def judged(ended: Ended, place: Path, *, budget: int) -> Row:
    """The outcome of a launch, from autofit's answer and the run's folder."""
    answer = ended.answer
    folder = Path(str(answer.get("run_dir") or next(iter(sorted(place.glob("runs/*"))[-1:]), place)))
    trials = [
        {key: one.get(key) for key in ("rung_index", "verdict", "phase", "peak_bytes", "seconds", "why")}
        for one in answer.get("trials", ())
    ]
    chosen = next((one for one in trials if one["rung_index"] == answer.get("rung_index")), None)
    run = answer.get("run") or {}
    trial_peak = chosen["peak_bytes"] if chosen else None
    outside = _seen_from_outside(ended, folder, answer.get("rung_index"))
    told = _told_itself(place, folder, answer.get("rung_index"))
    recorded = told.get("run_peak_bytes") or run.get("peak_bytes") or None
    peak = recorded or outside
    said = memory_words(folder)
    status = outcome(ended, run, peak=peak, budget=budget, said=said)
    row: Row = {
        "status": status, "exit_status": ended.returncode, "run_seconds": round(ended.seconds, 1), "trials": trials,
        "rung_index": answer.get("rung_index"), "rung": answer.get("rung"), "accumulation": answer.get("accumulation"),
        "trial_peak_bytes": trial_peak, "returncode": run.get("returncode"),
    }  # fmt: skip
    if status in LAUNCHED:
        row |= {"run_peak_bytes": peak, "peak_source": "record" if recorded else "outside", "outside_peak_bytes": outside}
        row |= {"lost": _lost(run, said) if status == "done" else None, "lost_recorded": run.get("lost_to_memory")}
        row |= told
        row["lost_in_trial"] = len(_lines_of_memory(folder / "trials" / f"{answer['rung_index']:03d}"))
    if said or status != "done":
        row["words"] = said[-8:] if said else _last_words(folder, ended)
    if status in ("died", "failed"):
        row["tail"] = "\n".join(_last_words(folder, ended))
    return row


def outcome(ended: Ended, run: Mapping[str, Any], *, peak: int | None, budget: int, said: Sequence[str]) -> str:
    """done; died (of memory: its words say so, a signal ended it, it stood at its cap); failed; or why nothing was launched."""
    if ended.returncode is None:
        return "timeout"
    if "returncode" in run:
        if run["returncode"] == 0:
            return "done"
        at_cap = peak is not None and peak >= AT_CAP * budget
        return "died" if said or run.get("memory_failure") or run["returncode"] < 0 or at_cap else "failed"
    known = {1: "refused", 3: "no_rung_fits", 4: "trial_failed"}
    return known.get(ended.returncode, "no_answer") if ended.answer else "no_answer"


def _seen_from_outside(ended: Ended, folder: Path, rung_index: int | None) -> int | None:
    """The run's peak as sampled here, in the trial's measure: less what libraries held in the trial when its budget was taken."""
    if rung_index is None or not ended.data_bytes:
        return None
    with contextlib.suppress(OSError, ValueError):
        report = json.loads((folder / "trials" / f"{rung_index:03d}" / "report.json").read_text(encoding="utf-8"))
        return max(0, ended.data_bytes - int(report["base_bytes"]))
    return None


def _telling(table: Table, place: Path) -> dict[str, str]:
    """What makes a process on a card tell its allocator's peaks (benchmarks/gpu_check); the full run is the last that does."""
    behind = os.pathsep.join([*filter(None, [table.environment.get("PYTHONPATH")]), str(ROOT), str(ROOT / "benchmarks/gpu_check/peaks")])
    return {"GPU_CHECK_PEAKS": str(place / "peaks.json"), "PYTHONPATH": behind}


def _of_ranks(case: Case, ended: Ended, place: Path, row: Row) -> Row:
    """What each rank needed in the trial of the rung that was launched, and took in the run."""
    tried = next(iter(sorted(place.glob(f"runs/*/trials/{row['rung_index']:03d}"))[-1:]), place)
    on_card, needed, took = case.device == "cuda", list[int | None](), list[int | None]()
    for rank in range(case.ranks):
        found = (TrialReport.read(tried / part / "ranks" / str(rank) / "report.json") for part in ("", "resumed"))
        reports = [one for one in found if one is not None]
        needed.append(max((one.peak_bytes for one in reports), default=None))
        base = reports[0].base_bytes if reports else 0  # a card's context; on a CPU what libraries hold
        seen = _peaks(place / f"peaks.json.{rank}") if on_card else ended.by_rank.get(str(rank))
        took.append(None if seen is None else seen + base if on_card else max(0, seen - base))
    return {"ranks": case.ranks, "rank_trial_bytes": needed, "rank_run_bytes": took}


def _peaks(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(json.loads(path.read_text(encoding="utf-8"))["reserved_bytes"])
    return None


def _told_itself(place: Path, folder: Path, rung_index: int | None) -> Row:
    """On a card: the run's peaks in the trial's measure, and what was live in both; of ranks, of the one that reserved most."""
    with contextlib.suppress(OSError, ValueError):
        files = sorted(place.glob("peaks.json.[0-9]")) or [place / "peaks.json"]
        told = max((json.loads(file.read_text(encoding="utf-8")) for file in files), key=lambda one: one["reserved_bytes"])
        report = json.loads((folder / "trials" / f"{rung_index:03d}" / "report.json").read_text(encoding="utf-8"))
        return {
            "run_peak_bytes": told["reserved_bytes"] + report["base_bytes"],
            "run_allocated_bytes": told["allocated_bytes"],
            "trial_allocated_bytes": max(use["allocated_bytes"] for use in report["uses"]),
            "refused": told["ooms"],
            "micro_batches": told["micro_batches"],
            "steps": told["steps"],
        }
    return {}


def _lost(run: Mapping[str, Any], said: Sequence[str]) -> int:
    """How many things a finished run lost to memory: as recorded, or as its logs say, whichever is more."""
    recorded = run.get("lost_to_memory", 0)
    counted = (
        sum(recorded.values()) if isinstance(recorded, Mapping) else len(recorded) if isinstance(recorded, (list, tuple)) else recorded
    )
    return max(int(counted or 0), len(said))


def memory_words(folder: Path) -> list[str]:
    """The lines of the run's two logs that speak of a memory failure, in order."""
    return [line for name in ("run.stdout.log", "run.stderr.log") for line in _said(folder / name)]


def _lines_of_memory(folder: Path) -> list[str]:
    return [line for name in ("stdout.log", "stderr.log") for line in _said(folder / name)]


def _said(log: Path) -> list[str]:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (line.strip() for line in re.split(r"[\r\n]+", text))
    return [line[:400] for line in lines if memory_failure(line) is not None or _MORE_WORDS.search(line)]


def _last_words(folder: Path, ended: Ended) -> list[str]:
    """The end of what the run said; where there was none, of what autofit said."""
    for log in (folder / "run.stderr.log", folder / "run.stdout.log"):
        with contextlib.suppress(OSError):
            if lines := log.read_text(encoding="utf-8", errors="replace").strip().splitlines():
                return [line[:400] for line in lines[-25:]]
    return ended.last_words
