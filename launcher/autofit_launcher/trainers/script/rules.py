"""``trainer.args`` of a script's recipe -> a frozen value, or every fault at once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from autofit_launcher.config.schema import Part, Recipe
from autofit_launcher.errors import BadInput, Fault, did_you_mean
from autofit_launcher.trainers.script import recognise
from autofit_launcher.trainers.script.spelling import kind

Words = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda said: tuple(shlex.split(said)) if isinstance(said, str) else tuple(said) if isinstance(said, list) else said),
]
"""A list of words, or one text that is split as a shell would."""


class Validation(Part):
    """The means by which a trial gets to see a validation pass, if it doesn't by itself."""

    force: Words = ()
    """Words added to the command in trials only, such as --val-every 1."""
    none: bool = False
    """True: the script has no validation at all, although it looks as if it had."""


class Resume(Part):
    """The means by which the script goes on from a checkpoint of its own."""

    words: Words
    """Words to add; {checkpoint} stands for the file, as in --resume {checkpoint}."""
    newest: str
    """Glob of the checkpoints, {run} being the run's folder; the newest is taken."""
    keeps: tuple[str, ...] = ("micro_batch", "accumulation", "segment", "sequence_length", "image_size", "checkpointing", "val_micro_batch")
    """Wheels that may be turned with the checkpoint still loadable; a model of another shape can't load it."""


class ScriptArgs(Part):
    """The script, and how each setting is spelled in its own words."""

    command: Annotated[Words, Field(min_length=1)]
    """The command line that trains, as a person would type it."""
    processes: int | None = Field(default=None, ge=1)
    """Processes that train together, where the command itself doesn't say how many its launcher starts. Null: as the command says."""
    config: str | None = None
    """The configuration file named in the command (its path there); autofit passes a changed copy. Null: there is none."""
    spelled: dict[str, str] = Field(default={})
    """Wheel (or ``data``) -> spelling: --flag, --flag=, switch:--flag, switch:--on/--off, key= (Hydra), config:dotted.key,
    call:field (of a known trainer's call), loader:train.py:31, value:NAME, outside, itself."""
    says: dict[str, Any] = Field(default={})
    """Wheel -> the value that the command means as it stands. Where a rung has just that, the command's own words stay as they are."""
    unturned: str = ""
    """The reason why the micro-batch isn't turned, if autofit couldn't tell how."""
    whole: int | None = Field(default=None, ge=1)
    """The command's whole batch, in samples or in another unit, if the script takes it in parts itself."""
    presets: dict[str, dict[str, dict[str, Any]]] = Field(default={})
    """Wheel -> named value -> the settings it stands for: spelling (or dotted key of the config file) -> value."""
    set: dict[str, Any] = Field(default={})
    """Settings for every rung: spelling -> value; {run} in a text is the full run's folder (in a trial, one that is removed)."""
    env: dict[str, str] = Field(default={})
    """Environment variables for trials and the full run."""
    lengths: dict[str, int] = Field(default={})
    """Spelling -> how long training is, in steps or passes, as asked: what is made small where a rung is to be proven the same training."""
    update: Literal["average", "add", "targets", "targets_divided"] | None = None
    """The correction that makes an update of several micro-batches that of the large batch, if the script's own accumulation doesn't:
    average: it only adds up; add: it divides a loss that is a sum; targets: each micro-batch counts by its targets (targets_divided: the
    script divides its loss). Null: nothing is needed. autofit finds it by itself, and proves it (``same_training`` in the record)."""
    reads: tuple[str, ...] | None = None
    """Files and folders that it reads beside its code, ``data`` and what its command names; [] where there are none. Null: not known, so
    that no fit of it is kept."""
    validation: Validation = Validation()
    resume: Resume | None = None

    @property
    def begin(self) -> int:
        """Index at which the script's own words begin in the command."""
        return recognise.script_of(self.command)[1]

    @property
    def accumulation_form(self) -> str:
        """The form of accumulation's spelling; nothing where none is known."""
        return kind(self.spelled["accumulation"])[0] if "accumulation" in self.spelled else ""

    def said(self, form: str) -> dict[str, Any]:
        """Returns what the script itself says in a form (``call:``, ``value:``), by what follows it."""
        wheels = {self.spelled[wheel]: value for wheel, value in self.says.items() if wheel in self.spelled}
        return {one.removeprefix(form): value for one, value in {**self.lengths, **wheels}.items() if one.startswith(form)}


def asked_accumulation(recipe: Recipe) -> int:
    asked = recipe.ask.get("accumulation")
    return asked if isinstance(asked, int) else 1


def spelling_of(recipe: Recipe, args: ScriptArgs, wheel: str) -> str | None:
    rule = recipe.ladder.wheels.get(wheel)
    return args.spelled.get(wheel) or (rule.argument if rule is not None else None)


def read(args: Mapping[str, Any]) -> ScriptArgs:
    """The arguments, validated. Raises BadInput with a fault for each wrong key."""
    try:
        return ScriptArgs.model_validate_json(json.dumps(dict(args)))
    except ValidationError as error:
        raise BadInput([_fault(dict(one)) for one in error.errors()]) from error


def _fault(detail: dict[str, Any]) -> Fault:
    loc = [str(part) for part in detail["loc"]]
    key = ".".join(["trainer.args", *loc])
    if detail["type"] == "extra_forbidden":
        known = ScriptArgs.model_fields if len(loc) == 1 else ()
        said = f"Known: {', '.join(sorted(known))}; a flag of the script's own stands under trainer.args.set: {{--{loc[-1]}: ...}}."
        cure = f"{did_you_mean(loc[-1], known)}{said}" if known else "Leave it out."
        return Fault(key=key, found=f"no such key (value {detail['input']!r})", cure=cure)
    if detail["type"] == "missing":
        return Fault(key=key, found="no value is set", cure=f"Give one: {key}='python train.py --config c.yaml'.")
    return Fault(key=key, found=f"found {detail['input']!r}", cure=f"{detail['msg']}.")
