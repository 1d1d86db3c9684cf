"""``trainer=text`` and ``trainer=speech``: the example scripts through trials, searches, ranks, proofs and runs, really run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.config.schema import Recipe
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums


def words_of(asked: Recipe, rung: int = 0) -> dict[str, str]:
    adapter = ScriptAdapter(asked)
    argv = adapter.command(ladder_of(adapter).rungs[rung], cpu_budget(), folder=Path("/runs/one")).argv[2:]
    return {key.removeprefix("--"): value for key, value in zip(argv[::2], argv[1::2], strict=True)}


def test_every_rung_keeps_the_effective_batch_and_says_its_wheels_as_flags(spoken: Path) -> None:
    asked = recipe(spoken, "speech", ask={"micro_batch": 6, "accumulation": 2, "label_length": 40, "precision": "bf16", "lora": 0})
    for number in range(len(ladder_of(ScriptAdapter(asked)).rungs)):
        words = words_of(asked, number)
        assert int(words["per_device_train_batch_size"]) * int(words["gradient_accumulation_steps"]) == 12
    wanted = {"generation_max_length": "16", "label_length": "40", "precision": "bf16", "lora_rank": "0", "language": "en"}
    assert wanted.items() <= words_of(asked).items() and words_of(asked)["output_dir"] == "/runs/one/run"


def test_evaluation_has_wheels_that_act_only_there(spoken: Path) -> None:
    ladder = ladder_of(ScriptAdapter(recipe(spoken, "speech", ask={"val_micro_batch": 8})))
    acting = [("val_micro_batch", "validation"), ("generation_length", "validation")]
    assert [(one.name, one.acts_in) for one in ladder.wheels[:2]] == acting
    assert ladder.wheels[0].values == (8, 4, 2, 1)


def test_several_cards_start_a_trainer_s_script_by_torchrun_and_no_other_script(sums: Path, tmp_path: Path) -> None:
    asked = recipe(sums, "text", device={"kind": "cpu", "cards": 2})
    adapter = ScriptAdapter(asked)
    assert adapter.check() == [] and adapter.asked.world_size == 2
    assert "torch.distributed.run --nproc_per_node 2" in " ".join(adapter.args.command)
    (tmp_path / "plain.py").write_text("import torch\n")
    rules = asked.trainer.model_copy(update={"args": {**asked.trainer.args, "command": ["python", str(tmp_path / "plain.py")]}})
    plain = ScriptAdapter(asked.model_copy(update={"trainer": rules}))
    assert plain.args.command[0] == "python" and [fault.key for fault in plain.check()] == ["device.cards"]


@pytest.mark.parametrize(("model", "fetched"), [("openai/whisper-tiny", True), ("{data}/model", False), ("./openai/whisper-tiny", False)])
def test_a_model_of_the_hub_is_fetched_before_its_trial(model: str, fetched: bool, spoken: Path, tmp_path: Path) -> None:
    adapter = ScriptAdapter(recipe(spoken, "speech", ask={"model": model.format(data=spoken)}))
    command = adapter.trial(ladder_of(adapter).asked, cpu_budget(), folder=tmp_path, cache=tmp_path).fetch
    assert (command is not None) is fetched
    assert command is None or command.argv[-1] == model
