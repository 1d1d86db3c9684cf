"""Labels on a card: one process of a launch scans them, and its run finds that scan where Ultralytics would leave its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.common.orders import LABELS
from tests.conftest import write_yolo_dataset

Scans = Callable[..., int]


@pytest.fixture
def scans(exact: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scans:
    """How many scans a process of the launch makes: a trial on a device, or the run."""
    from ultralytics.data import dataset, utils

    from autofit_launcher.trainers.ultralytics.inside import hooks

    monkeypatch.setenv(LABELS, str(tmp_path / "launch"))
    if "st_mtime_ns" not in utils.get_hash.__code__.co_names:
        pytest.skip("this Ultralytics doesn't see that a file of the same size was written since: each process scans")
    made: list[Path] = []
    scan = dataset.YOLODataset.cache_labels
    monkeypatch.setattr(dataset.YOLODataset, "cache_labels", lambda this, path: made.append(path) or scan(this, path))  # type: ignore[func-returns-value]

    def in_a_process(trial_on: str = "", *, writeable: bool = True) -> int:
        made.clear()
        module: Any = SimpleNamespace(**{**vars(utils), "is_dir_writeable": lambda _: writeable})
        if trial_on:
            told: Any = SimpleNamespace(orders=SimpleNamespace(device=trial_on))
            hooks.hooks(told)["ultralytics.data.utils"][1](module)
        else:
            exact._take_labels(str(tmp_path / "launch"))
        for name in ("load_dataset_cache_file", "save_dataset_cache_file"):
            monkeypatch.setattr(dataset, name, getattr(module, name))
        found = dataset.YOLODataset(img_path=str(tmp_path / "data/images/train"), data={"names": dict.fromkeys(range(3))}, imgsz=64)
        assert sum(len(one["cls"]) for one in found.labels) == 20 + 11 * 3
        return len(made)

    write_yolo_dataset(tmp_path / "data")
    return in_a_process


def test_labels_are_scanned_once_for_trials_and_run(scans: Scans, tmp_path: Path) -> None:
    assert scans("cuda") == 1 and not (tmp_path / "data/labels/train.cache").exists(), "a trial leaves nothing beside the data"
    assert scans("cuda") == 0
    assert scans() == 0 and (tmp_path / "data/labels/train.cache").is_file(), "where the plain command leaves it"


def test_labels_that_were_written_since_are_scanned_again(scans: Scans, tmp_path: Path) -> None:
    label = tmp_path / "data/labels/train/3.txt"
    assert scans("cuda") == 1
    for device in ("cuda", ""):
        label.write_text(label.read_text())  # of the same size
        assert scans(device) == 1


@pytest.mark.parametrize(("device", "own", "writeable"), [("cuda", b"theirs", True), ("cuda", b"", False), ("cpu", b"", True)])
def test_nothing_is_handed_on_that_the_run_could_not_take(device: str, own: bytes, writeable: bool, scans: Scans, tmp_path: Path) -> None:
    """Its scan would need threads that its trial didn't."""
    if own:
        (tmp_path / "data/labels/train.cache").write_bytes(own)
    assert scans(device, writeable=writeable) == 1 and not [*tmp_path.glob("launch/**/*.cache")]


def test_nothing_of_the_persons_is_written_over(exact: Any, tmp_path: Path) -> None:
    theirs = tmp_path / "train.cache"
    theirs.write_bytes(b"theirs")
    for place in (theirs, tmp_path / "gone" / "val.cache"):
        ours = tmp_path / "launch" / Path(*place.parts[1:])
        ours.parent.mkdir(parents=True, exist_ok=True)
        ours.write_bytes(b"ours")
    exact._take_labels(str(tmp_path / "launch"))
    assert theirs.read_bytes() == b"theirs" and not (tmp_path / "gone").exists()
