"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image

from autofit_launcher.common import interpreter
from autofit_launcher.machine import device_lock
from autofit_launcher.machine.forks import Forks
from autofit_launcher.machine.process import TOKEN

os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # ``python`` is this one, as in an active venv
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
"""Threads of torch that wait sleep: on a busy machine spinning ones cost the trials two and a half times the processor's time."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background, and so all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = frozenset({
    "test_recovery", "test_launch", "test_end_to_end", "test_trial", "test_same", "test_adapter", "test_other_version",
    "test_fourth_trainer", "test_accumulate", "test_traps", "test_gpu_check", "test_screens", "test_hf_trainers", "test_terminal",
})  # fmt: skip
"""Files that take longest, by name. They are begun first: of the files that are worked off side by side none is left alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(autouse=True, scope="module")
def objects_of_other_files_are_left_alone() -> None:
    """Millions that were imported and made so far: what is tested asks for all objects there are, or collects garbage, again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries say at the end what they find alive


def launched_with(variable: str, place: Path) -> list[int]:
    """Living processes that carry a launcher's token, and a variable whose value is under ``place``."""
    found = []
    for one in psutil.process_iter():
        try:
            env = one.environ()
        except psutil.Error:
            continue
        if TOKEN in env and env.get(variable, "").startswith(str(place)):
            found.append(one.pid)
    return found


def failed_above(said: Mapping[str, Any]) -> set[str]:
    """Verdicts of the trials above the chosen rung, which has really fitted, in whatever order a search has made them."""
    verdicts = {one["rung_index"]: one["verdict"] for one in said["trials"]}
    assert verdicts[said["rung_index"]] == "fits", said["trials"]
    return {verdict for index, verdict in verdicts.items() if index < said["rung_index"]}


def write_yolo_dataset(root: Path, *, train: int = 12, val: int = 6, size: int = 96, classes: int = 3, dense: int = 20) -> Path:
    """A tiny detection data set of noise; the first training image has ``dense`` labels. Returns its data.yaml."""
    generator = np.random.default_rng(0)
    for split, count in (("train", train), ("val", val)):
        (root / "images" / split).mkdir(parents=True)
        (root / "labels" / split).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(generator.integers(0, 255, (size, size, 3), dtype=np.uint8)).save(root / "images" / split / f"{number}.jpg")
            rows = [
                f"{generator.integers(classes)} " + " ".join(f"{value:.4f}" for value in (*generator.uniform(0.2, 0.8, 2), 0.2, 0.2))
                for _ in range(dense if number == 0 else 3)
            ]
            (root / "labels" / split / f"{number}.txt").write_text("\n".join(rows) + "\n")
    data = root / "data.yaml"
    data.write_text(f"path: {root}\ntrain: images/train\nval: images/val\nnames: {[f'class{i}' for i in range(classes)]}\n")
    return data


@pytest.fixture(autouse=True, scope="session")
def nothing_of_the_persons_is_learned_from(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests' trials keep is none of the person's; theirs steer no test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def python_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test trains with the Python of its own command, not of one before: a process is one launch's."""
    monkeypatch.setattr(interpreter, "_FOLLOWED", [])


@pytest.fixture(autouse=True)
def turns_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test with a card of the stand-ins waits for no other launch on this machine, and nobody for it."""
    monkeypatch.setenv(device_lock.VARIABLE, str(tmp_path_factory.mktemp("turns")))


@pytest.fixture(autouse=True)
def memory_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's launches find no fit that another's have kept, and learn nothing from them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(autouse=True)
def servers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test's trials are forked off ends with the test: each has libraries in 400 MiB of its own."""
    begun, begin = list[Forks](), Forks.begin
    monkeypatch.setattr(Forks, "begin", lambda this, *how: begun.append(this) or begin(this, *how))
    yield
    for one in begun:
        one.end()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test stands in a folder of its own: nothing that it makes is left in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def yolo_dataset(tmp_path: Path) -> Path:
    """The data.yaml of a tiny detection data set."""
    return write_yolo_dataset(tmp_path / "dataset")
