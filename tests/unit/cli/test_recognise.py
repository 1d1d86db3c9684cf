"""What is understood of command lines that people have, and the recipes written from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from autofit_launcher.adapter import registry, wheel_names
from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.recognised import checkpointed
from autofit_launcher.adapter.registry import adapters
from autofit_launcher.cli import recognise
from autofit_launcher.cli.recognise import Understood
from autofit_launcher.config.schema import LadderRules, Recipe, TrainerRules
from autofit_launcher.errors import BadInput
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers.nvml_stand_in import FakeCard, FakeNvml
from tests.helpers.places import EXAMPLES

Files = Mapping[str, str]
Beliefs = Mapping[str, tuple[object, str] | None]
"""Wheel -> (value, spelling), or None where nothing is believed of it."""


def of(words: str | Sequence[str], source: str = "", **files: str) -> Understood:
    """What is understood of ``python t.py WORDS`` where ``t.py`` holds ``source``; of the words alone where they begin with a program.

    ``files``: names with ``__`` for a dot and ``_in_`` for a slash.
    """
    laid({"t.py": source, **{name.replace("_in_", "/").replace("__", "."): text for name, text in files.items()}})
    words = words.split() if isinstance(words, str) else list(words)
    return recognise.understand(words if words and words[0] in ("python", "yolo") else ["python", "t.py", *words])


def laid(files: Files) -> None:
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def believed(understood: Understood) -> dict[str, tuple[object, str]]:
    return {belief.wheel: (belief.value, belief.spelling) for belief in understood.beliefs}


def written(understood: Understood) -> dict[str, Any]:
    held: dict[str, Any] = yaml.safe_load(recognise.recipe(understood, name="mine"))
    return held


def made(understood: Understood) -> Recipe:
    """The recipe that is understood, without the defaults of its groups."""
    held = written(understood)
    ladder = LadderRules.model_validate_json(json.dumps(held["ladder"]))
    return Recipe(name="mine", ask=held.get("ask", {}), trainer=TrainerRules(adapter="script", args=held["trainer"]["args"]), ladder=ladder)


def rung_words(understood: Understood, index: int) -> list[str]:
    adapter = ScriptAdapter(made(understood))
    return adapter.line(ladder_of(adapter).rungs[index], run=Path("run")).words


# ---- words, flags and files, and what is believed of them

ITSELF = {"accumulation": (1, "itself")}
OUTSIDE = {"accumulation": (1, "outside")}
BATCH_8 = "p.add_argument('--batch-size', default=8)\n"
CONFIGURATOR = "batch_size = 12\ngradient_accumulation_steps = 5 * 8\nblock_size = 1024\nexec(open('configurator.py').read())\n"
NOMINAL = "nbs = 64  # nominal batch size\naccumulate = max(round(nbs / batch_size), 1)\np.add_argument('--batch', default=16)\n"

ORDERED = {"a.yaml": "data: {batch_size: 64}\n", "b.yaml": "data: {batch_size: 16384}\n", "names.json": "{}"}
SAID: dict[str, tuple[str, Files, Beliefs]] = {
    "a module": (
        "python -m package.module --lr 1", {"package/module.py": BATCH_8}, {"micro_batch": (8, "--batch-size"), **OUTSIDE},
    ),
    "keys of a file, and not those of its validation": (
        "--config c.yaml",
        {"c.yaml": "training: {batch_size: 8, grad_accum: 2}\nval: {batch_size: 4}\ndata: {segment: 441000}\n"},
        {"micro_batch": (8, "config:training.batch_size"), "accumulation": (2, "config:training.grad_accum"),
         "segment": (441000, "config:data.segment"), "val_micro_batch": (4, "config:val.batch_size")},
    ),
    "a configurator's file wins over the script's own names": (
        "c/small.py --batch_size=64",
        {"t.py": CONFIGURATOR, "c/small.py": "gradient_accumulation_steps = 1\nbatch_size = 64\nblock_size = 256\n"},
        {"micro_batch": (64, "--batch_size="), "accumulation": (1, "--gradient_accumulation_steps="),
         "sequence_length": (256, "--block_size=")},
    ),
    "DeepSpeed's file that alone says the batch": (
        "--deepspeed_config ds.json",
        {"ds.json": '{"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "train_batch_size": 32}'},
        {"micro_batch": (8, "config:train_micro_batch_size_per_gpu"), "accumulation": (2, "config:gradient_accumulation_steps")},
    ),
    "what only the first trial shows": (
        "", {"t.py": "SIZE = 32\nDataLoader(a, batch_size=SIZE)\n"}, {"micro_batch": None, "accumulation": None},
    ),
    "an accumulation that the script works out": ("", {"t.py": NOMINAL}, {"micro_batch": (16, "--batch"), **ITSELF}),
    "a parser in a module that is imported": (
        "", {"t.py": "from options import get_args\n", "options.py": "p.add_argument('--batch_size', type=int, default=12)\n"},
        {"micro_batch": (12, "--batch_size")},
    ),
    "a section of validation": (
        "data.batch_size=64 ++data.val.batch_size=256 test.img_size=96", {},
        {"micro_batch": (64, "data.batch_size="), "val_micro_batch": (256, "data.val.batch_size="), "image_size": None},
    ),
    "accumulation in doubt": ("c.yaml", {"c.yaml": "batch_size: 8\na: {accum: 2}\nb: {accum: 4}\n"}, {"accumulation": None}),
    "several files": ("--base a.yaml b.yaml", ORDERED, {"micro_batch": None}),
    "a file that configures nothing": ("b.yaml --names names.json", ORDERED, {"micro_batch": (16384, "config:data.batch_size")}),
    "a file that takes in others": (
        "-c c.yml", {"c.yml": "__include__: ['data.yml']\ntrain_dataloader: {total_batch_size: 8}\n"}, {"micro_batch": None},
    ),
    "what an update says": (
        "-c c.yml -u train_dataloader.total_batch_size=32", {"c.yml": "_BASE_: b.yml\n"},
        {"micro_batch": (32, "train_dataloader.total_batch_size=")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("words", "files", "beliefs"), SAID.values(), ids=SAID)
def test_what_a_command_says_is_understood(words: str, files: Files, beliefs: Beliefs) -> None:
    laid(files)
    understood = of(words, files.get("t.py", ""))
    assert {wheel: believed(understood).get(wheel) for wheel in beliefs} == beliefs
    recognise.refuse_doubts(understood, overrides=[])


@pytest.mark.parametrize(("name", "wheel"), [
    ("--per_device_batch_size", "micro_batch"), ("--trainBatchSize", "micro_batch"), ("--eval-bs", "val_micro_batch"),
    ("--imageSize", "image_size"), ("--val-crop-size", None), ("--bptt", "sequence_length"), ("--global-batch-size", None),
    ("--num-batches", None), ("--accum-freq", "accumulation"), ("--eval_accumulation_steps", None), ("--checkpoint-dir", None),
])  # fmt: skip
def test_a_name_means_what_its_words_mean(name: str, wheel: str | None) -> None:
    assert wheel_names.meaning(name) == wheel


# ---- recipes that are written, and the words of their rungs


def test_yolo_becomes_the_ultralytics_adapters_recipe() -> None:
    held = written(of("yolo detect train model=yolov8x.pt data=d.yaml batch = 64 imgsz=1280 epochs=5 device=0 cos_lr"))
    assert held["ask"] == {"model": "yolov8x.pt", "micro_batch": 64, "image_size": 1280, "checkpointing": False}
    assert held["trainer"] == {"task": "detect", "args": {"epochs": 5, "cos_lr": True}} and held["data"] == "d.yaml"


def test_only_wheels_that_are_known_are_in_the_order_and_lengths_get_values_below_them() -> None:
    script = EXAMPLES / "classifier" / "train.py"
    assert written(of(f"python {script} --batch-size 64 --epochs 3"))["ladder"] == {"order": ["micro_batch"]}
    held = written(of("--config c.yaml", c__yaml="batch_size: 8\ngrad_accum: 2\ndata: {segment: 441000}\n"))
    assert held["trainer"]["args"]["config"] == "c.yaml"
    assert held["ladder"]["wheels"]["segment"] == {"values": [330744, 220496, 165368, 110248]}
    held = written(of("--batch-size 1 --img-size 96 --seq-len 20", "p.add_argument('--accum', default=1)\n"))
    assert [held["ladder"]["wheels"][name]["values"] for name in ("image_size", "sequence_length")] == [[64, 32], [8]]


@pytest.mark.parametrize(
    ("words", "files", "lower"),
    [
        ("--batch_size=64 --lr 1e-3", {"t.py": "p.add_argument('--batch_size', type=int)\np.add_argument('--accum', default=2)\n"},
         "--batch_size=32 --lr 1e-3 --accum 4"),
        ("c/small.py --batch_size=64", SAID["a configurator's file wins over the script's own names"][1],
         "c/small.py --batch_size=32 --gradient_accumulation_steps=2"),
        ("--batch_size 16 --micro_batch_size 8", {}, "--batch_size 16 --micro_batch_size 4"),
    ],
)  # fmt: skip
def test_the_asked_rung_is_the_command_and_below_it_only_turned_wheels_are_said(words: str, files: Files, lower: str) -> None:
    laid(files)
    understood = of(words, files.get("t.py", ""))
    assert [" ".join(rung_words(understood, at)) for at in (0, 1)] == [f"python t.py {words}", f"python t.py {lower}"]


def test_a_dollar_brace_of_the_persons_own_is_text_and_no_interpolation() -> None:
    understood = of(r"--batch-size 4 out=${HOME}/x name=${now:%H} '\${data}' '\\${data}\'")
    held = OmegaConf.create(yaml.safe_load(recognise.recipe(understood, name="mine")))
    assert OmegaConf.to_container(held, resolve=True)["trainer"]["args"]["command"] == list(understood.words)  # type: ignore[index,call-overload]


@pytest.mark.parametrize(("words", "lengths"), [
    ("--max-steps 500 --eval-every 100 --save_every_n_steps 4", {"--max-steps": 500}),
    ("--steps=500 --log-steps 5 --warmup_steps 10 --eval_iters 20 --n_eval_steps 3", {"--steps=": 500}),
    ("trainer.num_epochs=3 trainer.val_check_interval=50", {"trainer.num_epochs=": 3}),
    ("--config c.yaml", {"config:train.max_steps": 40, "config:train.steps_per_epoch": 10}),
])  # fmt: skip
def test_how_long_it_trains_is_known_wherever_it_is_said(words: str, lengths: dict[str, int]) -> None:
    understood = of(f"--batch-size 8 {words}", BATCH_8, c__yaml="train: {max_steps: 40, steps_per_epoch: 10, eval_steps: 5}\n")
    assert understood.args.get("lengths", {}) == lengths
    counted = [spelled for spelled in lengths if "steps" in spelled]
    adapter = ScriptAdapter(made(understood))
    assert adapter.asked.counted == (counted[0] if counted else ""), "its steps are held back from outside: their number must be proven"


def test_who_allows_checkpointing_gets_the_repeated_modules_checkpointed_unless_the_script_has_a_word_for_it() -> None:
    allowed = checkpointed(of("", BATCH_8))
    assert allowed.ask["checkpointing"] is False and allowed.args["spelled"]["checkpointing"] == "outside"
    assert allowed.ladder["order"] == ["micro_batch", "checkpointing"]
    assert allowed.ladder["wheels"]["checkpointing"] == {"values": [True]}
    own = of("", f"{BATCH_8}p.add_argument('--grad-checkpointing', action='store_true')\n")
    assert checkpointed(own) == own and own.args["spelled"]["checkpointing"] == "switch:--grad-checkpointing"


NANOCHAT = """
p.add_argument("--device-batch-size", type=int, default=32, help="per-device batch size")
p.add_argument("--total-batch-size", type=int, default=-1, help="total batch size in tokens (-1 = by itself)")
p.add_argument("--max-seq-len", type=int, default=2048)
p.add_argument("--num-iterations", type=int, default=-1)
"""
TABICL = """
p.add_argument("--batch_size", type=int, default=512)
p.add_argument("--micro_batch_size", type=int, default=8)
p.add_argument("--batch_size_per_gp", type=int, default=4)
"""


@pytest.mark.parametrize(("source", "words", "batch"), [
    (TABICL, "--batch_size 8 --micro_batch_size 8 --batch_size_per_gp 8", 8),
    (NANOCHAT, "--device-batch-size=32 --total-batch-size=8192 --max-seq-len=128", 32), (NANOCHAT, "--device-batch-size=32", 32),
])  # fmt: skip
def test_a_whole_batch_in_whatever_unit_is_taken_in_parts_as_many_as_a_trial_shows(source: str, words: str, batch: int) -> None:
    understood = of(words, source)
    assert believed(understood)["micro_batch"][0] == batch and believed(understood)["accumulation"] == (1, "itself")
    assert "accumulation" not in understood.ask and "accumulation" not in understood.args["says"]
    assert "micro_batch" in understood.ladder["order"] and ScriptAdapter(made(understood)).check() == []


# ---- doubts and refusals


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("--config c.yaml", {"c.yaml": "a: {batch_size: 8}\nb: {batch_size: 4}\n"}),
        ("--batch-size -1", {}),
        ("--max-tokens 4096 --max-len 512 --accum 4", {}),
        ("", {"t.py": "batch_size = 4\nx = = 1\n"}),
    ],
)  # fmt: skip
def test_a_batch_that_no_word_says_is_asked_of_the_first_trial_and_is_no_reason_to_stop(words: str, files: Files) -> None:
    laid(files)
    understood = of(words, files.get("t.py", ""))
    recognise.refuse_doubts(understood, overrides=[])
    adapter = ScriptAdapter(made(understood))
    assert adapter.check() == [] and "micro_batch" in adapter.asked.unsaid and "micro_batch" not in understood.args["spelled"]
    assert {rung.micro_batch for rung in ladder_of(adapter).rungs} == {0} and rung_words(understood, 0) == list(understood.words)
    assert adapter.trial(ladder_of(adapter).asked, cpu_budget(), folder=Path("t"), cache=Path("c")).payload["micro_batch"] is None


@pytest.mark.parametrize(("words", "said"), [
    (["python", "nowhere.py"], "there is no script"), ([], "there is no command"),
    (["autofit", "run", "--", "python", "t.py"], r"it is autofit itself\. Name the command that trains"),
    (["python", "tr\udcff.py"], r"'tr\\udcff\.py' holds bytes that are no text here"),
])  # fmt: skip
def test_a_command_that_can_not_be_read_is_told_so(words: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        recognise.refuse_doubts(recognise.understand(words), overrides=[])


@pytest.mark.parametrize("text", ["batch_size = 4\n", "\ufeffbatch_size = 4\r\nx = 1\r\n"], ids=["as it is", "from Windows"])
@pytest.mark.parametrize("name", ["a\nb.py", f"{'n' * 240}.py", "tr ä.py"], ids=["two lines", "long", "blank"])
def test_a_script_is_understood_whatever_it_is_called_and_wherever_it_was_written(text: str, name: str) -> None:
    Path(name).write_text(f"{text}import argparse\np = argparse.ArgumentParser()\n{BATCH_8}", newline="")
    understood = recognise.understand(["python", name, "--note", "two\nlines # here"])
    recognise.refuse_doubts(understood, overrides=[])
    assert understood.ask["micro_batch"] == 8 and len(recognise.name_of(understood)) <= 60
    assert written(understood)["trainer"]["args"]["command"] == ["python", name, "--note", "two\nlines # here"]


# ---- shells and notebooks


@pytest.mark.parametrize(("words", "found", "cure"), [
    (["bash", "train.sh"], "bash train.sh is a shell script", "Give the command that trains: autofit run -- python train.py"),
    (["sh", "-c", "cd a && python t.py"], "is a shell script", "Give the command that trains"),
    (["papermill", "n b.ipynb", "o.ipynb"], "n b.ipynb is a notebook", "jupyter nbconvert --to script 'n b.ipynb'. Give the command"),
])  # fmt: skip
def test_a_shell_script_or_a_notebook_is_refused_with_what_to_give(words: list[str], found: str, cure: str) -> None:
    with pytest.raises(BadInput) as refused:
        recognise.understand(words)
    assert found in str(refused.value) and cure in str(refused.value)


# ---- adapters, and cards beside a command


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


@pytest.mark.parametrize(("named", "overrides", "clear"), [
    ([], ["device=1"], True), ([], ["device=cpu"], True), ([], ["device.memory=8GiB"], True), ([], ["device=0,1"], False),
    ([], ["device.cards=2"], False), ([], ["device=0,1", "ask.micro_batch=16"], True), ([0, 1], [], True), ([0, 1], ["device=0"], False),
    ([0, 1], ["device=2,3"], False), ([0, 1], ["device=cpu", "ask.micro_batch=32"], True),
])  # fmt: skip
def test_cards_said_beside_a_command_are_refused_where_its_batch_of_each_isnt_clear(
    named: list[int], overrides: list[str], clear: bool
) -> None:
    understood = Understood(adapter="ultralytics", words=("yolo",), device={"cards": named} if named else {})
    if clear:
        recognise.refuse_cards(understood, overrides=overrides)
    else:
        with pytest.raises(BadInput, match="isn't clear"):
            recognise.refuse_cards(understood, overrides=overrides)


@pytest.mark.parametrize(("line", "said"), [
    ("torchrun --nproc_per_node=2 train.py", {"cards": 2}), ("torchrun --nproc_per_node=gpu train.py", {"cards": 4}),
    ("accelerate launch --num_processes 2 --gpu_ids 2,3 train.py", {"cards": [2, 3]}), ("accelerate launch --num_processes 1 train.py", {}),
    ("python train.py", {}),
])  # fmt: skip
def test_a_launchers_words_name_the_cards(line: str, said: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine with four cards."""
    cards = [FakeCard(uuid=f"GPU-{number}1111111-0000-4000-8000-000000000000") for number in range(4)]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(*cards))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    Path("train.py").write_text(BATCH_8, encoding="utf-8")
    assert recognise.understand(line.split()).device == said
