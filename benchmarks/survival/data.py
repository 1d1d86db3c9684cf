"""A case -> its data set on disk, as nasty as data sets are: a process of its own, since speech and text models are made with torch.

    python -m benchmarks.survival.data SEED FOLDER

Prints the folder that {data} stands for.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import random
import string
import sys
import wave
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.survival import cases

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("photo {n}", "Fête d'été {n}", "IMG ({n})", "naïve_café-{n}", "{n}", "a.b.c {n}", "Straße №{n}", "slide  {n} [x]", "100% {n}")


def make(case: cases.Case, folder: Path) -> Path:
    """Makes the data of ``case`` under ``folder``, the same for the same seed. Returns the data set's folder."""
    target = folder / str(case.data["folder"])
    target.mkdir(parents=True)
    makers: dict[str, Callable[[Path, Mapping[str, Any], random.Random], None]] = {
        "yolo": _yolo,
        "speech": _speech,
        "text": _text,
        "songs": _songs,
        "none": lambda *_: None,
    }
    makers[case.data["kind"]](target, case.data, random.Random(f"data {case.seed}"))
    return target


def _name(rng: random.Random, number: int) -> str:
    return rng.choice(NAMES).format(n=number)


# -- images ---------------------------------------------------------------------------------------------------------------

_SHAPES: dict[str, tuple[float, float]] = {"portrait": (0.3, 0.8), "landscape": (1.3, 2.0), "panorama": (3.0, 7.0), "square": (1.0, 1.0)}
"""Width over height, from and to."""


def _size(rng: random.Random, shapes: str, largest: int) -> tuple[int, int]:
    """(width, height) of one image; ``mixed`` has everything, 20 pixels included."""
    if shapes == "mixed":
        shapes = rng.choice(("portrait", "landscape", "panorama", "square", "tiny"))
    if shapes == "tiny":
        return rng.randint(20, 48), rng.randint(20, 48)
    low, high = _SHAPES[shapes]
    ratio, longest = rng.uniform(low, high), int(largest * rng.choice((0.15, 0.3, 0.5, 0.7, 1.0)))
    width, height = (longest, longest / ratio) if ratio >= 1 else (longest * ratio, longest)
    return max(20, int(width)), max(20, int(height))


def _picture(rng: random.Random, size: tuple[int, int], path: Path) -> None:
    """Coarse noise blown up: quick to write, and not a flat colour. Sometimes grey, with transparency, or with a palette."""
    import numpy as np
    from PIL import Image

    kind = rng.choice(("RGB", "RGB", "RGB", "L", "RGBA", "P"))
    suffix = rng.choice((".jpg", ".jpg", ".png", ".bmp", ".webp")) if kind == "RGB" else ".png"
    noise = np.random.default_rng(rng.randrange(2**32)).integers(0, 255, (12, 12, 4), dtype=np.uint8)
    picture = Image.fromarray(noise, "RGBA").resize(size).convert(kind)
    picture.save(path.with_name(path.name + suffix))


