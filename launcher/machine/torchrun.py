"""Turns a command into the words that start it once per device: the command itself, under torchrun, or under srun and torchrun. Pure.

How ranks start follows from what there is, and nobody configures it: one device, several of one machine, or several machines of a SLURM
allocation. Trials and full runs use it alike.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

TORCHRUN = ("-P", "-m", "torch.distributed.run")
"""``-P``: a person's ``queue.py`` in the working folder isn't torchrun's."""
HERE = "--local_addr=localhost"
"""Ranks of one machine meet there. Where a machine's own name doesn't resolve (a container), torchrun would wait for itself forever."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """The machines of a SLURM allocation."""

    hosts: tuple[str, ...]
    job: str
    """The allocation's id, by which the machines' torchruns find each other."""
    port: int
    """On the first machine."""


def launched(command: Sequence[str], *, devices: int = 1, nodes: Nodes | None = None) -> tuple[str, ...]:
    """The words that start ``command`` on so many devices of each machine. ``nodes``: None, or a single one, is this machine."""
    several = nodes is not None and len(nodes.hosts) > 1
    if devices == 1 and not several:
        return tuple(command)
    python, program = _program(command)
    meet = _across(nodes) if nodes is not None and several else (HERE,)
    ranks = (python, *TORCHRUN, "--nproc_per_node", str(devices), *meet, *program)
    return (*_srun(len(nodes.hosts)), *ranks) if nodes is not None and several else ranks


def _program(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(the interpreter that runs torchrun, the program in torchrun's terms)"""
    first, *rest = command
    is_python = os.path.basename(first).startswith("python")
    if is_python and rest and (rest[0] == "-m" or not rest[0].startswith("-")):
        return first, tuple(rest)
    return first if is_python else sys.executable, ("--no-python", *command)


def _across(nodes: Nodes) -> tuple[str, ...]:
    meeting = f"{nodes.hosts[0]}:{nodes.port}"
    return (f"--nnodes={len(nodes.hosts)}", "--rdzv_backend=c10d", f"--rdzv_endpoint={meeting}", f"--rdzv_id={nodes.job}")


def _srun(machines: int) -> tuple[str, ...]:
    """One torchrun on each machine; when one fails, the others end with it instead of waiting for its ranks."""
    return ("srun", "--kill-on-bad-exit=1", f"--nodes={machines}", f"--ntasks={machines}", "--ntasks-per-node=1")
