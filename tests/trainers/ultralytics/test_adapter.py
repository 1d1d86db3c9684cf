"""Rungs in Ultralytics' own words, and its arguments checked without importing it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.config.schema import Recipe
from autofit_launcher.ladder.rungs import Ladder
from autofit_launcher.machine import process
from autofit_launcher.trainers.suite import AdapterSuite, cpu_budget
from autofit_launcher.trainers.ultralytics import arguments as yolo_arguments
from autofit_launcher.trainers.ultralytics import data, environment
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from tests.helpers.yolo_recipe import make


class TestUltralytics(AdapterSuite):
    adapter_type = UltralyticsAdapter

    @pytest.fixture
    def recipe(self, yolo_dataset: Path) -> Recipe:
        return make(yolo_dataset)


def native(recipe: Recipe, index: int, tmp_path: Path) -> tuple[dict[str, Any] | None, dict[str, str], Ladder]:
    """(settings of an exact run, None for a plain ``yolo``; arguments; ladder) of one rung's full run."""
    adapter = UltralyticsAdapter(recipe)
    ladder = ladder_of(adapter)
    command = adapter.command(ladder.rungs[index], cpu_budget(), folder=tmp_path)
    program = [word for word in command.argv if "=" not in word]
    settings = json.loads(command.env["YOLO_EXACT"]) if command.env else None
    plain, exact = ["yolo"], [sys.executable, str(Path(sys.executable).with_name("yolo"))]
    assert program == [*(plain if settings is None else exact), "detect", "train"]
    return settings, dict(word.split("=", 1) for word in command.argv if "=" in word), ladder


def test_the_asked_rung_is_the_plain_yolo_command(yolo_dataset: Path, tmp_path: Path) -> None:
    settings, args, _ = native(make(yolo_dataset), 0, tmp_path)
    assert settings is None
    assert args == {
        "model": "yolov8s.yaml", "data": str(yolo_dataset), "epochs": "2", "batch": "4", "nbs": "64", "device": "cpu", "imgsz": "96",
        "project": str(tmp_path), "name": "run", "exist_ok": "True",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "nbs", "effective"),
    [
        ({"micro_batch": 64}, None, 64), ({"micro_batch": 48}, None, 48), ({"micro_batch": 24}, 64, 72), ({"micro_batch": 128}, 64, 128),
        ({"micro_batch": 16, "accumulation": 2}, None, 32),
    ],
)  # fmt: skip
def test_effective_batch_and_applied_weight_decay_are_those_of_the_asked_run(
    yolo_dataset: Path, tmp_path: Path, ask: dict[str, Any], nbs: int | None, effective: int
) -> None:
    """Ultralytics steps after max(round(nbs/batch), 1) and applies weight_decay * batch * accumulate / nbs (facts, section 1)."""
    recipe = make(yolo_dataset, ask=ask, args={} if nbs is None else {"nbs": nbs})
    _, _, ladder = native(recipe, 0, tmp_path)
    assert ladder.effective_batch == effective
    for rung in ladder.rungs[:4]:
        settings, args, _ = native(recipe, rung.index, tmp_path)
        batch, given_nbs = int(args["batch"]), int(args["nbs"])
        accumulate = max(round(given_nbs / batch), 1)
        assert (batch, batch * accumulate) == (ask["micro_batch"], effective)
        assert float(args.get("weight_decay", 0.0005)) * batch * accumulate / given_nbs == pytest.approx(0.0005 * effective / (nbs or 64))
        lower = {"micro_batch": rung.micro_batch, "val_batch": 2 * rung.micro_batch}
        assert settings == (lower if rung.micro_batch < ask["micro_batch"] else None)


def test_arguments_ultralytics_would_trip_over_are_all_refused_with_their_cures(yolo_dataset: Path) -> None:
    cures = {
        "accumulate": (2, "nbs"),
        "batch": (16, "ask.micro_batch"),
        "imgsz": (640, "ask.image_size"),
        "epoch": (3, "Similar arguments are i.e. ['epochs=100']"),
        "epochs": ("many", "'epochs'"),
        "amp": (3, "amp"),
        "multi_scale": (1.5, "0.0 and 1.0"),
        "resume": (True, "new training"),
        "time": (3, "epochs"),
        "nbs": (0, "must be >= 1"),
        "cfg": ("x.yaml", "trainer.args"),
        "profile": (True, "yolo benchmark"),
        "quantize": ("int8", "on export"),
    }
    args = {key: value for key, (value, _) in cures.items()}
    faults = {fault.key.removeprefix("trainer.args."): str(fault) for fault in UltralyticsAdapter(make(yolo_dataset, args=args)).check()}
    assert faults.keys() == cures.keys()
    assert [key for key, (_, words) in cures.items() if words not in faults[key]] == []
    assert yolo_arguments.faults({"profile": False, "resume": False, "time": None}, asked={}) == [], "their harmless values"


