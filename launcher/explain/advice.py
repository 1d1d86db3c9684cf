"""Names what most likely takes the memory, and what to change, best first. Pure; a trainer's own words come from its ``Dialect``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from launcher.adapter.dialect import Change, Dialect
from launcher.explain.part import Part
from launcher.explain.trouble import LogFailure, Trouble
from launcher.shared.sizes import format_size

ON_CARD = (Trouble.ALLOCATOR, Trouble.FRAGMENTATION, Trouble.NEIGHBOURS, Trouble.SPILLED, Trouble.DRIVER, Trouble.LIBRARY, Trouble.NCCL)
_IN_HOST = (Trouble.HOST, Trouble.KILLER, Trouble.KILLED)
_IN_STEP: tuple[Change, ...] = ("batch", "precision", "checkpointing", "size", "model")
_BY_PART: Mapping[Part, tuple[str, tuple[Change, ...]]] = {
    "setup": (
        "the weights themselves, before any data: a smaller batch changes nothing here",
        ("model", "precision", "offload"),
    ),
    "data": ("the batch on its way to the card, beside what is there already", ("batch", "size", "checkpointing", "model")),
    "forward": (
        "activations, which are kept for the backward pass: they grow with samples and their size",
        _IN_STEP,
    ),
    "backward": (
        "gradients beside the activations that are still kept: the highest point of a step",
        _IN_STEP,
    ),
    "optimizer": (
        "the optimizer's state, which is made in the first step: for Adam twice the trained weights. A smaller batch doesn't shrink it",
        ("optimizer", "model", "offload", "batch"),
    ),
    "training": ("activations, gradients and, after the first step, the optimizer's state", _IN_STEP),
    "validation": (
        "the validation batch, or predictions that are kept until the end of the validation",
        ("eval_batch", "eval_kept", "size"),
    ),
    "checkpoint": ("a second copy of weights or states while they are written or read", ("optimizer", "batch", "model")),
    "": ("it can't be told from this log which part it was: in most trainings activations", _IN_STEP),
}  # fmt: skip
_LIKELY: Mapping[Trouble, str] = {
    Trouble.SPILLED: "more was held than the card has: the driver moved the rest into the host's memory (Windows, WSL), and steps wait",
    Trouble.DRIVER: "the card was full for CUDA itself (a context, a kernel); most often PyTorch's allocator holds the rest",
    Trouble.LIBRARY: "the library makes its workspace outside PyTorch's allocator, and that left nothing for it",
    Trouble.NCCL: "NCCL's buffers lie outside PyTorch's allocator, some 100s of MiB for each process, and that left nothing for them",
    Trouble.PINNED: "page-locked host memory, from which batches are copied: WSL has little of it, and a smaller batch hardly helps",
    Trouble.HOST: "the machine's memory, not the card's: the data set, copies of it in loader workers, or states that were moved there",
    Trouble.KILLER: "the machine's memory, or a container's or job's limit on it: the data set, workers' copies of it, or moved states",
    Trouble.KILLED: "most often the machine's memory, or a container's limit on it; but anybody can kill a process",
    Trouble.SHM: "/dev/shm, through which loader workers pass their batches; a container has 64 MiB of it unless told otherwise",
    Trouble.WORKERS: "a loader's worker process, which died without a word of its own: want of memory, or a crash of what it runs",
}
_HOST_CHANGES: tuple[Change, ...] = ("workers", "cache")
_DOCKER = "enlarge /dev/shm: docker run --shm-size=8g, or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm"
_RAM = "give it more: the container's or job's limit (docker -m, Slurm --mem, resources.limits.memory), or swap"
_EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (Linux; PyTorch 2.9 and later also read PYTORCH_ALLOC_CONF)"
_OTHERS = "end what else holds the card (nvidia-smi lists it: a notebook, an earlier run that hangs), or take another card"
_LIMIT = "take back the limit that the program set for itself (set_per_process_memory_fraction), if it may have more"
_FALLBACK = "on Windows turn CUDA - Sysmem Fallback Policy off for it: it fails then instead of crawling"


def on_processor(failure: LogFailure, part: Part) -> bool:
    """PyTorch itself asked for host memory in a step: the training runs on the processor."""
    return failure.kind is Trouble.HOST and "DefaultCPUAllocator" in failure.line and part in _OF_A_STEP


_OF_A_STEP: tuple[Part, ...] = ("forward", "backward", "optimizer", "training", "validation")


def likely(failure: LogFailure, part: Part) -> str:
    """Names what most likely takes the memory; empty where that isn't the question."""
    if failure.kind is Trouble.FRAGMENTATION:
        idle = failure.figures.idle or 0
        return f"pieces: {format_size(idle)} were held by PyTorch and not in use, more than was asked for, but nowhere in one piece"
    if failure.kind is Trouble.NEIGHBOURS:
        return f"others: {format_size(failure.figures.others or 0)} of the card are held by other processes"
    if on_processor(failure, part):
        return f"the training runs on the processor: {_BY_PART[part][0]}"
    if failure.kind in _LIKELY:
        return _LIKELY[failure.kind]
    if failure.kind is not Trouble.ALLOCATOR or failure.figures.contradict:
        return ""
    return _BY_TEXT.get(_special(failure.chain), _BY_PART[part][0])


