"""Which versions -> a row of what works with each, and the table of them all.

python -m benchmarks.versions                       every point that has no row yet
python -m benchmarks.versions --only yolo-8.4.150   one of them, whether it has a row or not
python -m benchmarks.versions --list                the points
python -m benchmarks.versions --table               only the table

A point is an environment of its own, made by uv beside the others and never the person's: autofit from this checkout with other versions
of Ultralytics, transformers, Lightning or accelerate, torch and Python. In it run the self-test, the tests that hold steps and gradients
against the plain run, the adapter's suite with its real trials, and a small fit with its full run. What is not named is the newest that
fits beside it. An environment in which all of it works is removed at the end; others stay, with what was printed.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.adapter import self_test

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "benchmarks" / "results" / "versions.jsonl"
TABLE = ROOT / "docs" / "versions.md"
RAN = ROOT / "launcher" / self_test.RAN
UV = ROOT / ".venv" / "bin" / "uv"
MOST_AT_ONCE = 2
LONGEST_S = 1800
Row = dict[str, Any]

BASE = ("hydra-core", "omegaconf", "pydantic", "pyyaml", "psutil", "nvidia-ml-py", "rich", "pytest", "pytest-timeout", "hypothesis")
"""What autofit itself and its tests need; autofit is installed without its dependencies, so that no range of its own hides a version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One environment."""

    name: str
    trainer: str
    """ultralytics, transformers or script: whose adapter is tried."""
    wants: tuple[str, ...]
    """Requirements, as pip writes them."""
    python: str = "3.11"
    pinned: bool = True
    """Torch and what it needs as in constraints.txt; else as ``wants`` says."""
    example: str = ""
    """Of the script adapter: whose script in examples/ is wrapped."""


def _points() -> Iterator[Point]:
    yield from map(_yolo, ("8.3.0", "8.3.100", "8.3.200", "8.3.253", "8.4.0"))
    yield from map(_yolo, (*(f"8.4.{patch}" for patch in range(30, 190, 30)), "8.4.185", "8.4.190"))
    yield from map(_text, ("4.50.3", "4.53.3", "4.57.6", "5.0.0", "5.3.0", "5.6.0", "5.10.4", "5.15.0", "5.20.0", "5.23.0"))
    for torch in ("2.4.1", "2.6.0", "2.8.0", "2.11.0"):
        yolo, text = ("ultralytics==8.4.150", f"torch=={torch}"), (*_HF, "transformers==4.57.6", f"torch=={torch}")
        yield Point(name=f"yolo-torch-{torch}", trainer="ultralytics", wants=yolo, pinned=False)
        yield Point(name=f"text-torch-{torch}", trainer="transformers", wants=text, pinned=False)
    for python in ("3.12", "3.13"):
        yield Point(name=f"yolo-python-{python}", trainer="ultralytics", wants=("ultralytics==8.4.190",), python=python)
    yield Point(name="yolo-newest", trainer="ultralytics", wants=("ultralytics", "torch"), pinned=False)
    yield Point(name="text-newest", trainer="transformers", wants=(*_HF, "transformers", "torch"), pinned=False)
    yield Point(name="yolo-oldest", trainer="ultralytics", wants=("ultralytics==8.3.0", "torch==2.4.1"), pinned=False)
    oldest = ("transformers==4.50.0", "accelerate==1.0.1", "peft==0.15.0", "torch==2.4.1", "soundfile", "jiwer", "scipy")
    yield Point(name="text-oldest", trainer="transformers", wants=oldest, pinned=False)
    old = ("accelerate==1.0.1", "peft==0.15.0", "transformers==4.57.6", "soundfile", "jiwer", "scipy")
    yield Point(name="text-accelerate-1.0.1", trainer="transformers", wants=old)
    for version in ("2.2.5", "2.4.0", "2.5.6"):  # before 2.2 it wants pydantic below 2.2, and autofit 2.9
        yield Point(name=f"lightning-{version}", trainer="script", wants=(f"lightning=={version}", _SETUPTOOLS), example="lightning")
    yield Point(name="lightning-newest", trainer="script", wants=("lightning",), example="lightning")
    torch_of_its_time = ("lightning==2.2.5", "torch==2.4.1", _SETUPTOOLS)
    yield Point(name="lightning-torch-2.4.1", trainer="script", wants=torch_of_its_time, pinned=False, example="lightning")
    for version in ("1.0.1", "1.6.0"):
        yield Point(name=f"accelerate-{version}", trainer="script", wants=(f"accelerate=={version}",), example="accelerate")


_SETUPTOOLS = "setuptools<80"
"""Which have the module pkg_resources, that Lightning before 2.4 imports without asking for it."""
_HF = ("accelerate>=1,<2", "peft", "soundfile", "jiwer", "scipy")


def _yolo(version: str) -> Point:
    return Point(name=f"yolo-{version}", trainer="ultralytics", wants=(f"ultralytics=={version}",))


def _text(version: str) -> Point:
    return Point(name=f"text-{version}", trainer="transformers", wants=(*_HF, f"transformers=={version}"))


POINTS: Mapping[str, Point] = {point.name: point for point in _points()}

TESTS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": (
        "tests/trainers/ultralytics/native/test_yolo_exact_accumulation.py",
        "tests/trainers/ultralytics/native/test_yolo_exact_checkpointing.py",
        "tests/trainers/ultralytics/test_adapter.py::TestUltralytics",
        *("-k", "images_as_the_asked or optimizer_is or validation_batch or (gradients and detect) or keeps_less or TestUltralytics"),
    ),
    "transformers": (
        "tests/trainers/transformers/native/test_hf_trainers.py",
        "tests/trainers/transformers/test_adapter.py::TestText",
        "tests/trainers/transformers/test_adapter.py::TestSpeech",
        *("-k", "one_times_four or to_the_end or three_ways or lora_trains or TestText or TestSpeech"),
    ),
    "script": (
        "tests/trainers/script/test_adapter.py::TestScript",
        "tests/trainers/script/inside/test_trial.py",
        *("-m", "slow or not slow", "-k", "TestScript or (driven_unchanged and {example})"),
    ),
}
"""Those that tell versions apart: steps and gradients against the plain run, the adapter's suite with its real trials."""
SCRIPT = str(ROOT / "examples" / "{example}" / "train.py")
FITS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": (
        *("train", "--json", "recipe=yolo_demo", "ask.image_size=320", "trainer.args.epochs=1", "trainer.args.fraction=0.25"),
        *("device.memory=592MiB", "ladder.wheels.micro_batch.floor=2", "trial.fresh=true"),
    ),
    "transformers": (
        "train",
        "--json",
        "recipe=llm_sft_demo",
        "ask.val_keeps=tokens",
        "trainer.args.num_train_epochs=1",
        "trial.fresh=true",
    ),
    "script": (
        "run",
        "--json",
        "device=cpu",
        "device.memory={memory}",
        "--",
        "{python}",
        SCRIPT,
        "--batch_size",
        "{batch}",
        "--epochs",
        "2",
    ),
}
"""What is asked really runs out of memory, so that a rung below it is tried, chosen and trained."""
ASKED: Mapping[str, Mapping[str, str]] = {
    "lightning": {"memory": "512MiB", "batch": "1024"},
    "accelerate": {"memory": "96MiB", "batch": "3584"},
}


