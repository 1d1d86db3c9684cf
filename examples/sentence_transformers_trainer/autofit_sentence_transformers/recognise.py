"""Words of a ``train-embeddings`` command -> what it asks for, read by the script's own parser. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from autofit_launcher.adapter import PLACE, BadInput, Belief, Fault, Understood
from autofit_sentence_transformers.native import train_embeddings as script

PROGRAM = "train-embeddings"
MODULE = script.__name__
ORDER = ("val_micro_batch", "micro_batch", "sequence_length", "checkpointing", "model")
_WHEELS = {
    "model": "model",
    "eval_batch_size": "val_micro_batch",
    "sequence_length": "sequence_length",
    "precision": "precision",
    "checkpointing": "checkpointing",
}
"""Option -> the wheel that it is, where it is a plain value."""
_OURS = {*_WHEELS, "data", "batch_size", "accumulation", "mini_batch_size", "use_cpu"}


def understand(words: Sequence[str], *, adapter: str) -> Understood | None:
    """What the command trains; None for another program. Raises BadInput where it can't be read."""
    rest = _options(words)
    if rest is None:
        return None
    if {"-h", "--help"} & set(rest):
        raise BadInput([Fault(key=PLACE, found="--help trains nothing", cure=f"Give a training: {PROGRAM} --model ... --data ...")])
    try:
        own = script.arguments(rest)
    except script.Refused as refused:
        raise BadInput([Fault(key=PLACE, found=str(refused), cure=f"{PROGRAM} --help lists the options.")]) from refused
    micro_batch = min(own.mini_batch_size or own.batch_size, own.batch_size)
    effective = own.batch_size * own.accumulation
    if effective % micro_batch:
        cure = f"Take a divisor of {effective} for --mini_batch_size, so that every rung can keep the batch."
        raise BadInput([Fault(key=PLACE, found=f"{micro_batch} doesn't divide the batch of {effective}", cure=cure)])
    plain = {wheel: getattr(own, option) for option, wheel in _WHEELS.items() if getattr(own, option) is not None}
    ask: dict[str, Any] = {**plain, "micro_batch": micro_batch, "accumulation": effective // micro_batch}
    return Understood(
        adapter=adapter,
        words=tuple(words),
        beliefs=_beliefs(rest, ask),
        ask=ask,
        args=_args(own),
        data=own.data,
        ladder={"order": [wheel for wheel in ORDER if wheel in ask]},
    )


def _options(words: Sequence[str]) -> Sequence[str] | None:
    """What follows the program's name; None where it is another program."""
    if Path(words[0]).name == PROGRAM:
        return words[1:]
    if Path(words[0]).name.startswith("python") and list(words[1:3]) == ["-m", MODULE]:
        return words[3:]
    return None


def _args(own: script.Arguments) -> dict[str, Any]:
    """The options that are not at their default and have no other place in a recipe."""
    said = {field.name: getattr(own, field.name) for field in fields(own) if field.name not in _OURS}
    args = {field.name: said[field.name] for field in fields(own) if field.name in said and said[field.name] != field.default}
    within = own.mini_batch_size is not None or own.accumulation > 1
    return {**args, **({"batch_size": own.batch_size} if own.loss == "ranking" and within else {})}


def _beliefs(rest: Sequence[str], ask: dict[str, Any]) -> tuple[Belief, ...]:
    spelled = {wheel: f"--{option}" for option, wheel in _WHEELS.items()}
    said = {word.partition("=")[0] for word in rest}
    spelled["micro_batch"] = "--mini_batch_size" if "--mini_batch_size" in said else "--batch_size"
    spelled["accumulation"] = "--accumulation"
    source = {True: "command line", False: f"{PROGRAM}'s default"}
    return tuple(
        Belief(wheel=name, value=value, spelling=spelled[name], source=source[spelled[name] in said]) for name, value in ask.items()
    )
