"""What fits must be able to go on from the checkpoint that its trial has saved: a script is run again, with its own words for that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from autofit_launcher.common.report import Phase
from autofit_launcher.common.sizes import MIB
from autofit_launcher.config.schema import Recipe
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trial.trial import Trial
from tests.helpers import going_on, resumable
from tests.helpers.places import SCRIPTS

pytestmark = pytest.mark.slow


def tried(place: Path, *words: str, instead: tuple[str, str] = ("", ""), memory: int = 600 * MIB) -> Trial:
    """``instead``: (a line of the script, what stands there in its place)."""
    source = (SCRIPTS / "resumable.py").read_text(encoding="utf-8")
    assert instead[0] in source
    (place / "train.py").write_text(source.replace(*instead) if instead[0] else source, encoding="utf-8")
    told = resumable.recipe("--pause", "0", "--width", "32", *words)
    told |= {"ladder": {"order": ("micro_batch",)}, "device": {"kind": "cpu", "memory": memory}}
    return going_on.tried(ScriptAdapter(Recipe.model_validate({"name": "mine", **told})), place / "runs", memory_bytes=memory)


def said(found: Trial) -> str:
    return (found.folder / "resumed" / "stdout.log").read_text()


def test_a_script_goes_on_from_what_its_trial_has_saved(tmp_path: Path) -> None:
    found = tried(tmp_path)
    assert found.verdict.fits, found.verdict
    uses = {use.phase: use for use in found.report.uses}
    assert list(uses)[-1] == Phase.RESUME and uses[Phase.RESUME].batches >= 2
    assert "going on from epoch " in said(found) and "step 1 " not in said(found)
    assert any(note.startswith("goes on from ") and note.endswith(".pt, which was loaded") for note in found.report.notes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "train.py"], "nothing was written beside it"
    (disk,) = (room for room in found.rooms if room.name == "disk")
    assert 2 * 100_000 < disk.needed < 6 * 200_000, "a file for each epoch"


LOADS = "saved = torch.load(args.resume)"


def test_one_that_needs_more_to_go_on_than_to_begin_does_not_fit(tmp_path: Path) -> None:
    found = tried(tmp_path, instead=(LOADS, f"{LOADS}\n    held = torch.ones(2**28)"))
    assert found.verdict.kind is Kind.OUT_OF_MEMORY
    assert found.verdict.why.startswith("it can't go on from a checkpoint of its own: ")
    assert tried(tmp_path, memory=2000 * MIB).verdict.fits


def test_a_checkpoint_that_can_not_be_loaded_is_a_verdict(tmp_path: Path) -> None:
    found = tried(tmp_path, instead=('"optimizer": optimizer.state_dict(), ', ""))
    assert found.verdict.kind is Kind.CRASHED
    assert found.verdict.why == "it can't go on from a checkpoint of its own: KeyError: 'optimizer' (trial.resume=false leaves this out)"


@pytest.mark.parametrize(
    ("words", "instead", "why"),
    [
        (("--epochs", "1"), ("", ""), "the trial, which is short, has saved one only when its training was over"),
        ((), ('f"epoch{epoch}.pt"', 'f"{epoch}.pth"'), "its trial has saved nothing like "),
    ],
)
def test_where_nothing_can_be_known_it_is_said_once(words: tuple[str, ...], instead: tuple[str, str], why: str, tmp_path: Path) -> None:
    found = tried(tmp_path, *words, instead=instead)
    assert found.verdict.fits, found.verdict
    (note,) = (note for note in found.report.notes if "not tried whether it can go on" in note)
    assert why in note and Phase.RESUME not in [use.phase for use in found.report.uses]


TRAINER = """import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

CONFIG = {"batch": 8}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)
    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels), "logits": x}

class Tells(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        print("step", state.global_step + 1, flush=True)

rows = [{"x": torch.randn(16), "labels": torch.ones(1)} for _ in range(64)]
args = TrainingArguments("out", per_device_train_batch_size=CONFIG["batch"], max_steps=80, save_steps=20, eval_strategy="steps",
                         eval_steps=20, report_to=[], use_cpu=True, disable_tqdm=True)
Trainer(Net(), args, train_dataset=rows, eval_dataset=rows[:16], callbacks=[Tells()]).train()
"""


def test_a_script_of_transformers_trainer_needs_no_word_for_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.helpers.command_line import answer, autofit

    (tmp_path / "train.py").write_text(TRAINER, encoding="utf-8")
    words = ("device=cpu", "device.memory=2GiB", "--", sys.executable, "train.py")
    done = autofit("run", "--json", "--fit-only", *words, cwd=tmp_path, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    record: dict[str, Any] = answer(done)
    place = Path(record["trials"][-1]["folder"]) / "resumed"
    steps = [int(line.split()[1]) for line in (place / "stdout.log").read_text().splitlines() if line.startswith("step ")]
    assert steps[0] > 1 and not (tmp_path / "out").exists(), "it goes on from the step at which the trial has saved"