# ---------------------------------------------------------------------------------------------------------------------------------
# An environment


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


# ---------------------------------------------------------------------------------------------------------------------------------
# What is tried in it


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
    row |= {"installed": True, "versions": _versions(python), "capabilities": _capabilities(python, point, folder)}
    keep(row)
    if "import" not in row["capabilities"]:
        row |= _fit(python, point, folder)
        keep(row)
        same = known is not None and "tests" in known and known["versions"] == row["versions"]
        row |= {"tests": known["tests"] if known is not None and same else _tests(python, point, folder)}
    return {**row, "seconds": round(time.monotonic() - began)}


def finished(row: Row | None) -> bool:
    """Whether the point needs no further try: a row of one that was interrupted says no time."""
    return row is not None and (not row["installed"] or "seconds" in row)


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


def _capabilities(python: Path, point: Point, folder: Path) -> dict[str, str]:
    """Capability that fails -> why; made anew each time, and kept for the point's tests and fit. A script's trainer has none."""
    if point.trainer == "script":
        return {}
    shutil.rmtree(_cache(point, folder), ignore_errors=True)
    code = (
        "import json\n"
        "from launcher.adapter import self_test as capabilities\n"
        f"from launcher.trainers.{point.trainer} import environment\n"
        f"module = 'launcher.trainers.{point.trainer}.inside.capabilities'\n"
        f"found = capabilities.of('{point.trainer}', module=module, checked=(), prepare=environment.prepare)\n"
        "print(json.dumps(found.failed))"
    )
    ended = subprocess.run([str(python), "-P", "-c", code], capture_output=True, text=True, env=_env(point, folder), check=False)
    try:
        return dict(json.loads(ended.stdout.strip().splitlines()[-1]))
    except (ValueError, IndexError):
        return {"import": _last_line(ended.stderr)}


