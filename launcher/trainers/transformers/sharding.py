"""What ``sharding`` may be, its words for transformers' Trainer, and where it can't be had. Pure; reads files, imports no torch.

Trainer shards by accelerate's FSDP2 (PyTorch's fully_shard): each rank keeps a part of the weights, gradients and optimizer states.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.config.schema import Recipe, Value, WheelRule
from launcher.errors import Fault, did_you_mean
from launcher.ladder.rungs import CARDS
from launcher.machine import install, ranks
from launcher.trainers.transformers import arguments as hf_arguments
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.native.hf_run import SHARDED_WEIGHTS

WHEEL = "sharding"
NONE, FSDP2, RESHARD, OFFLOAD = VALUES = ("none", "fsdp2", "fsdp2_reshard", "fsdp2_offload")
"""Each needs less of a card than the one before, and takes more time."""
OLDEST: Mapping[str, tuple[int, int]] = {"torch": (2, 6), "accelerate": (1, 6), "transformers": (5, 8)}
"""fully_shard is public since torch 2.6; a bare ``--fsdp`` means it since about transformers 5.8 (huggingface/transformers pull request
45640). What really happens is seen in each trial."""


def shards(value: Value) -> bool:
    return value not in (None, NONE)


def arguments(value: Value, given: Mapping[str, Any]) -> dict[str, Any]:
    """Trainer's own. ``given``: the recipe's.

    Gradients are exchanged with each micro-batch: else FSDP2 keeps them whole between the micro-batches of a step, and a rung with more
    accumulation would need more than the one above it (seen: 800 against 664 MiB).
    """
    accelerator = dict(given.get("accelerator_config") or {})
    accumulation = {**(accelerator.get("gradient_accumulation_kwargs") or {}), "sync_each_batch": True}
    config: dict[str, Any] = {"version": 2, "reshard_after_forward": value != FSDP2, "state_dict_type": "FULL_STATE_DICT"}
    return {
        "fsdp": (),  # the bare word
        "fsdp_config": config | ({"cpu_offload": True} if value == OFFLOAD else {}),
        "accelerator_config": {**accelerator, "gradient_accumulation_kwargs": accumulation},
    }


def on_cpu(args: Mapping[str, Any]) -> dict[str, Any]:
    """``args`` where two processes on a CPU play two cards: see ``hf_run.share_on_a_cpu``. Trainer shards nothing with ``use_cpu``."""
    kept = {key: value for key, value in args.items() if key != "use_cpu"}
    return {**kept, "accelerator_config": {**kept["accelerator_config"], "use_configured_state": True}}


def environment(args: Mapping[str, Any]) -> dict[str, str]:
    """What ``accelerate launch`` sets, too, beside a rung's arguments: offloaded weights are exchanged over gloo, the others over NCCL."""
    if "fsdp" not in args:
        return {}
    config = args["fsdp_config"]
    plays_cards = bool(args["accelerator_config"].get("use_configured_state"))
    return {
        "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_STATE_DICT_TYPE": str(config["state_dict_type"]),
        "FSDP_OFFLOAD_PARAMS": str(bool(config.get("cpu_offload"))).lower(),
        **({"ACCELERATE_TORCH_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": ""} if plays_cards else {}),
    }  # fmt: skip


def lesser(recipe: Recipe, asked: Value, *, cpu: bool) -> Sequence[Value]:
    """What may be fallen back to where the recipe doesn't say."""
    if asked not in VALUES or _alone(recipe):
        return ()
    checkpoint = recipe.trainer.args.get("resume_from_checkpoint")
    further = [value for value in VALUES[VALUES.index(asked) + 1 :] if not (cpu and value == OFFLOAD)]
    return [value for value in further if not _not_loadable(checkpoint, [("", value)])]


def notes(recipe: Recipe) -> Sequence[str]:
    """What a person should know of sharding in this recipe before the first trial."""
    if recipe.ask.get(WHEEL) is None or recipe.ask.get("precision") != "bf16":
        return ()
    return ("sharded ranks compute and exchange gradients in bf16 (accelerate's own policy), unsharded ones exchange them in fp32",)


def faults(recipe: Recipe, said: Sequence[tuple[str, Value]], *, cpu: bool, generates: bool, models: Sequence[str]) -> list[Fault]:
    """``said``: (key, value) of each value that the wheel can have by the recipe. ``models``: names of the ladder's."""
    unknown = [Fault(key=key, found=f"{value!r}: {found}", cure=cure) for key, value in said for found, cure in _unknown(value)]
    sharded = [(key, value) for key, value in said if shards(value)]
    unknown += _not_loadable(recipe.trainer.args.get("resume_from_checkpoint"), said)
    if unknown or not sharded:
        return unknown
    key, value = sharded[0]
    against = _impossible(recipe, cpu=cpu, generates=generates, models=models)
    offloads = next((key for key, value in sharded if value == OFFLOAD), "") if cpu else ""
    no_card = Fault(key=offloads, found=f"{OFFLOAD}: a CPU has no card to take weights from", cure=f"Leave it out, or say {RESHARD}.")
    return [Fault(key=key, found=f"{value}: {why}", cure=cure) for why, cure in against] + ([no_card] if offloads else [])


