"""Finds the faults of a recipe for a user's own command. Runs nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from autofit_launcher.adapter.commands import script_among
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import BadInput, Fault, did_you_mean
from autofit_launcher.ladder.rungs import CHECKPOINTING
from autofit_launcher.machine import devices, ranks
from autofit_launcher.machine.packages import package_folder, too_old
from autofit_launcher.trainers.script import configs, recognise, rules
from autofit_launcher.trainers.script.rules import ScriptArgs, spelling_of
from autofit_launcher.trainers.script.spelling import ITSELF, LOADER, OUTSIDE, in_config, kind


def faults(recipe: Recipe, args: ScriptArgs, wheels: Iterable[str]) -> list[Fault]:
    """Finds all faults. ``wheels``: the adapter's own wheels."""
    return [
        *_command_faults(args), *_rank_faults(recipe, args), *_spelling_faults(recipe, args, wheels),
        *_config_faults(recipe, args), *_data_faults(recipe, args),
    ]  # fmt: skip


def _rank_faults(recipe: Recipe, args: ScriptArgs) -> list[Fault]:
    """Tells what is wrong with the processes that the command starts and the cards that they get, before anything is tried."""
    by, device = recognise.launched(args.command), recipe.device
    if devices.chosen_kind(device.kind) == "cpu":
        own = args.command == rules.read(recipe.trainer.args).command  # and not started by autofit
        if not own or device.cards is None or (device.kind != "cpu" and recipe.launch.kind != "here"):
            return []
        cure = "Leave it out: on a CPU the processes that the command starts share one budget (torchrun --nproc_per_node 2 train.py)."
        return [Fault(key="device.cards", found=f"{device.cards!r}, on a CPU", cure=cure)]
    if by.processes == 1:
        return []
    given, there = ranks.world_size(device.cards, device.kind), ranks.world_size("all", "cuda")
    if by.machines == 1 and by.here <= min(given, there):
        return []
    found = f"it starts {by.processes} processes on {by.machines} machine{'s' if by.machines > 1 else ''}, each with a card of its own"
    many = "One machine is covered. " if by.machines > 1 else f"Let it start {there}. " if by.here > there else f"device.cards={by.here}. "
    found, cure = f"{found}, and it gets {given} of {there} here", f"{many}Or try it on device=cpu."
    return [Fault(key="trainer.args.command", found=found, cure=cure)]


def _command_faults(args: ScriptArgs) -> list[Fault]:
    """A program or script that isn't there."""
    key, program = "trainer.args.command", args.command[0]
    if shutil.which(program) is None:
        cure = "Begin with python, torchrun, or a program on PATH; variables (A=1) stand before autofit."
        return [Fault(key=key, found=f"{program!r} is no program that can be started", cure=cure)]
    script = script_among(args.command)
    if script is not None and not Path(script).is_file():
        return [Fault(key=key, found=f"there is no script {script!r} in {Path.cwd()}", cure="Give its path.")]
    return _torch_faults(args, key)


def _torch_faults(args: ScriptArgs, key: str) -> list[Fault]:
    """A script that imports PyTorch, started by a Python that hasn't got it."""
    python, (script, _) = recognise.python_of(args.command), recognise.script_of(args.command)
    if python and (old := too_old(python)):
        return [Fault(key=key, found=old, cure="Start it with such a one.")]
    if not python or script is None or not _TORCH.search(script.read_text(encoding="utf-8", errors="ignore")):
        return []
    cure = f"Install it there ({python} -m pip install torch), or start the script with the Python that has it: THAT/bin/python {script}"
    with suppress(BadInput):  # one that doesn't start shows why in its trial
        if package_folder("torch", python=python) is None:
            return [Fault(key=key, found=f"{script} imports torch, and {python} has none", cure=cure)]
    return []


_TORCH = re.compile(r"^(import|from) ([\w, ]+, *)?torch\b", re.MULTILINE)
_UNSPELLED = ("micro_batch", "accumulation")
"""Wheels that the first trial shows where no word says them."""


def _spellings(recipe: Recipe, args: ScriptArgs) -> dict[str, str]:
    """Key of the recipe -> the spelling of a wheel that stands there."""
    own = {f"ladder.wheels.{wheel}.argument": rule.argument for wheel, rule in recipe.ladder.wheels.items() if rule.argument}
    return {**{f"trainer.args.spelled.{wheel}": text for wheel, text in args.spelled.items()}, **own}