def _cache(point: Point, folder: Path) -> Path:
    return folder / f"{point.name}-cache"


def _env(point: Point, folder: Path) -> dict[str, str]:
    own = {"XDG_CACHE_HOME": str(_cache(point, folder)), "CUDA_VISIBLE_DEVICES": ""}
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
    argv = [str(python), "-P", "-m", "launcher", verb, f"run.root={place / 'runs'}", *words]
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


# ---------------------------------------------------------------------------------------------------------------------------------
# Rows and the table


def read(path: Path) -> dict[str, Row]:
    """The last row of every point; a torn line is as if it had not been written."""
    rows: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            rows[row["point"]] = row
        except (ValueError, KeyError, TypeError):
            continue
    return rows


def write(path: Path, row: Row) -> None:
    """The row in the place of the point's earlier one."""
    with (path.parent / ".versions.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = {**read(path), row["point"]: row}
        beside = path.with_suffix(".new")
        beside.write_text("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in rows.values()), encoding="utf-8")
        beside.replace(path)


def table(rows: Iterable[Row]) -> str:
    """The rows as the Markdown of docs/versions.md's middle part."""
    lines = ["| point | versions | capabilities that fail | tests | fit and full run |", "|---|---|---|---|---|"]
    order = {name: place for place, name in enumerate(POINTS)}
    for row in sorted(rows, key=lambda row: order.get(row["point"], len(order))):
        if not row.get("installed"):
            lines.append(f"| {row['point']} | can't be installed: {row.get('why', '')} | | | |")
            continue
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items() if name != "numpy")
        failed = "; ".join(f"{name}: {why}" for name, why in row["capabilities"].items()) or "none"
        lines.append(f"| {row['point']} | {versions} | {failed} | {_told_of_tests(row.get('tests'))} | {_told_of_run(row)} |")
    return "\n".join(lines)


def _told_of_tests(tests: Row | None) -> str:
    if not tests:
        return "not run"
    return f"{tests['passed']} passed" + (f", {len(tests['failed'])} failed: {', '.join(tests['failed'])}" if tests["failed"] else "")


def _told_of_run(row: Row) -> str:
    """What the run came to, and before it what was tried of the ladder."""
    fit = row.get("fit")
    tried = f"rungs {', '.join(fit['trials'])}; effective batch {fit['effective_batch']}; run " if fit else ""
    return f"{tried}{row.get('run', 'not run')}"


_NAMED = {"ultralytics": "Ultralytics", "transformers": "transformers", "lightning": "Lightning", "accelerate": "accelerate"}
_BESIDE = {"torch": "torch", "python": "Python"}


def summary(rows: Iterable[Row]) -> str:
    """What works in every respect, as one sentence: of each package the versions that were run, and nothing between them."""
    seen: dict[str, set[str]] = {name: set() for name in (*_NAMED, *_BESIDE)}
    count = 0
    for row in filter(works, rows):
        count += 1
        for name in (_package(row), *_BESIDE):
            seen[name].add(row["versions"][name])
    told = "; ".join(f"{(_NAMED | _BESIDE)[name]} {', '.join(sorted(of, key=self_test.numbers))}" for name, of in seen.items() if of)
    return (
        f"Everything passed in {count} environment{'s' * (count > 1)}: {told}." if count else "No environment has been run to its end yet."
    )


def _package(row: Row) -> str:
    """What a point is about: the trainer's package, or the one that its example is written with."""
    return row["trainer"] if row["trainer"] != "script" else next(name for name in ("lightning", "accelerate") if name in row["versions"])


BEGIN, END = "<!-- made by `make versions` -->", "<!-- end -->"


def write_table(rows: Iterable[Row]) -> None:
    rows = list(rows)
    text = TABLE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    TABLE.write_text(f"{before}{BEGIN}\n\n{summary(rows)}\n\n{table(rows)}\n\n{END}{after}", encoding="utf-8")


def passed(row: Row) -> bool:
    """Some tests ran, and none failed."""
    return bool(row["tests"]["passed"]) and not row["tests"]["failed"]


def works(row: Row) -> bool:
    """Whether nothing at all failed: capabilities, tests, fit and full run."""
    return finished(row) and bool(row["installed"]) and not row["capabilities"] and row.get("run") == "ended" and passed(row)


def ran(rows: Iterable[Row]) -> dict[str, dict[str, str]]:
    """What `launcher/versions.json` says: of every trainer's package the versions that work, each with what it was run with."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        versions = row.get("versions", {})
        if row["trainer"] in versions and works(row):
            beside = f"torch {versions['torch']}, Python {versions['python']}"
            found.setdefault(row["trainer"], {}).setdefault(versions[row["trainer"]], beside)
    return {name: dict(sorted(of.items(), key=lambda one: self_test.numbers(one[0]))) for name, of in sorted(found.items())}


def write_ran(rows: Iterable[Row]) -> None:
    RAN.write_text(json.dumps(ran(rows), indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="POINT", choices=POINTS, help="this one (may be given again)")
    parser.add_argument("--list", action="store_true", help="names the points")
    parser.add_argument("--table", action="store_true", help="only makes the table anew")
    parser.add_argument("--jobs", type=int, default=1, choices=range(1, MOST_AT_ONCE + 1), help="points at once (default 1)")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "versions", help="where the environments are")
    parser.add_argument("--fit-again", action="store_true", help="self-test, fit and run anew; tests stay those of the row")
    asked = parser.parse_args(argv)
    if asked.list:
        print("\n".join(POINTS))
        return 0
    left = [] if asked.table else [POINTS[name] for name in asked.only or POINTS if asked.only or not finished(read(DATA).get(name))]
    asked.folder.mkdir(parents=True, exist_ok=True)

    def one(point: Point) -> None:
        known = read(DATA).get(point.name) if asked.fit_again else None
        row = tried(point, asked.folder.absolute(), keep=lambda row: write(DATA, row), known=known)
        write(DATA, row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if works(row):  # what failed is left to be looked at
            for place in (point.name, f"{point.name}-cache", f"{point.name}-runs"):
                shutil.rmtree(asked.folder / place, ignore_errors=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, left))
    write_table(read(DATA).values())
    write_ran(read(DATA).values())
    return 0


if __name__ == "__main__":
    sys.exit(main())
