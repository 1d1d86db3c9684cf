"""A case at a rung -> a row: the plain run, `autofit run` with a memory in which only that rung fits, and how the two differ."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofit_launcher.machine.devices import budget_for
from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import Row
from benchmarks.same_training import interpreter, judge, measure, observer, pictures
from benchmarks.same_training.cases import WHOLE, Case, name_of

HERE = Path(__file__).resolve().parent
MIB = 2**20
BALLAST = 256 * MIB
"""Address space of each row in a training forward pass; far more than a whole training of these needs otherwise."""
LEAST = 1.5
"""The cap in rows' ballast over those of the rung: between it and the next larger rung's."""
PLAIN_S, AUTOFIT_S = 300.0, 900.0
OUT, ERR = "said.stdout.log", "said.stderr.log"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where cases are played, and with which interpreter."""

    folder: Path
    python: Path
    keep: bool = False


def play(case: Case, micro: int, place: Place) -> Row:
    """Plays one case at one rung."""
    began = time.monotonic()
    row: Row = {
        "case": case.name, "kind": case.kind, "rung": f"{micro}x{WHOLE // micro}", "command": case.command(),
        "same_as_it_stands": case.same,
        "why": case.why, "commit": commit(), "versions": versions("lightning", "trl", "accelerate", "sentence-transformers"),
        "machine": machine(), "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip
    missing = [name for name in case.needs if not interpreter.has(place.python, name)]
    row |= {"verdict": judge.NOT_PLAYED, "words": f"{missing[0]} is not installed"} if missing else _played(case, micro, place)
    return {**row, "seconds": round(time.monotonic() - began, 1)}


def _played(case: Case, micro: int, place: Place) -> Row:
    plain = place.folder / "plain" / case.name
    if ended := _plainly(case, plain, place):
        return {"verdict": judge.NOT_PLAYED, "words": f"the plain run ended with {ended}: {_tail(plain / ERR)}"}
    own = place.folder / name_of(case, micro)
    _folder(case, own)
    argv = [str(place.python), "-P", "-m", "autofit_launcher", "run", "--json", *_device(case, micro), "--", *case.command()]
    _run(argv, own, place, limit_s=AUTOFIT_S, ballast=BALLAST)
    row = _judged(case, plain, own)
    if not place.keep and row["verdict"] in (judge.SAME, judge.TOLD, judge.REFUSED, judge.UNPROVEN):
        shutil.rmtree(own)
    return row


def _plainly(case: Case, plain: Path, place: Place) -> int:
    """The person's own command, once for all rungs while nothing of it has changed. Returns how it ended."""
    script = (HERE / "scripts" / case.script).read_bytes() if case.script else b""
    digest = hashlib.sha1(script + (HERE / "observer.py").read_bytes() + repr(case.command()).encode()).hexdigest()
    with contextlib.suppress(OSError, ValueError):
        told = json.loads((plain / "ended.json").read_text(encoding="utf-8"))
        if told["digest"] == digest:
            return int(told["status"])
    _folder(case, plain)
    ended = _run(case.command(), plain, place, limit_s=PLAIN_S)
    (plain / "ended.json").write_text(json.dumps({"digest": digest, "status": ended}), encoding="utf-8")
    return ended


def _device(case: Case, micro: int) -> list[str]:
    """A budget between what this micro-batch and what the next larger one needs."""
    rows = micro * LEAST * case.forward_rows * case.ranks
    return [
        "device=cpu", f"device.memory={round(budget_for(rows * BALLAST, 0.1) / MIB)}MiB", "device.headroom=0.1", "recover.restarts=0",
        "trial.fresh=true", "trial.proof_timeout_s=600",
        f"ladder.wheels.micro_batch.values=[{micro}]", "run.root=runs",
    ]  # fmt: skip


def _folder(case: Case, folder: Path) -> None:
    """The person's folder: their script, their data, nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "seen").mkdir(parents=True)
    if case.script:
        shutil.copy(HERE / "scripts" / case.script, folder)
    if case.pictures:
        pictures.make(folder / "data")


def _run(argv: Sequence[str], folder: Path, place: Place, *, limit_s: float, ballast: int = 0) -> int:
    """Runs a command in its folder with the observer; its words go to two files there. Returns how it ended."""
    with (folder / OUT).open("wb") as out, (folder / ERR).open("wb") as err:
        process = subprocess.Popen(
            argv, cwd=folder, env=_environment(folder, place, ballast), stdout=out, stderr=err, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(limit_s)
        finally:
            _end(process)
        return process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what still runs: after its time, or because the person interrupts. autofit ends its own children when it is told to stop."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _environment(folder: Path, place: Place, ballast: int) -> Mapping[str, str]:
    """One thread, no network, nothing of the person's own state."""
    home = folder.parent / "home"
    places = {name: str(home / name.lower()) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "YOLO_CONFIG_DIR")}
    if ballast:
        places["XDG_STATE_HOME"] = str(folder / "state")  # nothing is learnt from one rung for the next
    return {
        **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        **places, "PATH": f"{place.python.parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "1", "WANDB_DISABLED": "true", "TOKENIZERS_PARALLELISM": "false", "TERM": "dumb",
        observer.OUT: str(folder / "seen"), **({observer.BALLAST: str(ballast)} if ballast else {}),
    }  # fmt: skip


def _judged(case: Case, plain: Path, own: Path) -> Row:
    answer = _answer(own / OUT)
    screen = (own / ERR).read_text(encoding="utf-8", errors="replace")
    run = Path(str(answer.get("run_dir") or own))
    words = "".join(_text((own / run) / name) for name in ("run.stdout.log", "run.stderr.log"))
    said = judge.said(answer, screen + words, ranks=case.ranks)
    before, after = measure.read(plain / "seen", full_run=False), measure.read(own / "seen", full_run=True)
    found = None
    if said.launched and before is not None and after is not None:
        files = (plain / case.keeps, own / case.keeps) if case.keeps else None
        found = measure.compare(before, after, kept=files)
    row: Row = {"verdict": judge.verdict(case, said, found), "said": said.as_row(), "words": said.words}
    row["trials"] = [{key: one.get(key) for key in ("rung", "verdict", "why", "seconds")} for one in answer.get("trials", ())]
    if found is not None:
        row |= {"measured": found.as_row(), "differs": judge.differences(found, case)}
    if said.launched and found is None:
        row["words"] = f"{said.words}; the run was not seen"
    return row


def _answer(out: Path) -> Row:
    for line in reversed(_text(out).splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            return found if isinstance(found, dict) else {}
    return {}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _tail(path: Path) -> str:
    return " / ".join(_text(path).strip().splitlines()[-3:])[:400]
