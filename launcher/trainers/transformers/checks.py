"""Finds the faults of the wheels and models of a transformers recipe. Runs nothing."""

from __future__ import annotations

import importlib.util
import os

from launcher.adapter.checkpointing import share_faults
from launcher.config.schema import Recipe, Value
from launcher.errors import Fault, did_you_mean
from launcher.machine import devices, install, nvml
from launcher.shared import card_memory
from launcher.trainers.transformers import arguments as hf_arguments
from launcher.trainers.transformers import levers, sharding
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.native import hf_run

PRECISIONS = ("fp32", "bf16", "fp16")
_SPEECH_ONLY = ("label_length", "audio_seconds", "generation_length")
_TEXT_ONLY = ("sequence_length", "loss_chunks", "freeze")
_NEEDS = {
    "bnb": "bitsandbytes",
    "8bit": "bitsandbytes",
    "paged": "bitsandbytes",
    "lion_": "bitsandbytes",
    "torch_8bit": "torchao",
    "torch_4bit": "torchao",
}


def wheel_faults(recipe: Recipe, task: str) -> list[Fault]:
    faults = []
    for name in _TEXT_ONLY if task == "speech" else _SPEECH_ONLY:
        if recipe.ask.get(name) is not None:
            faults.append(Fault(key=f"ask.{name}", found=f"the {task} trainer has no {name}", cure="Leave it out."))
    for key, value in values(recipe, "optimizer"):
        if problem := _optimizer_problem(value) or paged_problem(value, recipe.device.kind):
            faults.append(Fault(key=key, found=f"{value!r}: {problem[0]}", cure=problem[1]))
    for key, value in values(recipe, "precision"):
        if problem := _precision_problem(value, recipe):
            faults.append(Fault(key=key, found=f"{value!r}: {problem[0]}", cure=problem[1]))
    for key, value in values(recipe, "val_keeps"):
        if value not in hf_run.KEEPS:
            faults.append(Fault(key=key, found=f"{value!r}", cure=f"One of {', '.join(hf_run.KEEPS)}."))
    for key, value in values(recipe, "lora"):
        if isinstance(value, int) and value < 0:
            faults.append(Fault(key=key, found=f"rank {value}", cure="0 (all weights), or a rank such as 16."))
        elif value and importlib.util.find_spec("peft") is None:
            faults.append(Fault(key=key, found="LoRA needs the package peft, which is not installed", cure=f"{install.extra('lora')}."))
    said = {name: values(recipe, name) for name in ("optimizer", "offload", "precision", "sharding", "lora", "model", *levers.LEAST)}
    faults += [*share_faults(recipe), *_generation_faults(recipe, task), *levers.faults(recipe, said, cpu=on_cpu(recipe))]
    return faults + sharding.faults(
        recipe, values(recipe, sharding.WHEEL), cpu=on_cpu(recipe), generates=_generates(recipe),
        models=[str(name) for _, name in values(recipe, "model")],
    )  # fmt: skip


def _generation_faults(recipe: Recipe, task: str) -> list[Fault]:
    generates = _generates(recipe)
    if task == "speech" and recipe.ask.get("generation_length") is not None and not generates:
        return [
            Fault(
                key="ask.generation_length",
                found="evaluation doesn't generate",
                cure="Set trainer.args.predict_with_generate=true, or leave it out.",
            )
        ]
    return []


def model_faults(recipe: Recipe, task: str) -> tuple[list[Fault], hf_models.Model]:
    """Faults of every model of the ladder, and the asked one."""
    faults = []
    asked = recipe.ask.get("model")
    if not isinstance(asked, str):
        nothing = hf_models.Model(name="", place="nowhere")
        return [Fault(key="ask.model", found="no model is named", cure="For example ask.model=openai/whisper-small, or a folder.")], nothing
    for key, name in values(recipe, "model"):
        model = hf_models.locate(str(name))
        faults += hf_models.faults(model, key=key, task=task)
        faults += _length_faults(recipe, model) if key == "ask.model" else []
    return faults, hf_models.locate(asked)


