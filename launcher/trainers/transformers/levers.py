"""Finds the faults of levers in a transformers recipe: an order of values that saves nothing, what can't be had together. Runs nothing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from launcher.config.schema import Recipe, Value
from launcher.errors import Fault, did_you_mean
from launcher.machine import ranks
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.native import hf_run

LEAST: Mapping[str, int] = {"loss_chunks": 1, "freeze": 0}
"""Levers in numbers -> what gives up nothing; more of them needs less."""
_STATES = {"adafactor": 0.1, "4bit": 1, "8bit": 2, "lion": 4, "sgd": 4, "rmsprop": 4, "adagrad": 4, "ademamix": 12, "adamw": 8}
"""Part of an optimizer's name -> bytes of states for each weight, about (a trial counts them); the first that is in it counts."""
OFFLOADED = ("adamw_torch_fused", "adamw_torch", "sgd", "rmsprop", "adafactor")
"""Optimizers that can be stepped piece by piece, each as if it were alone (``hf_offload``)."""
DEFAULT_OPTIMIZER = OFFLOADED[0]
_CAPPED = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Of a model's config: it does more to its logits than its output layer."""

Said = Sequence[tuple[str, Value]]
"""(key, value) of every value that a wheel can have."""


def faults(recipe: Recipe, said: Mapping[str, Said], *, cpu: bool) -> list[Fault]:
    """``said``: of every wheel. ``cpu``: what it will train on."""
    found = [
        Fault(key=key, found=f"{value!r}", cure=f"A whole number: {least}, which gives up nothing, or more.")
        for name, least in LEAST.items()
        for key, value in said[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least
    ]
    found += [fault for name in ("optimizer", "offload", "precision", *LEAST) for fault in _in_order(said[name])]
    for key, value in said["freeze"]:
        if value and any(rank for _, rank in said["lora"]):
            found.append(Fault(key=key, found=f"{value}: LoRA freezes all layers", cure="Leave one of them out."))
    found += _not_offloaded(recipe, said, cpu=cpu)
    chunked = next((key for key, value in said["loss_chunks"] if value != 1), "")
    if not chunked:
        return found
    return found + [Fault(key=chunked, found=why, cure="Leave one of them out.") for why in _unchunkable(recipe, said)]


def _needs(value: Value) -> float | None:
    """Memory, to be compared with that of other values of the same wheel; None where it isn't known."""
    if isinstance(value, int):
        return -value
    return next((needs for part, needs in {**_STATES, "fp32": 4, "16": 2, "none": 1, "optimizer": 0}.items() if part in str(value)), None)


def _in_order(said: Said) -> list[Fault]:
    """Each value needs no more than those before it: a rung that needs more than one that failed would not be tried."""
    known = [(key, value, needs) for key, value in said if (needs := _needs(value)) is not None]
    cure = "Name values in the order of falling need, behind the asked one."
    return [
        Fault(key=key, found=f"{value} needs more memory than {before}, behind which it stands", cure=cure)
        for (_, before, less), (key, value, more) in itertools.pairwise(known)
        if more > less
    ]


def _not_offloaded(recipe: Recipe, said: Mapping[str, Said], *, cpu: bool) -> list[Fault]:
    """Of an optimizer's states in the host's memory."""
    known = hf_run.OFFLOADS
    unknown = [
        Fault(key=key, found=f"{value!r}", cure=f"{did_you_mean(str(value), known)}One of {', '.join(known)}.")
        for key, value in said["offload"]
        if value not in known
    ]
    key = next((key for key, value in said["offload"] if value == "optimizer"), "")
    if unknown or not key:
        return unknown
    if cpu:
        words, cure = "optimizer: on a CPU states lie in the host's memory anyway", "Leave it out, or take ask.optimizer=adafactor."
        return [Fault(key=key, found=words, cure=cure)]
    if ranks.world_size(recipe.device.cards, recipe.device.kind) > 1:
        words, cure = "optimizer: it is for one card", "Several share states: ask.sharding=fsdp2, or fsdp2_offload."
        return [Fault(key=key, found=words, cure=cure)]
    named = dict.fromkeys(str(value) for _, value in said["optimizer"]) or {DEFAULT_OPTIMIZER: None}
    return [
        Fault(
            key=key,
            found=f"optimizer: {name} can't be stepped piece by piece",
            cure=f"Leave one of them out, or take {', '.join(OFFLOADED)}.",
        )
        for name in named
        if name not in OFFLOADED
    ]


def _unchunkable(recipe: Recipe, said: Mapping[str, Said]) -> list[str]:
    configs = {str(name): hf_models.config_of(hf_models.locate(str(name))) for _, name in said["model"]}
    capped = [
        f"{name} does more to its logits than its output layer ({one})"
        for name, config in configs.items()
        for one in _CAPPED
        if config.get(one) not in (None, 1)
    ]
    smoothed = ["label smoothing takes all logits at once"] if recipe.trainer.args.get("label_smoothing_factor") else []
    shared = any(value not in (None, "none") for _, value in said["sharding"])
    return [*capped, *smoothed, *(["cards that share a model gather its output layer once, not for each part"] if shared else [])]
