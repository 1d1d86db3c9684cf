"""Tells which wheel the name of a flag or key usually means. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES: Mapping[str, tuple[str, ...]] = {
    "micro_batch": (
        "micro_batch_size", "micro_batch", "microbatch", "microbatch_size", "mini_batch_size", "batch_size", "batchsize", "batch", "bs",
        "bsz", "b", "device_batch_size", "device_microbatch_size", "per_device_batch_size", "batch_size_per_device", "per_gpu_batch_size",
        "batch_size_per_gpu", "batch_per_gpu", "micro_batch_size_per_gpu", "samples_per_gpu", "samples_per_batch", "ims_per_batch",
    ),
    "accumulation": (
        "gradient_accumulation_steps", "gradient_accumulation_step", "gradient_accumulation_iters", "gradient_accumulation",
        "gradient_accumulate_every", "gradient_accumulate_steps", "grad_accum_iters", "accumulate_every", "accum_every",
        "grad_accumulation_steps", "grad_accumulation", "grad_accum_steps", "grad_accum_every", "grad_accum", "grad_acc_steps", "grad_acc",
        "accumulation_steps", "accumulation_iters", "accumulation", "accumulate_grad_batches", "accumulate_steps", "accumulate",
        "accum_steps", "accum_iter", "accum_iters", "accum_freq", "accum", "acc_steps", "num_accumulation_steps", "ga", "update_freq",
        "iter_size",
    ),
    "segment": (
        "segment", "segment_samples", "segment_seconds", "segment_length", "segment_size", "chunk_size", "chunk_length", "chunk_samples",
    ),
    "sequence_length": (
        "block_size", "seq_len", "seq_length", "sequence_length", "sequence_len", "seqlen", "max_seq_length", "max_seq_len",
        "max_sequence_length", "context_length", "context_len", "context_size", "ctx_len", "max_length", "max_len", "model_max_length",
        "cutoff_len", "bptt",
    ),
    "image_size": ("img_size", "imgsz", "image_size", "img", "crop_size", "input_size", "image_resolution", "resolution", "res"),
    "checkpointing": (
        "gradient_checkpointing", "gradient_checkpoint", "activation_checkpointing", "activation_checkpoint", "grad_checkpointing",
        "grad_checkpoint", "use_grad_checkpoint", "use_gradient_checkpointing", "use_checkpoint", "use_checkpointing", "checkpointing",
        "grad_ckpt",
    ),
    "val_micro_batch": (),
}  # fmt: skip
"""Wheel -> names that mean it, with or without ``train``. A micro-batch's name with a word of evaluation is a validation's."""

_EVALUATION = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev", "infer", "inference", "predict", "prediction"))


def meaning(name: str) -> str | None:
    """The wheel that a flag's or key's name means, or None."""
    words = _words(name)
    plain = "_".join(word for word in words if word not in _EVALUATION and word not in ("train", "training"))
    wheel = next((wheel for wheel, names in NAMES.items() if plain in names), None)
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
