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


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherWords:
    """The processes that a launcher starts."""

    here: int = 1
    """Processes on this machine."""
    machines: int = 1
    cards: tuple[int, ...] | None = None
    """The cards that the processes shall have, if that is said."""

    @property
    def processes(self) -> int:
        return self.here * self.machines


def started(words: Sequence[str], end: int) -> LauncherWords:
    """Reads the launcher's own words, the first ``end`` of the command, and accelerate's configuration file."""
    told = words[:end]
    for names, read in ((_ACCELERATE, _by_accelerate), (_TORCHRUN, _by_torchrun), (_DEEPSPEED, _by_deepspeed)):
        if any(os.path.basename(word) in names for word in told):
            return read(told)
    return LauncherWords()


def _by_deepspeed(words: Sequence[str]) -> LauncherWords:
    """Reads the number of processes that DeepSpeed is told, else takes all cards (launcher/runner.py)."""
    count = _flag(words, "num-gpus")
    here = int(count) if count.isdecimal() and int(count) else ranks.world_size("all", "auto")
    return LauncherWords(here=here, machines=_number(_flag(words, "num-nodes")))


def _by_torchrun(words: Sequence[str]) -> LauncherWords:
    count = _flag(words, "nproc-per-node")
    here = _number(count) if not count or count.isdecimal() else _as_many_as_there_are(count)
    return LauncherWords(here=here, machines=_number(_flag(words, "nnodes").partition(":")[0]))


def _as_many_as_there_are(said: str) -> int:
    """Counts the processes of ``--nproc_per_node=gpu``, ``cpu`` or ``auto``."""
    on_cards = said == "gpu" or (said == "auto" and devices.chosen_kind("auto") == "cuda")
    return ranks.world_size("all", "auto") if on_cards else os.cpu_count() or 1


def _by_accelerate(words: Sequence[str]) -> LauncherWords:
    held = configs.held_if(_configuration(words))
    if not _in_several(words, held):
        return LauncherWords()
    machines = _number(_flag(words, "num-machines") or held.get("num_machines"))
    here = max(_number(_flag(words, "num-processes") or held.get("num_processes")) // machines, 1)
    numbers = [one.strip() for one in (_flag(words, "gpu-ids") or str(held.get("gpu_ids") or "")).split(",")]
    cards = tuple(map(int, numbers)) if all(one.isdecimal() for one in numbers) else None
    return LauncherWords(here=here, machines=machines, cards=cards)


def _in_several(words: Sequence[str], held: Mapping[str, Any]) -> bool:
    """Tells whether it starts more processes than one: never on a CPU that it is told, and without a file only if there are several cards,
    whatever number it is told (commands/launch.py, ``launch_command``)."""
    if "--cpu" in words:
        return False
    if any(f"--{name}" in words for name in _SEVERAL):
        return True
    kind = str(held.get("distributed_type", "")).lower()
    return kind in _SEVERAL if held else ranks.world_size("all", "auto") > 1


def _configuration(words: Sequence[str]) -> Path | None:
    """The file that accelerate reads: that of its own words, else the one that ``accelerate config`` writes."""
    if named := _flag(words, "config-file"):
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("HF_HOME", cache / "huggingface")).expanduser()
    found = home / "accelerate" / "default_config.yaml"
    return found if found.is_file() and "--cpu" not in words else None


def _flag(words: Sequence[str], name: str) -> str:
    """Finds the value of the last flag by that name, with hyphens or underscores; an empty text if there is none."""
    found = ""
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag.startswith("--") and flag[2:].replace("_", "-") == name:
            found = value if equals else next(iter(words[at + 1 : at + 2]), "")
    return found


def _number(said: Any) -> int:
    return int(said) if str(said).isdecimal() and int(said) > 0 else 1
