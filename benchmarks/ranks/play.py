"""A case -> its rows: `autofit` with the fault done to one rank of its trials or its run, what it said of each, and how long that took."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT
from benchmarks.ranks.cases import GENERATOR, Case

Row = dict[str, Any]
MARK = "AUTOFIT_RANKS_CASE"
HERE = Path(__file__).parent
LONGEST_S = 420.0
"""A case that takes longer has hung: that is a finding."""
STALL_S = 20.0
"""``recover.stall_s`` of all cases: a rank that hangs is seen by that alone."""
_DONE = re.compile(r"FAULT DONE ([\d.]+)")
_NAMED = re.compile(r"\brank[ :\]]*(\d+)")


def play(case: Case, place: Path) -> list[Row]:
    """A row for the run, or for each trial: where none fits, autofit tries lower rungs for its advice."""
    folder = place / str(case.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.time()
    status, hung = _launched(case, folder)
    common = {
        "seed": case.seed, "generator": GENERATOR, "trainer": case.trainer, "ranks": case.ranks, "fault": case.fault, "rank": case.rank,
        "where": case.where, "status": status, "hung": hung, "left": _left(folder),
        "took_s": round(time.time() - began, 1), "began": datetime.fromtimestamp(began).isoformat(timespec="seconds"),
        "versions": versions("accelerate"), "machine": machine(), "commit": commit(),
    }  # fmt: skip
    rows = [{**common, **one} for one in _verdicts(case, folder)]
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def _words(case: Case) -> list[str]:
    common = [f"recover.stall_s={STALL_S}", "recover.restarts=0", "trial.proof_timeout_s=0"]
    if case.trainer == "script":
        torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nproc_per_node", str(case.ranks)]
        script = [str(HERE / "scripts" / "train.py"), *(["--epochs", "200"] if case.where == "run" else [])]
        only = ["--fit-only"] if case.where == "trial" else []
        floor = "ladder.wheels.micro_batch.floor=16"
        return ["run", *only, *common, "device=cpu", "device.memory=1GiB", floor, "--", *torchrun, *script]
    sums, cards = ROOT / "runs" / "ranks" / "sums", [f"device.cards={case.ranks}"] if case.ranks > 1 else []
    asked = ["ask.micro_batch=2", "ask.val_micro_batch=2", f"data={sums}", f"ask.model={sums}/model", "ladder.wheels.micro_batch.floor=2"]
    return ["fit", "recipe=llm_sft_demo", *common, *asked, *cards, "device.memory=480MiB", "ladder.order=[micro_batch]", "trial.fresh=true"]


def _launched(case: Case, folder: Path) -> tuple[int | None, bool]:
    """(exit status, whether it had to be ended)"""
    order = {"fault": case.fault, "rank": case.rank, "step": case.step, "where": case.where}
    path = os.pathsep.join(map(str, (HERE / "inject", ROOT)))
    env = {**os.environ, "PYTHONPATH": path, MARK: str(folder), "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(folder / "state")}
    if case.fault != "none":
        env["FAULT"] = json.dumps(order)
    words = _words(case)
    at = words.index("--") if "--" in words else len(words)
    argv = [sys.executable, "-P", "-m", "autofit_launcher", *words[:at], "--json", *words[at:]]
    with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
        child = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(LONGEST_S), False
        child.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(60), True
        child.kill()
        return None, True


def _verdicts(case: Case, folder: Path) -> list[Row]:
    """What was said of each trial, or of the run, and how long after the fault."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("runs/**/record.json")]
    found = [one for record in records for one in record["trials" if case.where == "trial" else "attempts"]]
    if not found:
        return [{"struck": True, "verdict": "", "why": _last(folder / "stderr"), "seconds": None, "named": False}]
    return [_verdict(case, folder, one) for one in found]


def _verdict(case: Case, folder: Path, told: Row) -> Row:
    log = f"trials/{told['rung_index']:03}/stderr.log" if case.where == "trial" else "run.stderr.log"
    logs = (path.read_text(encoding="utf-8", errors="replace") for path in folder.glob(f"runs/autofit/*/{log}"))
    at = max((float(one) for text in logs for one in _DONE.findall(text)), default=None)
    verdict = Path(told.get("folder", "")) / "verdict.json"
    ended = verdict.stat().st_mtime if case.where == "trial" else told["began"] + told["seconds"]
    why = str(told.get("why", told.get("evidence", "")))
    rank = _NAMED.search(why)
    return {
        "struck": at is not None, "verdict": told.get("verdict", told.get("ended", "")), "why": why[-600:],
        "seconds": round(ended - at, 2) if at is not None else None,
        "named": rank is not None and int(rank[1]) == case.rank, "trial_s": told.get("seconds"),
        "memory": bool(told.get("source")),
    }  # fmt: skip


def _last(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-600:]


def _left(folder: Path) -> list[str]:
    """Processes of the case that are still there after it."""
    time.sleep(0.5)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline())[:200])
    return found
