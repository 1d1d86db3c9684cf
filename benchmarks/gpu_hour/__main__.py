"""`make gpu-hour`: what no card has shown yet, worth first, each step's result a row as it ends. The same command later goes on.

python -m benchmarks.gpu_hour [STEP ...] [--out FOLDER] [--minutes N] [--wheels FOLDER] [--who NAME] [--sent]

Nothing is fetched: what the interpreter lacks is taken from a folder of wheels, into a folder of this command's own.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = "GPU_HOUR_SITE"


def main(argv: Sequence[str]) -> int:
    """Exit status 1 where a claim doesn't hold."""
    parser = argparse.ArgumentParser(prog="gpu-hour", allow_abbrev=False)
    parser.add_argument("step", nargs="*", default=[], help="all where none is named")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "gpu-hour", help="takes gpu-hour.jsonl and gpu-hour.log")
    parser.add_argument("--minutes", type=float, default=math.inf, help="all that is not over by then is ended; the same command goes on")
    parser.add_argument("--wheels", type=Path, help="packages that the interpreter lacks")
    parser.add_argument("--who", default="", help="measures, in what is sent")
    parser.add_argument("--sent", action="store_true", help="only the five cases that a person sends")
    asked = parser.parse_args(argv)
    asked.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + 60 * asked.minutes
    if SITE not in os.environ:
        place = Path(tempfile.mkdtemp(prefix="gpu-hour-"))
        behind = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), site(place, asked.wheels), str(ROOT / "launcher")])
        env = {**os.environ, SITE: str(place), "PYTHONPATH": behind}
        left = ("--minutes", f"{(ends - time.monotonic()) / 60:.3f}") if asked.minutes < math.inf else ()
        return subprocess.run([sys.executable, "-m", "benchmarks.gpu_hour", *argv, *left], cwd=ROOT, env=env, check=False).returncode
    return walked(asked, ends)


def site(place: Path, wheels: Path | None) -> str:
    """A folder for PYTHONPATH: the wheels, and autofit's entry points where it isn't installed."""
    folder = place / "site"
    folder.mkdir()
    for wheel in sorted(wheels.glob("*.whl")) if wheels is not None else ():
        zipfile.ZipFile(wheel).extractall(folder)
    if not importlib.metadata.entry_points(group="autofit.adapters"):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        told = folder / f"autofit_launcher-{project['version']}.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
        named = [f"{name} = {where}" for name, where in project["entry-points"]["autofit.adapters"].items()]
        (told / "entry_points.txt").write_text("\n".join(["[autofit.adapters]", *named]) + "\n")
    return str(folder)


def walked(asked: argparse.Namespace, ends: float) -> int:
    from benchmarks.gpu_check import play, sent
    from benchmarks.gpu_check.rows import Rows, common
    from benchmarks.gpu_hour.steps import STEPS, Bench

    budget, driver = play.card()
    rows = Rows(path=asked.out / "gpu-hour.jsonl", common=common(card=budget.name, uuid="", driver=driver))
    bench = Bench(place=Path(os.environ[SITE]), log=asked.out / "gpu-hour.log", rows=rows.path, budget=budget, ends=ends)
    fails = 0
    for step in STEPS:
        if (asked.step and step.name not in asked.step) or (asked.sent and not step.sent):
            continue
        if any(row["kind"] == "step" for row in rows.of("H", step.name)):
            print(f"{step.name}: there already", flush=True)
            continue
        left = ends - time.monotonic()
        if left < step.seconds:
            print(f"{step.name}: left for another command ({left:.0f} s are too few)", flush=True)
            continue
        began = time.monotonic()
        try:
            found = step.act(bench)
        except Exception as error:  # one step that breaks takes no other with it
            traceback.print_exc(file=sys.stdout)
            found = {"claims": {"ends": {"holds": False, "figures": type(error).__name__}}, "cut": True}
        kind = "cut" if found.pop("cut", False) or time.monotonic() >= ends else "step"
        rows.add("H", step.name, kind, seconds=round(time.monotonic() - began, 1), **found)
        print(f"{step.name}: {time.monotonic() - began:.0f} s{', cut off' if kind == 'cut' else ''}", flush=True)
        for name, one in found["claims"].items():
            fails += one["holds"] is False
            print(f"  {sent.WORDS[one['holds']]:7} {name}: {one['figures']}", flush=True)
        for line in found.get("told", ()):
            print(f"    {line}", flush=True)
    sent.write(rows, [step.name for step in STEPS if step.sent], asked.out / "proof.json", who=asked.who)
    return int(fails > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
