"""A training that a person's script asks for, in the recipe and as a command: the script as it is, behind ``native/yolo_script.py``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.adapter.commands import Command, absolute, script_among
from launcher.trainers.ultralytics import script_source
from launcher.trainers.ultralytics.arguments import ELSEWHERE, known, value_of

KEYS = ("command", "given", "reads")
"""Of ``trainer.args``: they are not Ultralytics'."""
RUNNER = "yolo_script.py"
BESIDE = ("script_training.py", "yolo_exact.py")
_KEPT_IN = "kept_in"
PLACES = ("save_dir", "project", "name", "exist_ok")
_UNHELD = ("device", "workers")
"""What may be another than the script gives without a word of it being doubted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """One script."""

    command: tuple[str, ...]
    """As the person typed it."""
    given: Mapping[str, Any]
    """What arrived at ``model.train`` when it was looked at: what isn't Ultralytics' default, and always batch, imgsz and data."""
    reads: tuple[str, ...] | None
    """What else it reads before its training; None where nobody said."""

    @property
    def words(self) -> tuple[str, ...]:
        """The script and its own arguments; ``-m`` and a module in its place."""
        return self.command[self._begin :]

    @property
    def path(self) -> str:
        found = program_of(self.command)
        return str(found[0]) if found is not None else self.command[-1]

    @property
    def _begin(self) -> int:
        found = program_of(self.command)
        return found[1] if found is not None else len(self.command) - 1

    def native(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Its arguments in Ultralytics' words, but for what the recipe has a place of its own for. ``asked``: ``ask`` of the recipe."""
        return {key: value for key, value in self.given.items() if key not in ELSEWHERE and key not in asked}

    def wanted(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """What of a rung's arguments is to be set: all that the script doesn't give by itself."""
        return {key: value for key, value in args.items() if key != "model" and not self._gives(key, value)}

    def _gives(self, key: str, value: object) -> bool:
        if key in PLACES:
            return False  # where the script keeps its run isn't looked at
        own = self.given[key] if key in self.given else value_of({}, key) if key in known() else None
        if key == "data":
            return absolute(str(own)) == value
        return str(own) == value if key == "device" else type(own) is type(value) and bool(own == value)

    def argv(self, runner: Path, options: Sequence[str], wanted: Mapping[str, Any]) -> tuple[str, ...]:
        """The command that trains so."""
        flags = self.command[1 : self._begin]
        held = [key for key in wanted if key in self.given and key not in _UNHELD]
        given = [word for key in held for word in ("--given", f"{key}={spelled(self.given[key])}")]
        told = ("--tell", str(runner.with_name(_KEPT_IN)))
        pairs = (f"{key}={spelled(value)}" for key, value in wanted.items())
        return (sys.executable, *flags, str(runner), *options, *given, *told, *pairs, "--", *self.words)

    def payload(self) -> dict[str, Any]:
        """What a trial is told of it."""
        return {"script": self.words, "given": dict(self.given), "validates": script_source.validations(Path(self.path))}

    def notes(self, *, one_card: bool = True) -> list[str]:
        """What a person should know of it."""
        after = script_source.afterwards(Path(self.path))
        runs = [f"what the script may do with its model after its training is not in the trial: {after}"] if after else []
        devices = self.given.get("device")
        several = one_card and isinstance(devices, list) and len(devices) > 1
        return runs + ([f"the script asks for devices {devices}: autofit trains its whole batch on one"] if several else [])

    def places(self) -> list[Path]:
        return [Path(place).expanduser() for place in self.reads or ()]

    def code(self) -> list[Path]:
        """The code around it."""
        return [Path.cwd(), Path(self.path).resolve().parent]


def program_of(command: Sequence[str]) -> tuple[Path, int] | None:
    """The script's file among the words of a command, and where its own words begin: at the script, or at the ``-m`` before its module."""
    module = command.index("-m") if "-m" in command[1:-1] else len(command)
    script = script_among(command)
    if script is not None and command.index(script) < module:
        return Path(script), command.index(script)
    path = Path(*command[module + 1].split(".")) if module < len(command) else Path()
    found = next((file for file in (path.with_suffix(".py"), path / "__main__.py") if file.is_file()), None) if path.name else None
    return (found, module) if found is not None else None


def of(args: Mapping[str, Any]) -> Script | None:
    """The script that ``trainer.args`` name, if they name one."""
    if "command" not in args:
        return None
    reads = args.get("reads")
    said = None if reads is None else tuple(map(str, reads))
    return Script(command=tuple(map(str, args["command"])), given=dict(args.get("given", {})), reads=said)


def kept_in(native: Path) -> Path | None:
    """The folder in which Ultralytics keeps the run, once it has begun. ``native``: of the run's folder."""
    try:
        return Path((native / _KEPT_IN).read_text(encoding="utf-8").strip())
    except OSError:
        return None


# ----------------------------------------------------------------------------------------------------------------------
# Its command, changed


def going_on(command: Command, weights: Path, *, trained: bool = False) -> Command:
    """From a checkpoint; ``trained``: nothing is left of the training but what the script does with its weights."""
    return _with(command, "--trained", str(weights)) if trained else _with(command, f"resume={weights}")


def with_workers(command: Command, workers: int) -> Command:
    return _with(replace(command, argv=tuple(word for word in command.argv if not word.startswith("workers="))), f"workers={workers}")


def alone(command: Command) -> Command:
    """Without what the script does after its training."""
    return _with(command, "--only")


def _with(command: Command, *words: str) -> Command:
    at = command.argv.index("--")
    return replace(command, argv=(*command.argv[:at], *words, *command.argv[at:]))


def spelled(value: Any) -> str:
    """A value as the yolo command reads it."""
    return json.dumps(value) if isinstance(value, (list, tuple, dict)) else str(value)
