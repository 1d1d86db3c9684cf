"""Cases B to F: which recipe on which played card, with which data, and what must fail there. The words are those of `autofit fit`."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from autofit_launcher.machine import host
from benchmarks.gpu_check.rows import ROOT

LEAST_MICRO_BATCHES = 200
"""Micro-batches of a full run: with multi_scale's 41 sizes the largest comes with p > 0.99."""
CLASSES, DENSE = 80, 300
"""Of a detector's data: an assigner and a suppression that have something to do."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recipe on one played card."""

    letter: str
    title: str
    memory: str
    words: tuple[str, ...]
    """After the place of the data ({place}) and the loader's {workers} have been filled in."""
    data: str
    """Which maker of ``MAKERS``."""
    length: str
    """The word that says how long the full run is; {epochs} and {steps} are filled in for the chosen rung."""
    samples: int = 256
    """Training samples that one epoch goes through."""
    control: str | None = None
    """A card so small that what is asked must fail on it, in its trial and in a real run under the whole budget."""
    cards: int = 1
    """That train together, as many as the recipe asks for."""

    @property
    def name(self) -> str:
        return f"{self.letter} {self.title} on {f'{self.cards} x ' if self.cards > 1 else ''}{self.memory}"


_YOLO = ("data={place}/data.yaml", "device=cuda", "trainer.args.workers={workers}", "trainer.args.plots=true")
_RANKS = ("recipe=garbage_yolov8_4x48gb", "data={place}/data.yaml", "ask.model=yolov8m.yaml", "trainer.args.plots=true")
_WHISPER = (
    "data={place}",
    "device=cuda",
    "ask.model={place}/large",
    "ladder.wheels.model.values=[{place}/medium]",
    "trainer.args.set={{--language:en,--save_strategy:no}}",
)
CASES = (
    Case(
        letter="B", title="yolov8x_a100, multi-scale", memory="80GiB", data="boxes", control="24GiB",
        words=("recipe=yolov8x_a100", "ask.model=yolov8x.yaml", *_YOLO), length="trainer.args.epochs={epochs}",
    ),
    Case(
        letter="C", title="yolov8x_a100, multi-scale", memory="40GiB", data="boxes",
        words=("recipe=yolov8x_a100", "ask.model=yolov8x.yaml", *_YOLO), length="trainer.args.epochs={epochs}",
    ),
    Case(
        letter="C", title="yolo11l_rtx4080s_component", memory="16GiB", data="boxes",
        words=("recipe=yolo11l_rtx4080s_component", "ask.model=yolo11l.yaml", *_YOLO), length="trainer.args.epochs={epochs}",
    ),
    Case(
        letter="D", title="whisper_breeze, large-v2's shape", memory="40GiB", data="speech",
        words=("recipe=whisper_breeze", *_WHISPER), length="trainer.args.set={{--max_steps:{steps},--eval_steps:{half}}}",
    ),
    Case(
        letter="E", title="musdb18_rtxpro6000, xlarge", memory="97GiB", data="songs", control="24GiB",
        words=("recipe=musdb18_rtxpro6000", "data={place}", "device=cuda"), samples=2000,
        length=r"trainer.args.set={{config\:training.samples_per_epoch:{samples},config\:training.epochs:1}}",
    ),
    Case(
        letter="F", title="garbage_yolov8_4x48gb, multi-scale", memory="48GiB", data="more_boxes", cards=4, samples=1600, control="24GiB",
        words=(*_RANKS, "ask.multi_scale=0.5"), length="trainer.args.epochs={epochs}",
    ),
    Case(
        letter="F", title="garbage_yolov8_4x48gb", memory="48GiB", data="more_boxes", cards=4, samples=1600, control="20GiB",
        words=_RANKS, length="trainer.args.epochs={epochs}",
    ),
)  # fmt: skip


