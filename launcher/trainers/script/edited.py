"""What a person has edited of a script since its launch: which files, and the settings by which it is another training now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from launcher.adapter.python_source import files_of
from launcher.config.schema import Value
from launcher.errors import Fault
from launcher.trainers.script import recognise
from launcher.trainers.script.rules import ScriptArgs
from launcher.trainers.script.spelling import VALUE, kind


def files(args: ScriptArgs, since: float) -> list[str]:
    """Files of the script's and its configuration's that were written since then (seconds since 1970)."""
    script = recognise.script_of(args.command)[0]
    own = [*(files_of(script) if script is not None else ()), *map(Path, args.config)]
    return [str(path) for path in own if path.is_file() and path.stat().st_mtime > since]


def asks_otherwise(args: ScriptArgs, read: Mapping[str, Value]) -> list[Fault]:
    """Settings that the command, its files or its source say otherwise now than when the launch was made: its rung was fitted for those.

    ``read``: what was read then of those that ran otherwise.
    """
    then = {**args.says, **{wheel: value for wheel, value in read.items() if wheel in args.says}}
    form, name = kind(args.spelled.get("micro_batch", ""))
    now = recognise.understand(args.command, value=name if form == VALUE else "")
    return [
        Fault(
            key=f"trainer.args.says.{one.wheel}",
            found=f"the launch was made for {one.wheel} {then[one.wheel]}, and it is {one.value} now ({one})",
            cure="Put it back to resume this run, or launch the command anew (autofit run -- COMMAND).",
        )
        for one in now.beliefs
        if one.wheel in then and one.value != then[one.wheel]
    ]