def test_what_ultralytics_cant_train_so_is_refused_with_its_cure(yolo_dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("x")
    ask = {"checkpointing": True, "multi_scale": 0.5}
    args = {"multi_scale": 0.2, "save_dir": str(tmp_path / "mine"), "compile": True, "distill_model": "yolov8s.yaml"}
    faults = {fault.key: str(fault) for fault in UltralyticsAdapter(make(yolo_dataset, ask=ask, args=args)).check()}
    assert faults.keys() == {
        *(f"trainer.args.{name}" for name in ("multi_scale", "save_dir", "compile", "distill_model")),
    }  # fmt: skip
    assert "said twice" in faults["trainer.args.multi_scale"] and "not empty" in faults["trainer.args.save_dir"]


def test_a_task_that_is_not_covered_is_refused(yolo_dataset: Path) -> None:
    faults = UltralyticsAdapter(make(yolo_dataset, ask={"model": "yolov8s-cls.yaml"})).check()
    assert any(fault.key == "trainer.task" and "detect, segment, pose, obb" in fault.cure for fault in faults)


def test_weights_that_may_not_be_fetched_are_refused_or_left_out_of_the_ladder(
    yolo_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YOLO_OFFLINE", "1")
    (fault,) = UltralyticsAdapter(make(yolo_dataset, ask={"model": "yolo11s.pt"})).check()
    assert fault.key == "ask.model" and "YOLO_OFFLINE" in fault.found and "ask.model=yolo11s.yaml" in fault.cure
    for name in ("yolo11m.pt", "yolo11n.pt"):
        (tmp_path / name).write_bytes(b"weights")
    adapter = UltralyticsAdapter(make(yolo_dataset, ask={"model": "yolo11m"}))
    assert {rung.values["model"] for rung in ladder_of(adapter).rungs} == {"yolo11m", "yolo11n"}
    asked = ladder_of(adapter).asked
    assert adapter.arguments(asked, cpu_budget())["model"] == "yolo11m.pt"
    assert adapter.trial(asked, cpu_budget(), folder=tmp_path, cache=tmp_path).fetch is None


def test_a_fit_of_an_architecture_of_ultralytics_own_can_be_kept(yolo_dataset: Path) -> None:
    """It is among the package's files, and no model that isn't here."""
    own, weights = UltralyticsAdapter(make(yolo_dataset)), UltralyticsAdapter(make(yolo_dataset, ask={"model": "yolov8s.pt"}))
    assert set(own.inputs(ladder_of(own)).models) == {"yolo26n.pt"} and "yolov8s.pt" in weights.inputs(ladder_of(weights)).models


def test_a_run_that_is_kept_where_the_person_says_is_found_there(yolo_dataset: Path, tmp_path: Path) -> None:
    """With project and name Ultralytics chooses the folder (exp, exp2, ...), and the run tells it."""
    recipe = make(yolo_dataset, args={"project": "mine", "name": "exp"})
    adapter, weights, told = UltralyticsAdapter(recipe), tmp_path / "exp2" / "weights", tmp_path / "native" / "kept_in"
    assert adapter.saved(tmp_path).place == tmp_path / "run", "before it has begun"
    settings, args, _ = native(recipe, 0, tmp_path)
    assert settings == {"tell": str(told)} and "save_dir" not in args
    told.parent.mkdir()
    told.write_text(f"{weights.parent}\n")
    weights.mkdir(parents=True)
    (weights / "last.pt").write_bytes(b"torn")
    found = adapter.saved(tmp_path)
    assert found.place == weights.parent and list(found.look(found.files)) == [weights / "last.pt"]


@pytest.mark.parametrize(
    "case", [{"YOLO_CONFIG_DIR": "~/chosen"}, {"XDG_CONFIG_HOME": "xdg"}, {"XDG_CONFIG_HOME": ""}, {"YOLO_CONFIG_DIR": ""}]
)
def test_the_users_settings_are_looked_for_where_ultralytics_keeps_them(
    case: dict[str, str], exact: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ultralytics.utils import get_user_config_dir

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("YOLO_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, case[name]) if name in case else monkeypatch.delenv(name, raising=False)
    before = environment.user_config_folder()
    assert before == get_user_config_dir() == environment.user_config_folder(), "before Ultralytics has made it, too"


def test_the_users_settings_are_copied_with_sync_off_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "home" / "Ultralytics" / "settings.json"
    settings.parent.mkdir(parents=True)
    said = json.dumps({"settings_version": "0.0.8", "datasets_dir": "/data", "sync": True})
    settings.write_text(said)
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "home"))
    made = environment.prepare(tmp_path / "trial")
    copied = json.loads((Path(made["YOLO_CONFIG_DIR"]) / "Ultralytics" / "settings.json").read_text())
    assert copied == {"settings_version": "0.0.8", "datasets_dir": "/data", "sync": False} and settings.read_text() == said
    settings.write_text("{not json")
    environment.prepare(tmp_path / "another")


@pytest.mark.parametrize("task", yolo_arguments.TASKS)
def test_a_stand_in_is_a_whole_data_set_of_the_task(tmp_path: Path, task: str) -> None:
    recipe = make("none", ask={"model": "yolo11n.yaml", "micro_batch": 6}, trainer={"adapter": "ultralytics", "task": task})
    adapter = UltralyticsAdapter(recipe)
    made = adapter.stand_in(tmp_path / "data")
    assert made is not None and made.prepare is not None and made.data is not None
    assert process.output_of(made.prepare) == (0, "")
    facts, faults = data.inspect(made.data)
    assert facts is not None and not faults, faults
    assert (len(facts.train), len(facts.val)) == (6, 12)
    densest = Path(data.label_path(facts.train[0])).read_text().splitlines()
    assert len(densest) == 300
