"""Makes a folder of spoken numbers with their transcripts, and a tiny Whisper to fine-tune on it: seconds, no network, no weights needed.

    python make_speech.py FOLDER [--clips 8 --seconds 30 --tokens 448 --like openai/whisper-large-v2 --no-weights]

FOLDER/train and FOLDER/validation: audio and metadata.csv (file_name, text). FOLDER/model: a Whisper built from its configuration, with a
tokenizer trained on the transcripts; its window is 4 s instead of 30, everything else is as in Whisper, or it has the shape of a model that
is --like it. The numbers are put together from the recordings in digits.ogg (espeak-ng, see record_digits.py). With --seconds every clip is
that long, with --tokens transcripts have so many, prompt included, one number after another; with --no-weights the model is a configuration
and a processor. FOLDER/models/NAME: such ones of the shapes of --models, which train.py takes before the hub's.
FOLDER appears only when it is whole.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

SAMPLE_RATE = 16_000
WINDOW_SECONDS = 4
TRAIN, VALIDATION = 240, 48
MOST_DIGITS = 4
AROUND = 5
"""Tokens around a transcript: start, language, task, no timestamps, end. Each word of it is a token."""
PAUSE_SECONDS = 0.05
TINY = {
    "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, "max_source_positions": 50 * WINDOW_SECONDS, "max_target_positions": 64,
}  # fmt: skip
"""The demo's Whisper, in WhisperConfig's words."""


def _whisper(width: int, layers: int) -> dict[str, int]:
    heads = {"encoder_attention_heads": width // 64, "decoder_attention_heads": width // 64}
    sizes = {"encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width}
    return {"d_model": width, **heads, **sizes, "vocab_size": 51_865, "max_source_positions": 1500, "max_target_positions": 448}


SHAPES: Mapping[str, Mapping[str, int]] = {
    "tiny": TINY,
    "openai/whisper-large-v2": _whisper(1280, 32),
    "MediaTek-Research/Breeze-ASR-25": _whisper(1280, 32),
    "openai/whisper-medium": _whisper(1024, 24),
    "openai/whisper-small": _whisper(768, 12),
    "openai/whisper-base": _whisper(512, 6),
    "openai/whisper-tiny": _whisper(384, 4),
}
"""Name on the hub -> its shape."""
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def make_audio(folder: Path, count: int, rng: random.Random, *, seconds: float = 0, words: Sequence[int] = (0,)) -> None:
    """``count`` clips of one to four digits in one voice each, with a little noise, and their metadata.csv; of ``seconds`` and ``words``
    where those are said."""
    here = Path(__file__).parent
    recordings, _ = soundfile.read(here / "digits.ogg", dtype="float32")
    index = json.loads((here / "digits.json").read_text(encoding="utf-8"))
    voices = sorted({row["voice"] for row in index})
    spoken = {(row["voice"], row["digit"]): recordings[row["start"] : row["end"]] for row in index}
    noise = np.random.default_rng(rng.randrange(2**32))
    pause = np.zeros(round(PAUSE_SECONDS * SAMPLE_RATE), dtype=np.float32)
    folder.mkdir(parents=True)
    with (folder / "metadata.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "text"])
        for number in range(count):
            voice = rng.choice(voices)
            digits = [rng.randrange(10) for _ in range(rng.randint(1, MOST_DIGITS))]
            parts = [part for digit in digits for part in (spoken[voice, digit], pause)]
            wave = np.concatenate(parts)
            wave = wave * rng.uniform(0.6, 1.4) + noise.normal(0, 0.002, len(wave)).astype(np.float32)
            name = f"{number:04d}.flac"
            wave = np.resize(wave, round(seconds * SAMPLE_RATE)) if seconds else wave[: WINDOW_SECONDS * SAMPLE_RATE]
            soundfile.write(folder / name, np.clip(wave, -1, 1), SAMPLE_RATE)
            table.writerow(
                [
                    name,
                    " ".join(
                        WORDS[digit] for digit in [*digits, *(rng.randrange(10) for _ in range(words[number % len(words)] - len(digits)))]
                    ),
                ]
            )


def tokenizer(texts: list[str]) -> Any:
    """A Whisper tokenizer trained on ``texts``, with all of Whisper's special tokens in their order."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import AddedToken, WhisperTokenizer
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=300, min_frequency=2, show_progress=False)
    state = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in state["merges"]]
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES)]
    special += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    timestamps = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
    first = len(state["vocab"])
    added = {first + place: AddedToken(text, special=True, normalized=False) for place, text in enumerate([*special, *timestamps])}
    more: dict[str, Any] = {"added_tokens_decoder": added, "pad_token": "<|endoftext|>"}
    if "vocab_file" not in inspect.signature(WhisperTokenizer).parameters:
        return WhisperTokenizer(vocab=dict(state["vocab"]), merges=merges, **more)
    with tempfile.TemporaryDirectory() as folder:  # before transformers 5 it is read from files
        vocab_file, merges_file = trained.save_model(folder)
        return WhisperTokenizer(vocab_file=vocab_file, merges_file=merges_file, additional_special_tokens=special, **more)


