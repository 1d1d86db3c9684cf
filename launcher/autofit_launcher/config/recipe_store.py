"""Gives Hydra its config group ``recipe``, and the groups that were typed once more: kept in memory, read where they are asked for.

What a person wrote is read here, so that what can't be read is a fault with its file and line, and not a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import Container, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from autofit_launcher.common import files
from autofit_launcher.config import yaml_text
from autofit_launcher.config.recipe_files import recipe_files
from autofit_launcher.config.schema import Recipe
from autofit_launcher.errors import PLACE, did_you_mean, refusal
from autofit_launcher.paths import home, short

_GROUP, _OPTION = re.compile(r"(override +)?/?(?!hydra\b)\w+"), re.compile(r"[\w .+-]+")


@contextmanager
def filled(*, drafted: Mapping[str, str], typed: Collection[str]) -> Iterator[None]:
    """Gives Hydra the recipes while it is open. ``drafted``: those in no file, name -> text; ``typed``: groups of the command line, which
    conf/config.yaml takes once more behind the recipe, so that they win over what it says."""
    texts: dict[str, Callable[[], tuple[str, str]]] = {name: partial(_read, file) for name, file in recipe_files().items()}
    texts |= {name: partial(lambda text: (text, PLACE), text) for name, text in drafted.items()}
    groups = [folder for folder in (home() / "conf").iterdir() if folder.is_dir() and folder.name in typed]
    repo = ConfigStore.instance().repo
    repo["recipe"] = {f"{name}.yaml": _Stored("_global_", partial(_config, text)) for name, text in texts.items()}
    for group in groups:
        stored = {file.name: _Stored(group.name, partial(OmegaConf.load, file)) for file in group.glob("*.yaml")}
        repo.setdefault("typed", {})[group.name] = stored
    try:
        yield
    finally:
        repo.pop("recipe")
        repo.pop("typed", None)


class _Stored(ConfigNode):
    """A configuration that is read when it is asked for."""

    def __init__(self, package: str, read: Callable[[], Container]) -> None:
        self.package, self._of = package, read
        self.name, self.group, self.provider = "", None, None

    def __getattr__(self, name: str) -> Any:
        if name != "node":
            raise AttributeError(name)
        return self._of()


def _read(file: Path) -> tuple[str, str]:
    """Reads a recipe's file. Returns (its text, the name of its place). Raises BadInput where that can't be done."""
    try:
        return files.read(file).decode("utf-8-sig"), short(file)
    except UnicodeDecodeError as error:
        raise refusal(f"byte {error.start} is not UTF-8", "Save the file as UTF-8.", where=short(file)) from error
    except OSError as error:
        raise refusal(f"can't be read: {error.strerror}", "Make it readable.", where=short(file)) from error


def _config(read: Callable[[], tuple[str, str]]) -> Container:
    """The text as a configuration: keys of the schema and nothing else. A recipe may be anybody's: it configures no Hydra, and takes in
    nothing but options of autofit's groups and other recipes. Raises BadInput."""
    text, place = read()
    try:
        if not isinstance(node := yaml_text.bounded(text)[1], yaml.MappingNode | None):
            raise refusal("it holds a list, or one value", "A recipe is keys and values, such as summary: my own job", where=place)
        config = OmegaConf.create(text)
    except RecursionError as error:
        raise refusal("it is nested too deeply", "A recipe is sections of keys and values.", where=place) from error
    except yaml.MarkedYAMLError as error:
        line = f"{place}:{error.problem_mark.line + 1}" if error.problem_mark is not None else place
        cure = "Each key stands once; the keys of one section are indented alike, with blanks."
        raise refusal(str(error.problem or error.context).removeprefix("found "), cure, where=line) from error
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        raise refusal(str(error).splitlines()[0], "Correct it there.", where=place) from error
    told: Any = OmegaConf.to_container(config, resolve=False)
    if unknown := next((key for key in told if key not in Recipe.model_fields and key != "defaults"), None):
        at = next((name.start_mark.line + 1 for name, _ in (node.value if node else ()) if name.value == str(unknown)), 1)
        cure = f"{did_you_mean(str(unknown), Recipe.model_fields)}Known here: {', '.join(sorted(Recipe.model_fields))}."
        raise refusal(f"no such key (value {told[unknown]!r})", cure, where=f"{place}:{at}", key=str(unknown))
    cure, defaults = "It is a list, as in the recipes that `autofit recipes` shows.", told.get("defaults", [])
    if not isinstance(defaults, list):
        raise refusal(f"defaults is {defaults!r}", cure, where=place)
    said = [pair for one in defaults for pair in (one.items() if isinstance(one, dict) else [("recipe", one)])]
    if not all(_GROUP.fullmatch(str(group)) and isinstance(name, str) and _OPTION.fullmatch(name) for group, name in said):
        raise refusal(f"defaults name what is no option of a group of autofit's: {defaults}", cure, where=place)
    return config