def _row(rng: random.Random, task: str, data: Mapping[str, Any], label: int) -> str:
    """One label: a box, a polygon, a box with keypoints, or four corners, inside the image."""
    x, y = rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.9)
    width, height = (min(rng.choice((0.01, 0.1, 0.4, 1.0)) * rng.random() + 0.004, 2 * min(at, 1 - at)) for at in (x, y))
    if task == "segment":
        count = rng.choice((3, 4, data["points"]))
        turns = [2 * math.pi * (at + 0.5 * rng.random()) / count for at in range(count)]
        points = [one for turn in turns for one in (x + width / 2 * math.cos(turn), y + height / 2 * math.sin(turn))]
    elif task == "obb":
        turn = rng.uniform(0, math.pi)
        corners = [(dx * width / 3, dy * height / 3) for dx, dy in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        points = [
            one
            for dx, dy in corners
            for one in (x + dx * math.cos(turn) - dy * math.sin(turn), y + dx * math.sin(turn) + dy * math.cos(turn))
        ]
    else:
        points = [x, y, width, height]
    points = [min(1.0, max(0.0, one)) for one in points]
    if task == "pose":
        count, numbers = data["keypoints"]
        for _ in range(count):
            points += [
                x + width * rng.uniform(-0.5, 0.5),
                y + height * rng.uniform(-0.5, 0.5),
                *([float(rng.randrange(3))] * (numbers == 3)),
            ]
    return f"{label} " + " ".join(f"{one:.5f}" for one in points)


def _yolo(target: Path, data: Mapping[str, Any], rng: random.Random) -> None:
    """Images and labels of both parts, and data.yaml."""
    import yaml

    task, classes = data["task"], data["classes"]
    for part in ("train", "val"):
        images, labels = target / "images" / part, target / "labels" / part
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        dense = {0} if part == "train" or data["dense_in_val"] else set()
        for number in range(data[part]):
            name = _name(rng, number)
            _picture(rng, _size(rng, data[f"{part}_shapes"], data["largest"]), images / name)
            count = data["dense"] if number in dense else rng.randint(1, data["usual"])
            if number not in dense and rng.random() < data["unlabelled"]:
                if rng.random() < 0.5:
                    (labels / f"{name}.txt").write_text("")
                continue
            rows = [_row(rng, task, data, rng.randrange(classes)) for _ in range(count)]
            (labels / f"{name}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words: dict[str, Any] = {
        "path": str(target),
        "train": "images/train",
        "val": "images/val",
        "names": [f"classé {n}" for n in range(classes)],
    }
    if task == "pose":
        words |= {"kpt_shape": list(data["keypoints"]), "flip_idx": list(range(data["keypoints"][0]))}
    (target / "data.yaml").write_text(yaml.safe_dump(words, allow_unicode=True), encoding="utf-8")


# -- speech ---------------------------------------------------------------------------------------------------------------


def _maker(name: str) -> ModuleType:
    """An example's own maker, by path."""
    spec = importlib.util.spec_from_file_location(f"make_{name}", ROOT / "examples" / name / f"make_{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _speech(target: Path, data: Mapping[str, Any], rng: random.Random) -> None:
    """Clips from a tenth of a second to the whole window, transcripts from one word to the most that the model takes, and a Whisper."""
    example = _maker("speech")
    most = data["shape"]["max_target_positions"]
    texts = [" ".join(rng.choice(example.WORDS) for _ in range(40)) for _ in range(8)]
    words = example.tokenizer(texts)
    for part in ("train", "val"):
        folder = target / {"train": "train", "val": "validation"}[part]
        folder.mkdir()
        with (folder / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["file_name", "text"])
            for number in range(data[part]):
                name = f"{_name(rng, number)}{rng.choice(('.wav', '.flac', '.ogg'))}"
                longest = number == 0 or rng.random() < 0.1
                _clip(rng, folder / name, data["window"] if longest else rng.uniform(0.1, data["window"]), rng.choice(data["rates"]))
                table.writerow([name, _transcript(rng, example.WORDS, words, most if longest else rng.randint(6, most))])
    example.make_model(target / "model", texts, {**data["shape"], **_vocabulary(data, words)})


def _vocabulary(data: Mapping[str, Any], words: Any) -> dict[str, int]:
    """A vocabulary larger than the tokenizer's, where the case has one: logits grow with it."""
    return {"vocab_size": len(words) + data["vocabulary"]} if data["vocabulary"] else {}


def _transcript(rng: random.Random, words: tuple[str, ...], tokenizer: Any, most: int) -> str:
    """A text of at most ``most`` tokens, prompt included, and nearly as many."""
    said = [rng.choice(words)]
    while len(tokenizer(" ".join([*said, words[0]])).input_ids) + 3 < most:
        said.append(rng.choice(words))
    return " ".join(said)


def _clip(rng: random.Random, path: Path, seconds: float, rate: int) -> None:
    import numpy as np
    import soundfile

    frames = max(1, int(seconds * rate) - 1)
    noise = np.random.default_rng(rng.randrange(2**32)).normal(0, 0.1, (frames, rng.choice((1, 1, 2))))
    soundfile.write(path, np.clip(noise, -1, 1).astype("float32"), rate)


# -- text -----------------------------------------------------------------------------------------------------------------


def _text(target: Path, data: Mapping[str, Any], rng: random.Random) -> None:
    """Texts from one word to several times the length of a row, and a Llama.

    ``length``: of a packed row; each text then has words enough for about one, so that rows are as many as texts.
    """
    example = _maker("text")
    few, many = data["words"]
    vocabulary = ["".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(1, 9))) for _ in range(300)]
    texts: list[str] = []
    for part, name in (("train", "train.jsonl"), ("val", "validation.jsonl")):
        rows = []
        for number in range(data[part]):
            least = data["length"] // 4
            count = many if number == 0 else max(least, int(few + (many - few) * rng.random() ** 3))
            said = [rng.choice(vocabulary) for _ in range(count)]
            cut = rng.randint(0, len(said) // 2)
            rows.append({"prompt": " ".join(said[:cut]), "completion": " " + " ".join([*said[cut:], "é"])})
        (target / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        texts += [row["prompt"] + row["completion"] for row in rows]
    _llama(target / "model", example.tokenizer(texts), data)


def _llama(folder: Path, words: Any, data: Mapping[str, Any]) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words) + data["vocabulary"], max_position_embeddings=512, bos_token_id=None, eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id, tie_word_embeddings=True, **data["shape"],
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


# -- songs ----------------------------------------------------------------------------------------------------------------


def _songs(target: Path, data: Mapping[str, Any], rng: random.Random) -> None:
    """Stems of noise at 8 kHz, every song as long as it likes."""
    import numpy as np

    for part in ("train", "valid"):
        for number in range(data[part]):
            folder = target / part / _name(rng, number)
            folder.mkdir(parents=True)
            frames = int(8000 * rng.uniform(*data["seconds"]))
            for stem in ("drums", "bass", "other", "vocals"):
                samples = np.random.default_rng(rng.randrange(2**32)).integers(-9000, 9000, frames, dtype="<i2")
                with wave.open(str(folder / f"{stem}.wav"), "wb") as file:
                    file.setnchannels(1)
                    file.setsampwidth(2)
                    file.setframerate(8000)
                    file.writeframes(samples.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m benchmarks.survival.data SEED FOLDER")
    print(make(cases.make(int(sys.argv[1])), Path(sys.argv[2]).resolve()))
