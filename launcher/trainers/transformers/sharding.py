"""What ``sharding`` may be, its words for transformers' Trainer, and where it can't be had. Pure; reads files, imports no torch.

Trainer shards by accelerate's FSDP2 (PyTorch's fully_shard), or by DeepSpeed's ZeRO where that is named and installed: each rank keeps a
part of the weights, gradients and optimizer states.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.config.schema import Recipe, Value, WheelRule
from launcher.errors import Fault, did_you_mean
from launcher.ladder.rungs import CARDS
from launcher.machine import install, ranks
from launcher.trainers.transformers import arguments as hf_arguments
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.native import hf_run

WHEEL = "sharding"
NONE, FSDP2, RESHARD, OFFLOAD = VALUES = ("none", "fsdp2", "fsdp2_reshard", "fsdp2_offload")
"""Each needs less of a card than the one before, and takes more time."""
ZERO2, ZERO3 = ZERO = ("zero2", "zero3")
"""Of DeepSpeed: gradients and optimizer states are shared, or weights, too. Turned to from another value only where a recipe names them."""
_BY_ELEMENT = ("adamw_torch", "adamw_torch_fused", "sgd", "rmsprop", "adagrad")
"""Optimizers that treat each number by itself: ZeRO hands them one long row, which is a part of all weights."""
OLDEST: Mapping[str, tuple[int, int]] = {"torch": (2, 6), "accelerate": (1, 6), "transformers": (5, 8)}
"""fully_shard is public since torch 2.6; a bare ``--fsdp`` means it since about transformers 5.8 (huggingface/transformers pull request
45640). What really happens is seen in each trial."""


def shards(value: Value) -> bool:
    return value not in (None, NONE)


def arguments(value: Value, given: Mapping[str, Any]) -> dict[str, Any]:
    """Trainer's own. ``given``: the recipe's.

    Gradients are exchanged with each micro-batch: else FSDP2 keeps them whole between the micro-batches of a step, and a rung with more
    accumulation would need more than the one above it (seen: 800 against 664 MiB). ZeRO does so by itself.
    """
    if value in ZERO:
        return {"deepspeed": _deepspeed(value)}
    accelerator = dict(given.get("accelerator_config") or {})
    accumulation = {**(accelerator.get("gradient_accumulation_kwargs") or {}), "sync_each_batch": True}
    config: dict[str, Any] = {"version": 2, "reshard_after_forward": value != FSDP2, "state_dict_type": "FULL_STATE_DICT"}
    return {
        "fsdp": (),  # the bare word
        "fsdp_config": config | ({"cpu_offload": True} if value == OFFLOAD else {}),
        "accelerator_config": {**accelerator, "gradient_accumulation_kwargs": accumulation},
    }


def _deepspeed(value: Value) -> dict[str, Any]:
    """Its configuration: what Trainer has words for is Trainer's. By itself stage 3 keeps a billion whole weights for their next use."""
    batch = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size", "gradient_clipping")
    stage: dict[str, Any] = {"stage": int(str(value)[-1]), "reduce_bucket_size": "auto"}
    if value == ZERO3:
        sizes = dict.fromkeys(("stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto")
        stage |= {**sizes, "stage3_max_reuse_distance": 0, "stage3_gather_16bit_weights_on_model_save": True}
    return {**dict.fromkeys(batch, "auto"), "bf16": {"enabled": "auto"}, "zero_optimization": stage}


def on_cpu(args: Mapping[str, Any]) -> dict[str, Any]:
    """``args`` where two processes on a CPU play two cards: see ``hf_run.share_on_a_cpu``. Trainer shards nothing with ``use_cpu``."""
    kept = {key: value for key, value in args.items() if key != "use_cpu"}
    return {**kept, "accelerator_config": {**(kept.get("accelerator_config") or {}), "use_configured_state": True}}


def environment(args: Mapping[str, Any], *, cpu: bool) -> dict[str, str]:
    """What ``accelerate launch`` sets, too, beside a rung's arguments: offloaded weights are exchanged over gloo, the others over NCCL."""
    plays_cards = {"ACCELERATE_TORCH_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": ""} if cpu else {}
    if "deepspeed" in args:
        return {"DS_ACCELERATOR": "cpu", **plays_cards} if cpu else {}
    if "fsdp" not in args:
        return {}
    config = args["fsdp_config"]
    return {
        "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_STATE_DICT_TYPE": str(config["state_dict_type"]),
        "FSDP_OFFLOAD_PARAMS": str(bool(config.get("cpu_offload"))).lower(),
        **plays_cards,
    }  # fmt: skip


def imports(args: Container[str]) -> tuple[str, ...]:
    """What a run with these arguments imports late, beside what every run does."""
    return ("deepspeed", "deepspeed.runtime.engine") if "deepspeed" in args else ()


def lesser(recipe: Recipe, asked: Value, *, cpu: bool) -> Sequence[Value]:
    """What may be fallen back to where the recipe doesn't say."""
    family = next((values for values in (VALUES, ZERO) if asked in values), ())
    if not family or _alone(recipe):
        return ()
    further = [value for value in family[family.index(str(asked)) + 1 :] if not (cpu and value == OFFLOAD)]
    return [value for value in further if not _not_loadable(recipe, [("", value)])]


def notes(recipe: Recipe) -> Sequence[str]:
    """What a person should know of sharding in this recipe before the first trial."""
    if recipe.ask.get(WHEEL) is None or recipe.ask.get("precision") != "bf16":
        return ()
    if recipe.ask[WHEEL] in ZERO:
        return ("DeepSpeed computes and exchanges gradients in bf16, with weights cast to it; the optimizer steps its own in fp32",)
    return ("sharded ranks compute and exchange gradients in bf16 (accelerate's own policy), unsharded ones exchange them in fp32",)


def faults(recipe: Recipe, said: Sequence[tuple[str, Value]], *, cpu: bool, generates: bool, models: Sequence[str]) -> list[Fault]:
    """``said``: (key, value) of each value that the wheel can have by the recipe. ``models``: names of the ladder's."""
    unknown = [Fault(key=key, found=f"{value!r}: {found}", cure=cure) for key, value in said for found, cure in _unknown(value)]
    sharded = [(key, value) for key, value in said if shards(value)]
    unknown += _not_loadable(recipe, said)
    if unknown or not sharded:
        return unknown
    key, value = sharded[0]
    by_fsdp = any(value in VALUES for _, value in sharded)
    against = [*_impossible(recipe, cpu=cpu, generates=generates), *(_not_by_fsdp(models) if by_fsdp else [])]
    zero = next(((key, value) for key, value in sharded if value in ZERO), ("", NONE))
    of_zero = [Fault(key=zero[0], found=f"{zero[1]}: {why}", cure=cure) for why, cure in (_not_by_zero(recipe) if zero[0] else [])]
    offloads = next((key for key, value in sharded if value == OFFLOAD), "") if cpu else ""
    no_card = Fault(key=offloads, found=f"{OFFLOAD}: a CPU has no card to take weights from", cure=f"Leave it out, or say {RESHARD}.")
    return [Fault(key=key, found=f"{value}: {why}", cure=cure) for why, cure in against] + of_zero + ([no_card] if offloads else [])


def _unknown(value: Value) -> list[tuple[str, str]]:
    if value in (*VALUES, *ZERO):
        return []
    if re.match(r"(deepspeed|zero)", str(value), re.IGNORECASE):
        whole, offloaded = f"{RESHARD} needs no further package", f"{OFFLOAD} lets a card's part lie in the host's memory"
        return [("of DeepSpeed there are ZeRO's stages 2 and 3", f"{ZERO2} or {ZERO3}; {whole}, {offloaded}.")]
    return [("there is no such sharding", f"{did_you_mean(str(value), [*VALUES, *ZERO])}One of {', '.join((*VALUES, *ZERO))}.")]


def _not_loadable(recipe: Recipe, said: Sequence[tuple[str, Value]]) -> list[Fault]:
    """Faults of values at which the checkpoint to go on from can't be loaded; how it was shared is told by its files."""
    checkpoint, key = recipe.trainer.args.get("resume_from_checkpoint"), "trainer.args.resume_from_checkpoint"
    if not isinstance(checkpoint, str) or not Path(checkpoint).is_dir():
        return []
    count = ranks.world_size(recipe.device.cards, recipe.device.kind)
    loads = {**{value: hf_run.FSDP if shards(value) else "" for value in VALUES}, **{one: hf_run.zero(int(one[-1]), count) for one in ZERO}}
    saved = hf_run.shared_by(Path(checkpoint))
    how = f"shared by ranks ({saved})" if saved else "not shared by ranks"
    found = f"{checkpoint} holds the optimizer's states of weights that were {how}"
    known = " or ".join(value for value, kind in loads.items() if kind == saved)
    cure = f"Set ask.sharding to {known}, and no further values." if known else f"{saved} load it: name as many cards (device.cards)."
    other = [name for name, value in said or [(key, NONE)] if loads.get(str(value)) != saved]
    return [Fault(key=name, found=found, cure=cure) for name in other[:1]]


def _impossible(recipe: Recipe, *, cpu: bool, generates: bool) -> list[tuple[str, str]]:
    """(why, cure) of all that stands against sharding in this recipe."""
    found = []
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
    return found


def _not_by_fsdp(models: Sequence[str]) -> list[tuple[str, str]]:
    found = [
        (f"{name} {there} is here, and this needs {least}", f"{install.command(f'{name}>={least}')}.") for name, there, least in too_old()
    ]
    for name in models:
        if (kind := hf_models.config_of(hf_models.locate(name)).get("model_type")) is not None and not _has_layers(str(kind)):
            found.append((f"transformers names no layer of a {kind} model that could be shared ({name})", "Leave it out."))
    return found


def _not_by_zero(recipe: Recipe) -> list[tuple[str, str]]:
    args, found = recipe.trainer.args, list[tuple[str, str]]()
    if not deepspeed_is_there():
        cure = f"{install.command('deepspeed')}, or take {FSDP2} or {RESHARD}."
        found.append((f"it needs the package deepspeed, which {sys.prefix} has not", cure))
    rule = recipe.ladder.wheels.get("optimizer") or WheelRule()
    named = [recipe.ask.get("optimizer"), *((rule.values or ()) if "optimizer" in recipe.ladder.order else ())]
    for name in (one for one in named if one is not None and one not in _BY_ELEMENT):
        found.append((f"{name} looks at whole weights, and ZeRO has but flat parts of them", f"One of {', '.join(_BY_ELEMENT)}."))
    if CARDS in recipe.ladder.order:
        found.append(("its checkpoints load on as many cards alone", "Take cards out of ladder.order, or share by fsdp2."))
    if args.get("dtype", "float32") != "float32":
        found.append(("DeepSpeed casts weights as ask.precision says", "Leave out trainer.args.dtype, or share by fsdp2."))
    if args.get("load_best_model_at_end"):
        words = "at the end DeepSpeed would load a whole checkpoint again, states and all"
        found.append((words, "Leave out trainer.args.load_best_model_at_end; the checkpoint itself is kept."))
    return found


def deepspeed_is_there() -> bool:
    """Whether transformers will find it: a folder of that name is no package of a version."""
    try:
        return bool(importlib.metadata.version("deepspeed")) and importlib.util.find_spec("deepspeed") is not None
    except importlib.metadata.PackageNotFoundError:
        return False


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
