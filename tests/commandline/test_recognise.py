"""What is understood of command lines that people have, and the recipes written from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from launcher.commandline import draft, recognise
from launcher.commandline.recognise import Understood
from launcher.errors import BadInput

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def believed(understood: Understood) -> dict[str, tuple[object, str]]:
    return {belief.wheel: (belief.value, belief.spelling) for belief in understood.beliefs}


def written(understood: Understood) -> dict[str, object]:
    held: dict[str, object] = yaml.safe_load(draft.recipe(understood, name="mine"))
    return held


def test_yolo_becomes_the_ultralytics_adapters_recipe() -> None:
    understood = recognise.understand(
        ["yolo", "detect", "train", "model=yolov8x.pt", "data=d.yaml", "batch", "=", "64", "imgsz=1280", "epochs=5", "device=0", "cos_lr"]
    )
    held = written(understood)
    assert held["ask"] == {"model": "yolov8x.pt", "micro_batch": 64, "image_size": 1280, "checkpointing": False}
    assert held["trainer"] == {"task": "detect", "args": {"epochs": 5, "cos_lr": True}} and held["data"] == "d.yaml"


@pytest.mark.parametrize("words", ["yolo predict model=x.pt", "yolo train batch=-1", "yolo train batch=0.7"])
def test_a_yolo_command_that_is_no_training_of_a_known_batch_is_refused(words: str) -> None:
    with pytest.raises(BadInput):
        recognise.understand(words.split())


def test_flags_and_the_scripts_own_defaults() -> None:
    understood = recognise.understand(["python", str(EXAMPLES / "classifier" / "train.py"), "--batch-size", "64", "--epochs", "3"])
    assert believed(understood) == {"micro_batch": (64, "--batch-size"), "accumulation": (1, "--accum")}
    assert written(understood)["ladder"] == {"order": ["micro_batch"]}


def test_training_arguments_have_known_defaults() -> None:
    script = str(EXAMPLES / "hf_trainer" / "train.py")
    understood = recognise.understand(
        ["torchrun", "--nproc_per_node", "2", script, "--per_device_train_batch_size", "16", "--block_size", "128"]
    )
    assert believed(understood) == {
        "micro_batch": (16, "--per_device_train_batch_size"),
        "accumulation": (1, "--gradient_accumulation_steps"),
        "sequence_length": (128, "--block_size"),
        "checkpointing": (False, "switch:--gradient_checkpointing"),
        "val_micro_batch": (8, "--per_device_eval_batch_size"),
    }


def test_a_config_files_keys_and_not_those_of_its_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    Path("c.yaml").write_text("training: {batch_size: 8, grad_accum: 2}\nval: {batch_size: 4}\ndata: {segment: 441000}\n")
    understood = recognise.understand(["python", "train.py", "--config", "c.yaml"])
    assert believed(understood) == {
        "micro_batch": (8, "config:training.batch_size"),
        "accumulation": (2, "config:training.grad_accum"),
        "segment": (441000, "config:data.segment"),
        "val_micro_batch": (4, "config:val.batch_size"),
    }
    held = written(understood)
    assert held["trainer"]["args"]["config"] == "c.yaml"  # type: ignore[index]
    assert held["ladder"]["wheels"]["segment"] == {"values": [330744, 220496, 165368, 110248]}  # type: ignore[index]


def test_hydra_words_and_a_configurators_globals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("h.py").write_text("import hydra")
    assert believed(recognise.understand(["python", "h.py", "train.batch_size=32", "+train.accum=2"])) == {
        "micro_batch": (32, "train.batch_size="),
        "accumulation": (2, "train.accum="),
    }
    Path("n.py").write_text(
        "batch_size = 12\ngradient_accumulation_steps = 5 * 8\nblock_size = 1024\nexec(open('configurator.py').read())\n"
    )
    assert believed(recognise.understand(["python", "n.py", "--batch_size=8"])) == {
        "micro_batch": (8, "--batch_size="),
        "accumulation": (40, "--gradient_accumulation_steps="),
        "sequence_length": (1024, "--block_size="),
    }


def test_doubt_asks_for_the_mapping_with_an_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("")
    Path("c.yaml").write_text("a: {batch_size: 8}\nb: {batch_size: 4}\n")
    two = recognise.understand(["python", "t.py", "--config", "c.yaml"])
    with pytest.raises(BadInput, match=r"config:a\.batch_size .8. or config:b\.batch_size .4."):
        recognise.refuse_doubts(two, overrides=[])
    none = recognise.understand(["python", "t.py"])
    with pytest.raises(BadInput, match=r"trainer\.args\.spelled\.micro_batch=--my-batch"):
        recognise.refuse_doubts(none, overrides=[])
    recognise.refuse_doubts(none, overrides=["ask.micro_batch=4"])


def test_a_script_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="there is no script"):
        recognise.understand(["python", "nowhere.py"])
    with pytest.raises(BadInput, match="there is no command"):
        recognise.understand([])


def test_a_dollar_brace_of_the_persons_own_is_text_and_no_interpolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("")
    words = ["python", "t.py", "--batch-size", "4", "out=${HOME}/x", "name=${now:%H}"]
    held = OmegaConf.create(yaml.safe_load(draft.recipe(recognise.understand(words), name="mine")))
    assert OmegaConf.to_container(held, resolve=True)["trainer"]["args"]["command"] == words  # type: ignore[index,call-overload]
