"""whisper_breeze under emulated cards, with a random model of whisper-large-v2's shape. Needs one GPU: `make gpu-check CASE=tests`.

Model, tokenizer and recordings are what the demo makes, the model in Whisper's own sizes: no network, no weights. The transcripts are short
(a dozen tokens of the 448 that the model takes), so activations are those of the full 30 s window with a small decoder. Figures go to
``benchmarks/results/gpu-tests.jsonl``. Weights on disk, computed:
large 6.2 GB, medium 3.1 GB, and 6.2 GB that a run saves, removed after each case.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.figures import NEEDS_GPU, autofit, predicted_device_bytes, write_figures
from tests.helpers.hf_data import maker

pytestmark = [*NEEDS_GPU, pytest.mark.timeout(3600)]

PACKAGES = ("torch", "transformers", "accelerate")


def whisper(width: int, layers: int) -> dict[str, int]:
    """One of Whisper's sizes, in WhisperConfig's words; (1280, 32) is large-v2, (1024, 24) is medium."""
    sizes = {"layers": layers, "attention_heads": width // 64, "ffn_dim": 4 * width}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    return {"vocab_size": 51865, "d_model": width, "max_source_positions": 1500, "max_target_positions": 448, **sides}


def make(root: Path, **shapes: dict[str, int]) -> Path:
    """Folder with train/ and validation/ of the shipped recordings, and a model of each shape."""
    speech = maker("speech")
    rng = random.Random(0)
    speech.make_audio(root / "train", 64, rng)
    speech.make_audio(root / "validation", 24, rng)
    for name, shape in shapes.items():
        speech.make_model(root / name, [" ".join(speech.WORDS)] * 4, shape)
    return root


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = make(tmp_path_factory.mktemp("whisper") / "spoken", large=whisper(1280, 32), medium=whisper(1024, 24))
    yield root
    shutil.rmtree(root)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where autofit is run; a run's records stay, its weights don't."""
    yield tmp_path
    for weights in tmp_path.rglob("*.safetensors"):
        weights.unlink()


def asked(data: Path) -> tuple[str, ...]:
    """The recipe as it is, on local folders and for a few steps. No transcript is long enough for the label wheel to do anything."""
    models = (f"ask.model={data}/large", f"ladder.wheels.model.values=[{data}/medium]", "ladder.wheels.label_length.values=[]")
    few = "trainer.args.set={--max_steps:4,--eval_steps:2,--save_strategy:no,--warmup_steps:1,--language:en}"
    return ("recipe=whisper_breeze", f"data={data}", *models, few)


@pytest.mark.parametrize(("card", "model"), [("24GiB", "medium"), ("40GiB", "large"), ("80GiB", "large")], ids=["24GiB", "40GiB", "80GiB"])
def test_whisper_breeze_on_an_emulated_card_runs_to_its_end_below_what_its_trial_saw(
    spoken: Path, place: Path, card: str, model: str
) -> None:
    """fp32 AdamW's 16 bytes for each of 1.54 B parameters are 23 GiB: above the cap of 24 GiB, whatever the batch; below the others'."""
    status, said, err = autofit(place, "train", *asked(spoken), "device=cuda", f"device.memory={card}", timeout=3000)
    assert status == 0, err
    write_figures(f"whisper_breeze, large-v2's shape, on {card}", said, packages=PACKAGES)
    cap = said["device"]["cap_bytes"]
    assert cap == int(said["device"]["budget_bytes"] * 0.9)
    failures = [one for one in said["trials"] if one["verdict"] != "fits"]
    assert all(one["verdict"] == "out_of_memory" for one in failures)
    assert all(one["source"] in ("allocator", "driver") for one in failures)
    assert all(one["peak_bytes"] <= cap for one in said["trials"])
    assert said["rung"]["model"] == str(spoken / model)
    assert said["effective_batch"] == 16
    assert said["run"]["peak_bytes"] <= predicted_device_bytes(said) * 1.02, "the full run must stay under what its trial saw"
