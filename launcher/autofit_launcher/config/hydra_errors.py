"""Turns what Hydra refuses to compose into faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autofit_launcher.config.hydra_overrides import override_in
from autofit_launcher.config.recipe_files import recipe_files
from autofit_launcher.errors import COMMAND_LINE, BadInput, Fault, did_you_mean
from autofit_launcher.paths import short


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
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise BadInput([_fault(error, typed)]) from error
    except SystemExit as ended:
        if ended.code:
            fault = Fault(key="", where=COMMAND_LINE, found=f"Hydra ended with exit status {ended.code}", cure="Its own words are above.")
            raise BadInput([fault]) from ended
    finally:
        if full is None:
            del os.environ[_FULL_ERROR]
        else:
            os.environ[_FULL_ERROR] = full


_FULL_ERROR = "HYDRA_FULL_ERROR"


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
    said = [override for word in typed.values() if (override := override_in(word)) is not None]
    if any(override.key == group for override in said):
        return COMMAND_LINE
    chosen = next((override.value for override in said if override.key == "recipe"), "")
    return _file_of(f"recipe/{chosen}")


def _file_of(config: str) -> str:
    """Names a configuration, which Hydra calls ``recipe/mine``, as a person would: by its file."""
    file = recipe_files().get(config.removeprefix("recipe/"))
    return short(file) if file is not None else COMMAND_LINE if config == "config" else config
