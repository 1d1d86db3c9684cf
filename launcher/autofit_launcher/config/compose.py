"""Composes recipes from a command line, one for each job of a multirun. Hydra is imported only when needed."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from autofit_launcher.common import interpreter
from autofit_launcher.common.activity import doing
from autofit_launcher.config.hydra_overrides import Override, device, for_hydra, jobs, override_in
from autofit_launcher.config.recipe_files import recipe_files
from autofit_launcher.errors import COMMAND_LINE, BadInput, Fault, did_you_mean, refusal
from autofit_launcher.paths import home, short

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from autofit_launcher.config.recipe import Draft

_LAUNCHER, _FULL_ERROR = "hydra/launcher", "HYDRA_FULL_ERROR"


def composed(line: Typed, *, program: str, drafted: Mapping[str, str], show: Callable[[str], None]) -> list[Draft]:
    """The recipes that the line composes to, one for each combination of a multirun. Runs nothing.

    ``drafted``: name -> text of recipes that are in no file. Returns nothing if a flag of Hydra's only asked to print something, which is
    given to ``show``. Raises BadInput for what can't be composed; faults of a composed recipe are in its draft.
    """
    from hydra.core.hydra_config import HydraConfig

    from autofit_launcher.config.recipe import Provenance, checked

    found: list[Draft] = []

    def keep(config: DictConfig) -> None:
        said: Any = HydraConfig.get()
        name = said.runtime.choices.get("recipe")
        file = None if name in drafted else recipe_files().get(name)
        found.append(checked(config, Provenance(overrides=tuple(said.overrides.task), file=file)))

    if any(one.key == _LAUNCHER for one in line.said):
        cure = "Leave it out; with launch=slurm each launch of a multirun is a job of its own."
        raise refusal("autofit hands nothing to launchers of Hydra's", cure, where=COMMAND_LINE, key=_LAUNCHER)
    typed = [word for said in line.overrides for word in device(said, sweeping=line.sweeping)]
    told = [for_hydra(word, groups=groups(), sweeping=line.sweeping) for word in typed]
    with doing("composing the recipe"), as_faults(dict(zip(told, typed, strict=True))):
        for words in jobs(told) if line.sweeping else [told]:  # Hydra's own multirun writes files
            if said := _hydra([program, *words, *line.flags], keep, drafted=drafted, typed={one.key for one in line.said}):
                show(said.rstrip())
    return found


def complete(words: Sequence[str]) -> str:
    """Asks Hydra what completes the overrides of the line in ``COMP_LINE``. Raises BadInput if that can't be read yet."""
    with as_faults({}):
        return _hydra(["autofit", *words], lambda config: None)


def groups() -> dict[str, list[str]]:
    """The configuration groups and their options; conf/gpu is none, which ``autofit plan`` alone reads."""
    folders = [folder for folder in sorted((home() / "conf").iterdir()) if folder.is_dir() and folder.name != "gpu"]
    return {folder.name: sorted(path.stem for path in folder.glob("*.yaml")) for folder in folders} | {"recipe": sorted(recipe_files())}


def _hydra(
    argv: Sequence[str], task: Callable[[DictConfig], None], *, drafted: Mapping[str, str] | None = None, typed: Collection[str] = ()
) -> str:
    """Calls ``task`` with the configuration that Hydra composes of a command line. Returns what Hydra prints."""
    sys.modules["hydra_plugins"] = None  # type: ignore[assignment]  # it would run whatever lies in a folder of that name
    import hydra
    from omegaconf import OmegaConf

    from autofit_launcher.config import recipe_store

    places = {"examples": str(home() / "examples"), "python": interpreter.persons()}
    before, sys.argv = sys.argv, list(argv)
    try:
        with recipe_store.filled(drafted=drafted or {}, typed=typed), redirect_stdout(io.StringIO()) as said:
            OmegaConf.register_new_resolver("autofit", places.__getitem__, replace=True)
            hydra.main(config_path=str(home() / "conf"), config_name="config", version_base="1.3")(task)()
    finally:
        sys.argv = before
    return said.getvalue()


@dataclass(frozen=True, kw_only=True, slots=True)
class Typed:
    """A command line as Hydra's own parser takes it apart."""

    overrides: tuple[str, ...]
    flags: tuple[str, ...]
    sweeping: bool
    only_shows: bool
    """True: it only asks Hydra to print something; nothing is to be composed."""

    @property
    def said(self) -> list[Override]:
        return [override for word in self.overrides if (override := override_in(word)) is not None]


