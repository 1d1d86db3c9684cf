"""A script that trains with Ultralytics is that trainer's: what arrives at ``model.train`` is what it asks for, and is set there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.commands import Command
from autofit_launcher.adapter.recognised import Understood
from autofit_launcher.cli import recognise
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import BadInput
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trainers.ultralytics import recognise as yolo_recognise
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from tests.helpers.yolo_recipe import make

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


def test_a_script_with_a_dict_asks_for_what_arrives_and_is_left_as_it_is(tmp_path: Path, yolo_dataset: Path) -> None:
    found = understood(SAFE, "--data", str(yolo_dataset))
    assert found.adapter == "ultralytics" and found.data == str(yolo_dataset) and found.task == "detect"
    assert found.device == {"kind": "cuda", "cards": [0, 1, 2, 3]}, "which this machine may not have: the launch says so then"
    assert found.ask == {"model": "yolov8n.yaml", "micro_batch": 8, "image_size": 1280, "checkpointing": False, "multi_scale": 1.0}
    assert found.args == {"command": [sys.executable, "train.py", "--data", str(yolo_dataset)], "epochs": 200, "optimizer": "AdamW"}
    said = [f"{one.wheel:<16} {recognise.as_text(one.value):<8} {one}" for one in found.beliefs]
    place = "batch=32 over 4 cards; as it arrives at model.train"
    assert f"micro_batch      8        batch= ({place})" in said, "64 // 2 is written nowhere"
    assert "image_size       1280     imgsz= (as it arrives at model.train)" in said
    assert [one.name for one in tmp_path.iterdir() if one != yolo_dataset.parent] == ["train.py"] and Path("train.py").read_text() == SAFE


def given(data: Path, **more: object) -> Recipe:
    """As the test above has understood it."""
    ask = {"model": "yolov8n.yaml", "micro_batch": 32, "image_size": 1280}
    args = {"command": [sys.executable, "-u", "train.py", "--data", str(data)], "epochs": 200, "optimizer": "AdamW", **more}
    return make(data, ask=ask, args=args)


def run_of(recipe: Recipe, index: int, folder: Path) -> Command:
    adapter = UltralyticsAdapter(recipe)
    return adapter.command(ladder_of(adapter).rungs[index], cpu_budget(), folder=folder)


def settings(recipe: Recipe, index: int, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_of(recipe, index, folder).env["YOLO_EXACT"])
    return found


def test_rung_0_is_the_command_as_it_stands_with_what_it_gives_itself_and_the_device(tmp_path: Path, yolo_dataset: Path) -> None:
    recipe = given(yolo_dataset)
    assert list(run_of(recipe, 0, tmp_path).argv) == recipe.trainer.args["command"]
    gives = {"data": str(yolo_dataset), "epochs": 200, "optimizer": "AdamW", "batch": 32, "nbs": 64, "imgsz": 1280}
    assert settings(recipe, 0, tmp_path) == {"tell": str(tmp_path / "native" / "kept_in"), "set": {**gives, "device": "cpu"}}


def test_a_rung_is_set_where_the_script_trains_at_the_batch_that_it_really_steps_with(tmp_path: Path, yolo_dataset: Path) -> None:
    said = settings(given(yolo_dataset, epochs=3), 1, tmp_path)
    assert (said["micro_batch"], said["set"]["batch"], said["set"]["nbs"], said["set"]["epochs"]) == (16, 32, 64, 3)


def test_a_batch_that_ultralytics_would_guess_is_asked_for(yolo_dataset: Path) -> None:
    found = understood("from ultralytics import YOLO\nYOLO('yolov8n.yaml').train(data='d.yaml', batch=-1)\n")
    with pytest.raises(BadInput, match=r"batch=-1 is Ultralytics' own guess .*\): say .*ask\.micro_batch=32"):
        recognise.refuse_doubts(found, overrides=())
    recognise.refuse_doubts(found, overrides=("ask.micro_batch=32",))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("model = YOLO('yolov8n.yaml')\nmodel.tune(data='d.yaml')", "model.tune: many trainings"),
        ("name = input('which data? ')\nYOLO('yolov8n.yaml').train(data=name)", "ended (exit status 1) before its training: EOFError"),
        ("import sys\nsys.exit('say --data')\nYOLO('yolov8n.yaml').train(data=1)", "ended (exit status 1) before its training: say --data"),
    ],
)
def test_what_can_not_be_turned_is_refused_with_its_line(source: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        understood(f"from ultralytics import YOLO\n{source}\n")
    assert said in str(refused.value.faults[0])


def test_a_python_of_another_environment_without_ultralytics_is_refused_by_its_name() -> None:
    Path("train.py").write_text(SAFE)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "other"], check=True)
    with pytest.raises(BadInput, match=r"ultralytics is not installed for \S*other/bin/python. \S*other/bin/python -m pip install"):
        yolo_recognise.understand(["other/bin/python", "train.py"])


HEAD = "from ultralytics import YOLO\n"
BY_DICT = "model = YOLO('yolov8x.pt')\nresults = model.train(**config)\nmodel.val()\nmodel.export(format='onnx')\n"


@pytest.mark.parametrize(
    ("source", "trains"),
    [
        (HEAD + BY_DICT, True),
        (HEAD + "class Job:\n    def run(self):\n        self.model.train(\n            **self.config)\n", True),
        (HEAD + "print('no training')\n", False),
        (HEAD + "net = torch.nn.Linear(1, 1)\nnet.train()\nnet.train(True)\nnet.train(mode=False)\n", False),
        (BY_DICT, False),  # no Ultralytics in it
    ],
)
def test_trainings_are_told_by_the_source_whatever_the_model_is_called(tmp_path: Path, source: str, trains: bool) -> None:
    (tmp_path / "job.py").write_text(source)
    (tmp_path / "train.py").write_text("import job\njob.go({})\n")
    assert yolo_recognise._trains(tmp_path / "job.py") is trains
    assert yolo_recognise._trains(tmp_path / "train.py") is trains, "a module beside the script"