def _length_faults(recipe: Recipe, model: hf_models.Model) -> list[Fault]:
    """Faults of lengths for which the model has too few positions."""
    config = hf_models.config_of(model)
    limits = {
        "label_length": config.get("max_target_positions"),
        "generation_length": config.get("max_target_positions"),
        "sequence_length": config.get("max_position_embeddings"),
        "audio_seconds": hf_models.window_seconds(model),
    }
    faults = []
    for name, limit in limits.items():
        value = recipe.ask.get(name)
        if isinstance(limit, (int, float)) and isinstance(value, (int, float)) and value > limit:
            faults.append(
                Fault(key=f"ask.{name}", found=f"{value} is over the {limit:g} that {model.name} has", cure=f"At most {limit:g}.")
            )
    return faults


def values(recipe: Recipe, wheel: str) -> list[tuple[str, Value]]:
    """(key, value) of every value that a wheel can have."""
    asked = recipe.ask.get(wheel)
    rule = recipe.ladder.wheels.get(wheel)
    turns = wheel in recipe.ladder.order and rule is not None and rule.values is not None
    found = [(f"ask.{wheel}", asked)] if asked is not None else []
    return found + ([(f"ladder.wheels.{wheel}.values", value) for value in rule.values or ()] if turns and rule is not None else [])


def on_cpu(recipe: Recipe) -> bool:
    """Whether the budget will be the host's memory."""
    kind = recipe.device.kind
    return kind == "cpu" or (kind == "auto" and compute_capability(recipe.device.index) is None)


def _generates(recipe: Recipe) -> bool:
    return recipe.trainer.task == "speech" and bool(recipe.trainer.args.get("predict_with_generate", True))


def _optimizer_problem(value: Value) -> tuple[str, str] | None:
    names = hf_arguments.optimizers()
    if value not in names:
        return (
            "there is no optimizer of that name",
            f"{did_you_mean(str(value), names)}For example {levers.DEFAULT_OPTIMIZER}, adamw_8bit, adafactor.",
        )
    needed = next((package for part, package in reversed(_NEEDS.items()) if part in str(value)), None)
    if needed is not None and importlib.util.find_spec(needed) is None:
        return f"it needs the package {needed}, which is not installed", f"{install.command(needed)}, or take it out of the ladder."
    return None


def paged_problem(value: Value, kind: str) -> tuple[str, str] | None:
    """Paged optimizers keep their states in managed memory, which goes to the host by itself: no cap holds it, no meter counts it."""
    if "paged" not in str(value) or devices.chosen_kind(kind) != "cuda":
        return None
    plain = str(value).replace("paged_", "")
    return "its states lie in managed memory, which no cap counts: nothing could be proven on a card", f"Take {plain}."


def _precision_problem(value: Value, recipe: Recipe) -> tuple[str, str] | None:
    if value not in PRECISIONS:
        return "there is no such precision", f"One of {', '.join(PRECISIONS)}."
    capability = compute_capability(recipe.device.index) if recipe.device.kind != "cpu" else None
    if capability is None:
        return ("a CPU has no fp16 training", "Take fp32 or bf16.") if value == "fp16" and recipe.device.kind != "cuda" else None
    if value == "bf16" and capability < (8, 0):
        return (
            f"this card (compute capability {capability[0]}.{capability[1]}) has no bf16; Ampere (8.0) is the first that has",
            "Take fp32 or fp16.",
        )
    return None


def compute_capability(index: int) -> tuple[int, int] | None:
    """The card's compute capability by NVML; None without a card. ``index``: among the visible cards."""
    with nvml.opened() as (api, absence):
        if absence is not None:
            return None
        uuids, absence = nvml.visible(api, os.environ)
        if absence is not None or index >= len(uuids):
            return None
        major, minor = api.nvmlDeviceGetCudaComputeCapability(card_memory.handle_of(api, uuids[index]))
        return int(major), int(minor)