MULTIRUN = "hydra.mode=MULTIRUN"
"""Says what -m does."""
MOST_LETTERS = 10_000
"""Letters of an override: Hydra's parser takes the square of their number, 6 s for so many."""


def read(words: Sequence[str]) -> Typed:
    """Parses the words. Raises BadInput for flags that Hydra doesn't have, and for wrong uses of its own."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _no_flag  # type: ignore[method-assign]
    args, rest = parser.parse_known_intermixed_args(list(words))  # overrides may stand behind a flag, too
    if unknown := next((word for word in rest if word.startswith("-")), ""):
        _no_flag(f"there is no flag {unknown.partition('=')[0]}")
    if endless := next((word for word in args.overrides if len(word) > MOST_LETTERS), ""):
        found = f"{endless[:40]}... has {len(endless)} letters, and at most {MOST_LETTERS} can be typed"
        raise refusal(found, "Write it in a recipe's file.")
    flags = tuple(word for word in words if word not in {*args.overrides, *rest, "-m", "--multirun"})
    only_shows = bool(args.cfg or args.info or args.hydra_help)
    sweeping = args.multirun or MULTIRUN in args.overrides
    return Typed(overrides=tuple(one for one in args.overrides if one != MULTIRUN), flags=flags, sweeping=sweeping, only_shows=only_shows)


def _no_flag(message: str) -> NoReturn:
    cure = "KEY=VALUE stand without dashes, and a command's own flags behind --. `autofit VERB --help` lists autofit's flags."
    raise refusal(message, cure)


@contextmanager
def as_faults(typed: Mapping[str, str]) -> Iterator[None]:
    """Raises errors of Hydra as BadInput while it is open. ``typed``: override as Hydra got it -> as it was typed.

    Hydra raises many kinds of errors for many kinds of input: its own, OmegaConf's, and plain ValueErrors.
    """
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    full = os.environ.get(_FULL_ERROR)
    os.environ[_FULL_ERROR] = "1"  # else Hydra prints what is wrong and exits
    try:
        yield
    except (HydraException, OmegaConfBaseException, ValueError, RecursionError) as error:
        raise BadInput([_fault(error, typed)]) from error
    finally:
        if full is None:
            del os.environ[_FULL_ERROR]
        else:
            os.environ[_FULL_ERROR] = full


def _fault(error: Exception, typed: Mapping[str, str]) -> Fault:
    """One of Hydra's errors as a fault."""
    from hydra.errors import MissingConfigException, OverrideParseException

    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).partition("/")
        cure = f"{did_you_mean(Path(option).stem, error.options)}There is: {', '.join(error.options)}."
        return Fault(key=group, found=f"there is no {group} {option!r}", cure=cure, where=_said_by(group, typed))
    if isinstance(error, OverrideParseException):
        word = typed.get(error.override, error.override)
        return Fault(key="", found=f"{word!r} can't be read", cure="Write KEY=VALUE.", where=COMMAND_LINE)
    text = str(error.__cause__ if str(error) in ("", "None") else error)
    text = "it takes itself in, or is nested too deeply" if isinstance(error, RecursionError) else text
    for told, said in typed.items():
        text = text.replace(told, said)
    place = re.match(r"In '([^']+)': ", text)
    lines = [line.strip() for line in text[place.end() if place else 0 :].splitlines() if line.strip()]
    lines = lines[: next((at for at, line in enumerate(lines) if line.startswith("Config search path")), None)]
    where = _file_of(place[1]) if place else COMMAND_LINE
    found, cure = (lines or [type(error).__name__])[0].rstrip("."), " ".join(lines[1:])
    return Fault(key="", where=where, found=found, cure=cure or "`autofit --help` says what can stand there.")


def _said_by(group: str, typed: Mapping[str, str]) -> str:
    """Tells what chose an option of a group: the command line, or the recipe's file."""
    said = {one.key: one.value for word in typed.values() if (one := override_in(word)) is not None}
    return COMMAND_LINE if group in said else _file_of(f"recipe/{said.get('recipe', '')}")


def _file_of(config: str) -> str:
    """Names a configuration, which Hydra calls ``recipe/mine``, as a person would: by its file."""
    file = recipe_files().get(config.removeprefix("recipe/"))
    return short(file) if file is not None else COMMAND_LINE if config == "config" else config