def make_model(folder: Path, texts: list[str], shape: Mapping[str, int] = TINY, *, weights: bool = True) -> None:
    """A Whisper of ``shape`` (about a million parameters) with its processor; random weights, the same at every call, or none.

    ``shape`` may give a ``vocab_size`` above the tokenizer's: those tokens are never said.
    """
    import torch
    from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperProcessor
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    words = tokenizer(texts)
    number = words.convert_tokens_to_ids
    torch.manual_seed(0)
    config = WhisperConfig(
        **{"vocab_size": len(words), "num_mel_bins": 80, **shape},
        bos_token_id=number("<|endoftext|>"), eos_token_id=number("<|endoftext|>"), pad_token_id=number("<|endoftext|>"),
        decoder_start_token_id=number("<|startoftranscript|>"), architectures=["WhisperForConditionalGeneration"],
    )  # fmt: skip
    generation = GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id,
        decoder_start_token_id=config.decoder_start_token_id, max_length=config.max_target_positions, is_multilingual=True,
        lang_to_id={f"<|{code}|>": number(f"<|{code}|>") for code in LANGUAGES},
        task_to_id={task: number(f"<|{task}|>") for task in ("translate", "transcribe")},
        no_timestamps_token_id=number("<|notimestamps|>"), prev_sot_token_id=number("<|startofprev|>"),
        suppress_tokens=list(range(number("<|notimestamps|>") + 1, config.vocab_size)),  # an untrained model would stumble over timestamps
    )  # fmt: skip
    extractor = WhisperFeatureExtractor(feature_size=config.num_mel_bins, chunk_length=config.max_source_positions // 50)
    if weights:
        model = WhisperForConditionalGeneration(config)
        model.generation_config = generation
        model.save_pretrained(folder)
    else:
        config.save_pretrained(folder)
        generation.save_pretrained(folder)
    WhisperProcessor(extractor, words).save_pretrained(folder)


def make(
    target: Path, *, clips: int | None = None, validation: int | None = None, seconds: float = 0, tokens: Sequence[int] = (0,),
    like: str = "tiny", weights: bool = True, models: Sequence[str] = (),
) -> None:  # fmt: skip
    """Makes everything beside ``target`` and moves it there whole."""
    beside = target.with_name(f"{target.name}.making")
    shutil.rmtree(beside, ignore_errors=True)
    rng = random.Random(0)
    words = [max(0, number - AROUND) for number in tokens]
    make_audio(beside / "train", clips or TRAIN, rng, seconds=seconds, words=words)
    make_audio(beside / "validation", validation or clips or VALIDATION, rng, seconds=seconds, words=words)
    with (beside / "train" / "metadata.csv").open(newline="", encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    texts = [*texts, " ".join(WORDS)] * 4 if any(words) else texts
    make_model(beside / "model", texts, SHAPES[like], weights=weights)
    for name in models:
        make_model(beside / "models" / name, texts, SHAPES[name], weights=False)
    beside.rename(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, help=f"of each part, instead of {TRAIN} and {VALIDATION}")
    parser.add_argument("--validation", type=int, help="of the validation part, where that is to have another number")
    parser.add_argument("--seconds", type=float, default=0, help="length of every clip")
    parser.add_argument("--tokens", type=int, nargs="+", default=[0], help="length of every transcript, prompt included")
    parser.add_argument("--like", choices=SHAPES, default="tiny", help="the model whose shape it has")
    parser.add_argument("--no-weights", dest="weights", action="store_false", help="a configuration and a processor alone")
    parser.add_argument("--models", choices=SHAPES, nargs="+", default=[], help="other models, without weights")
    chosen = vars(parser.parse_args())
    make(chosen.pop("folder"), **chosen)
