"""Reads from a recipe's arguments where the script's own words begin in its command, and how its wheels are spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autofit_launcher.config.schema import Recipe
from autofit_launcher.trainers.script import recognise
from autofit_launcher.trainers.script.rules import ScriptArgs
from autofit_launcher.trainers.script.spelling import kind


def begin(args: ScriptArgs) -> int:
    """Returns where the script's own words begin in its command."""
    return recognise.script_of(args.command)[1]


def accumulation_form(args: ScriptArgs) -> str:
    """The form of accumulation's spelling; nothing where none is known."""
    return kind(args.spelled["accumulation"])[0] if "accumulation" in args.spelled else ""


def asked_accumulation(recipe: Recipe) -> int:
    asked = recipe.ask.get("accumulation")
    return asked if isinstance(asked, int) else 1


def said_by_form(args: ScriptArgs) -> Callable[[str], dict[str, Any]]:
    """Form of a spelling -> what the script itself says in that form, by what follows it: ``call:``, ``value:``."""
    wheels = {args.spelled[wheel]: value for wheel, value in args.says.items() if wheel in args.spelled}
    said = {**args.lengths, **wheels}
    return lambda form: {spelled.removeprefix(form): value for spelled, value in said.items() if spelled.startswith(form)}


def spelling_of(recipe: Recipe, args: ScriptArgs, wheel: str) -> str | None:
    rule = recipe.ladder.wheels.get(wheel)
    return args.spelled.get(wheel) or (rule.argument if rule is not None else None)


def in_config(spelled: str) -> str:
    """Returns the spelling; a bare dotted key, as presets have it, means the configuration file."""
    try:
        kind(spelled)
    except ValueError:
        return f"config:{spelled}"
    return spelled