def _spelling_faults(recipe: Recipe, args: ScriptArgs, wheels: Iterable[str]) -> list[Fault]:
    faults = []
    for key, text in _spellings(recipe, args).items():
        try:
            kind(text)
        except ValueError as error:
            faults.append(Fault(key=key, found=str(error), cure="For example --batch-size, or config:train.batch_size."))
        turned = args.spelled.get("accumulation", ITSELF) != ITSELF  # a step takes as many smaller micro-batches as make a whole one
        wheel = key.removesuffix(".argument").rpartition(".")[2]
        if text.startswith(LOADER) and not (turned and isinstance(args.says.get("micro_batch"), int)):
            cure = "Say trainer.args.spelled.accumulation=outside too, and trainer.args.says.micro_batch=64: what the loader is made with."
            faults.append(Fault(key=key, found="a micro-batch can only be split where accumulation is turned, too", cure=cure))
        elif text in (OUTSIDE, ITSELF) and wheel != "accumulation" and (wheel, text) != (CHECKPOINTING, OUTSIDE):
            faults.append(Fault(key=key, found=f"only accumulation can be {text}", cure="Give the script's own word for it."))
    known = {*wheels, *recipe.ladder.wheels, "accumulation", "data"}
    for wheel in args.spelled.keys() - known:
        cure = f"{did_you_mean(wheel, known)}Known: {', '.join(sorted(known))}; a wheel of your own needs ladder.wheels.{wheel}.argument."
        faults.append(Fault(key=f"trainer.args.spelled.{wheel}", found="no wheel of that name", cure=cure))
    for wheel, value in recipe.ask.items():
        presets = args.presets.get(wheel)
        if value is not None and presets is not None and str(value) not in presets:
            cure = f"{did_you_mean(str(value), presets)}Known: {', '.join(presets)}."
            faults.append(Fault(key=f"ask.{wheel}", found=f"there is no preset {value!r}", cure=cure))
        if value is not None and presets is None and wheel not in _UNSPELLED and spelling_of(recipe, args, wheel) is None:
            cure = f"Say how the script spells it, for example trainer.args.spelled.{wheel}=--{wheel.replace('_', '-')}."
            faults.append(Fault(key=f"ask.{wheel}", found="the script has no known word for it", cure=cure))
    return [*faults, *(_turning_faults(recipe, args) if turns(recipe) else [])]


def _turning_faults(recipe: Recipe, args: ScriptArgs) -> list[Fault]:
    """A micro-batch that is to be lowered, and can't be, or not with the batch that is asked."""
    if "micro_batch" not in args.spelled:
        cure = "Say how the script spells it (trainer.args.spelled.micro_batch=--my-batch), or name a value of its source (--set NAME)."
        return [Fault(key="trainer.args.spelled.micro_batch", found="it is to be lowered, and no word for it is known", cure=cure)]
    if not recipe.ladder.keep_batch and args.spelled.get("accumulation") == ITSELF:
        cure = "Leave out --allow-batch (ladder.keep_batch=false), or give the command another whole batch."
        return [Fault(key="ladder.keep_batch", found="the script keeps its whole batch by itself at any micro-batch", cure=cure)]
    if not recipe.ladder.keep_batch or "accumulation" in args.spelled:
        return []
    cure = (
        "Say how: trainer.args.spelled.accumulation=--accum (or config:train.accum), or =outside where the script has no word for it; "
        "ladder.keep_batch=false accepts another effective batch; ladder.wheels.micro_batch.floor set to the asked one leaves it as it is."
    )
    found = "a lower micro-batch needs more accumulation, and no word for it is known"
    return [Fault(key="trainer.args.spelled.accumulation", found=found, cure=cure)]


def turns(recipe: Recipe) -> bool:
    """Tells whether lower rungs have a lower micro-batch."""
    rule = recipe.ladder.wheels.get("micro_batch")
    asked = recipe.ask.get("micro_batch")
    return asked is not None and "micro_batch" in recipe.ladder.order and (rule is None or rule.floor != asked)


def _config_faults(recipe: Recipe, args: ScriptArgs) -> list[Fault]:
    """Keys that the configuration file doesn't have."""
    wanted = {**_spellings(recipe, args), **{f"trainer.args.set.{text}": text for text in args.set}}
    wanted |= {
        f"trainer.args.presets.{wheel}.{name}.{text}": in_config(text)
        for wheel, presets in args.presets.items() for name, preset in presets.items() for text in preset
    }  # fmt: skip
    keys = {place: text.removeprefix("config:") for place, text in wanted.items() if text.startswith("config:")}
    if not keys:
        return []
    path = args.config or ""
    if wrong := _wrong_file(path, args):
        cure = f"Name it as in the command ({', '.join(configs.SUFFIXES)}), or spell these settings by words of the command."
        return [Fault(key="trainer.args.config", found=f"{path or 'no file'} {wrong}", cure=cure)]
    return [*_key_faults(keys, path)]


def _wrong_file(path: str, args: ScriptArgs) -> str:
    """Says what keeps a configuration file from being read, or changed; empty where nothing does."""
    try:
        configs.contents(path)
    except ValueError as error:
        return f"can't be read: {error}"
    if path == configs.named(args.command[args.begin :]):
        return ""
    return "isn't the one file that the command names, or takes in others, so that no changed copy could be read in its place"


def _key_faults(keys: Mapping[str, str], path: str) -> Iterator[Fault]:
    """Keys that the file doesn't have. ``keys``: by the place that names them."""
    for place, key in keys.items():
        try:
            configs.edited(Path(path).read_text(encoding="utf-8"), {key: 1})
        except configs.NoSuchKey:
            known = [name for name, _ in configs.leaves(configs.contents(path))]
            cure = f"{did_you_mean(key, known)}It has: {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}."
            yield Fault(key=place, found=f"{path}: no key {key!r}", cure=cure)


def _data_faults(recipe: Recipe, args: ScriptArgs) -> list[Fault]:
    if recipe.data is None and "data" in args.spelled:
        return [Fault(key="data", found="no data is named", cure="Give its path: data=...")]
    if recipe.data is not None and not Path(recipe.data).expanduser().exists():
        return [Fault(key="data", found=f"{recipe.data} isn't there", cure="Give its path: data=...")]
    return []
