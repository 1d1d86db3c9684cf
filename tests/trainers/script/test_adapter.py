"""The script adapter: the contract, how settings are spelled, changed copies of configuration files, and faults in words."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from autofit_launcher.adapter import Checkpoint, Command, RunStart
from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.config.schema import LadderRules, Recipe, TrainerRules, WheelRule
from autofit_launcher.ladder.rungs import Value
from autofit_launcher.trainers.script import configs
from autofit_launcher.trainers.script import recognise as script_recognise
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.script.spelling import Line
from autofit_launcher.trainers.suite import AdapterSuite, cpu_budget
from tests.helpers import script
from tests.helpers.places import EXAMPLES
from tests.helpers.saved import looked, whole

CONFIG = """\
# mine
train: {batch: 8, accum: 2, lr: 1e-4}   # flow
data:
  segment: 441000  # samples
model:
  layers: 12
  ffn:
    - 1024
    - 1024
"""


def project(folder: Path, **ask: Value) -> Recipe:
    """A script with a YAML file, as a recipe."""
    (folder / "train.py").write_text("import torch\n")
    (folder / "c.yaml").write_text(CONFIG)
    args = {
        "command": ["python", str(folder / "train.py"), "--config", str(folder / "c.yaml")],
        "config": str(folder / "c.yaml"),
        "spelled": {
            "micro_batch": "config:train.batch", "accumulation": "config:train.accum", "segment": "config:data.segment",
            "checkpointing": "switch:--ckpt",
        },
        "presets": {"model": {"large": {"model.layers": 12, "model.ffn": [1024, 1024]}, "small": {"model.layers": 4, "model.ffn": [96]}}},
        "resume": {"words": "--resume {checkpoint}", "newest": "{run}/*.pth"},
    }  # fmt: skip
    return Recipe(
        name="mine",
        ask={"micro_batch": 8, "accumulation": 2, "segment": 441000, "checkpointing": False, "model": "large", **ask},
        trainer=TrainerRules(adapter="script", args=args),
        ladder=LadderRules(order=("micro_batch", "segment", "checkpointing", "model"), wheels={"segment": WheelRule(values=(220500,))}),
    )


class TestScript(AdapterSuite):
    adapter_type = ScriptAdapter

    @pytest.fixture
    def recipe(self) -> Recipe:
        words = ("--batch-size", "8", "--accum", "1", "--epochs", "1")
        return script.recipe(sys.executable, str(EXAMPLES / "classifier" / "train.py"), *words, ask={"micro_batch": 8})


def changed(recipe: Recipe, **args: object) -> Recipe:
    trainer = recipe.trainer.model_copy(update={"args": {**recipe.trainer.args, **args}})
    return recipe.model_copy(update={"trainer": trainer})


def test_a_rung_changes_a_copy_of_the_config_and_nothing_else_in_it(tmp_path: Path) -> None:
    adapter = ScriptAdapter(project(tmp_path))
    rung = next(one for one in ladder_of(adapter).rungs if one.values["model"] == "small" and one.micro_batch == 2)
    command = adapter.command(rung, cpu_budget(), folder=tmp_path / "run")
    ((path, text),) = command.files.items()
    assert command.argv[-1] == str(path) and path == tmp_path / "run" / "native" / f"c.rung{rung.index}.yaml"
    held = yaml.safe_load(text)
    assert held["train"] == {"batch": 2, "accum": 8, "lr": "1e-4"} and held["model"] == {"layers": 4, "ffn": [96]}
    assert "# mine" in text and "# flow" in text and "lr: 1e-4" in text
    assert (tmp_path / "c.yaml").read_text() == CONFIG


def test_what_lies_beside_a_configuration_file_lies_beside_its_copy(tmp_path: Path) -> None:
    """A script that takes ``base.json`` from its file's folder would build its default model otherwise."""
    adapter = ScriptAdapter(project(tmp_path))
    (tmp_path / "base.json").write_text('{"width": 8}')
    (tmp_path / "large.json").write_text("0" * 2**17)
    files = adapter.command(ladder_of(adapter).rungs[1], cpu_budget(), folder=tmp_path / "run").files
    assert files[tmp_path / "run" / "native" / "base.json"] == '{"width": 8}'
    assert sorted(path.name for path in files) == ["base.json", "c.rung1.yaml"]


