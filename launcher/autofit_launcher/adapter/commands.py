"""Values that adapters return: a command to run, the plan of a trial, a checkpoint, what a fit depends on; helpers that build commands."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autofit_launcher.common.orders import SHIM, Orders, ProbeSettings, injected
from autofit_launcher.errors import Fault
from autofit_launcher.history.records import CheckpointRecord
from autofit_launcher.ladder.rungs import Value
from autofit_launcher.machine import ranks
from autofit_launcher.machine.devices import Budget, orders_of

Checkpoint = CheckpointRecord
"""A whole checkpoint, as the record has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One process to start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables set on top of the launcher's own environment."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Variables by which the run tells autofit something: a command that is shown doesn't need them."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """Files to write first: path -> text."""
    base: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Library (one that no other's import brings) -> modules that it imports sooner or later, or that do so: they are imported as soon as
    the library is there, and then a CPU's budget is taken, in the trial (payload ``base``) and the held run alike. Without it each process
    takes its budget at its first model. The last alone may start threads: trials are forked off a process with the others."""
    ranks: int | None = None
    """Processes that train together, each on a device of its own; None: as many as the launch has devices."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are started: ``argv``, or torchrun with it."""
        return ranks.launched(self.argv, devices=self.ranks or 1)

    def shell(self) -> str:
        """The command as a person would type it."""
        return " ".join([*(f"{key}={shlex.quote(value)}" for key, value in self.env.items()), *map(shlex.quote, self.words)])


def script_among(words: Iterable[str]) -> str | None:
    """The first word of a command that names a Python file; None if there is none."""
    return next((word for word in words if word.endswith(".py") and not word.startswith("-")), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialPlan:
    """An adapter's part of the orders of a trial's child."""

    module: str
    """Dotted name of the worker module whose ``run(job, recorder)`` is this trainer's trial."""
    payload: Mapping[str, Any]
    """JSON value that the module gets: the rung in the trainer's own terms."""
    expects: Mapping[str, Value] = field(default_factory=dict)
    """Values that the trial must observe in place of the rung's own, for wheels that the trainer gets in another form."""
    env: Mapping[str, str] = field(default_factory=dict)
    resumes: bool = False
    """The module can go on from the checkpoint that a trial has saved (``Orders.resumes``), and the full run may have to."""
    unresumed: str = ""
    """The reason why it can't, though the full run may have to."""
    fetch: Command | None = None
    """Command that downloads what the rung needs, since trials use no network; None if everything is here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """Everything that decides how much memory a trial needs, beyond the recipe, the machine and the installed packages.

    A kept fit is used only while none of this has changed. An input that is left out here may let a wrong fit be used.
    """

    data: Sequence[Path] = ()
    """Files and folders of training data; everything in a folder counts."""
    models: Mapping[str, Path | None] = field(default_factory=dict)
    """Model of the ladder -> its file or folder; None if it isn't on this machine yet."""
    code: Sequence[Path] = ()
    """Files and folders of the user's own code."""
    written: Sequence[Path] = ()
    """Places below ``code`` that runs write to; they don't count."""
    packages: Sequence[Path] = ()
    """Folders of installed packages that people may have edited."""
    program: str = ""
    """The program whose environment's packages count; empty: the launcher's own environment."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Name -> value of anything else, as text."""
    unknown: str = ""
    """The reason why the inputs can't be known; then no fit is kept. Empty: they are known."""


def absolute(path: str) -> str:
    """The absolute path if ``path`` exists on this machine, else as it is: a native command must work from any folder."""
    local = Path(path).expanduser()
    return str(local.absolute()) if local.exists() else path


def copies(names: Sequence[str], *, of: Path, to: Path) -> dict[Path, str]:
    """Reads the files ``names`` of folder ``of``. Returns path in folder ``to`` -> text, for ``Command.files``."""
    return {to / name: (of / name).read_text(encoding="utf-8") for name in names}


def preloaded(first: str, beside: Sequence[str], *, of: Path, to: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """Returns (variables, files) that load the file ``first`` of folder ``of``, which needs those ``beside`` it, into every Python process
    of a command: ``to``, first on PYTHONPATH. ``env``: the variables that the command is given already."""
    path = os.pathsep.join(filter(None, [str(to.absolute()), env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))]))
    loads = {
        to / "sitecustomize.py": (SHIM / "sitecustomize.py").read_text(encoding="utf-8"),
        to / f"_autofit_{first}": (of / first).read_text(encoding="utf-8"),
    }
    return {"PYTHONPATH": path}, {**loads, **copies(beside, of=of, to=to)}


def under_budget(command: Command, budget: Budget, *, settings: Path, turn: str = "") -> Command:
    """The same program, each process of which takes the budget as in its trial, as ``settings`` says, which is written. ``turn``: the file
    that it waits for (``ProbeSettings``)."""
    cards = [orders_of(one, run=True) for one in budget.each]
    orders = Orders(
        module="", folder="", device=budget.kind, accumulation=1, cards=cards if budget.kind == "cuda" and len(cards) > 1 else [],
        payload={"base": dict(command.base)}, **cards[0],
    )  # fmt: skip
    ProbeSettings(records=str(settings.parent), orders=asdict(orders), budget_only=True, turn=turn).write(settings)
    return replace(command, env={**command.env, **injected(settings, {**os.environ, **command.env, **command.told})})


def destination_faults(key: str, folder: Any) -> list[Fault]:
    """A fault if ``folder`` (``trainer.args.KEY``) isn't empty: nothing is ever trained into such a folder."""
    if not isinstance(folder, str) or not Path(folder).is_dir() or not any(Path(folder).iterdir()):
        return []
    cure = "Name a new folder, or leave it out: the run folder is used."
    return [Fault(key=f"trainer.args.{key}", found=f"{folder} is not empty", cure=cure)]
