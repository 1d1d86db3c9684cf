"""A script that trains with Ultralytics is that trainer's: what arrives at ``model.train`` is what it asks for, and is set there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.adapter.recognised import Understood
from launcher.cli import recipe_draft, recognise
from launcher.config.schema import Recipe
from launcher.errors import BadInput
from launcher.ladder.build import ladder_of
from launcher.trainers.suite import cpu_budget
from launcher.trainers.ultralytics import recognise as yolo_recognise
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter

SAFE = """import argparse
from ultralytics import YOLO

CONFIG = {'batch': 64, 'imgsz': 1280, 'epochs': 200, 'device': [0, 1, 2, 3], 'project': 'runs/garbage', 'optimizer': 'AdamW'}
CONFIG['multi_scale'] = True

def train(args):
    config = {**CONFIG, 'data': args.data}
    config['batch'] //= args.parts
    model = YOLO('yolov8n.yaml')
    with open('log.txt', 'a') as log:
        log.write('begun')
    results = model.train(**config)
    model.val()

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--data')
    parser.add_argument('--parts', type=int, default=2)
    train(parser.parse_args())
"""


def understood(source: str, *arguments: str) -> Understood:
    Path("train.py").write_text(source)
    return recognise.understand([sys.executable, "train.py", *arguments])


def refused(source: str, *arguments: str) -> str:
    with pytest.raises(BadInput) as caught:
        understood(source, *arguments)
    return str(caught.value.faults[0])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_script_with_a_dict_asks_for_what_arrives_and_is_left_as_it_is(folder: Path, yolo_dataset: Path) -> None:
    found = understood(SAFE, "--data", str(yolo_dataset))
    assert found.adapter == "ultralytics" and found.data == str(yolo_dataset) and found.task == "detect"
    assert found.device == {"kind": "cuda", "cards": [0, 1, 2, 3]}, "which this machine may not have: the launch says so then"
    assert found.ask == {"model": "yolov8n.yaml", "micro_batch": 8, "image_size": 1280, "checkpointing": False, "multi_scale": 1.0}
    assert "project" not in found.args["given"] and found.args["given"]["optimizer"] == "AdamW"
    said = recipe_draft.beliefs(found)
    place = "batch=32 over 4 cards; as it arrives at model.train, train.py line 13"
    assert f"micro_batch      8        batch= ({place})" in said, "64 // 2 is written nowhere"
    assert "image_size       1280     imgsz= (as it arrives at model.train, train.py line 13)" in said
    assert any("accumulation     2" in line and "step of 64 images after its warm-up" in line for line in said)
    assert [one.name for one in folder.iterdir() if one != yolo_dataset.parent] == ["train.py"] and Path("train.py").read_text() == SAFE


def test_a_module_of_a_package_is_run_as_one(folder: Path, yolo_dataset: Path) -> None:
    (folder / "job").mkdir()
    Path("job/settings.py").write_text(f"from pathlib import Path\nDATA, BATCH = Path({str(yolo_dataset)!r}), 12\n")
    Path("job/train.py").write_text(
        "from ultralytics import YOLO\nfrom . import settings\nYOLO('yolov8n.yaml').train(data=settings.DATA, batch=settings.BATCH)\n"
    )
    found = recognise.understand([sys.executable, "-m", "job.train"])
    assert (found.adapter, found.ask["micro_batch"], found.data) == ("ultralytics", 12, str(yolo_dataset))
    recipe = given(yolo_dataset, command=[sys.executable, "-m", "job.train", "--x"], given=found.args["given"])
    assert words(recipe, 0, folder)[-4:] == ["--", "-m", "job.train", "--x"]


def given(data: Path, **more: object) -> Recipe:
    """As the test above has understood it."""
    return Recipe.model_validate(
        {
            "name": "mine",
            "data": str(data),
            "ask": {"model": "yolov8n.yaml", "micro_batch": 32, "image_size": 1280, "checkpointing": False},
            "trainer": {
                "adapter": "ultralytics",
                "task": "detect",
                "args": {
                    "command": [sys.executable, "-u", "train.py", "--data", str(data)],
                    "given": {"batch": 32, "imgsz": 1280, "epochs": 200, "device": [0, 1, 2, 3], "data": str(data), "optimizer": "AdamW"},
                    **more,
                },
            },
            "ladder": {"order": ("micro_batch", "image_size", "checkpointing")},
            "device": {"kind": "cpu"},
        }
    )


def words(recipe: Recipe, index: int, folder: Path) -> list[str]:
    adapter = UltralyticsAdapter(recipe)
    command = adapter.command(ladder_of(adapter).rungs[index], cpu_budget(), folder=folder)
    assert {path.name for path in command.files} > {"yolo_script.py", "exact_trainer.py"}
    return list(command.argv)


def test_rung_0_sets_nothing_but_the_device(folder: Path, yolo_dataset: Path) -> None:
    native = folder / "native"
    assert words(given(yolo_dataset), 0, folder) == [
        sys.executable, "-u", str(native / "yolo_script.py"), "--tell", str(native / "kept_in"), "device=cpu", "--", "train.py", "--data",
        str(yolo_dataset),
    ]  # fmt: skip


def test_a_rung_is_set_beside_what_the_script_gives_at_the_batch_that_it_really_steps_with(folder: Path, yolo_dataset: Path) -> None:
    said = words(given(yolo_dataset), 1, folder)
    assert said[3:7] == ["--asked-batch", "32", "--asked-nbs", "64"]
    assert said[9:11] == ["--given", "batch=32"] and {"batch=16", "device=cpu"} < set(said)
    assert not any(word.startswith(("nbs=", "weight_decay=", "imgsz=", "epochs=", "data=", "model=")) for word in said)


def test_arguments_of_the_recipe_go_before_those_of_the_script(folder: Path, yolo_dataset: Path) -> None:
    said = words(given(yolo_dataset, epochs=3, mosaic=0.0), 0, folder)
    assert {"epochs=3", "mosaic=0.0"} < set(said) and said[5:7] == ["--given", "epochs=200"]


def test_arguments_of_the_script_are_held_to_ultralytics_own(yolo_dataset: Path) -> None:
    recipe = given(yolo_dataset, quantize=8)
    assert any("quantize" in fault.key for fault in UltralyticsAdapter(recipe).check())
    assert not UltralyticsAdapter(given(yolo_dataset)).check()


def test_a_batch_that_ultralytics_would_guess_is_asked_for(yolo_dataset: Path) -> None:
    found = understood("from ultralytics import YOLO\nYOLO('yolov8n.yaml').train(data='d.yaml', batch=-1)\n")
    with pytest.raises(BadInput, match=r"batch=-1 is Ultralytics' own guess .*train\.py line 2\): say .*ask\.micro_batch=32"):
        recognise.refuse_doubts(found, overrides=())
    recognise.refuse_doubts(found, overrides=("ask.micro_batch=32",))
    recipe = given(yolo_dataset)
    recipe.trainer.args["given"]["batch"] = -1
    assert {"batch=32", "batch=-1"} < set(words(recipe, 0, Path.cwd()))


def test_a_data_file_that_the_script_makes_is_there_to_be_looked_at(folder: Path) -> None:
    making = "import os\nos.makedirs('made')\nopen('made/data.yaml', 'w').write('names: [a]')\nopen('log', 'w').write('x')\n"
    found = understood(f"{making}from ultralytics import YOLO\nYOLO('yolov8n.yaml').train(data='made/data.yaml', batch=4)\n")
    assert (folder / "made" / "data.yaml").read_text() == "names: [a]" and not (folder / "log").exists()
    assert "the script writes made/data.yaml by itself" in str(found.doubts[0])
    recognise.refuse_doubts(found, overrides=())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("model = YOLO('yolov8n.yaml')\nmodel.tune(data='d.yaml')", "model.tune: many trainings"),
        ("name = input('which data? ')\nYOLO('yolov8n.yaml').train(data=name)", "ended before its training (exit status 1): EOFError"),
        ("import sys\nsys.exit('say --data')\nYOLO('yolov8n.yaml').train(data=1)", "ended before its training (exit status 1): say --data"),
    ],
)
def test_what_can_not_be_turned_is_refused_with_its_line(source: str, said: str) -> None:
    assert said in refused(f"from ultralytics import YOLO\n{source}\n")


def test_what_is_not_started_as_python_script_is_refused_in_words() -> None:
    Path("train.py").write_text(SAFE)
    with pytest.raises(BadInput, match=r"isn't started as python train\.py"):
        yolo_recognise.understand(["torchrun", "--nproc_per_node", "2", "train.py"])


def test_a_python_of_another_environment_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    Path("train.py").write_text(SAFE)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "other"], check=True)
    with pytest.raises(BadInput, match=r"other/bin/python isn't of the environment that autofit runs in"):
        yolo_recognise.understand(["other/bin/python", "train.py"])
