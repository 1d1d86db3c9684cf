"""Lays out the folder that Hydra composes from: conf/, the recipes as its group ``recipe``, and the groups that were typed once more.

What a person wrote is read here first, so that what can't be read is a fault with its file and line, and not a traceback.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from launcher.config.recipe_files import recipe_files
from launcher.errors import PLACE, BadInput, Fault
from launcher.paths import home, short

_HEADER = "# @package _global_"


@contextmanager
def laid_out(*, drafted: Mapping[str, str], typed: Collection[str]) -> Iterator[Path]:
    """A folder that is there while this is open. ``drafted``: recipes that are in no file, name -> text; ``typed``: groups of the command
    line, which conf/config.yaml takes once more behind the recipe, so that they win over what it says."""
    with TemporaryDirectory(prefix="autofit-") as name:
        folder = Path(name)
        for path in (home() / "conf").iterdir():
            (folder / path.name).symlink_to(path)
            if path.name in typed:
                (folder / "typed").mkdir(exist_ok=True)
                (folder / "typed" / path.name).symlink_to(path)
        (folder / "recipe").mkdir()
        for recipe in {**recipe_files(), **drafted}:
            with suppress(BadInput):  # of which the one that is asked for is refused before
                text = _text(recipe, drafted)[0]
                header = "" if "@package" in text.split("\n")[0] else f"{_HEADER}\n"
                (folder / "recipe" / f"{recipe}.yaml").write_text(header + text, encoding="utf-8")
        yield folder


def _text(recipe: str, drafted: Mapping[str, str]) -> tuple[str, str]:
    """(what a recipe says, what its place is called). Raises BadInput."""
    if recipe in drafted:
        return drafted[recipe], PLACE
    file = recipe_files()[recipe]
    try:
        return file.read_text(encoding="utf-8-sig"), short(file)
    except UnicodeDecodeError as error:
        _refuse(short(file), f"byte {error.start} is not UTF-8", "Save the file as UTF-8.")
    except OSError as error:
        _refuse(short(file), f"can't be read: {error.strerror}", "Make it readable.")


def check(recipe: str, drafted: Mapping[str, str]) -> None:
    """Raises BadInput where a recipe's text isn't one of keys and values."""
    text, place = _text(recipe, drafted)
    first = text.split("\n")[0]
    if "@package" in first and first.strip("# \r").split() != ["@package", "_global_"]:
        _refuse(place, f"its first line is {first!r}", f"The first line of a recipe is: {_HEADER}")
    try:
        config = OmegaConf.create(text)
    except AssertionError:  # of OmegaConf's, where the text is one number
        _refuse(place, "it holds no keys", "A recipe is keys and values, such as summary: my own job")
    except RecursionError:
        _refuse(place, "it is nested too deeply", "A recipe is sections of keys and values.")
    except yaml.MarkedYAMLError as error:
        line = f"{place}:{error.problem_mark.line + 1}" if error.problem_mark is not None else place
        cure = "Each key stands once; the keys of one section are indented alike, with blanks."
        _refuse(line, str(error.problem or error.context).removeprefix("found "), cure)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        _refuse(place, str(error).splitlines()[0], "Correct it there.")
    if not isinstance(config, DictConfig):
        _refuse(place, "it holds a list", "A recipe is keys and values, such as summary: my own job")
    if "defaults" in config and not OmegaConf.is_list(config.defaults):
        _refuse(place, f"defaults is {config.defaults!r}", "It is a list, as in the recipes that `autofit recipes` shows.")


def _refuse(place: str, found: str, cure: str) -> NoReturn:
    raise BadInput([Fault(key="", where=place, found=found, cure=cure)])