def test_a_file_that_no_changed_copy_can_stand_for_is_refused(tmp_path: Path) -> None:
    mine = project(tmp_path)
    (tmp_path / "other.yaml").write_text("train: {batch: 8}\n")
    faults = ScriptAdapter(changed(mine, config=str(tmp_path / "other.yaml"))).check()
    assert any("so that no changed copy could be read in its place" in str(fault) for fault in faults), faults


OF_PARSER = "from transformers import HfArgumentParser, TrainingArguments\nHfArgumentParser(TrainingArguments)\n"
OF_LOOP = "import argparse\nargparse.ArgumentParser().add_argument('--per_device_train_batch_size', type=int)\n"


@pytest.mark.parametrize(
    ("words", "source", "goes_on"),
    [
        ("python train.py", OF_PARSER, True),
        ("python -m train", OF_PARSER, True),
        ("trl sft", "", True),
        ("python train.py", OF_LOOP, False),
    ],
)
def test_a_training_by_hugging_faces_trainer_goes_on_from_what_that_saves(words: str, source: str, goes_on: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    seen = script_recognise.understand([*words.split(), "--per_device_train_batch_size", "8"])
    trainer = TrainerRules(adapter="script", args=dict(seen.args))
    adapter = ScriptAdapter(Recipe(name="m", ask=dict(seen.ask), trainer=trainer, ladder=LadderRules(order=("micro_batch",))))
    asked = ladder_of(adapter).asked
    assert adapter.trial(asked, cpu_budget(), folder=tmp_path / "t", cache=tmp_path).resumes is goes_on
    command = adapter.command(asked, cpu_budget(), folder=tmp_path / "run")
    assert ("TRAINER_KEPT_IN" in command.told) is goes_on and "TRAINER_KEPT_IN" not in command.shell()


def test_a_preset_keeps_no_checkpoint_and_a_shorter_segment_does(tmp_path: Path) -> None:
    adapter = ScriptAdapter(project(tmp_path))
    rungs = ladder_of(adapter).rungs
    shorter = next(one for one in rungs if one.values["segment"] == 220500)
    smaller = next(one for one in rungs if one.values["model"] == "small")
    keeps = adapter.asked.keeps
    assert keeps is not None and "segment" in keeps and "model" not in keeps
    assert shorter.values["model"] == "large" and smaller.values["model"] == "small"
    (tmp_path / "run").mkdir()
    for age, name in enumerate(("torn.pth", "b.pth", "a.pth")):
        with zipfile.ZipFile(tmp_path / "run" / name, "w") as archive:
            archive.writestr("data", b"weights" * 1000)
        os.utime(tmp_path / "run" / name, (1e9 - age, 1e9 - age))
    torn = tmp_path / "run" / "torn.pth"
    torn.write_bytes(torn.read_bytes()[:-40])
    newest, older = whole(looked(adapter.saved(tmp_path)))
    assert (newest.path.name, older.path.name) == ("b.pth", "a.pth"), "a torn one is passed over"
    command = adapter.command(shorter, cpu_budget(), folder=tmp_path, start=RunStart(checkpoint=newest, attempt=2))
    assert command.argv[-2:] == ("--resume", str(newest.path))


@pytest.mark.parametrize(
    ("args", "ask", "words"),
    [
        ({"command": "python nowhere.py"}, {}, "there is no script 'nowhere.py'"),
        ({"command": "no-such-program x"}, {}, "'no-such-program' is no program"),
        ({"spelled": {"micro_batch": "config:train.bach", "accumulation": "--a", "segment": "--s"}}, {}, "Did you mean 'train.batch'?"),
        ({"spelled": {"micro_batch": "what?", "accumulation": "--a", "segment": "--s"}}, {}, "is no spelling"),
        ({"config": "other.yaml"}, {}, "other.yaml can't be read"),
        ({"spelled": {"micro_batch": "--b", "segment": "--s"}}, {}, "a lower micro-batch needs more accumulation"),
        ({"comand": "x"}, {}, "Did you mean 'command'?"),
        ({}, {"model": "lage"}, "Did you mean 'large'?"),
    ],
)  # fmt: skip
def test_faults_are_told_in_words(tmp_path: Path, args: dict[str, object], ask: dict[str, Value], words: str) -> None:
    faults = ScriptAdapter(changed(project(tmp_path, **ask), **args)).check()
    assert any(words in str(fault) for fault in faults), faults


@pytest.mark.parametrize(
    ("words", "spelling", "value", "becomes"),
    [
        (["t.py", "--b", "8"], "--b", 4, ["t.py", "--b", "4"]),
        (["t.py", "--b=8"], "--b", 4, ["t.py", "--b=4"]),
        (["t.py"], "--b", 4, ["t.py", "--b", "4"]),
        (["t.py", "+train.b=8"], "train.b=", 4, ["t.py", "+train.b=4"]),
        (["t.py"], "train.b=", [1, 2], ["t.py", "train.b=[1,2]"]),
        (["t.py", "--no-x"], "switch:--x/--no-x", True, ["t.py", "--x"]),
        (["t.py", "b=8", "++b=9"], "b=", 4, ["t.py", "b=8", "++b=4"]),
    ],
)  # fmt: skip
def test_spelling(words: list[str], spelling: str, value: object, becomes: list[str]) -> None:
    line = Line(words=words)
    line.set(spelling, value)
    assert line.words == becomes


@pytest.mark.parametrize(
    ("launcher", "spelling", "value", "becomes"),
    [
        ("accelerate launch --gradient_accumulation_steps 4", "--gradient_accumulation_steps", 2, "--gradient_accumulation_steps 2"),
        ("torchrun --seed=3", "--seed=", 5, "--seed=5"),
        ("accelerate launch --cpu", "switch:--cpu", False, ""),
    ],
)
def test_words_of_the_launcher_are_never_written_into(launcher: str, spelling: str, value: object, becomes: str) -> None:
    words = [*launcher.split(), "train.py"]
    line = Line(words=list(words), begin=script_recognise.script_of(words)[1])
    line.set(spelling, value)
    assert line.words == [*words, *becomes.split()]


def assert_needs_no_autofit(command: Command, place: Path, beside: set[str]) -> None:
    """What acts from outside stands in that folder, which is first on the run's path, and imports nothing of autofit's."""
    assert command.env["PYTHONPATH"].split(":")[0] == str(place)
    names = {"sitecustomize.py", f"_autofit_{place.name}.py", *beside}
    assert {path for path in command.files if path.parent == place} == {place / name for name in names}
    assert not any("import autofit_launcher" in text or "from autofit_launcher" in text for text in command.files.values())


def test_a_script_without_a_word_for_accumulation_is_given_it_from_outside(tmp_path: Path) -> None:
    mine = project(tmp_path, accumulation=1)
    spelled = {**mine.trainer.args["spelled"], "accumulation": "outside"}
    adapter = ScriptAdapter(changed(mine, spelled=spelled, says={"accumulation": 1, "micro_batch": 8}))
    assert adapter.check() == [] and any("waits until the whole batch is in" in note for note in adapter.notes())
    asked, lower = (adapter.command(rung, cpu_budget(), folder=tmp_path / "run") for rung in ladder_of(adapter).rungs[:2])
    assert "ACCUMULATE" not in asked.env and not any(path.name == "sitecustomize.py" for path in asked.files)
    assert lower.env["ACCUMULATE"] == "2"
    assert_needs_no_autofit(lower, tmp_path / "run" / "native" / "accumulate", {"steps.py", "loaders.py", "imported.py"})
    trial = adapter.trial(ladder_of(adapter).rungs[1], cpu_budget(), folder=tmp_path / "trial", cache=tmp_path)
    assert trial.expects == {"accumulation": 2}


def test_repeated_modules_are_checkpointed_from_outside_where_that_is_named_and_so_they_stay(tmp_path: Path) -> None:
    spelled = {"micro_batch": "--b", "accumulation": "--a", "segment": "--s", "checkpointing": "outside"}
    recipe = changed(project(tmp_path), spelled=spelled)
    wheels = {**recipe.ladder.wheels, "checkpointing": WheelRule(values=(True,))}
    ladder = LadderRules(order=("checkpointing", "micro_batch", "segment", "model"), wheels=wheels)
    adapter = ScriptAdapter(recipe.model_copy(update={"ladder": ladder}))
    assert adapter.check() == []
    asked, every = (adapter.command(rung, cpu_budget(), folder=tmp_path / "run") for rung in ladder_of(adapter).rungs[:2])
    assert "CHECKPOINTING" not in asked.env and every.env["CHECKPOINTING"] == "1"
    assert_needs_no_autofit(every, tmp_path / "run" / "native" / "checkpointing", {"imported.py"})
    assert every.argv[:3] == asked.argv[:3]
    rung = ladder_of(adapter).rungs[1]
    assert adapter.twin(rung, cpu_budget(), folder=tmp_path / "twin").env["CHECKPOINTING"] == "1"


def test_a_whole_batch_that_the_script_keeps_by_itself_is_not_let_go(tmp_path: Path) -> None:
    """--allow-batch was offered for karpathy's autoresearch, whose step stays as it is whatever the micro-batch."""
    kept = changed(project(tmp_path), spelled={"micro_batch": "--b", "accumulation": "itself", "segment": "--s"})
    freed = kept.model_copy(update={"ladder": kept.ladder.model_copy(update={"keep_batch": False})})
    faults = [str(ScriptAdapter(recipe).check()) for recipe in (kept, freed)]
    assert ["keeps its whole batch by itself at any micro-batch" in said for said in faults] == [False, True]


def test_only_accumulation_is_turned_from_outside_and_a_loader_only_with_it(tmp_path: Path) -> None:
    def said(**spelled: str) -> str:
        return "\n".join(str(fault) for fault in ScriptAdapter(changed(project(tmp_path), spelled=spelled)).check())

    assert "only accumulation can be outside" in said(micro_batch="--b", accumulation="--a", segment="outside")
    assert "only accumulation can be itself" in said(micro_batch="itself", accumulation="--a", segment="--s")
    split = changed(project(tmp_path), spelled={"micro_batch": "loader:train.py:3", "segment": "--s"}, says={"micro_batch": 16})
    for accumulation, refused in (("--a", False), ("outside", False), ("itself", True)):
        one = changed(split, spelled={**split.trainer.args["spelled"], "accumulation": accumulation})
        assert ("can only be split where accumulation is turned, too" in str(ScriptAdapter(one).check())) is refused
    assert "only accumulation can be outside" in said(micro_batch="outside", accumulation="--a", segment="--s")


def test_a_copy_has_the_wanted_values_and_all_others(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: !!python/tuple [1, 2]\nb: !mine {c: 1}\n")
    assert configs.contents(tmp_path / "c.yaml")["b"] == {"c": 1}
    assert configs.edited((tmp_path / "c.yaml").read_text(), {"b.c": 7}) == "a: !!python/tuple [1, 2]\nb: !mine {c: 7}\n"
    assert configs.edited('{"a": {"b": [1, 2]}, "c": 1e-4}', {"a.b": [3]}) == '{"a": {"b": [3]}, "c": 1e-4}'
    for text in ('{"a": 1}', "a: 1"):
        with pytest.raises(configs.NoSuchKey):
            configs.edited(text, {"b": 1})


def test_a_run_goes_on_with_as_many_loader_workers_as_it_is_told_where_the_recipe_spells_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    resume, ask = {"words": "--resume {checkpoint}", "newest": "*.pt"}, {"micro_batch": 8, "workers": 4}
    start = RunStart(checkpoint=Checkpoint(path=Path("last.pt"), done=1, unit="seconds"), attempt=2, workers=1)
    words = ("python", str(tmp_path / "train.py"), "--loaders", "4")
    said = ScriptAdapter(script.recipe(*words, ask=ask, resume=resume, spelled={"workers": "--loaders"}))
    told = said.command(ladder_of(said).asked, cpu_budget(), folder=tmp_path, start=start).argv[2:]
    assert said.asked.workers == 4 and told == ("--loaders", "1", "--resume", "last.pt")
    del ask["workers"]
    assert ScriptAdapter(script.recipe(*words, ask=ask, resume=resume, spelled={})).asked.workers is None
