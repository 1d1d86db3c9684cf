"""Reads how many processes a command's launcher (torchrun, accelerate, deepspeed) starts, and on which cards. Runs nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher.machine import devices, ranks
from autofit_launcher.trainers.script import configs

_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate", "accelerate-launch", "accelerate.commands.launch")
_DEEPSPEED = ("deepspeed", "deepspeed.launcher.runner")
_SEVERAL = ("multi_gpu", "fsdp", "use_fsdp", "deepspeed", "use_deepspeed", "megatron_lm", "use_megatron_lm")
"""Accelerate's flags for several processes, and the same names in its file."""
ALL = "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherWords:
    """The processes that a launcher starts."""

    here: int = 1
    """Processes on this machine."""
    machines: int = 1
    cards: tuple[int, ...] | None = None
    """The cards that the processes shall have, if that is said."""
    said: str = ""
    """The words that say how many, and where they stand; empty where nothing does."""

    @property
    def processes(self) -> int:
        return self.here * self.machines


def started(words: Sequence[str], end: int) -> LauncherWords:
    """Reads the launcher's own words, the first ``end`` of the command, and accelerate's configuration file."""
    told = words[:end]
    if any(os.path.basename(word) in _ACCELERATE for word in told):
        return _by_accelerate(told)
    if any(os.path.basename(word) in _TORCHRUN for word in told):
        return _by_torchrun(told)
    if any(os.path.basename(word) in _DEEPSPEED for word in told):
        return _by_deepspeed(told)
    return LauncherWords()


def _by_deepspeed(words: Sequence[str]) -> LauncherWords:
    """Reads the number of processes that DeepSpeed is told, else takes all cards (launcher/runner.py)."""
    machines = _number(_flag(words, "num-nodes")[1])
    flag, count = _flag(words, "num-gpus")
    if count.isdecimal() and int(count):
        return LauncherWords(here=int(count), machines=machines, said=f"{flag} {count}")
    return LauncherWords(here=ranks.world_size(ALL, "auto"), machines=machines, said="deepspeed takes all cards")


def _by_torchrun(words: Sequence[str]) -> LauncherWords:
    flag, count = _flag(words, "nproc-per-node")
    here = int(count) if count.isdecimal() else _as_many_as_there_are(count) if count else 1
    machines = _flag(words, "nnodes")[1].partition(":")[0]
    return LauncherWords(here=max(here, 1), machines=max(int(machines), 1) if machines.isdecimal() else 1, said=f"{flag} {count}".strip())


def _as_many_as_there_are(said: str) -> int:
    """Counts the processes of ``--nproc_per_node=gpu``, ``cpu`` or ``auto``."""
    on_cards = said == "gpu" or (said == "auto" and devices.chosen_kind("auto") == "cuda")
    return ranks.world_size(ALL, "auto") if on_cards else os.cpu_count() or 1


def _by_accelerate(words: Sequence[str]) -> LauncherWords:
    path = _configuration(words)
    held = configs.held_if(path)
    if not _in_several(words, held):
        return LauncherWords()
    flag, count = _flag(words, "num-processes")
    said = f"{flag} {count}" if count else f"num_processes: {held.get('num_processes')} in {path}" if "num_processes" in held else ""
    machines = _number(_flag(words, "num-machines")[1] or held.get("num_machines"))
    cards = _flag(words, "gpu-ids")[1] or str(held.get("gpu_ids") or "")
    numbers = [one.strip() for one in cards.split(",")]
    return LauncherWords(
        here=max(_number(count or held.get("num_processes")) // machines, 1), machines=machines, said=said,
        cards=tuple(map(int, numbers)) if all(one.isdecimal() for one in numbers) else None,
    )  # fmt: skip


def _in_several(words: Sequence[str], held: Mapping[str, Any]) -> bool:
    """Tells whether it starts more processes than one: never on a CPU that it is told, and without a file only if there are several cards,
    whatever number it is told (commands/launch.py, ``launch_command``)."""
    if "--cpu" in words:
        return False
    if any(f"--{name}" in words for name in _SEVERAL):
        return True
    kind = str(held.get("distributed_type", "")).lower()
    return kind in _SEVERAL if held else ranks.world_size(ALL, "auto") > 1


def _configuration(words: Sequence[str]) -> Path | None:
    """The file that accelerate reads: that of its own words, else the one that ``accelerate config`` writes."""
    if named := _flag(words, "config-file")[1]:
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("HF_HOME", cache / "huggingface")).expanduser()
    found = home / "accelerate" / "default_config.yaml"
    return found if found.is_file() and "--cpu" not in words else None


def _flag(words: Sequence[str], name: str) -> tuple[str, str]:
    """Finds (the flag as it stands, its value) of the last one by that name, with hyphens or underscores; two empty texts if none is."""
    found = ("", "")
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and flag[2:].replace("_", "-") == name:
            found = (flag, value if equals else next(iter(words[at + 1 : at + 2]), ""))
    return found


def _number(said: Any) -> int:
    return int(said) if str(said).isdecimal() and int(said) > 0 else 1