def maker(name: str) -> ModuleType:
    """An example's own maker, by path: what the demos use."""
    spec = importlib.util.spec_from_file_location(f"make_{name}", ROOT / "examples" / name / f"make_{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def boxes(place: Path, scale: float, *, train: int = 256, val: int = 512) -> None:
    """80 classes; one image of 300 labels, the others of 20; a validation set of four times the largest validation batch."""
    import numpy as np
    from PIL import Image

    rng, size = np.random.default_rng(0), max(64, int(1280 * scale))
    for split, count in (("train", max(4, int(train * scale))), ("val", max(4, int(val * scale)))):
        for kind in ("images", "labels"):
            (place / kind / split).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            small = rng.integers(0, 255, (size // 16, size // 16, 3), dtype=np.uint8)  # noise in large grains: files stay small
            Image.fromarray(small).resize((size, size)).save(place / "images" / split / f"{number}.jpg", quality=60)
            rows = [
                f"{rng.integers(CLASSES)} " + " ".join(f"{value:.4f}" for value in (*rng.uniform(0.1, 0.9, 2), *rng.uniform(0.02, 0.1, 2)))
                for _ in range(DENSE if number == 0 else 20)
            ]
            (place / "labels" / split / f"{number}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    names = [f"class{number}" for number in range(CLASSES)]
    (place / "data.yaml").write_text(f"path: {place}\ntrain: images/train\nval: images/val\nnames: {names}\n", encoding="utf-8")


def whisper(width: int, layers: int) -> dict[str, int]:
    """One of Whisper's sizes, in WhisperConfig's words; (1280, 32) is large-v2, (1024, 24) is medium."""
    sizes = {"layers": layers, "attention_heads": width // 64, "ffn_dim": 4 * width}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    return {"vocab_size": 51865, "d_model": width, "max_source_positions": 1500, "max_target_positions": 448, **sides}


def speech(place: Path, scale: float) -> None:
    """The shipped recordings, of which every fourth has a transcript of some 440 tokens; random models of two of Whisper's shapes."""
    example, rng = maker("speech"), random.Random(0)
    texts = [" ".join(example.WORDS)] * 4
    long = _of_tokens(" ".join(example.WORDS * 60), example.tokenizer(texts), 440)
    for name, count in (("train", max(8, int(256 * scale))), ("validation", max(4, int(64 * scale)))):
        example.make_audio(place / name, count, rng)
        table = place / name / "metadata.csv"
        head, *rows = table.read_text(encoding="utf-8").splitlines()
        said = [f"{row.split(',')[0]},{long}" if at % 4 == 0 else row for at, row in enumerate(rows)]
        table.write_text("\n".join([head, *said]) + "\n", encoding="utf-8")
    for name, shape in (("large", whisper(1280, 32)), ("medium", whisper(1024, 24))):
        example.make_model(place / name, texts, shape)


def _of_tokens(text: str, known: Any, count: int) -> str:
    """The beginning of ``text`` that a tokenizer makes at most ``count`` tokens of, whole words."""
    words, most = text.split(), 1
    while most < len(words) and len(known(" ".join(words[: most + 8])).input_ids) <= count:
        most += 8
    return " ".join(words[:most])


def songs(place: Path, scale: float) -> None:
    """Songs at 44.1 kHz, longer than the asked segment of 15 s; a validation set of four times its batch."""
    asked = ["--rate", "44100", "--seconds", str(max(2.0, 20 * scale)), "--train", str(max(2, int(12 * scale)))]
    argv = [
        sys.executable,
        str(ROOT / "examples" / "separator" / "make_music.py"),
        str(place),
        *asked,
        "--valid",
        str(max(1, int(32 * scale))),
    ]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def workers() -> int:
    """As many loader workers as /dev/shm has room for: each hands over a batch of 64 images of 1280 px. On, where it has any."""
    return max(0, min(8, (host.shared_memory_free() or 0) // (64 * 3 * 1280 * 1280 * 2)))


MAKERS: dict[str, Callable[[Path, float], None]] = {
    "boxes": boxes,
    "more_boxes": partial(boxes, train=1600, val=256),
    "speech": speech,
    "songs": songs,
}


def long_enough(case: Case, *, micro_batch: int, accumulation: int) -> Sequence[str]:
    """The words that make the full run ``LEAST_MICRO_BATCHES`` long at this rung, on each card."""
    per_epoch = max(1, case.samples // (micro_batch * case.cards))
    epochs = -(-LEAST_MICRO_BATCHES // per_epoch)
    steps = -(-LEAST_MICRO_BATCHES // accumulation)
    said = case.length.format(epochs=epochs, steps=steps, half=max(1, steps // 2), samples=LEAST_MICRO_BATCHES * micro_batch)
    return said.split(" ")
