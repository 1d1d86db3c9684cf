"""Rungs in transformers' own words, and everything wrong with a recipe found without importing it."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.config.schema import Recipe
from launcher.errors import BadInput
from launcher.ladder.build import ladder_of
from launcher.shared.report import TrialReport
from launcher.trainers.suite import AdapterSuite, cpu_budget
from launcher.trainers.transformers import arguments, checks, models, table
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trainers.transformers.inside import guard
from launcher.trainers.transformers.inside.plan import replaced
from tests.helpers.hf_data import recipe as make
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums


class TestSpeech(AdapterSuite):
    adapter_type = TransformersAdapter

    @pytest.fixture
    def recipe(self, spoken: Path) -> Recipe:
        return make(spoken, "speech")


class TestText(AdapterSuite):
    adapter_type = TransformersAdapter

    @pytest.fixture
    def recipe(self, sums: Path) -> Recipe:
        return make(sums, "text", ask={"val_keeps": "logits"})


@pytest.fixture
def own_speech(spoken: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(spoken, tmp_path / "mine"))


def found(recipe: Recipe) -> list[str]:
    return [str(fault) for fault in TransformersAdapter(recipe).check()]


def words_of(recipe: Recipe, rung: int = 0) -> dict[str, str]:
    adapter = TransformersAdapter(recipe)
    argv = adapter.full_run(ladder_of(adapter).rungs[rung], cpu_budget(), folder=Path("/runs/one")).argv[2:]
    return {key.removeprefix("--"): value for key, value in zip(argv[::2], argv[1::2], strict=True)}


def test_every_rung_keeps_the_effective_batch_in_transformers_own_words(spoken: Path) -> None:
    recipe = make(spoken, "speech", ask={"micro_batch": 6, "accumulation": 2})
    rungs = ladder_of(TransformersAdapter(recipe)).rungs
    for number in range(len(rungs)):
        words = words_of(recipe, number)
        assert int(words["per_device_train_batch_size"]) * int(words["gradient_accumulation_steps"]) == 12


def test_a_share_of_the_layers_is_said_beside_it(spoken: Path) -> None:
    words = words_of(make(spoken, "speech", ask={"checkpointing": 0.5}))
    assert (words["activation_checkpointing"], words["checkpointing_share"]) == ("True", "0.5")


def test_checkpointing_is_non_reentrant_and_turns_the_cache_off(spoken: Path) -> None:
    words = words_of(make(spoken, "speech", ask={"checkpointing": True}))
    assert words["activation_checkpointing"] == "True"
    assert json.loads(words["activation_checkpointing_kwargs"]) == {"use_reentrant": False}
    assert words["use_cache"] == "False"


def test_trial_and_full_run_get_the_same_words(spoken: Path, tmp_path: Path) -> None:
    adapter = TransformersAdapter(make(spoken, "speech", ask={"precision": "bf16"}))
    rung = ladder_of(adapter).asked
    plan = adapter.trial(rung, cpu_budget(), folder=tmp_path, cache=tmp_path)
    command = adapter.full_run(rung, cpu_budget(), folder=tmp_path)
    assert list(command.argv[2:]) == ["--output_dir", str(tmp_path / "run"), *plan.payload["argv"]]


def test_evaluation_has_wheels_that_act_only_there(spoken: Path) -> None:
    ladder = ladder_of(TransformersAdapter(make(spoken, "speech", ask={"val_micro_batch": 8})))
    first = ladder.wheels[0]
    assert (first.name, first.values, first.acts_in) == ("val_micro_batch", (8, 4, 2, 1), "validation")
    assert [dict(rung.values)["micro_batch"] for rung in ladder.rungs[:4]] == [4, 4, 4, 4]


def test_transcripts_are_left_out_only_on_rungs_below_what_was_asked(spoken: Path) -> None:
    ladder = {"order": ("label_length", "micro_batch"), "wheels": {"label_length": {"values": (32,)}}}
    recipe = make(spoken, "speech", ask={"label_length": 48, "generation_length": None}, ladder=ladder)
    assert "leave_out_longer" not in words_of(recipe, 0)
    assert words_of(recipe, 1)["leave_out_longer"] == "True"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"learning_rat": 1e-4}, "Did you mean 'learning_rate'"),
        ({"learning_rate": "5e-6"}, "without quotes"),
        ({"per_device_train_batch_size": 4}, "ask.micro_batch"),
        ({"auto_find_batch_size": True}, "shrinks the batch without saying so"),
        ({"evaluation_strategy": "epoch"}, "eval_strategy"),
        ({"warmup_ratio": 0.1}, "warmup_steps"),
        ({"eval_strategy": False}, "bare no"),
        ({"eval_strategy": "sometimes"}, "no, steps, epoch"),
        ({"train_sampling_strategy": "batch_rebalance"}, "varies the micro-batch"),
        ({"include_num_input_tokens_seen": "all"}, "Write true"),
        ({"eval_do_concat_batches": False}, "ask.val_keeps=sums"),
        ({"load_best_model_at_end": True}, "eval_strategy and save_strategy differ"),
        ({"fsdp": "full_shard"}, "set ask.sharding"),
        ({"deepspeed": "ds.json"}, "set ask.sharding=zero2 or zero3"),
        ({"load_in_4bit": True}, "which is another training"),
        ({"loss_chunks": 4}, "set ask.loss_chunks"),
        ({"offload": "optimizer"}, "set ask.offload"),
        ({"max_steps": 1.5}, "is not int"),
    ],
)
def test_arguments_are_refused_with_what_would_work(sums: Path, args: dict[str, Any], said: str) -> None:
    faults = found(make(sums, "text", args=args))
    assert len(faults) == 1 and said in faults[0], faults


@pytest.mark.parametrize(
    ("ask", "wheels", "args", "said"),
    [
        ({"optimizer": "adafactor"}, {"optimizer": ["adamw_torch"]}, {}, "adamw_torch needs more memory than adafactor"),
        ({"optimizer": "adamw_torch"}, {"optimizer": ["adafactor", "adamw_torch_fused"]}, {}, "the order of falling need"),
        ({"precision": "bf16"}, {"precision": ["fp32"]}, {}, "fp32 needs more memory than bf16"),
        ({"loss_chunks": 1}, {"loss_chunks": [8, 4]}, {}, "4 needs more memory than 8"),
        ({"loss_chunks": 0}, {}, {}, "A whole number: 1"),
        ({"freeze": -1}, {}, {}, "A whole number: 0"),
        ({"freeze": 1, "lora": 4}, {}, {}, "LoRA freezes all layers"),
        ({"loss_chunks": 4}, {}, {"label_smoothing_factor": 0.1}, "label smoothing takes all logits"),
        ({"optimizer": "adamw_torch"}, {"optimizer": ["adamw_8bit"]}, {}, "bitsandbytes"),
        ({"offload": "none"}, {"offload": ["optimiser"]}, {}, "Did you mean 'optimizer'? One of none, optimizer."),
        ({"offload": "none"}, {"offload": ["optimizer"]}, {}, "on a CPU states lie in the host's memory anyway"),
    ],
)
def test_levers_that_can_not_be_had_are_refused_before_a_launch(
    sums: Path, ask: dict[str, Any], wheels: dict[str, Any], args: dict[str, Any], said: str
) -> None:
    order = ("micro_batch", *(name for name in ask if name != "lora"))
    rules = {"order": order, "wheels": {name: {"values": tuple(values)} for name, values in wheels.items()}}
    faults = found(make(sums, "text", ask=ask, args=args, ladder=rules))
    assert len(faults) == 1 and said in faults[0], faults


@pytest.mark.parametrize(
    ("ask", "wheels", "cards", "said"),
    [
        ({"offload": "optimizer"}, {}, None, ""),
        ({"offload": "none", "optimizer": "adamw_torch"}, {"offload": ["optimizer"], "optimizer": ["adafactor"]}, None, ""),
        ({"offload": "optimizer"}, {"offload": ["none"]}, None, "none needs more memory than optimizer"),
        ({"offload": "optimizer", "optimizer": "adagrad"}, {}, None, "ask.offload: optimizer: adagrad can't be stepped piece by piece"),
        ({"offload": "none", "optimizer": "lomo"}, {"offload": ["optimizer"]}, None, "or take adamw_torch_fused"),
        ({"offload": "optimizer"}, {}, 2, "ask.sharding=fsdp2"),
    ],
)
def test_states_in_the_host_s_memory_are_for_one_card_and_for_optimizers_that_can_be_stepped_in_pieces(
    sums: Path, ask: dict[str, Any], wheels: dict[str, Any], cards: int | None, said: str
) -> None:
    rules = {"order": ("micro_batch", *ask), "wheels": {name: {"values": tuple(values)} for name, values in wheels.items()}}
    faults = found(make(sums, "text", ask=ask, ladder=rules, device={"kind": "cuda", "cards": cards}))
    assert len(faults) == bool(said) and all(said in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("asked", "rule", "wanted"),
    [
        ({"loss_chunks": 1}, {"values": (8,)}, (1, 8)),
        ({"loss_chunks": 8}, {"values": (4,)}, (8,)),
        ({"loss_chunks": 4}, {"values": (2, 4, 16)}, (4, 16)),
        ({"sequence_length": 64}, {"values": (128,)}, (64,)),
        ({"warm": 0}, {"argument": "warmup_steps", "values": (10,)}, (0, 10)),
        ({"warm": 5}, {"argument": "warmup_steps", "values": (2,)}, (5, 2)),
    ],
)
def test_a_single_number_is_a_step_where_a_larger_one_needs_less_or_the_wheel_is_a_recipe_s_own(
    sums: Path, asked: dict[str, Any], rule: dict[str, Any], wanted: tuple[int, ...]
) -> None:
    (name,) = asked
    ladder = ladder_of(TransformersAdapter(make(sums, "text", ask=asked, ladder={"order": (name,), "wheels": {name: rule}})))
    assert next(wheel.values for wheel in ladder.wheels if wheel.name == name) == wanted


def test_levers_of_language_models_are_refused_for_speech_and_a_capped_model_has_no_loss_in_parts(
    spoken: Path, sums: Path, tmp_path: Path
) -> None:
    assert ["the speech trainer has no loss_chunks" in fault for fault in found(make(spoken, "speech", ask={"loss_chunks": 2}))] == [True]
    capped = Path(shutil.copytree(sums, tmp_path / "capped"))
    config = capped / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "final_logit_softcapping": 30.0}), encoding="utf-8")
    ladder = {"order": ("micro_batch", "loss_chunks"), "wheels": {"loss_chunks": {"values": (4,)}}}
    (fault,) = found(make(capped, "text", ask={"loss_chunks": 1}, ladder=ladder))
    assert fault.startswith("ladder.wheels.loss_chunks.values") and "final_logit_softcapping" in fault


def test_every_argument_of_the_installed_version_is_known() -> None:
    known = arguments.known("speech")
    assert {"learning_rate", "activation_checkpointing", "predict_with_generate", "language", "lora_rank"} <= known.keys()
    assert known["learning_rate"].types == {"float"} and known["max_steps"].default == -1
    assert "adamw_torch_fused" in arguments.optimizers()


def test_all_faults_are_told_at_once(spoken: Path, tmp_path: Path) -> None:
    faults = found(
        make(
            tmp_path / "nowhere", "speech", ask={"optimizer": "adamw_8bits", "precision": "fp16", "sequence_length": 99}, args={"epochs": 3}
        )
    )
    assert len(faults) == 6, faults
    assert [
        key in " ".join(faults)
        for key in ("ask.optimizer", "ask.precision", "ask.sequence_length", "trainer.args.epochs", "ask.model", "data")
    ]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"optimizer": "adamw_8bit"}, "bitsandbytes"),
        ({"precision": "fp8"}, "fp32, bf16, fp16"),
        ({"generation_length": 999}, "over the 64"),
        ({"val_keeps": "everything"}, "logits, tokens, sums"),
        ({"lora": -1}, "rank"),
        ({"model": "./no/such/folder"}, "no such folder"),
    ],
)
def test_wheels_are_refused_with_what_would_work(spoken: Path, ask: dict[str, Any], said: str) -> None:
    faults = found(make(spoken, "speech", ask=ask))
    assert len(faults) == 1 and said in faults[0], faults


def test_bf16_is_refused_on_a_card_without_it(spoken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "compute_capability", lambda index: (7, 5))
    faults = found(make(spoken, "speech", ask={"precision": "bf16"}, device={"kind": "auto"}))
    assert len(faults) == 1 and "compute capability 7.5" in faults[0]


def test_a_hub_model_without_a_network_is_refused(spoken: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    models._on_the_hub.cache_clear()
    faults = found(make(spoken, "speech", ask={"model": "someone/whisper-lost"}))
    models._on_the_hub.cache_clear()
    assert len(faults) == 1 and "HF_HUB_OFFLINE" in faults[0]


def test_a_smaller_model_that_cannot_be_had_hinders_nobody_before_its_rung(
    spoken: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    models._on_the_hub.cache_clear()
    ladder = {"order": ("micro_batch", "model"), "wheels": {"model": {"values": ("someone/whisper-lost",)}}}
    adapter = TransformersAdapter(make(spoken, "speech", ladder=ladder))
    rungs = ladder_of(adapter).rungs
    assert adapter.check() == []
    assert any("its rungs can't be tried" in note for note in adapter.notes())
    assert adapter.fetch(rungs[0]) is None
    with pytest.raises(BadInput, match="no rung above fits"):
        adapter.fetch(rungs[-1])
    models._on_the_hub.cache_clear()


def test_a_model_in_the_hubs_cache_is_found_there(spoken: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--someone--whisper-mine"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("abc")
    shutil.copytree(spoken / "model", place / "snapshots" / "abc")
    models._on_the_hub.cache_clear()
    assert models.locate("someone/whisper-mine").place == "cache"
    assert found(make(spoken, "speech", ask={"model": "someone/whisper-mine"})) == []


def test_a_model_folder_without_its_parts_is_refused_part_by_part(own_speech: Path) -> None:
    for name in ("tokenizer.json", "processor_config.json", "model.safetensors"):
        (own_speech / "model" / name).unlink()
    models._on_the_hub.cache_clear()
    faults = found(make(own_speech, "speech"))
    assert [word in fault for word, fault in zip(("no tokenizer", "no feature extractor", "no weights"), faults, strict=True)] == [True] * 3


def test_bad_audio_is_named_by_file_all_at_once_and_may_be_left_out(own_speech: Path) -> None:
    import numpy as np
    import soundfile

    train = own_speech / "train"
    (train / "0000.flac").write_bytes(b"not audio")
    (train / "0001.flac").unlink()
    soundfile.write(train / "0002.flac", np.zeros(44_100, dtype=np.float32), 44_100)
    soundfile.write(train / "0003.flac", np.zeros(9 * 16_000, dtype=np.float32), 16_000)
    rows = (train / "metadata.csv").read_text().splitlines()
    rows[5] = "0004.flac,"
    (train / "metadata.csv").write_text("\n".join(rows) + "\n")
    faults = found(make(own_speech, "speech"))
    wanted = (
        "0000.flac: it can't be decoded",
        "0001.flac: there is no such file",
        "0002.flac: 44100 Hz",
        "0003.flac: 9.0 s are longer",
        "0004.flac: its transcript",
    )
    assert [word in fault for word, fault in zip(wanted, faults, strict=True)] == [True] * 5
    assert found(make(own_speech, "speech", args={"on_bad_data": "skip"})) == []


def test_a_transcript_over_the_limit_is_named_before_anything_is_tried(own_speech: Path) -> None:
    metadata = own_speech / "train" / "metadata.csv"
    rows = metadata.read_text().splitlines()
    rows[2] = f"0001.flac,{'nine ' * 80}"
    metadata.write_text("\n".join(rows) + "\n")
    faults = found(make(own_speech, "speech", ask={"label_length": 48}))
    assert len(faults) == 1 and "0001.flac: its transcript has" in faults[0] and "over the limit of 48" in faults[0], faults
    (own_speech / "model" / "tokenizer.json").write_text("{}")  # no tokenizer that can be read: loading the model says so in the trial
    assert found(make(own_speech, "speech", ask={"label_length": 48})) == []


def test_every_argument_of_the_installed_version_has_its_place_in_the_table_and_none_is_stale() -> None:
    installed = {name for task in arguments.OWN for name in arguments.known(task)}
    assert all(entry.why for entry in (*table.TABLE.values(), *table.OLDER.values()))
    if importlib.metadata.version("transformers") not in guard.CHECKED:
        pytest.skip("another version: what the tables don't know is refused")
    assert installed - table.TABLE.keys() == set(), "new in this version: find out what it does to memory, then enter it"
    assert table.TABLE.keys() - installed == set(), "gone in this version"
    assert table.OLDER.keys() & installed == set(), "not gone in this version"


def test_an_argument_that_is_new_in_the_installed_version_is_refused_where_it_is_set(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = {**arguments.known("text"), "newer": arguments.Argument(default=0, types=frozenset({"int"}))}
    monkeypatch.setattr(arguments, "known", lambda task: newer)
    (fault,) = found(make(sums, "text", args={"newer": 3}))
    assert "no trial can stand for it" in fault


def test_what_a_trial_gives_another_value_is_in_the_table_with_the_reason_why_that_hides_no_need() -> None:
    for on_cpu in (True, False):
        kinds = {name: table.TABLE[name].kind for name in replaced(on_cpu=on_cpu, accumulation=8)}
        assert set(kinds.values()) <= {table.TreatmentKind.HARMLESS, table.TreatmentKind.ADDED}, kinds
    assert replaced(on_cpu=True, accumulation=8).keys() == {"output_dir", "gradient_accumulation_steps", "push_to_hub"}


def test_what_no_trial_can_show_is_refused_where_host_memory_is_the_budget(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = {"push_to_hub": True, "report_to": ["tensorboard", "wandb"]}
    pushed, reported = found(make(sums, "text", args=args))
    assert "hf upload" in pushed and "wandb takes memory of the budget" in reported
    monkeypatch.setattr(checks, "compute_capability", lambda index: (8, 9))
    assert found(make(sums, "text", args=args, device={"kind": "auto"})) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [({"bf16_full_eval": True}, "Set ask.precision"), ({"train_sampling_strategy": "group_by_length"}, "decode every clip")],
)
def test_what_only_speech_cannot_have_is_refused_there(args: dict[str, Any], said: str, spoken: Path, sums: Path) -> None:
    faults = found(make(spoken, "speech", args=args))
    assert len(faults) == 1 and said in faults[0], faults
    assert found(make(sums, "text", args=args)) == []


def test_a_column_that_is_not_there_is_named_with_those_that_are(spoken: Path) -> None:
    faults = found(make(spoken, "speech", args={"text_column": "words"}))
    assert len(faults) == 1 and "no column 'words'; it has file_name, text" in faults[0]


@pytest.mark.parametrize("form", ["manifest", "one folder", "named folders"])
def test_the_usual_forms_of_speech_data_are_accepted(own_speech: Path, form: str) -> None:
    rows = [line.split(",", 1) for line in (own_speech / "train" / "metadata.csv").read_text().splitlines()[1:]]
    if form == "manifest":
        text = "".join(json.dumps({"audio_filepath": f"train/{name}", "text": said}) + "\n" for name, said in rows)
        (own_speech / "manifest.jsonl").write_text(text)
        assert found(make(own_speech, "speech").model_copy(update={"data": str(own_speech / "manifest.jsonl")})) == []
    elif form == "one folder":
        assert found(make(own_speech, "speech").model_copy(update={"data": str(own_speech / "train")})) == []
    else:
        (own_speech / "validation").rename(own_speech / "dev")
        assert found(make(own_speech, "speech")) == []


def test_a_task_without_a_built_in_trainer_is_refused(sums: Path) -> None:
    assert "Did you mean 'speech'" in found(make(sums, "speach"))[0]


def test_the_estimate_counts_steps_accumulation_and_evaluations(spoken: Path) -> None:
    recipe = make(
        spoken, "speech", ask={"micro_batch": 2, "accumulation": 2}, args={"max_steps": 10, "eval_strategy": "steps", "eval_steps": 5}
    )
    adapter = TransformersAdapter(recipe)
    report = TrialReport(step_seconds=1.0, train_samples=100, validation_batches_total=4, validation_batch_seconds=0.5)
    assert adapter.estimate_seconds(ladder_of(adapter).asked, report) == 10 * 2 * 1.0 + 3 * 4 * 0.5


@pytest.mark.parametrize(
    ("args", "resumes"),
    [({}, True), ({"save_strategy": "epoch"}, True), ({"save_strategy": "no"}, False), ({"save_only_model": True}, False)],
)
def test_a_trial_goes_on_from_what_a_run_saves(sums: Path, tmp_path: Path, args: dict[str, Any], resumes: bool) -> None:
    adapter = TransformersAdapter(make(sums, "text", args=args))
    plan = adapter.trial(ladder_of(adapter).asked, cpu_budget(), folder=tmp_path, cache=tmp_path)
    assert plan.resumes is resumes


def test_a_model_that_is_made_after_a_first_look_is_there(tmp_path: Path) -> None:
    """What is wrong beside the data is looked for before a recipe's own command makes data and model."""
    name = str(tmp_path / "model")
    assert models.locate(name).place == "nowhere"
    Path(name).mkdir()
    assert models.locate(name).place == "folder"
