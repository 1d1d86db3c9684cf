"""A training that a person's script asks for, in the recipe and as a command: the script as it is, behind ``native/yolo_script.py``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.adapter.commands import Command, absolute, script_among
from launcher.trainers.ultralytics.arguments import ELSEWHERE, known

KEYS = ("command", "given", "reads")
"""Of ``trainer.args``: they are not Ultralytics'."""
FILE = "yolo_script.py"
"""Of ``native``, beside those of any run."""
_PLACES = ("save_dir", "project", "name", "exist_ok")
_UNHELD = ("device", "workers")
"""What may be another than the script gives without a word of it being doubted."""


class Script:
    """One script, as ``trainer.args`` have it."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.command: Sequence[str] = tuple(map(str, args["command"]))
        """As the person typed it."""
        self.given: Mapping[str, Any] = dict(args.get("given", {}))
        """What arrived at ``model.train`` when it was looked at: what isn't Ultralytics' default, and always batch, imgsz and data."""
        self.reads: Sequence[str] | None = args.get("reads")
        """What else it reads before its training; None where nobody said."""
        file, begin = program_of(self.command) or (Path(), len(self.command) - 1)
        self.words = self.command[begin:]
        """The script and its own arguments; ``-m`` and a module in its place."""
        self.code = [Path.cwd(), file.resolve().parent]

    def native(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Its arguments in Ultralytics' words, but for what the recipe has a place of its own for. ``asked``: ``ask`` of the recipe."""
        return {key: value for key, value in self.given.items() if key not in ELSEWHERE and key not in asked}

    def argv(self, runner: Path, options: Sequence[str], args: Mapping[str, Any]) -> tuple[str, ...]:
        """The command that trains with a rung's arguments: those that the script doesn't give by itself are set."""
        wanted = {key: value for key, value in args.items() if key != "model" and not self._gives(key, value)}
        held = words_of({key: self.given[key] for key in wanted if key in self.given and key not in _UNHELD})
        given = [part for word in held for part in ("--given", word)]
        start = (sys.executable, *self.command[1 : -len(self.words)], str(runner), *options)
        return (*start, *given, *words_of(wanted), "--", *self.words)

    def _gives(self, key: str, value: object) -> bool:
        own = self.given[key] if key in self.given else known().get(key)
        if key == "data":
            return absolute(str(own)) == value
        same = str(own) == value if key == "device" else type(own) is type(value) and bool(own == value)
        return same and key not in _PLACES  # where the script keeps its run isn't looked at


def program_of(command: Sequence[str]) -> tuple[Path, int] | None:
    """The script's file among the words of a command, and where its own words begin: at the script, or at the ``-m`` before its module."""
    module = command.index("-m") if "-m" in command[1:-1] else len(command)
    script = script_among(command[:module])
    if script is not None:
        return Path(script), command.index(script)
    path = Path(*command[module + 1].split(".")) if module < len(command) else Path("-")
    return next(((file, module) for file in (path.with_suffix(".py"), path / "__main__.py") if file.is_file()), None)


def told(command: Command, *words: str) -> Command:
    """The command with more words of ours; the last one of a setting counts."""
    at = command.argv.index("--") if "--" in command.argv else len(command.argv)
    return replace(command, argv=(*command.argv[:at], *words, *command.argv[at:]))


def going_on(command: Command, weights: Path) -> Command:
    return told(command, f"resume={weights}")


def words_of(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Arguments as the yolo command reads them."""
    return tuple(f"{key}={json.dumps(value) if isinstance(value, (list, tuple, dict)) else value}" for key, value in args.items())
