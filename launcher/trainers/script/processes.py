"""A command -> how many processes it starts on this machine, as torchrun and accelerate say it; many on one card is a fault."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from launcher import devices
from launcher.errors import Fault

_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_FLAGS = {**dict.fromkeys(_TORCHRUN, ("--nproc_per_node", "--nproc-per-node")), "accelerate": ("--num_processes", "--num-processes")}


def asked(words: Sequence[str]) -> tuple[str, str] | None:
    """(the launcher, what it was told of the number of processes) of a command; None where it starts none. Torchrun's default is 1."""
    launcher = next((name for word in words for name in _FLAGS if Path(word).name == name), None)
    if launcher is None:
        return None
    for number, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in _FLAGS[launcher]:
            return launcher, value if equals else next(iter(words[number + 1 :]), "1")
    return launcher, "auto" if "--multi_gpu" in words else "1"


def faults(words: Sequence[str], *, kind: str) -> list[Fault]:
    """Several processes would share the one card that autofit gives them, each with the whole budget, or look for cards that aren't there.

    ``auto`` and ``gpu`` come to one process per visible card, which is one.
    """
    found = asked(words)
    if found is None or not found[1].isdecimal() or int(found[1]) < 2 or devices.chosen_kind(kind) != "cuda":
        return []
    said = f"{found[0]} starts {found[1]} processes, and a trial on a card has exactly one card: several cards are not supported yet"
    cure = f"Set {_FLAGS[found[0]][0]}=1 and let device.index choose the card, or run with device.kind=cpu."
    return [Fault(key="trainer.args.command", found=said, cure=cure)]
