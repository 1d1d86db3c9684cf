"""An Ultralytics run that is ended between two saves, whole, and goes on: what a run that was killed in a save is held against."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import torch

from benchmarks.ckpt_chaos import launch, trainings
from benchmarks.faults import inject

LONGEST_S = 600.0


def ended_after(training: str, epochs: int, place: Path) -> None:
    """Makes ``place/out``. Raises RuntimeError where the run was over before it could be ended, or did not go on."""
    place.mkdir(parents=True)
    out = place / "out"
    argv = [sys.executable, "-I", launch.__file__]
    with subprocess.Popen([*argv, "train", training, "job", str(out)]) as job:
        _end(psutil.Process(job.pid), training, epochs, out)
    subprocess.run([*argv, "resume", training, "job", str(out)], check=True, stdout=subprocess.DEVNULL)
    if (found := trainings.went_on_from(training, out)) != epochs:
        raise RuntimeError(f"it went on from epoch {found}, not {epochs}")


def _end(job: psutil.Process, training: str, epochs: int, out: Path) -> None:
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end and job.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.02)
        record = launch.run_folder(out)
        if record is None or trainings.came_to(training, out) < epochs or not (trainer := inject.trainers(job.pid, record.parent)[:1]):
            continue
        trainer[0].suspend()
        if _whole(record.parent / "run" / "weights", epochs) and trainings.came_to(training, out) == epochs:
            job.kill()
            trainer[0].kill()
            return
        trainer[0].resume()
    raise RuntimeError(f"it was not ended after epoch {epochs}")


def _whole(weights: Path, epochs: int) -> bool:
    try:
        found = [torch.load(weights / name, weights_only=False) for name in ("last.pt", "best.pt")]
    except Exception:  # whatever a torn pickle raises
        return False
    return bool(found[0]["epoch"] + 1 == epochs)
