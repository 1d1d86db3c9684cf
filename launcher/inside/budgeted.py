"""Runs a Python program that takes a memory budget before its first line.

    python -m launcher.inside.budgeted --device cpu --bytes 2000000000 --imports torch,ultralytics PROGRAM [ARGS...]

PROGRAM is a path to a script, a console script of an installed package (``yolo``), or ``-m module``; a ``python`` may stand before it.
Python itself starts it, with ``shim`` first on PYTHONPATH, so that what it sees, imports and leaves at its end is what it would be without
us. On a CPU start it with MALLOC_MMAP_THRESHOLD_=65536.
The launcher runs full runs so where the device is an emulated, smaller card, or a CPU with a budget.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.inside import early
from launcher.inside.early import Early

SHIM = Path(__file__).parent / "shim"


def loaded(env: Mapping[str, str]) -> dict[str, str]:
    """The variable by which every Python process of a command loads ``shim``, before what its own environment loads."""
    return {"PYTHONPATH": os.pathsep.join([str(SHIM), *filter(None, [env.get("PYTHONPATH")])])}


def argv(words: Sequence[str]) -> list[str]:
    """The program that ``words`` spell, with its interpreter. Raises SystemExit where they spell none."""
    program, arguments = words[0], words[1:]
    if Path(program).name.startswith("python") and shutil.which(program):
        return [program, *argv(arguments)[1:]] if arguments else [program]
    if program == "-u" and arguments:
        return [sys.executable, "-u", *argv(arguments)[1:]]
    if Path(program).exists() or (program == "-m" and arguments):
        return [sys.executable, *words]
    beside = Path(sys.executable).parent / program
    if found := str(beside) if beside.is_file() else shutil.which(program):
        return [sys.executable, found, *arguments]
    raise SystemExit(f"budgeted: {program!r} is neither a file, nor a program beside this Python or on PATH, nor '-m module'")


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Our options, each with its value, and the program's words, which may begin with ``-m``."""
    end = 0
    while end < len(argv) and argv[end].startswith("--"):
        end += 1 if "=" in argv[end] else 2
    return argv[:end], argv[end:]


def _own(told: str) -> str:
    """This rank's part of what all ranks are told, parted by commas."""
    each = told.split(",")
    return each[int(os.environ.get("LOCAL_RANK", "0"))] if len(each) > 1 else told


def limits(program: str) -> argparse.ArgumentParser:
    """The options of a budget."""
    parser = argparse.ArgumentParser(prog=f"python -m launcher.inside.{program}", allow_abbrev=False)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--device-uuid", default="", help="the card, as NVML names it; of several ranks the card of each, in their order")
    parser.add_argument("--idle-free", default="0", help="bytes that were free on the card before this process; of each rank")
    parser.add_argument("--bytes", required=True, help="cap on device memory: a card's, or above what the imports take; of each rank")
    return parser


def main(words: Sequence[str]) -> None:
    parser = limits("budgeted")
    parser.add_argument("--imports", default="", help="modules to import before the cap is set, comma separated")
    options, program = _split(words)
    chosen = parser.parse_args(options)
    if not program:
        parser.error("no program to run")
    told = Early(
        device=chosen.device, cap_bytes=int(_own(chosen.bytes)), device_uuid=_own(chosen.device_uuid),
        idle_free_bytes=int(_own(chosen.idle_free)), imports=tuple(filter(None, chosen.imports.split(","))),
    )  # fmt: skip
    command = argv(program)
    os.execvpe(command[0], command, {**os.environ, **loaded(os.environ), early.VARIABLE: told.told()})


if __name__ == "__main__":
    main(sys.argv[1:])
