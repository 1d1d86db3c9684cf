"""Which wheel the name of a flag or key usually means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES: Mapping[str, tuple[str, ...]] = {
    "micro_batch": (
        "per_device_train_batch_size", "micro_batch_size", "micro_batch", "microbatch", "microbatch_size",
        "train_micro_batch_size", "train_batch_size", "batch_size",
        "batchsize", "batch", "bs", "b", "train_bs", "device_batch_size", "per_gpu_train_batch_size", "batch_size_per_gpu",
    ),
    "accumulation": (
        "gradient_accumulation_steps", "grad_accumulation_steps", "grad_accum_steps", "accumulation_steps", "accum_steps",
        "grad_accum", "accum", "accumulation", "accumulate", "accumulate_grad_batches", "gradient_accumulation", "grad_acc",
        "grad_acc_steps",
        "accum_iter", "acc_steps", "accumulation_iters", "ga", "update_freq", "iter_size",
    ),
    "segment": ("segment", "segment_samples", "segment_length", "segment_size", "chunk_size", "chunk_length"),
    "sequence_length": (
        "block_size", "seq_len", "seq_length", "sequence_length", "max_seq_length", "max_seq_len", "context_length", "ctx_len",
        "max_length",
        "max_len", "model_max_length", "seqlen", "cutoff_len", "sequence_len",
    ),
    "image_size": ("img_size", "imgsz", "image_size", "img", "crop_size", "train_crop_size", "input_size", "resolution", "res"),
    "checkpointing": (
        "gradient_checkpointing", "activation_checkpointing", "grad_checkpointing", "grad_checkpoint", "use_checkpoint", "checkpointing",
        "grad_ckpt", "gradient_checkpoint", "use_checkpointing", "activation_checkpoint",
    ),
    "val_micro_batch": (
        "per_device_eval_batch_size", "val_batch_size", "eval_batch_size", "valid_batch_size", "validation_batch_size", "test_batch_size",
        "val_batch", "eval_batch", "val_bs", "eval_bs",
    ),
}  # fmt: skip
"""Wheel -> names that usually mean it (normalised), most telling first."""

_EVALUATION = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev", "infer", "inference", "predict", "prediction"))
_NO_SIZE = frozenset((
    "num", "number", "n", "limit", "max", "min", "log", "every", "interval", "freq", "norm", "bn", "sampler", "total", "global",
    "effective", "virtual", "type", "unit",
    "path", "dir", "scale", "warmup", "init", "auto", "find", "prefetch", "queue", "momentum", "generation", "gen",
))  # fmt: skip
_LENGTH = frozenset(("len", "length", "size", "window"))


def meaning(name: str) -> str | None:
    """The wheel that a flag's or key's name means, or None: by the list of usual names, else by the words it is made of."""
    return usual(name) or _of_words(frozenset(_words(name)))


def part(name: str) -> bool:
    """Whether a micro-batch's name says that it is a part of a larger batch: ``--micro_batch_size``, ``--device-batch-size``."""
    return any(word.startswith("micro") or word in ("device", "gpu") for word in _words(name))


def whole(name: str) -> bool:
    """Whether a name means the batch of an optimizer step: ``--global-batch-size``, and a plain batch size beside one that is a part."""
    words = frozenset(_words(name))
    batch = {"batch", "size"} <= words or bool(words & {"batchsize", "bs", "bsz"})
    return batch and bool(words & {"global", "total", "effective"}) and not words & _EVALUATION


def counts_micro_batches(name: str) -> bool:
    """Whether a name of accumulation says how many micro-batches make a step, and nothing else of it (``accumulated_loss``)."""
    counts = {"step", "steps", "iter", "iters", "batches", "every", "times", "freq", "micro"}
    return usual(name) == "accumulation" or (meaning(name) == "accumulation" and bool(counts & set(_words(name))))


def usual(name: str) -> str | None:
    """The wheel that a name of ``NAMES`` means."""
    plain = re.sub(r"[-.]", "_", name.lstrip("-")).lower()
    return next((wheel for wheel, names in NAMES.items() if plain in names), None)


def _words(name: str) -> list[str]:
    """The words of a name: img-size, img_size and imgSize have the same."""
    return [word for word in re.split(r"[-_.]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")).lower()) if word]


def _of_words(words: frozenset[str]) -> str | None:
    evaluation = bool(words & _EVALUATION)
    batch = (
        {"batch", "size"} <= words or words & {"batchsize", "bs", "bsz"} or {"samples", "per"} <= words or {"ims", "per"} <= words
    ) and not (words & _NO_SIZE or {"per", "image"} <= words)  # regions of an image
    if batch:
        return "val_micro_batch" if evaluation else "micro_batch"
    if evaluation:
        return None
    if any(word.startswith("accum") for word in words) or {"grad", "acc"} <= words:
        return None if words & {"dtype", "type", "precision", "fp32"} else "accumulation"
    if _checkpointing(words):
        return "checkpointing"
    return _length_of_words(words)


_SAVING = frozenset((
    "steps", "step", "total", "limit", "interval", "freq", "every", "epochs", "iterations", "offload", "reentrant", "kwargs", "ratio",
    "disable", "disabled", "no", "without",
))  # fmt: skip
"""Words of a name that speaks of saved checkpoints, of how checkpointing is done, or that it isn't."""


def _checkpointing(words: frozenset[str]) -> bool:
    gradients = bool(words & {"grad", "gradient", "activation", "act"})
    named = gradients and bool(words & {"checkpoint", "ckpt", "checkpointing"})
    return (named or ("checkpointing" in words and words <= {"checkpointing", "use", "enable"})) and not words & _SAVING


def _length_of_words(words: frozenset[str]) -> str | None:
    if words & {"imgsz", "imgsize", "imagesize"} or (words & {"img", "image", "crop", "input"} and words & {"size", "resolution"}):
        return None if words & _NO_SIZE - {"max"} else "image_size"
    if "bptt" in words or (words & {"seq", "sequence", "context", "ctx", "block"} and words & _LENGTH):
        return None if words & (_NO_SIZE - {"max", "n"} | {"parallel"}) else "sequence_length"
    return "segment" if words & {"segment", "chunk"} and words & {*_LENGTH, "samples", "seconds"} and not words & _NO_SIZE else None


_STEPS = frozenset(("step", "steps", "iter", "iters", "iterations", "updates"))
_HOW_MANY = frozenset(("max", "num", "n", "total", "train", "training"))
_NO_LENGTH = frozenset((
    "warmup", "warm", "log", "eval", "save", "val", "every", "interval", "freq", "decay", "accumulation", "accum", "inference",
    "sampling", "diffusion", "ddpm", "ddim", "noise", "denoising", "size",
))  # fmt: skip


def counts_steps(name: str) -> bool:
    """Whether a flag or key says how long training, or a pass of it, is in steps: of which kind shows only when it runs."""
    words = set(_words(name))
    if words in ({"iterations"}, {"steps"}, {"iters"}, {"updates"}) or (words & _STEPS and {"per", "epoch"} <= words):
        return True
    return bool(words & _STEPS and words & _HOW_MANY) and not words & (_NO_LENGTH | _EVALUATION)


def counts_steps_of_a_pass(name: str) -> bool:
    """Whether a flag or key says how many steps a pass, or an epoch, has."""
    return counts_steps(name) and {"per", "epoch"} <= set(_words(name))


def counts_passes(name: str) -> bool:
    """Whether a flag or key says how long training is in passes over the data."""
    words = set(_words(name))
    return bool(words & {"epoch", "epochs"}) and words <= {"epoch", "epochs", *_HOW_MANY}
