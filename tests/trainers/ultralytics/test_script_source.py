"""Scripts that train with Ultralytics are told from others by their source, and those that train again and again are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.errors import BadInput
from launcher.trainers.ultralytics import script_source

HEAD = "from ultralytics import YOLO\n"
BY_DICT = "model = YOLO('yolov8x.pt')\nresults = model.train(**config)\nmodel.val()\nmodel.export(format='onnx')\n"


def written(source: str, folder: Path) -> Path:
    script = folder / "train.py"
    script.write_text(source)
    return script


@pytest.mark.parametrize(
    "source",
    [
        BY_DICT,
        "YOLO('a.pt').train(data='d.yaml', batch=16)\n",
        "def main():\n    model = build()\n    model.train(data=args.data)\nmain()\n",
        "class Job:\n    def run(self):\n        self.model.train(**self.config)\n",
        "model = YOLO('a.yaml')\nmodel.train()\n",
        "from ultralytics.models.yolo.detect import DetectionTrainer\ntrainer = DetectionTrainer(overrides=config)\ntrainer.train()\n",
    ],
)
def test_trainings_are_found_whatever_the_model_is_called(source: str, tmp_path: Path) -> None:
    assert len(script_source.trainings(written(HEAD + source, tmp_path))) == 1


@pytest.mark.parametrize(
    "source",
    [
        HEAD + "print('no training')\n",
        HEAD + "net = torch.nn.Linear(1, 1)\nnet.train()\nnet.train(True)\nnet.train(mode=False)\n",
        BY_DICT,  # no Ultralytics in it
        HEAD + "def broken(:\n",
    ],
)
def test_other_scripts_are_not_ultralytics_affair(source: str, tmp_path: Path) -> None:
    assert script_source.trainings(written(source, tmp_path)) == []


def test_a_training_in_a_module_beside_the_script_is_found(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(HEAD + "def go(config):\n    YOLO('a.pt').train(**config)\n")
    assert script_source.trainings(written("import job\njob.go({})\n", tmp_path)) == ["job.py line 3"]


@pytest.mark.parametrize(
    "source",
    [
        "for fold in range(5):\n    YOLO('a.pt').train(data=f'{fold}.yaml')\n",
        "def one(task):\n    YOLO('a.pt').train(**task)\nfor task in TASKS:\n    one(task)\n",
        "YOLO('a.pt').train(data='d.yaml')\nYOLO('b.pt').train(data='d.yaml')\n",
        "if warm:\n    YOLO('a.pt').train(epochs=1)\nYOLO('b.pt').train(data='d.yaml')\n",
    ],
)
def test_a_script_that_trains_again_and_again_is_refused_with_its_lines(source: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"train\.py line \d trains again and again"):
        script_source.trainings(written(HEAD + source, tmp_path))


@pytest.mark.parametrize(
    "source",
    [
        "if resume:\n    model.train(resume=True)\nelse:\n    model.train(**config)\n",
        "def main():\n    if resume:\n        model.train(resume=True)\n        return\n    model.train(**config)\n",
        "try:\n    model.train(batch=64)\nexcept RuntimeError:\n    model.train(batch=32)\n",
        "while True:\n    try:\n        model.train(batch=batch)\n        break\n    except RuntimeError:\n        batch //= 2\n",
        "def small():\n    model.train(imgsz=640)\ndef large():\n    model.train(imgsz=1280)\n",
    ],
)
def test_several_trainings_of_which_one_is_made_are_one(source: str, tmp_path: Path) -> None:
    assert script_source.trainings(written(HEAD + source, tmp_path))
