"""What autofit itself costs: the time to answer --help, and its own share of a whole `train` beside the trials and the full run.

    python benchmarks/cost/launcher.py [--out benchmarks/results/launcher_overhead.json]

Both are taken in one run on one machine. Its own share is the wall time of the process less the seconds of the children that it
waited for (each trial's and the run's, as recorded). The floor of any Python command, ``python -c pass``, is measured side by side.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("autofit-launcher", "hydra-core", "omegaconf", "pydantic", "torch", "ultralytics")


def seconds(argv: list[str], cwd: Path) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def medians(commands: dict[str, list[str]], cwd: Path, runs: int) -> dict[str, float]:
    """Median seconds of each command, run in turn so that a drifting machine drifts for all."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, argv in commands.items():
            taken[name].append(seconds(argv, cwd)[0])
    return {name: round(statistics.median(values[1:]), 4) for name, values in taken.items()}  # the first is a warm-up


def own_share(autofit: str, cwd: Path, data: Path, runs: int) -> dict[str, Any]:
    shares = []
    for _ in range(runs):
        words = ["train", "recipe=yolo_demo", f"data={data}", "ask.micro_batch=4", "ask.image_size=96", "device.memory=4GiB"]
        words += ["ladder.wheels={}", "trainer.args.epochs=1", "trial.fresh=true"]
        wall, out = seconds([autofit, *words, "--json"], cwd)
        said = json.loads(out.splitlines()[-1])
        children = sum(one["seconds"] for one in said["trials"]) + said["run"]["seconds"]
        shares.append({"wall_s": round(wall, 3), "children_s": round(children, 3), "own_s": round(wall - children, 3)})
    return {"runs": shares, "own_s_median": statistics.median(one["own_s"] for one in shares)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "launcher_overhead.json")
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    autofit = str(Path(sys.executable).parent / "autofit")
    sys.path.insert(0, str(ROOT))
    from tests.conftest import write_yolo_dataset

    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "autofit --help": [autofit, "--help"],
            "autofit recipes": [autofit, "recipes"],
            "autofit ladder recipe=yolov8x_a100": [autofit, "ladder", "recipe=yolov8x_a100"],
        }
        result = {
            "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
            "load_before": os.getloadavg()[0],
            "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
            "median_s": medians(commands, cwd, runs=10),
            "train": own_share(autofit, cwd, write_yolo_dataset(cwd / "dataset"), chosen.runs),
        }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