def _unknown(value: Value) -> list[tuple[str, str]]:
    if value in VALUES:
        return []
    if re.match(r"(deepspeed|zero)", str(value), re.IGNORECASE):
        return [("DeepSpeed is not covered: no trial knows what it holds", f"FSDP2 shares the same: {RESHARD} is ZeRO's stage 3.")]
    return [("there is no such sharding", f"{did_you_mean(str(value), VALUES)}One of {', '.join(VALUES)}.")]


def _not_loadable(checkpoint: Any, said: Sequence[tuple[str, Value]]) -> list[Fault]:
    """Faults of values at which the checkpoint to go on from can't be loaded; a sharded one is told by its files."""
    if not isinstance(checkpoint, str) or not Path(checkpoint).is_dir():
        return []
    sharded = (Path(checkpoint) / SHARDED_WEIGHTS).is_file()
    how, cure = ("shared by ranks", "one of the other values") if sharded else ("not shared by ranks", NONE)
    found = f"{checkpoint} holds the optimizer's states of weights that were {how}"
    key = "trainer.args.resume_from_checkpoint"
    other = [name for name, value in said or [(key, NONE)] if shards(value) != sharded]
    return [Fault(key=name, found=found, cure=f"Set ask.sharding to {cure}, and no further values.") for name in other[:1]]


def _impossible(recipe: Recipe, *, cpu: bool, generates: bool, models: Sequence[str]) -> list[tuple[str, str]]:
    """(why, cure) of all that stands against sharding in this recipe."""
    found = [
        (f"{name} {there} is here, and this needs {least}", f"{install.command(f'{name}>={least}')}.") for name, there, least in too_old()
    ]
    if cure := _alone(recipe):
        found.append(("one process trains, and there is nobody to share with", f"{cure}, or leave it out."))
    if generates:
        words = "each rank generates as many tokens as its samples need, and would wait for the others' weights forever"
        found.append((words, "Set trainer.args.predict_with_generate=false."))
    if isinstance(recipe.trainer.args.get("accelerator_config"), str):
        found.append(("a file's accelerator_config can't be added to", "Write its keys under trainer.args.accelerator_config."))
    if recipe.ask.get("precision") == "fp16":
        found.append(("gradients would be exchanged in fp16, in which sums overflow", "Set ask.precision=bf16 or fp32."))
    elif cpu and recipe.ask.get("precision") not in (None, "fp32"):
        found.append(("on a CPU transformers takes the ranks for cards without that precision", "Set ask.precision=fp32."))
    for name in models:
        if (kind := hf_models.config_of(hf_models.locate(name)).get("model_type")) is not None and not _has_layers(str(kind)):
            found.append((f"transformers names no layer of a {kind} model that could be shared ({name})", "Leave it out."))
    return found


def _alone(recipe: Recipe) -> str:
    """What would help where one process alone may train; empty where two do at least, on every rung."""
    if ranks.world_size(recipe.device.cards, recipe.device.kind) < 2:
        return "Name two cards (device.cards=2)"
    rule = recipe.ladder.wheels.get(CARDS) or WheelRule()
    least = min((one for one in rule.values or (rule.floor,) if isinstance(one, int)), default=1)
    return "Set ladder.wheels.cards.floor=2" if CARDS in recipe.ladder.order and least < 2 else ""


def too_old(version_of: Callable[[str], str] = importlib.metadata.version) -> list[tuple[str, str, str]]:
    """(package, its version, the least one) of those that know no FSDP2, or whose arguments for it are others."""
    found = []
    for name, least in OLDEST.items():
        try:
            there = version_of(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # said elsewhere
        if tuple(int(part) for part in re.findall(r"\d+", there)[:2]) < least:
            found.append((name, there, ".".join(map(str, least))))
    return found


def _has_layers(kind: str) -> bool:
    """Whether the installed source of a kind of model names layers that repeat; what isn't transformers' own is left to the trial."""
    source = hf_arguments.package() / "models" / kind / f"modeling_{kind}.py"
    return not source.is_file() or re.search(r"_no_split_modules\s*=\s*\[\s*\S*['\"]", source.read_text(encoding="utf-8")) is not None
