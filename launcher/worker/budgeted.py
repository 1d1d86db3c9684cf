"""Takes a Python program and a budget; runs the program in this very process under that budget, as if it had been started directly.

    python -m launcher.worker.budgeted --device cpu --bytes 2000000000 --imports torch,ultralytics PROGRAM [ARGS...]

PROGRAM is a path to a script, a console entry point of an installed package (``yolo``), or ``-m module``. A leading ``python`` is dropped.
``sys.argv`` (changed in place: a package imported before the budget may hold on to the list, as ``ultralytics.cfg.ARGV`` does),
``sys.path[0]``, ``__main__`` and the exit status are the program's own. On a CPU start it with MALLOC_MMAP_THRESHOLD_=65536.
The launcher runs full runs so where the device is an emulated, smaller card, or a CPU with a budget.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import runpy
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from launcher.worker import budget


def _first_on_path(folder: str) -> None:
    """Makes ``sys.path[0]`` what it would be, had the program been started directly; under ``-P`` this process has no such entry yet."""
    sys.path[: 0 if sys.flags.safe_path else 1] = [folder]


def run_script(path: str, arguments: Sequence[str]) -> None:
    """As ``python PATH ARGUMENTS``."""
    sys.argv[:] = [path, *arguments]
    _first_on_path(str(Path(path).resolve().parent))
    runpy.run_path(path, run_name="__main__")


def run_module(name: str, arguments: Sequence[str]) -> None:
    """As ``python -m NAME ARGUMENTS``."""
    sys.argv[:] = [name, *arguments]
    _first_on_path(str(Path.cwd()))
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def run_entry_point(entry: importlib.metadata.EntryPoint, program: str, arguments: Sequence[str]) -> None:
    """As the console script that pip made for ``entry``."""
    found = shutil.which(program) or program
    sys.argv[:] = [found, *arguments]
    _first_on_path(str(Path(found).resolve().parent))
    sys.exit(entry.load()())


def run(words: Sequence[str]) -> None:
    """Runs the program that ``words`` spell; SystemExit and exceptions come through."""
    program, arguments = words[0], words[1:]
    if arguments and Path(program).name.startswith("python") and shutil.which(program):
        program, arguments = arguments[0], arguments[1:]
    if program == "-m" and arguments:
        return run_module(arguments[0], arguments[1:])
    if program == "-u" and arguments:
        return run(arguments)
    if Path(program).is_file():
        return run_script(program, arguments)
    for entry in importlib.metadata.entry_points(group="console_scripts", name=program):
        return run_entry_point(entry, program, arguments)
    raise SystemExit(f"budgeted: {program!r} is neither a file, nor a console entry point of an installed package, nor '-m module'")


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Our options, each with its value, and the program's words, which may begin with ``-m``."""
    end = 0
    while end < len(argv) and argv[end].startswith("--"):
        end += 1 if "=" in argv[end] else 2
    return argv[:end], argv[end:]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m launcher.worker.budgeted", allow_abbrev=False)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--device-uuid", default="", help="the card, as NVML names it; it is cuda:0 in here")
    parser.add_argument("--idle-free", type=int, default=0, help="bytes that were free on the card before this process")
    parser.add_argument("--bytes", type=int, required=True, help="cap on device memory: a card's, or above what the imports take")
    parser.add_argument("--imports", default="", help="modules to import before the cap is set, comma separated")
    options, program = _split(argv)
    chosen = parser.parse_args(options)
    if not program:
        parser.error("no program to run")
    for name in filter(None, chosen.imports.split(",")):
        importlib.import_module(name)
    budget.limit(device=chosen.device, cap_bytes=chosen.bytes, device_uuid=chosen.device_uuid, idle_free_bytes=chosen.idle_free)
    run(program)


if __name__ == "__main__":
    main(sys.argv[1:])
