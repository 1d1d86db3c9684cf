"""Makes a point's environment and runs in it what there is to run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.common.rows import ROOT, Row
from benchmarks.versions.cases import ASKED, FITS, TESTS, Point

UV = ROOT / ".venv" / "bin" / "uv"
LONGEST_S = 1800
BASE = ("hydra-core", "omegaconf", "pydantic", "pyyaml", "psutil", "nvidia-ml-py", "rich", "pytest", "pytest-timeout", "hypothesis")
"""What autofit itself and its tests need; autofit is installed without its dependencies, so that no range of its own hides a version."""


def environment(point: Point, folder: Path) -> Path:
    """The Python of the point's environment, which is made where it isn't there. Raises CalledProcessError where it can't be."""
    place = folder / point.name
    python, made = place / "bin" / "python", place / "made"
    if made.is_file():
        return python
    _uv("venv", "--quiet", "--clear", "--python", point.python, str(place))
    constraints = folder / f"{point.name}.txt"
    constraints.write_text("\n".join(_kept_pins() if point.pinned else ()), encoding="utf-8")
    wants = (*point.wants, *BASE, "scikit-learn", "pillow", "torchvision")
    _uv("pip", "install", "--quiet", "--python", str(place), "--constraint", str(constraints), *wants)
    _uv("pip", "install", "--quiet", "--python", str(place), "--no-deps", "--editable", str(ROOT))
    made.touch()
    return python


_OF_TORCH = re.compile(r"(torch|torchvision|triton|nvidia-.*|cuda-.*)==")


def _kept_pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if _OF_TORCH.match(line)]


def _uv(*words: str) -> None:
    env = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    subprocess.run([str(UV), *words], check=True, capture_output=True, text=True, env=env)


def tried(point: Point, folder: Path, keep: Callable[[Row], None] = lambda row: None, *, known: Row | None = None) -> Row:
    """The row of one point; ``keep`` gets it after every stage. What could not be done stands in it as words.

    The tests of ``known``, an earlier row, are not run again where they ran with the same versions.
    """
    began = time.monotonic()
    row: Row = {"point": point.name, "trainer": point.trainer, "wants": list(point.wants), "python": point.python}
    try:
        python = environment(point, folder)
    except subprocess.CalledProcessError as error:
        return {**row, "installed": False, "why": _last_line(error.stderr)}
    row |= {"installed": True, "versions": _versions(python)}
    keep(row)
    row |= _fit(python, point, folder)
    keep(row)
    same = known is not None and "tests" in known and known["versions"] == row["versions"]
    row |= {"tests": known["tests"] if known is not None and same else _tests(python, point, folder)}
    return {**row, "seconds": round(time.monotonic() - began)}


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return re.sub(r"https?://\S+", "(an index)", lines[-1])[:300] if lines else ""


_SHOWN = ("ultralytics", "transformers", "lightning", "accelerate", "peft", "torch", "torchvision", "numpy")


def _versions(python: Path) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json, platform\n"
        f"names = {_SHOWN!r}\n"
        "there = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "print(json.dumps({'python': platform.python_version(), **{n: there[n] for n in names if n in there}}))"
    )
    return dict(json.loads(subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout))


def _env(point: Point, folder: Path) -> dict[str, str]:
    own = {"XDG_CACHE_HOME": str(folder / f"{point.name}-cache"), "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "", **own}  # torch compiled anew in each process: 10 s


def _tests(python: Path, point: Point, folder: Path) -> Row:
    argv = [str(python), "-m", "pytest", "--tb=line", "--durations=12", "-p", "no:cacheprovider", "-rfE", *_words(TESTS, point, python)]
    try:
        ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=_env(point, folder), check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return {"passed": 0, "failed": [f"no end after {LONGEST_S} s"]}
    (folder / f"{point.name}-tests.txt").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", ended.stdout)}
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::(\S+)", ended.stdout, flags=re.MULTILINE)
    if ended.returncode and not failed:
        failed = [f"pytest ended with {ended.returncode}"]
    return {"passed": counts.get("passed", 0), "skipped": counts.get("skipped", 0), "failed": sorted(set(failed))}


def _words(of: Mapping[str, tuple[str, ...]], point: Point, python: Path) -> list[str]:
    told = {"example": point.example, "python": str(python), **ASKED.get(point.example, {})}
    return [word.format_map(told) if point.example else word for word in of[point.trainer]]


def _fit(python: Path, point: Point, folder: Path) -> Row:
    """The fit of more than there is room for, and the full run it launches."""
    place = folder / f"{point.name}-runs"
    place.mkdir(exist_ok=True)
    verb, *words = _words(FITS, point, python)
    argv = [str(python), "-P", "-m", "autofit_launcher", verb, f"run.root={place / 'runs'}", *words]
    told: Row = {"env": _env(point, folder), "stdin": subprocess.DEVNULL, "timeout": LONGEST_S}
    try:
        ended = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False, **told)
    except subprocess.TimeoutExpired:
        return {"run": "no end"}
    (folder / f"{point.name}-fit.txt").write_text(ended.stderr, encoding="utf-8")
    run = "ended" if ended.returncode == 0 else _last_line(ended.stderr or ended.stdout)
    return {"run": run.replace(str(place), "RUNS"), **_chosen(ended.stdout)}


def _chosen(stdout: str) -> Row:
    """What the fit came to, of the line that --json prints; nothing where there is none."""
    try:
        record = json.loads(stdout.strip().splitlines()[-1])
        trials = [f"{one['rung_index']}: {one['verdict']}" for one in record["trials"]]
        peaks = record.get("memory") or {}
        over = peaks["run_peak_bytes"] / peaks["trial_peak_bytes"] if peaks and all(peaks.values()) else None
    except (ValueError, IndexError, KeyError, TypeError):
        return {}
    kept = {name: record.get(name) for name in ("rung", "rung_index", "accumulation", "effective_batch")}
    return {"fit": {**kept, "trials": trials, "run_over_trial": over and round(over, 3)}}