def _special(chain: str) -> str:
    return next((name for name, pattern in _SPECIALS.items() if pattern.search(chain)), "")


_SPECIALS: Mapping[str, re.Pattern[str]] = {
    "assigner": re.compile(r"[/\\]tal\.py|TaskAlignedAssigner"),
    "predictions": re.compile(r"nested_concat|pad_across_processes|preds_host|all_preds"),
    "logits": re.compile(r"cross_entropy|ForCausalLMLoss|logits\.float\(\)|lm_head"),
    "attention": re.compile(r"attn_weights|softmax\(|scaled_dot_product_attention|eager_attention_forward"),
}
_BY_TEXT: Mapping[str, str] = {
    "assigner": "the assignment of labels to anchors, which grows with the objects of the fullest image and the batch",
    "predictions": "the predictions of the whole validation set, which are collected on the card",
    "logits": "the logits, samples x tokens x vocabulary, often once more in fp32 for the loss",
    "attention": "attention's weights, which grow with the square of the sequence's length",
}


def changes(failure: LogFailure, part: Part, dialect: Dialect, cures: Sequence[str]) -> list[str]:
    """Lists what to change, best first. ``cures``: what the installed adapters say of this failure."""
    return list(
        dict.fromkeys((*_first(failure, cures), *(dialect.changes[one] for one in _wanted(failure, part) if one in dialect.changes)))
    )


def _first(failure: LogFailure, cures: Sequence[str]) -> Iterator[str]:
    """Lists what helps whichever trainer it is."""
    kind, figures = failure.kind, failure.figures
    if kind is Trouble.FRAGMENTATION:
        yield _EXPANDABLE
    if kind is Trouble.NEIGHBOURS:
        yield _OTHERS
    if kind in (Trouble.ALLOCATOR, Trouble.FRAGMENTATION) and figures.allowed is not None and figures.allowed < (figures.total or 0):
        yield _LIMIT
    if kind is Trouble.SHM:
        yield _DOCKER
    if kind is Trouble.PINNED:
        yield from cures
    if kind is Trouble.SPILLED:
        yield _FALLBACK
    if kind is Trouble.KILLED:
        yield "look who killed it: sudo dmesg -T | grep -i 'killed process'; docker inspect shows OOMKilled; a scheduler's own log"
    if kind is Trouble.WORKERS:
        yield "run it once with no loader workers: the worker's own error comes out"


def _wanted(failure: LogFailure, part: Part) -> tuple[Change, ...]:
    kind = failure.kind
    if on_processor(failure, part):
        return _BY_PART[part][1]
    if kind is Trouble.PINNED:
        return ("unpinned",)
    if kind in (Trouble.SHM, Trouble.WORKERS):
        return ("workers",)
    if kind in _IN_HOST:
        return _HOST_CHANGES
    if kind not in ON_CARD:
        return ()
    if kind is Trouble.ALLOCATOR and _special(failure.chain) == "predictions":
        return ("eval_kept", "eval_batch")
    return _BY_PART["training" if kind in (Trouble.DRIVER, Trouble.LIBRARY, Trouble.NCCL) and part == "" else part][1]


def more_memory(failure: LogFailure) -> list[str]:
    """Lists what helps where nothing is to be changed in the training."""
    return [_RAM] if failure.kind in _IN_HOST else []
