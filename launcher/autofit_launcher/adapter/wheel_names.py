"""Tells which wheel the name of a flag or key usually means. Pure."""

from __future__ import annotations

import re

NAMES = {wheel: re.compile(pattern) for wheel, pattern in {
    "micro_batch": (
        r"(device_)?(micro|mini|device|per_device|per_gpu)?_?(batch(_?size)?|bsz?|b)(_per_(device|gpu))?|(samples|ims)_per_(gpu|batch)"
    ),
    "accumulation": (
        r"(num_)?(grad(ient)?_)?(accum|accumulat(e|ion))(_grad)?(_(steps?|iters?|every|freq|batches))?|grad_acc|(grad_)?acc_steps"
        r"|ga|update_freq|iter_size"
    ),
    "segment": r"segment(_(samples|seconds|length|size))?|chunk_(size|length|samples)",
    "sequence_length": (
        r"block_size|(max_)?seq(uence)?_?len(gth)?|(context|ctx)_(len(gth)?|size)|(model_)?max_len(gth)?|cutoff_len|bptt"
    ),
    "image_size": r"imgsz|img|(img|image|crop|input)_size|(image_)?resolution|res",
    "checkpointing": r"(use_)?(grad(ient)?|activation)_(checkpoint(ing)?|ckpt)|use_checkpoint(ing)?|checkpointing",
    "val_micro_batch": r"(?!)",
}.items()}  # fmt: skip
"""Wheel -> names that mean it, with or without ``train``. A micro-batch's name with a word of evaluation is a validation's."""

_EVALUATION = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev", "infer", "inference", "predict", "prediction"))


def meaning(name: str) -> str | None:
    """The wheel that a flag's or key's name means, or None."""
    words = _words(name)
    plain = "_".join(word for word in words if word not in _EVALUATION and word not in ("train", "training"))
    wheel = next((wheel for wheel, names in NAMES.items() if names.fullmatch(plain)), None)
    if _EVALUATION.isdisjoint(words):
        return wheel
    return "val_micro_batch" if wheel == "micro_batch" else None


def part(name: str) -> bool:
    """Tells whether a micro-batch's name says that it is a part of a larger batch: ``--micro_batch_size``, ``--device-batch-size``."""
    return any(word.startswith("micro") or word in ("device", "gpu") for word in _words(name))


def whole(name: str) -> bool:
    """Tells whether a name means the batch of an optimizer step, of which a micro-batch is a part: ``--global-batch-size``."""
    words = frozenset(_words(name))
    batch = {"batch", "size"} <= words or bool(words & {"batchsize", "bs", "bsz"})
    return batch and bool(words & {"global", "total", "effective"}) and not words & _EVALUATION


def _words(name: str) -> list[str]:
    """The words of a name: img-size, img_size and imgSize have the same."""
    return [word for word in re.split(r"[-_.]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")).lower()) if word]


_STEPS = frozenset(("step", "steps", "iter", "iters", "iterations", "updates"))
_HOW_MANY = frozenset(("max", "num", "n", "total", "train", "training"))
_NO_LENGTH = frozenset((
    "warmup", "warm", "log", "eval", "save", "val", "every", "interval", "freq", "decay", "accumulation", "accum", "inference",
    "sampling", "diffusion", "ddpm", "ddim", "noise", "denoising", "size",
))  # fmt: skip


def counts_steps(name: str) -> bool:
    """Tells whether a flag or key says how long training, or a pass of it, is in steps: of which kind shows only when it runs."""
    words = set(_words(name))
    if words in ({"iterations"}, {"steps"}, {"iters"}, {"updates"}) or (words & _STEPS and {"per", "epoch"} <= words):
        return True
    return bool(words & _STEPS and words & _HOW_MANY) and not words & (_NO_LENGTH | _EVALUATION)


def counts_passes(name: str) -> bool:
    """Tells whether a flag or key says how long training is in passes over the data."""
    words = set(_words(name))
    return bool(words & {"epoch", "epochs"}) and words <= {"epoch", "epochs", *_HOW_MANY}


def counts_length(name: str) -> bool:
    """Tells whether a flag or key says how long training is."""
    return counts_steps(name) or counts_passes(name)
