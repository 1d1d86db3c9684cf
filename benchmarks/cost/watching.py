"""What watching a full run costs it: samples per second watched and unwatched, in turn, and the processor time of the watcher.

    python -m benchmarks.cost.watching [--pairs 30] [--seconds 8] [--out benchmarks/results/watching_cost.json]

The run is a loop of matrix products on all cores that prints a bar ten times a second and has two idle children. Watched: all of
``supervise.follow`` (memory, logs, progress, time series). Unwatched: the same process, waited for. Which goes first alternates, so that a
drifting machine drifts for both. The processor time is that of the watching process beyond waiting, as a part of all cores: what a
run that uses them all can lose.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.config.schema import DeviceRules, LadderRules, Recipe, TrainerRules
from autofit_launcher.full_run import run
from autofit_launcher.history.records import AttemptRecord
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.machine import process
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial.job import Job

ROOT = Path(__file__).resolve().parents[2]
WORK = """
import subprocess, sys, time
import numpy
others = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) for _ in range(2)]
weights, data = numpy.random.rand(384, 384), numpy.random.rand(384, 384)
steps, told = 0, 0.0
began = time.perf_counter()
while (now := time.perf_counter()) - began < float(sys.argv[1]):
    data = numpy.tanh(weights @ data)
    steps += 1
    if now - told > 0.1:
        told = now
        bar = f"Epoch 1/1:  50%|#####     | {steps}/100000 [00:12<00:12, 3.0it/s, loss={data.mean():.4f}]"
        print(bar, end="\\r", file=sys.stderr, flush=True)
print(steps / (time.perf_counter() - began), flush=True)
for other in others:
    other.kill()
"""
Follow = Callable[[Job, process.Child], Any]


def job(root: Path) -> Job:
    rules = TrainerRules(adapter="script", args={"command": ["python", "work.py"]})
    recipe = Recipe(name="watched", ask={"micro_batch": 8}, trainer=rules, ladder=LadderRules(order=("micro_batch",)), device=DeviceRules())
    adapter = load_adapter("script")(recipe)
    budget = replace(cpu_budget(), emulated=False)
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=budget, folder=RunFolder.create(root, "watched"))


def watched(job: Job, child: process.Child) -> None:
    run.follow(job, child, AttemptRecord(began=time.time()), base_bytes=0)


def unwatched(job: Job, child: process.Child) -> None:
    child.process.wait()


def measured(follow: Follow, root: Path, seconds: float) -> tuple[float, float]:
    """(steps per second of the run, processor seconds of this process per second while it runs: starting and ending are not counted)"""
    this = job(root)
    work = this.folder.path / "work.py"
    work.write_text(WORK, encoding="utf-8")
    files = this.folder.attempt(1)
    child = process.start((sys.executable, str(work), str(seconds)), env={}, stdout=files.stdout, stderr=files.stderr)
    looks: list[tuple[float, float]] = []
    timers = [threading.Timer(after, lambda: looks.append((time.perf_counter(), time.process_time()))) for after in (2.0, seconds)]
    for timer in timers:
        timer.start()
    follow(this, child)
    for timer in timers:
        timer.join()
    (began, before), (ended, after) = looks
    cost = (after - before) / (ended - began)
    return float(files.stdout.read_text(encoding="utf-8").split()[-1]), cost


def interval(values: list[float], *, draws: int = 2000) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "watching_cost.json")
    chosen = parser.parse_args()
    cores, ratios, costs = len(os.sched_getaffinity(0)), [], []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as root:
        for number in range(chosen.pairs):
            order: list[Follow] = [watched, unwatched] if number % 2 else [unwatched, watched]
            taken = {one: measured(one, Path(root), chosen.seconds) for one in order}
            ratios.append(taken[watched][0] / taken[unwatched][0])
            costs.append((taken[watched][1] - taken[unwatched][1]) / cores)
            print(f"pair {number + 1}: watched/unwatched {ratios[-1]:.4f}, watcher {costs[-1]:.3%} of {cores} cores", flush=True)
    result = {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": cores, "python": platform.python_version()},
        "load_before": load,
        "pairs": chosen.pairs,
        "seconds": chosen.seconds,
        "watcher_part_of_all_cores": {"median": round(statistics.median(costs), 5), "most": round(max(costs), 5)},
        "throughput_ratio": {"median": round(statistics.median(ratios), 4), "interval_95": [round(one, 4) for one in interval(ratios)]},
        "ratios": [round(one, 4) for one in ratios],
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "ratios"}, indent=1))


if __name__ == "__main__":
    main()
