"""The environments, and what is run in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.common.rows import ROOT


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One environment."""

    name: str
    trainer: str
    """ultralytics, transformers or script: whose adapter is tried."""
    wants: tuple[str, ...]
    """Requirements, as pip writes them."""
    python: str = "3.11"
    pinned: bool = True
    """Torch and what it needs as in constraints.txt; else as ``wants`` says."""
    example: str = ""
    """Of the script adapter: whose script in examples/ is wrapped."""


def _points() -> Iterator[Point]:
    yield from map(_yolo, ("8.3.0", "8.3.100", "8.3.200", "8.3.253", "8.4.0"))
    yield from map(_yolo, (*(f"8.4.{patch}" for patch in range(30, 190, 30)), "8.4.185", "8.4.190"))
    yield from map(_text, ("4.50.3", "4.53.3", "4.57.6", "5.0.0", "5.3.0", "5.6.0", "5.10.4", "5.15.0", "5.20.0", "5.23.0"))
    for torch in ("2.4.1", "2.6.0", "2.8.0", "2.11.0"):
        yolo, text = ("ultralytics==8.4.150", f"torch=={torch}"), (*_HF, "transformers==4.57.6", f"torch=={torch}")
        yield Point(name=f"yolo-torch-{torch}", trainer="ultralytics", wants=yolo, pinned=False)
        yield Point(name=f"text-torch-{torch}", trainer="transformers", wants=text, pinned=False)
    for python in ("3.12", "3.13"):
        yield Point(name=f"yolo-python-{python}", trainer="ultralytics", wants=("ultralytics==8.4.190",), python=python)
    yield Point(name="yolo-newest", trainer="ultralytics", wants=("ultralytics", "torch"), pinned=False)
    yield Point(name="text-newest", trainer="transformers", wants=(*_HF, "transformers", "torch"), pinned=False)
    yield Point(name="yolo-oldest", trainer="ultralytics", wants=("ultralytics==8.3.0", "torch==2.4.1"), pinned=False)
    oldest = ("transformers==4.50.0", "accelerate==1.0.1", "peft==0.15.0", "torch==2.4.1", "soundfile", "jiwer", "scipy")
    yield Point(name="text-oldest", trainer="transformers", wants=oldest, pinned=False)
    old = ("accelerate==1.0.1", "peft==0.15.0", "transformers==4.57.6", "soundfile", "jiwer", "scipy")
    yield Point(name="text-accelerate-1.0.1", trainer="transformers", wants=old)
    for version in ("2.2.5", "2.4.0", "2.5.6"):  # before 2.2 it wants pydantic below 2.2, and autofit 2.9
        yield Point(name=f"lightning-{version}", trainer="script", wants=(f"lightning=={version}", _SETUPTOOLS), example="lightning")
    yield Point(name="lightning-newest", trainer="script", wants=("lightning",), example="lightning")
    torch_of_its_time = ("lightning==2.2.5", "torch==2.4.1", _SETUPTOOLS)
    yield Point(name="lightning-torch-2.4.1", trainer="script", wants=torch_of_its_time, pinned=False, example="lightning")
    for version in ("1.0.1", "1.6.0"):
        yield Point(name=f"accelerate-{version}", trainer="script", wants=(f"accelerate=={version}",), example="accelerate")


_SETUPTOOLS = "setuptools<80"
"""Which have the module pkg_resources, that Lightning before 2.4 imports without asking for it."""
_HF = ("accelerate>=1,<2", "peft", "soundfile", "jiwer", "scipy")


def _yolo(version: str) -> Point:
    return Point(name=f"yolo-{version}", trainer="ultralytics", wants=(f"ultralytics=={version}",))


def _text(version: str) -> Point:
    return Point(name=f"text-{version}", trainer="transformers", wants=(*_HF, f"transformers=={version}"))


POINTS: Mapping[str, Point] = {point.name: point for point in _points()}

TESTS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": (
        "tests/trainers/ultralytics/native/test_yolo_exact_accumulation.py",
        "tests/trainers/ultralytics/native/test_yolo_exact_checkpointing.py",
        "tests/trainers/ultralytics/test_adapter.py::TestUltralytics",
        *("-k", "images_as_the_asked or optimizer_is or validation_batch or (gradients and detect) or keeps_less or TestUltralytics"),
    ),
    "transformers": (
        "tests/examples/test_train.py",
        "tests/trainers/script/test_text_and_speech.py",
        *("-k", "one_times_four or to_the_end or three_ways or lora_trains or test_text_and_speech"),
    ),
    "script": (
        "tests/trainers/script/test_adapter.py::TestScript",
        "tests/inside/test_trial.py",
        *("-m", "slow or not slow", "-k", "TestScript or (driven_unchanged and {example})"),
    ),
}
"""Those that tell versions apart: steps and gradients against the plain run, the adapter's suite with its real trials."""
SCRIPT = str(ROOT / "examples" / "{example}" / "train.py")
FITS: Mapping[str, tuple[str, ...]] = {
    "ultralytics": (
        *("train", "--json", "recipe=yolo_demo", "ask.image_size=320", "trainer.args.epochs=1", "trainer.args.fraction=0.25"),
        *("device.memory=720MiB", "ladder.wheels.micro_batch.floor=2", "trial.fresh=true"),
    ),
    "transformers": (
        "train",
        "--json",
        "recipe=llm_sft_demo",
        "ask.val_keeps=tokens",
        "trainer.args.set={--num_train_epochs:1}",
        "trial.fresh=true",
    ),
    "script": (
        "run",
        "--json",
        "device=cpu",
        "device.memory={memory}",
        "--",
        "{python}",
        SCRIPT,
        "--batch_size",
        "{batch}",
        "--epochs",
        "2",
    ),
}
"""What is asked really runs out of memory, so that a rung below it is tried, chosen and trained."""
ASKED: Mapping[str, Mapping[str, str]] = {
    "lightning": {"memory": "614MiB", "batch": "1024"},
    "accelerate": {"memory": "128MiB", "batch": "3584"},
}
