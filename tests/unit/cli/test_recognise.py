"""What is understood of command lines that people have, and the recipes written from it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from launcher.adapter import registry, wheel_names
from launcher.adapter.recognised import checkpointed, free_batch
from launcher.adapter.registry import adapters
from launcher.cli import recipe_draft, recognise
from launcher.cli.recognise import Understood
from launcher.config.schema import LadderRules, Recipe, TrainerRules
from launcher.errors import BadInput
from launcher.ladder.build import ladder_of
from launcher.trainers.script import recognise as script_recognise
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget
from tests.helpers.places import EXAMPLES


def believed(understood: Understood) -> dict[str, tuple[object, str]]:
    return {belief.wheel: (belief.value, belief.spelling) for belief in understood.beliefs}


def written(understood: Understood) -> dict[str, object]:
    held: dict[str, object] = yaml.safe_load(recipe_draft.recipe(understood, name="mine"))
    return held


def made(understood: Understood) -> Recipe:
    """The recipe that is understood, without the defaults of its groups."""
    held = written(understood)
    trainer, ladder = TrainerRules(adapter="script", args=held["trainer"]["args"]), held["ladder"]  # type: ignore[index]
    return Recipe(name="mine", ask=held["ask"], trainer=trainer, ladder=LadderRules.model_validate_json(json.dumps(ladder)))  # type: ignore[arg-type]


def rung_words(understood: Understood, index: int) -> list[str]:
    adapter = ScriptAdapter(made(understood))
    return adapter.line(ladder_of(adapter).rungs[index], run=Path("run")).words


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
        recognise.refuse_doubts(recognise.understand(words.split()), overrides=())


def test_flags_and_the_scripts_own_defaults() -> None:
    understood = recognise.understand(["python", str(EXAMPLES / "classifier" / "train.py"), "--batch-size", "64", "--epochs", "3"])
    assert believed(understood) == {"micro_batch": (64, "--batch-size"), "accumulation": (1, "--accum")}
    assert written(understood)["ladder"] == {"order": ["micro_batch"]}


def test_what_set_defaults_says_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"batch-size": 8, "accum": 1, "epochs": 1}
    flags = "".join(f"p.add_argument('--{name}', default={value})\n" for name, value in names.items())
    Path("train.py").write_text(f"{flags}p.set_defaults(batch_size=2048, epochs=int('2'))\n")
    understood = recognise.understand(["python", "train.py"])
    assert believed(understood) == {"micro_batch": (2048, "--batch-size"), "accumulation": (1, "--accum")}
    assert "lengths" not in understood.args, "what is worked out isn't known"


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


def test_a_script_that_is_no_python_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("batch_size = 4\nx = = 1\n")
    with pytest.raises(BadInput, match=r"t\.py can't be read as Python \(line 2: invalid syntax\)"):
        recognise.refuse_doubts(recognise.understand(["python", "t.py"]), overrides=[])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("python", "train"),
            r"train isn't read as a Python script, since its name lacks \.py\. Link it, .*: ln -s train train\.py",
        ),
        (("python", "-"), r"its Python script comes from standard input. Save it in a file"),
        (("python", "-u"), r"its Python script comes from standard input"),
        (("autofit", "run", "--", "python", "train.py"), r"it is autofit itself\. Name the command that trains"),
        (("python", "tr\udcff.py"), r"'tr\\udcff\.py' holds bytes that are no text here"),
    ],
)
def test_a_script_that_can_not_be_read_by_its_name_is_told_so(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train").write_text("batch_size = 4\n")
    with pytest.raises(BadInput, match=said):
        recognise.refuse_doubts(recognise.understand(words), overrides=[])
    recognise.refuse_doubts(recognise.understand(["python", "train"]), overrides=["ask.micro_batch=4"])


@pytest.mark.parametrize("text", ["batch_size = 4\n", "\ufeffbatch_size = 4\r\nx = 1\r\n"], ids=["as it is", "from Windows"])
@pytest.mark.parametrize("name", ["a\nb.py", f"{'n' * 240}.py", "tr ä.py"], ids=["two lines", "long", "blank"])
def test_a_script_is_understood_whatever_it_is_called_and_wherever_it_was_written(
    text: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(
        f"{text}import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=8)\n", newline=""
    )
    understood = recognise.understand(["python", name, "--note", "two\nlines # here"])
    recognise.refuse_doubts(understood, overrides=[])
    assert understood.ask["micro_batch"] == 8 and len(recognise.name_of(understood)) <= recognise.MOST_LETTERS
    said = yaml.safe_load(recipe_draft.recipe(understood, name="x"))
    assert said["trainer"]["args"]["command"] == ["python", name, "--note", "two\nlines # here"]


@pytest.mark.parametrize(
    ("name", "wheel"),
    [
        ("--per_device_batch_size", "micro_batch"), ("--bs", "micro_batch"), ("samples_per_gpu", "micro_batch"), ("--bsz", "micro_batch"),
        ("--trainBatchSize", "micro_batch"), ("--eval-bs", "val_micro_batch"), ("--dev_batch_size", "val_micro_batch"),
        ("--train-crop-size", "image_size"), ("--imageSize", "image_size"), ("--val-crop-size", None), ("--bptt", "sequence_length"),
        ("--max-source-seq-len", "sequence_length"), ("--global-batch-size", None), ("--num-batches", None), ("--log-every-batch", None),
        ("--accum-freq", "accumulation"), ("--eval_accumulation_steps", None), ("--use-grad-checkpoint", "checkpointing"),
        ("--checkpoint-dir", None), ("--batch-norm-momentum", None), ("--hidden-size", None), ("--patch-size", None),
    ],
)  # fmt: skip
def test_a_name_means_what_its_words_mean(name: str, wheel: str | None) -> None:
    assert wheel_names.meaning(name) == wheel


def test_glued_short_flags_are_the_commands_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("p.add_argument('-b', '--batch-size', type=int, default=256)\np.add_argument('-a', '--accum', default=1)\n")
    understood = recognise.understand(["python", "t.py", "-b64", "-e1"])
    assert believed(understood) == {"micro_batch": (64, "-b"), "accumulation": (1, "--accum")}
    assert rung_words(understood, 0) == ["python", "t.py", "-b64", "-e1"]
    assert rung_words(understood, 1) == ["python", "t.py", "-b32", "-e1", "--accum", "2"]


def test_a_word_that_is_said_twice_means_what_it_says_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("p.add_argument('--batch-size', type=int)\n")
    understood = recognise.understand(["python", "t.py", "--batch-size", "8", "--batch-size", "16"])
    assert believed(understood)["micro_batch"] == (16, "--batch-size") and understood.ask["micro_batch"] == 16


def test_a_configuration_in_python_behind_a_module_is_not_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pkg").mkdir()
    for name in ("pkg/train.py", "mine.py"):
        Path(name).write_text("")
    assert script_recognise.script_of(["python", "-m", "pkg.train", "mine.py"]) == (Path("pkg/train.py"), 3)
    assert script_recognise.script_of(["python", "-m", "torch.distributed.run", "--nnodes", "1", "mine.py", "--x"]) == (Path("mine.py"), 6)


def test_of_several_configuration_files_the_last_that_says_a_key_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("LightningCLI(Model, Data)\nclass Data:\n    def __init__(self, batch_size: int = 32): ...\n")
    Path("a.yaml").write_text("trainer: {max_epochs: 2}\ndata: {batch_size: 64}   # mine\n")
    Path("b.yaml").write_text("data:\n  batch_size: 16384\n")
    Path("c.yaml").write_text("trainer: {accumulate_grad_batches: 2}\n")
    understood = recognise.understand(["python", "t.py", "fit", "--config", "a.yaml", "--config=b.yaml", "--config", "c.yaml"])
    assert believed(understood)["micro_batch"] == (16384, "config:data.batch_size")
    assert believed(understood)["accumulation"] == (2, "config:trainer.accumulate_grad_batches")
    assert understood.args["config"] == ["a.yaml", "b.yaml", "c.yaml"]
    adapter = ScriptAdapter(made(understood))
    assert adapter.check() == [] and rung_words(understood, 0) == list(understood.words)
    command = adapter.command(ladder_of(adapter).rungs[1], cpu_budget(), folder=tmp_path / "run")
    written_to = {path.name: yaml.safe_load(text) for path, text in command.files.items()}
    assert written_to == {
        "b.rung1.yaml": {"data": {"batch_size": 8192}},
        "c.rung1.yaml": {"trainer": {"accumulate_grad_batches": 4}},
    }
    copies = {path.name: path for path in command.files}
    assert command.argv[3:] == ("--config", "a.yaml", f"--config={copies['b.rung1.yaml']}", "--config", str(copies["c.rung1.yaml"]))


@pytest.mark.parametrize(
    ("words", "source", "batch"),
    [
        ("--data.batch_size 8 --config b.yaml", "LightningCLI()", (16384, "config:data.batch_size")),
        ("--config b.yaml --data.batch_size 8", "LightningCLI()", (8, "--data.batch_size")),
        ("--data.batch_size 8 --config b.yaml", "", (8, "--data.batch_size")),
        ("--base a.yaml b.yaml", "", (16384, "config:data.batch_size")),
        ("--base b.yaml a.yaml", "", (64, "config:data.batch_size")),
        ("a.yaml b.yaml --names names.json", "", (16384, "config:data.batch_size")),
    ],
)
def test_files_and_flags_count_in_the_order_that_their_parser_takes_them_in(
    words: str, source: str, batch: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    Path("a.yaml").write_text("data: {batch_size: 64}\n")
    Path("b.yaml").write_text("data: {batch_size: 16384}\n")
    Path("names.json").write_text("{}")
    assert believed(recognise.understand(["python", "t.py", *words.split()]))["micro_batch"] == batch


def test_where_accumulation_is_in_doubt_it_is_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("")
    Path("c.yaml").write_text("batch_size: 8\na: {accum: 2}\nb: {accum: 4}\n")
    understood = recognise.understand(["python", "t.py", "c.yaml"])
    assert "accumulation" not in believed(understood) and understood.ladder["wheels"] == {"micro_batch": {"floor": 8}}


def test_a_key_of_yacs_has_its_value_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("p.add_argument('opts', nargs=argparse.REMAINDER)\n")
    words = ["python", "t.py", "--num-gpus", "1", "SOLVER.IMS_PER_BATCH", "16", "TEST.IMS_PER_BATCH", "8", "MODEL.WEIGHTS", "w.pkl"]
    understood = recognise.understand(words)
    assert believed(understood)["micro_batch"] == (16, "SOLVER.IMS_PER_BATCH")
    assert believed(understood)["val_micro_batch"] == (8, "TEST.IMS_PER_BATCH")
    lower = [("8" if word == "16" else word) for word in words]
    assert rung_words(understood, 0) == words
    turned = next(index for index in range(1, 40) if "8" in rung_words(understood, index)[5:6])
    assert rung_words(understood, turned)[: len(words)] == lower
    counted = recognise.understand(["python", "t.py", "SOLVER.IMS_PER_BATCH", "16", "SOLVER.MAX_ITER", "1000"])
    assert counted.args["lengths"] == {"SOLVER.MAX_ITER": 1000}, "1000 steps of micro-batches would be too few"


def test_a_batch_of_a_section_of_validation_is_the_validations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("")
    understood = recognise.understand(["python", "t.py", "data.batch_size=64", "++data.val.batch_size=256", "test.img_size=96"])
    assert believed(understood)["micro_batch"] == (64, "data.batch_size=")
    assert believed(understood)["val_micro_batch"] == (256, "data.val.batch_size=")
    assert "image_size" not in believed(understood)


def test_an_equals_sign_stays_and_only_turned_wheels_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("p.add_argument('--batch_size', type=int)\np.add_argument('--accum', default=2)\n")
    understood = recognise.understand(["python", "t.py", "--batch_size=64", "--lr", "1e-3"])
    assert rung_words(understood, 0) == ["python", "t.py", "--batch_size=64", "--lr", "1e-3"]
    assert rung_words(understood, 1) == ["python", "t.py", "--batch_size=32", "--lr", "1e-3", "--accum", "4"]


def test_nanogpts_configuration_file_wins_over_the_scripts_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/shakespeare.py").write_text("gradient_accumulation_steps = 1\nbatch_size = 64\nblock_size = 256\n")
    Path("train.py").write_text(
        "batch_size = 12\ngradient_accumulation_steps = 5 * 8\nblock_size = 1024\nexec(open('configurator.py').read())\n"
    )
    words = ["python", "train.py", "config/shakespeare.py", "--batch_size=64"]
    understood = recognise.understand(words)
    assert believed(understood) == {
        "micro_batch": (64, "--batch_size="),
        "accumulation": (1, "--gradient_accumulation_steps="),
        "sequence_length": (256, "--block_size="),
    }
    assert rung_words(understood, 0) == words
    assert rung_words(understood, 1) == [*words[:3], "--batch_size=32", "--gradient_accumulation_steps=2"]


def test_arguments_from_one_json_file_stay_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run_clm.py").write_text("from transformers import HfArgumentParser, TrainingArguments\n")
    Path("args.json").write_text('{"per_device_train_batch_size": 16}')
    understood = recognise.understand(["python", "run_clm.py", "args.json"])
    assert believed(understood)["accumulation"] == (1, "config+:gradient_accumulation_steps")
    assert rung_words(understood, 0) == ["python", "run_clm.py", "args.json"]
    adapter = ScriptAdapter(made(understood))
    rung = next(one for one in ladder_of(adapter).rungs if one.micro_batch == 8)
    command = adapter.command(rung, cpu_budget(), folder=tmp_path / "run")
    ((path, text),) = ((path, text) for path, text in command.files.items() if path.suffix == ".json")
    assert command.argv == ("python", "run_clm.py", str(path))
    assert json.loads(text) == {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 8}


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("from trl import DPOConfig, GRPOConfig\n(args,) = TrlParser(GRPOConfig if groups else DPOConfig).parse_args_and_config()", True),
        ("HfArgumentParser((SentenceTransformerTrainingArguments, Words))", True),
        ("class Mine(TrainingArguments):\n    pass\nHfArgumentParser(Mine)", True),
        ("@dataclass\nclass DataTrainingArguments:\n    pass\nHfArgumentParser(DataTrainingArguments)", False),
    ],
)
def test_a_librarys_own_training_arguments_have_a_word_for_accumulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, known: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    understood = recognise.understand(["python", "t.py", "--per_device_train_batch_size", "8"])
    assert believed(understood)["accumulation"] == (1, "--gradient_accumulation_steps" if known else "outside")
    checkpoints = "checkpointing" in believed(understood)
    assert checkpoints is ("class Mine" in source), "trl's classes checkpoint by default"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "batch_size = 128\nmodel.fit(x, batch_size=batch_size)",
            "the batch is 128 (batch_size of model.fit, t.py line 2), and autofit changes it",
        ),
        (
            "a = DataLoader(x, batch_size=16)\nb = DataLoader(y, batch_size=8)",
            "the batch is 16 (batch_size of DataLoader, t.py line 1), and which",
        ),
        ("batch_size = 128\nfor batch in batches(x): ...", "nothing in the command or t.py looks like a batch size"),
    ],
)
def test_a_batch_that_stands_where_it_is_not_changed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    (doubt,) = recognise.understand(["python", "t.py"]).doubts
    assert said in doubt.text


def test_one_plain_command_within_a_shell_is_that_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    understood = recognise.understand(["bash", "-c", "python train.py --name 'a b' --batch-size 64"])
    assert understood.words == ("python", "train.py", "--name", "a b", "--batch-size", "64") and understood.ask["micro_batch"] == 64


@pytest.mark.parametrize(
    ("words", "found", "cure"),
    [
        (["bash", "train.sh"], "bash train.sh is a shell script", "Give the command that trains: autofit run -- python train.py"),
        (["./train.sh", "8"], "./train.sh 8 is a shell script", "Give the command that trains"),
        (["sh", "-c", "cd a && python t.py"], "is a shell script", "Give the command that trains"),
        (["sh", "-c", "python a.py\npython b.py"], "is a shell script", "Give the command that trains"),
        (["bash", "-c", "python t.py --out $HOME"], "is a shell script", "Give the command that trains"),
        (["bash", "-c", "python t.py 'x"], "is a shell script", "Give the command that trains"),
        (["papermill", "n b.ipynb", "o.ipynb"], "n b.ipynb is a notebook", "jupyter nbconvert --to script 'n b.ipynb'. Give the command"),
    ],
)
def test_a_shell_script_or_a_notebook_is_refused_with_what_to_give(words: list[str], found: str, cure: str) -> None:
    with pytest.raises(BadInput) as refused:
        recognise.understand(words)
    assert found in str(refused.value) and cure in str(refused.value)


def test_a_draft_with_a_small_image_size_is_accepted_by_the_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("p.add_argument('--accum', default=1)\n")
    adapter = ScriptAdapter(made(recognise.understand(["python", "t.py", "--batch-size", "1", "--img-size", "96", "--seq-len", "20"])))
    assert adapter.check() == []
    assert {rung.values["image_size"] for rung in ladder_of(adapter).rungs} == {96, 64, 48, 32, 16}


def test_a_batch_that_is_no_number_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("")
    understood = recognise.understand(["python", "t.py", "--batch-size", "-1"])
    with pytest.raises(BadInput, match=r"--batch-size says -1.*ask\.micro_batch=16"):
        recognise.refuse_doubts(understood, overrides=[])
    recognise.refuse_doubts(understood, overrides=["ask.micro_batch=16"])


def test_a_configuration_that_the_script_finds_itself_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("p.add_argument('--batch-size', default=8)\n")
    understood = recognise.understand(["python", "t.py", "--cfg", "yolov5s.yaml"])
    assert "config" not in understood.args and ScriptAdapter(made(understood)).check() == []


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        ("--max-steps 500", {"--max-steps": 500}),
        ("--steps=500 --log-steps 5 --warmup_steps 10", {"--steps=": 500}),
        ("trainer.num_epochs=3", {"trainer.num_epochs=": 3}),
        ("--max_steps -1 --save_every_n_steps 4", {}),
        ("--ddpm_num_steps 1000 --num_sampling_steps 50", {}),
        ("--config c.yaml", {"config:train.max_steps": 40, "config:train.steps_per_epoch": 10}),
    ],
)
def test_how_long_it_trains_is_known_wherever_it_is_said(
    words: str, lengths: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("p.add_argument('--batch-size', default=8)\n")
    Path("c.yaml").write_text("train: {max_steps: 40, steps_per_epoch: 10, eval_steps: 5}\n")
    understood = recognise.understand(["python", "train.py", "--batch-size", "8", *words.split()])
    assert understood.args.get("lengths", {}) == lengths
    adapter = ScriptAdapter(made(understood))
    counted = [spelled for spelled in lengths if "steps" in spelled]
    assert adapter.asked.counted == (counted[0] if counted else ""), "its steps are held back from outside: their number must be proven"


@pytest.mark.parametrize(
    ("words", "points"),
    [
        ("--eval-every 100 --save_every_n_steps 4", {"--eval-every": 100, "--save_every_n_steps": 4}),
        ("trainer.val_check_interval=50", {"trainer.val_check_interval=": 50}),
        ("--eval_iters 20 --n_eval_steps 3 --save_every_n_epochs 2 --val_check_interval 0.25", {}),
        ("--config c.yaml", {"config:train.eval_steps": 5}),
    ],
)
def test_how_often_it_evaluates_and_saves_is_known_wherever_it_is_said(
    words: str, points: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("p.add_argument('--batch-size', default=8)\n")
    Path("c.yaml").write_text("train: {max_steps: 40, eval_steps: 5}\n")
    understood = recognise.understand(["python", "train.py", "--batch-size", "8", *words.split()])
    assert understood.args.get("points", {}) == points


def test_a_length_that_a_python_file_says_is_not_the_scripts_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("batch_size = 12\nmax_iters = 600000\nexec(open('configurator.py').read())\n")
    Path("mine.py").write_text("batch_size = 64\nmax_iters = 6\nother_iters = 7\n")
    assert recognise.understand(["python", "train.py", "mine.py"]).args["lengths"] == {"--max_iters=": 6}
    assert recognise.understand(["python", "train.py", "mine.py", "--max_iters=9"]).args["lengths"] == {"--max_iters=": 9}


def test_a_module_names_the_recipe_and_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("package").mkdir()
    Path("package/module.py").write_text("p.add_argument('--batch-size', default=8)\n")
    understood = recognise.understand(["python", "-m", "package.module", "--lr", "1"])
    assert believed(understood) == {"micro_batch": (8, "--batch-size"), "accumulation": (1, "outside")}
    assert recognise.name_of(understood) == "package_module"


def test_lightnings_dotted_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").write_text(
        "from lightning.pytorch.cli import LightningCLI\nclass D(L.LightningDataModule):\n"
        "    def __init__(self, folder, batch_size: int = 32):\n        pass\nLightningCLI(M, D)\n"
    )
    assert believed(recognise.understand(["python", "main.py", "fit"])) == {
        "micro_batch": (32, "--data.batch_size"),
        "accumulation": (1, "--trainer.accumulate_grad_batches"),
    }
    understood = recognise.understand(["python", "main.py", "fit", "--data.batch_size", "64", "--trainer.accumulate_grad_batches=2"])
    assert believed(understood) == {"micro_batch": (64, "--data.batch_size"), "accumulation": (2, "--trainer.accumulate_grad_batches=")}


@pytest.mark.parametrize(
    ("source", "spelling"),
    [
        ("import fire\ndef train(base, batch_size: int = 24):\n    pass\nfire.Fire(train)\n", "--batch_size"),
        ("app = typer.Typer()\n@app.command()\ndef train(batch_size: int = 24):\n    pass\n", "--batch-size"),
        ("@dataclass\nclass Args:\n    batch_size: int = field(default=24)\nHfArgumentParser((Args, More))\n", "--batch_size"),
        ("class Args:\n    batch_size: int = 24\nargs = tyro.cli(Args)\n", "--batch-size"),
        ("class Args:\n    batch_size: int = 24\n@pyrallis.wrap()\ndef main(args: Args):\n    pass\n", "--batch_size"),
        ("flags.DEFINE_integer('batch_size', 24, 'samples')\n", "--batch_size"),
    ],
    ids=["fire", "typer", "dataclasses", "tyro", "pyrallis", "absl"],
)
def test_flags_that_are_made_of_functions_and_classes(source: str, spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    assert believed(recognise.understand(["python", "t.py"]))["micro_batch"] == (24, spelling)


def test_a_parser_in_a_module_that_the_script_imports_is_the_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("options").mkdir()
    Path("options/__init__.py").touch()
    Path("options/train.py").write_text("from .base import Base\nclass Options(Base): ...\n")
    Path("options/base.py").write_text("p.add_argument('--batch_size', type=int, default=12)\n")
    Path("t.py").write_text("from options.train import Options\n")
    assert believed(recognise.understand(["python", "t.py"]))["micro_batch"] == (12, "--batch_size")
    Path("t.py").write_text("from options.train import Options\np.add_argument('--bs', default=4)\n")
    assert believed(recognise.understand(["python", "t.py"]))["micro_batch"] == (4, "--bs"), "its own, where it has one"


@pytest.mark.parametrize(
    ("words", "beliefs"),
    [
        ("--batch_size 128 --micro_batch_size 4", {"micro_batch": (4, "--micro_batch_size"), "accumulation": (32, "itself")}),
        ("--global-batch-size=64 --micro-batch-size=8", {"micro_batch": (8, "--micro-batch-size="), "accumulation": (8, "itself")}),
        ("--batch-size 64 --microbatch -1", {"micro_batch": (64, "--microbatch"), "accumulation": (1, "itself")}),
        (
            "--train_batch_size 64 --micro_batch 8 --accum_steps 8",
            {"micro_batch": (8, "--micro_batch"), "accumulation": (8, "--accum_steps")},
        ),
        ("--global_batch_size 64 --batch_size 8 --accum 8", {"micro_batch": (8, "--batch_size"), "accumulation": (8, "--accum")}),
    ],
)
def test_a_whole_batch_and_its_part_are_told_apart(words: str, beliefs: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").touch()
    assert believed(recognise.understand(["python", "t.py", *words.split()])) == beliefs


@pytest.mark.parametrize(
    ("words", "files", "said"),
    [
        (
            "mine.py",
            {"mine.py": "train_dataloader = dict(batch_size=8, sampler=dict(shuffle=True))\nval_dataloader = dict(batch_size=1)\n"},
            "the batch is 8 (train_dataloader.batch_size in mine.py)",
        ),
    ],
)
def test_where_only_the_word_for_a_batch_is_missing_that_is_said(
    words: str, files: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in {"t.py": "", **files}.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    with pytest.raises(BadInput) as told:
        recognise.refuse_doubts(recognise.understand(["python", "t.py", *words.split()]), overrides=[])
    assert said in str(told.value) and "only how the command says it isn't known" in str(told.value), told.value


_TAKES = "import argparse\np = argparse.ArgumentParser()\np.add_argument({}, nargs='+')\n"


@pytest.mark.parametrize("words", ["-c c.yml", "-c c.yml -u train_dataloader.total_batch_size=16"])
def test_a_file_that_takes_in_others_is_not_read_and_what_the_command_says_over_it_is(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(_TAKES.format("'-u', '--update'"))
    Path("c.yml").write_text("__include__: ['data.yml']\ntrain_dataloader: {total_batch_size: 8}\n")
    understood = recognise.understand(["python", "t.py", *words.split()])
    said = [(16, "train_dataloader.total_batch_size=")] if "-u" in words else []
    assert [(one.value, one.spelling) for one in understood.beliefs if one.wheel == "micro_batch"] == said
    assert "config" not in understood.args
    if not said:
        with pytest.raises(BadInput, match=r"c\.yml takes in other files, so that it isn't read: say the batch in the command"):
            recognise.refuse_doubts(understood, overrides=[])


@pytest.mark.parametrize(
    ("words", "files", "key"),
    [
        ("llamafactory-cli train f.yml", "disable_gradient_checkpointing: true\nper_device_train_batch_size: 2\n",
         {"micro_batch": (2, "config:per_device_train_batch_size"), "accumulation": (1, "gradient_accumulation_steps="),
          "checkpointing": (False, "not:config:disable_gradient_checkpointing")}),
        ("llamafactory-cli train f.yml", "cutoff_len: 256\n",
         {"micro_batch": (8, "per_device_train_batch_size="), "accumulation": (1, "gradient_accumulation_steps="),
          "sequence_length": (256, "config:cutoff_len")}),
        ("trl grpo --model_name_or_path m", "",
         {"micro_batch": (8, "--per_device_train_batch_size"), "accumulation": (1, "--gradient_accumulation_steps")}),
        ("litgpt finetune_lora DIR", "", {"micro_batch": (1, "--train.micro_batch_size"), "accumulation": (16, "itself")}),
        ("fairseq-train data --batch-size 8 --update-freq 4", "",
         {"micro_batch": (8, "--batch-size"), "accumulation": (4, "--update-freq")}),
        ("lerobot-train --policy.type=act", "", {"micro_batch": (8, "--batch_size"), "accumulation": (1, "outside")}),
    ],
)  # fmt: skip
def test_programs_of_well_known_trainers_have_words_that_a_command_need_not_name(
    words: str, files: str, key: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.yml").write_text(files)
    understood = recognise.understand(words.split())
    assert {one.wheel: (one.value, one.spelling) for one in understood.beliefs} == key


@pytest.mark.parametrize(
    ("text", "wheel", "batch"),
    [
        ("sequence_len: 512\npad_to_sequence_len: false\n", "sequence_length", 512),
        ("sequence_len: 512\ncontext_parallel_size: 2\n", "sequence_length", 512),
        ("batch_size: 8\nMaskNet: {B: 256}\n", "micro_batch", 8),
        ("SOLVER: {IMS_PER_BATCH: 16}\nMODEL: {ROI_HEADS: {BATCH_SIZE_PER_IMAGE: 256}}\n", "micro_batch", 16),
    ],
)
def test_keys_that_only_sound_alike_are_passed_over(
    text: str, wheel: str, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(text)
    Path("t.py").touch()
    understood = recognise.understand(["python", "t.py", "c.yaml"])
    assert [one.value for one in understood.beliefs if one.wheel == wheel] == [batch], understood


def test_what_modules_add_to_a_parser_that_they_are_handed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lib.py").write_text(
        "def add(p):\n    p.add_argument('--accum', type=int, default=2)\n\ndef other(p):\n    p.add_argument('--batch', default=9)\n"
    )
    Path("t.py").write_text(
        "import argparse, lib\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch_size', default=4)\nlib.add(parser)\n"
    )
    understood = recognise.understand(["python", "t.py"])
    assert {one.wheel: (one.value, one.spelling) for one in understood.beliefs} == {
        "micro_batch": (4, "--batch_size"), "accumulation": (2, "--accum"),
    }  # fmt: skip


def test_a_batch_within_a_list_of_a_file_counts_where_it_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch_size', default=1)\n")
    words = ["python", "t.py", "--dataset_config", "d.toml"]
    Path("d.toml").write_text("[general]\n[[datasets]]\nbatch_size = 4\n")
    (batch,) = (one for one in recognise.understand(words).beliefs if one.wheel == "micro_batch")
    assert (batch.value, batch.spelling) == (4, "config:datasets[0].batch_size")
    Path("d.toml").write_text("[[datasets]]\nbatch_size = 4\n[[datasets]]\nbatch_size = 2\n")
    with pytest.raises(BadInput, match=r"datasets\[0\]\.batch_size 4 in d\.toml and datasets\[1\]\.batch_size 2 in d\.toml"):
        recognise.refuse_doubts(recognise.understand(words), overrides=[])


@pytest.mark.parametrize(
    ("words", "batch"),
    [
        ("-c c.yml -u train_dataloader.total_batch_size=32", (32, "train_dataloader.total_batch_size=")),
        ("c.yml --cfg-options train_dataloader.batch_size=8", (8, "train_dataloader.batch_size=")),
        ("--config-file c.yml SOLVER.IMS_PER_BATCH 4", (4, "SOLVER.IMS_PER_BATCH")),
    ],
)
def test_what_is_then_said_in_the_command_is_understood(words: str, batch: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").touch()
    Path("c.yml").write_text("_BASE_: base.yml\n")
    assert believed(recognise.understand(["python", "t.py", *words.split()]))["micro_batch"] == batch


NANOCHAT = """
p.add_argument("--device-batch-size", type=int, default=32, help="per-device batch size")
p.add_argument("--total-batch-size", type=int, default=-1, help="total batch size in tokens (-1 = by itself)")
p.add_argument("--max-seq-len", type=int, default=2048)
p.add_argument("--num-iterations", type=int, default=-1)
"""
LLM_C = """
p.add_argument("--batch_size", type=int, default=4, help="batch size, in units of #batch dimensions")
p.add_argument("--sequence_length", type=int, default=64)
p.add_argument("--total_batch_size", type=int, default=256, help="total desired batch size, in units of #tokens")
"""


@pytest.mark.parametrize(
    ("source", "words", "batch", "accumulation"),
    [
        (NANOCHAT, "--device-batch-size=32 --total-batch-size=8192 --max-seq-len=128", (32, "--device-batch-size="), 2),
        (NANOCHAT, "--device-batch-size=8 --total-batch-size=8192 --max-seq-len=128", (8, "--device-batch-size="), 8),
        (LLM_C, "", (4, "--batch_size"), 1),
        (LLM_C, "--total_batch_size 1024", (4, "--batch_size"), 4),
        (LLM_C.replace("#tokens", "samples"), "--total_batch_size 1024", (4, "--batch_size"), 256),
    ],
)
def test_a_whole_batch_in_tokens_is_taken_in_parts_of_so_many_tokens(
    source: str, words: str, batch: object, accumulation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    understood = recognise.understand(["python", "t.py", *words.split()])
    assert believed(understood)["micro_batch"] == batch and believed(understood)["accumulation"] == (accumulation, "itself")
    adapter = ScriptAdapter(made(understood))
    assert {rung.effective_batch for rung in ladder_of(adapter).rungs} == {batch[0] * accumulation}  # type: ignore[index]
    if "tokens" in source:
        assert "sequence_length" not in understood.ask, "at a shorter length the same tokens are more steps"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (NANOCHAT, "--device-batch-size=32"),
        (NANOCHAT, "--device-batch-size=96 --total-batch-size=8192"),
        (LLM_C, "--total_batch_size 1000"),
    ],
)
def test_a_whole_batch_whose_parts_are_not_known_keeps_the_micro_batch(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source.replace("num-iterations", "n"))
    understood = recognise.understand(["python", "t.py", *words.split()])
    assert "accumulation" not in believed(understood) and "micro_batch" not in understood.ladder["order"]
    assert "is the batch of a step, and in how many parts the script takes it isn't known" in understood.remarks["ask"][0]


FRAMES = "p.add_argument('--batch_size_type', type=str, default='frame', choices=['frame', 'sample'])\n"


@pytest.mark.parametrize(
    ("words", "source", "told"),
    [
        ("--batch_size_per_gpu 3200", FRAMES, "--batch_size_per_gpu 3200 counts frames and not samples"),
        ("--batch_size_per_gpu 9 --batch_size_type=tokens", FRAMES, "counts tokens and not samples (--batch_size_type= tokens"),
        ("c.yaml", "", "config:datasets.batch_size 38400 counts seconds"),
        ("s.yaml", "", "batch_size 16 isn't what batches hold (config:dynamic_batching True"),
        ("--max-tokens 4096 --max-len 512 --accum 4", "", "--max-tokens 4096 bounds its batches by tokens or frames"),
        ("", "p.add_argument('--batch-frames', type=int, default=900)\n", "--batch-frames 900 bounds its batches"),
    ],
)
def test_batches_of_so_many_frames_or_tokens_are_not_turned_and_what_to_say_is_told(
    words: str, source: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(source)
    Path("c.yaml").write_text("datasets: {batch_size: 38400, batch_type: second}\n")
    Path("s.yaml").write_text("dynamic_batching: true\nbatch_size: 16\n")
    understood = recognise.understand(["python", "t.py", *words.split()])
    with pytest.raises(BadInput) as refused:
        recognise.refuse_doubts(understood, overrides=[])
    assert told in str(refused.value) and "which autofit doesn't turn: give it batches of so many samples" in str(refused.value)


def test_batches_that_could_be_of_so_many_frames_and_are_of_samples_are_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(FRAMES)
    understood = recognise.understand(["python", "t.py", "--batch_size_per_gpu", "32", "--batch_size_type", "sample"])
    assert believed(understood)["micro_batch"] == (32, "--batch_size_per_gpu") and recognise.refuse_doubts(understood, overrides=[]) is None


def test_a_part_that_does_not_divide_the_whole_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # torchrun lies there
    Path("t.py").touch()
    for launcher, words in (
        ([], "--batch_size 100 --micro_batch_size 8"),
        (["--nproc_per_node=2"], "--batch_size 64 --micro_batch_size 8"),
    ):
        understood = recognise.understand(["torchrun", *launcher, "t.py", *words.split()])
        with pytest.raises(BadInput, match="micro_batch could be"):
            recognise.refuse_doubts(understood, overrides=[])


def test_only_the_part_is_turned_where_the_script_takes_the_whole_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").touch()
    understood = recognise.understand(["python", "t.py", "--batch_size", "16", "--micro_batch_size", "8"])
    assert rung_words(understood, 0) == ["python", "t.py", "--batch_size", "16", "--micro_batch_size", "8"]
    assert rung_words(understood, 1) == ["python", "t.py", "--batch_size", "16", "--micro_batch_size", "4"]


def test_a_nominal_batch_is_kept_by_the_script_and_only_the_rest_is_done_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(
        "nbs = 64  # nominal batch size\naccumulate = max(round(nbs / batch_size), 1)\np.add_argument('--batch', default=16)\n"
    )
    understood = recognise.understand(["python", "t.py", "--batch", "128"])
    assert believed(understood) == {"micro_batch": (128, "--batch"), "accumulation": (1, "nominal:64")}
    adapter = ScriptAdapter(made(understood))
    outside = {rung.micro_batch: adapter.line(rung, run=Path("run")).outside for rung in ladder_of(adapter).rungs}
    assert {batch: outside[batch] for batch in (128, 64, 32, 1)} == {128: 1, 64: 2, 32: 2, 1: 2}
    assert believed(recognise.understand(["python", "t.py"])) == {"micro_batch": (16, "--batch"), "accumulation": (4, "nominal:64")}
    assert "accumulation" not in believed(recognise.understand(["python", "t.py", "--batch", "40"])), (
        "40 is neither part nor multiple of 64"
    )


@pytest.mark.parametrize(
    ("source", "turns"),
    [
        ("steps = args.epochs * len(data) // args.batch_size\ns = CosineAnnealingLR(o, T_max=steps)\n", False),
        ("per = len(data) / (batch_size * 2)\nself.all = per * 9\ns = get_linear_schedule_with_warmup(o, 0, self.all)\n", False),
        ("s = torch.optim.lr_scheduler.OneCycleLR(o, 1, total_steps=len(data) // args.bs)\n", False),
        ("loss = total / args.batch_size\ns = StepLR(o, 30)\nscheduler.step(loss)\n", True),
        ("s = OneCycleLR(o, 1, steps_per_epoch=len(loader))\nprint(len(data) // args.batch_size)\n", True),
    ],
    ids=["cosine", "self", "one cycle", "a loss", "len(loader)"],
)
def test_a_schedule_that_the_batch_size_counts_keeps_the_micro_batch_as_it_is(
    source: str, turns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(f"p.add_argument('--batch-size', default=8)\n{source}")
    understood = recognise.understand(["python", "t.py"])
    assert ("accumulation" in believed(understood)) is turns
    assert turns or "a schedule is counted by the batch size (t.py, line" in recipe_draft.recipe(understood, name="mine")


def test_a_batch_in_the_source_is_known_where_no_word_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("SIZE = 32\nDataLoader(a, batch_size=SIZE, shuffle=True)\ntorch.utils.data.DataLoader(b, 100, shuffle=False)\n")
    understood = recognise.understand(["python", "t.py"])
    assert believed(understood) == {"micro_batch": (32, "outside"), "accumulation": (1, "outside")}
    adapter = ScriptAdapter(made(understood))
    asked, lower = (adapter.line(rung, run=Path("run")) for rung in ladder_of(adapter).rungs[:2])
    assert (asked.split, asked.outside) == (None, 1) and (lower.split, lower.outside) == ((32, 16, ""), 2)
    assert asked.words == lower.words == ["python", "t.py"]
    Path("t.py").write_text("DataLoader(a, batch_size=8, shuffle=True)\nDataLoader(b, batch_size=16, shuffle=True)\n")
    assert "micro_batch" not in believed(recognise.understand(["python", "t.py"])), "which of the two?"


def test_a_script_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="there is no script"):
        recognise.understand(["python", "nowhere.py"])
    with pytest.raises(BadInput, match="there is no command"):
        recognise.understand([])
    with pytest.raises(BadInput, match=r"Set it before autofit: A_B=0 autofit run -- python t\.py\."):
        recognise.understand(["A_B=0", "python", "t.py"])
    with pytest.raises(BadInput, match=r"PYTHONPATH=\. X='a b' autofit run -- python t\.py\."):
        recognise.understand(["env", "PYTHONPATH=.", "X=a b", "python", "t.py"])


def test_a_dollar_brace_of_the_persons_own_is_text_and_no_interpolation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("")
    words = ["python", "t.py", "--batch-size", "4", "out=${HOME}/x", "name=${now:%H}"]
    held = OmegaConf.create(yaml.safe_load(recipe_draft.recipe(recognise.understand(words), name="mine")))
    assert OmegaConf.to_container(held, resolve=True)["trainer"]["args"]["command"] == words  # type: ignore[index,call-overload]


class _Taken:
    """An adapter that takes every command for its own."""

    name = "greedy"
    general = False

    @classmethod
    def recognise(cls, words: Sequence[str], *, value: str = "") -> Understood | None:
        return Understood(adapter=cls.name, words=tuple(words))


def test_the_general_adapter_is_asked_only_where_nobody_knows_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "adapters", lambda: iter([*adapters(), _Taken]))
    assert recognise.understand(["greedy-train", "missing.py"]).adapter == "greedy"
    with pytest.raises(BadInput, match=r"greedy, ultralytics|ultralytics, greedy"):
        recognise.understand(["yolo", "train", "batch=4"])


def test_a_broken_plugin_is_passed_over_with_a_word(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    broken = EntryPoint(name="broken", value="nowhere_at_all:Adapter", group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [*entry_points(group=group), broken])
    assert "broken" not in [adapter.name for adapter in adapters()]
    assert "'broken' (nowhere_at_all:Adapter) can't be loaded" in caplog.text


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        ("torchrun --nproc_per_node 2 train.py --batch-size 64", 2), ("torchrun --nproc-per-node=4 --nnodes 2 train.py", 8),
        ("torchrun --nproc_per_node gpu train.py", 1), ("python train.py --nnodes 2", 1),
        ("accelerate launch --multi_gpu --num_processes 3 train.py", 3), ("python -m torch.distributed.run --nproc_per_node=2 train.py", 2),
    ],
)  # fmt: skip
def test_processes_are_counted_by_the_launchers_words(words: str, ranks: int) -> None:
    assert script_recognise.launched(words.split()).processes == ranks


def test_who_accepts_another_batch_gets_a_micro_batch_that_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "p.add_argument('--batch-size', default=8)\nOneCycleLR(o, 1, total_steps=len(data) // args.batch_size * args.epochs)\n"
    )
    understood = recognise.understand(["python", "train.py"])
    assert understood.ladder["wheels"]["micro_batch"] == {"floor": 8}
    assert free_batch(understood).ladder == {"order": ["micro_batch"]}


def test_who_allows_checkpointing_gets_half_of_the_repeated_modules_and_then_all_unless_the_script_has_a_word_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("p.add_argument('--batch-size', default=8)\n")
    allowed = checkpointed(recognise.understand(["python", "train.py"]))
    assert allowed.ask["checkpointing"] is False and allowed.args["spelled"]["checkpointing"] == "outside"
    assert allowed.ladder["order"] == ["micro_batch", "checkpointing"]
    assert allowed.ladder["wheels"]["checkpointing"] == {"values": [0.5, True]}
    Path("train.py").write_text("p.add_argument('--batch-size', default=8)\np.add_argument('--grad-checkpointing', action='store_true')\n")
    own = recognise.understand(["python", "train.py"])
    assert checkpointed(own) == own and own.args["spelled"]["checkpointing"] == "switch:--grad-checkpointing"


def test_of_hydras_words_those_that_are_typed_are_turned_and_accumulation_where_lightnings_trainer_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import hydra\nimport lightning\ntrainer = hydra.utils.instantiate(cfg.trainer, logger=None)\n")
    understood = recognise.understand(["python", "train.py", "trainer=cpu", "data.batch_size=16"])
    assert believed(understood) == {"micro_batch": (16, "data.batch_size="), "accumulation": (1, "call:accumulate_grad_batches")}
    assert rung_words(understood, 1)[2:] == ["trainer=cpu", "data.batch_size=8"]
    typed = recognise.understand(["python", "train.py", "data.batch_size=16", "trainer.accumulate_grad_batches=2"])
    assert believed(typed)["accumulation"] == (2, "trainer.accumulate_grad_batches=")


def test_lengths_that_only_a_default_says_are_left_where_the_command_says_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags_ = "p.add_argument('-b', default=8)\np.add_argument('--img-size', default=224)\np.add_argument('--max-seq-len', default=576)\n"
    Path("train.py").write_text(flags_)
    assert "sequence_length" not in believed(recognise.understand(["python", "train.py", "--img-size", "64"]))
    assert "sequence_length" in believed(recognise.understand(["python", "train.py"]))


@pytest.mark.parametrize(
    ("named", "overrides", "clear"),
    [
        ([], ["device=1"], True), ([], ["device.index=1"], True), ([], ["device=cpu"], True), ([], ["device.memory=8GiB"], True),
        ([], ["device=0,1"], False), ([], ["device.cards=2"], False), ([], ["device.cards=all"], False),
        ([], ["device.cards=[0,1]"], False),
        ([], ["device=0,1", "ask.micro_batch=16"], True),
        ([0, 1], [], True), ([0, 1], ["device=0"], False), ([0, 1], ["device=2,3"], False),
        ([0, 1], ["device=0", "ask.micro_batch=32"], True), ([0, 1], ["device=cpu", "ask.micro_batch=32"], True),
    ],
)  # fmt: skip
def test_cards_said_beside_a_command_are_refused_where_its_batch_of_each_isnt_clear(
    named: list[int], overrides: list[str], clear: bool
) -> None:
    understood = Understood(adapter="ultralytics", words=("yolo",), device={"cards": named} if named else {})
    if clear:
        recognise.refuse_cards(understood, overrides=overrides)
    else:
        with pytest.raises(BadInput, match="isn't clear"):
            recognise.refuse_cards(understood, overrides=overrides)


@pytest.mark.parametrize("word", ["device=cpu", "device.kind=cpu"])
def test_a_cpu_beside_a_command_of_several_cards_takes_all_of_its_batch_where_that_is_said(word: str) -> None:
    understood = Understood(adapter="ultralytics", words=("yolo",), ask={"micro_batch": 16}, device={"kind": "cuda", "cards": [0, 1]})
    with pytest.raises(BadInput, match="names cards 0, 1") as refused:
        recognise.refuse_cards(understood, overrides=[word])
    assert refused.value.faults[0].cure == f"One process takes all of it: {word} ask.micro_batch=32."
    assert recognise.on_cpu(understood, overrides=[word]).device == {}
