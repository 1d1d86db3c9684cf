"""Finds what is wrong with speech and text data, without torch, by the functions with which the trainers read it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from launcher.config.schema import Recipe, Value
from launcher.errors import Fault
from launcher.machine import install
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.models import Model
from launcher.trainers.transformers.native import hf_run, hf_speech, hf_text

MOST_FILES = 20_000
"""Audio headers read before a launch; the trainer itself reads all."""
MOST_FAULTS = 20


def inspect(recipe: Recipe, task: str, model: Model) -> list[Fault]:
    """All faults of the data. ``model``: the asked one, which says how long a clip may be."""
    if recipe.data is None:
        return [Fault(key="data", found="no data is named", cure="Give a folder or a manifest: data=path/to/folder.")]
    args = recipe.trainer.args
    common: dict[str, Any] = {"text_column": args.get("text_column"), "fraction": args.get("validation_fraction", 0.1)}
    try:
        if task == "speech":
            read = hf_speech.read_data(recipe.data, args.get("validation_data"), audio_column=args.get("audio_column"), **common)
            return _speech_faults(recipe, [*read[0], *read[1]], model)
        texts = hf_text.read_data(recipe.data, args.get("validation_data"), prompt_column=args.get("prompt_column"), **common)
    except hf_run.Refused as refused:
        return [Fault(key="data", found=str(refused), cure=_FORM[task])]
    return [] if args.get("on_bad_data") == "skip" else _listed(hf_text.empty([*texts[0], *texts[1]]), all_=len(texts[0]) + len(texts[1]))


def files(recipe: Recipe, task: str) -> list[Path]:
    """All files and folders of the data; for speech also the audio files that its tables name. Raises hf_run.Refused."""
    places = [Path(str(place)).expanduser() for place in (recipe.data, recipe.trainer.args.get("validation_data")) if place is not None]
    if task != "speech":
        return places
    args = recipe.trainer.args
    train, held = hf_speech.read_data(
        str(recipe.data), args.get("validation_data"), audio_column=args.get("audio_column"), text_column=args.get("text_column"),
        fraction=args.get("validation_fraction", 0.1),
    )  # fmt: skip
    return [*places, *(Path(sample.audio) for sample in (*train, *held))]


_FORM = {
    "speech": "A folder with metadata.csv (file_name,text), one with train and validation folders of that form, or a manifest.",
    "text": "A .jsonl, .csv or .json table with a text column, or a folder with train and validation tables.",
}


def _speech_faults(recipe: Recipe, samples: list[hf_speech.Sample], model: Model) -> list[Fault]:
    if importlib.util.find_spec("soundfile") is None:
        return [Fault(key="data", found="audio is decoded by soundfile, which is not installed", cure=f"{install.extra('transformers')}.")]
    args = recipe.trainer.args
    if args.get("on_bad_data") == "skip":
        return []
    asked = recipe.ask.get("audio_seconds")
    seconds = float(asked) if isinstance(asked, (int, float)) else hf_models.window_seconds(model)
    resample = bool(args.get("resample", False))
    looked_at = samples[:MOST_FILES]
    wrong = [fault for sample in looked_at for fault in hf_speech.faults_of(sample, seconds=seconds, resample=resample)]
    return _listed([*wrong, *_too_long(looked_at, recipe.ask.get("label_length"), model)], all_=len(samples))


LEAST_PROMPT = 2
"""Tokens around every transcript, at least: its start and its end."""


def _too_long(samples: Sequence[hf_speech.Sample], asked: Value, model: Model) -> list[str]:
    """Transcripts that are surely over the limit, counted by the model's own tokenizer.json; the trial counts to the last token."""
    limits = [limit for limit in (asked, hf_models.config_of(model).get("max_target_positions")) if isinstance(limit, int)]
    counts = _tokens([sample.text for sample in samples], model) if limits else None
    if counts is None:
        return []
    most = min(limits)
    return [
        f"{sample.audio}: its transcript has {count + LEAST_PROMPT} tokens or more, over the limit of {most}; cut it with its audio"
        for sample, count in zip(samples, counts, strict=True)
        if count + LEAST_PROMPT > most
    ]


def _tokens(texts: Sequence[str], model: Model) -> list[int] | None:
    """Tokens of each text by the model's own tokenizer.json, without what stands around them; None where it can't be read."""
    file = model.path / "tokenizer.json" if model.path is not None else None
    if file is None or not file.is_file() or importlib.util.find_spec("tokenizers") is None:
        return None
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        return [len(one) for one in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    except Exception:  # whatever that library raises of a file: loading the model will say it better
        return None


def _listed(wrong: Iterable[str], *, all_: int) -> list[Fault]:
    """One fault for each thing that is wrong, the first of them by name, the rest by number."""
    faults = list(wrong)
    cure = "Correct it, or leave such samples out: trainer.args.on_bad_data=skip."
    listed = [Fault(key="data", found=fault, cure=cure) for fault in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        listed.append(Fault(key="data", found=f"{len(faults) - MOST_FAULTS} more faults in {all_} samples", cure=cure))
    return listed
