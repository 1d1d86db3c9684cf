"""Gives Hydra its config group ``recipe``: drafts of a command line, the person's ./recipes, then the built-in ones.

What a person wrote is read here, so that what can't be read is a fault with its file and line, and not a traceback.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from launcher.config.recipe_files import recipe_folders
from launcher.errors import PLACE, BadInput, Fault
from launcher.paths import home, short

GROUP = "recipe"

DRAFTED: dict[str, str] = {}
"""Recipes that are in no file, name -> text: ``autofit run -- COMMAND`` writes one for the time of composing."""

TYPED: set[str] = set()
"""The groups that are named on the command line, for the time of composing."""


class Recipes(ConfigSource):
    """A place whose recipes are the options of the group ``recipe``."""

    @abstractmethod
    def names(self) -> list[str]:
        """The recipes that are here."""

    @abstractmethod
    def text(self, name: str) -> tuple[str, str]:
        """(what a recipe says, what its place is called). Raises BadInput."""

    def load_config(self, config_path: str) -> ConfigResult:
        text, place = self.text(_name(config_path))
        try:
            header = {"package": "_global_", **{key: value for key, value in self._get_header_dict(text).items() if value is not None}}
        except ValueError as error:
            raise _refused(place, str(error), "The first line of a recipe is: # @package _global_") from error
        return ConfigResult(config=_config(text, place), path=self.full_path(), provider=self.provider, header=dict(header))

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(f"{GROUP}/") and _name(config_path) in self.names()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return [] if results_filter is ObjectType.CONFIG else [GROUP]
        return self.names() if config_path == GROUP and results_filter is not ObjectType.GROUP else []


class RecipeFolder(Recipes):
    """``recipes://PATH``: the files of a folder."""

    @staticmethod
    def scheme() -> str:
        return "recipes"

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def names(self) -> list[str]:
        return sorted(path.stem for path in Path(self.path).glob("*.yaml"))

    def text(self, name: str) -> tuple[str, str]:
        file = Path(self.path) / f"{name}.yaml"
        try:
            return file.read_text(encoding="utf-8"), short(file)
        except UnicodeDecodeError as error:
            raise _refused(short(file), f"byte {error.start} is not UTF-8", "Save the file as UTF-8.") from error
        except OSError as error:
            raise _refused(short(file), f"can't be read: {error.strerror}", "Make it readable.") from error


class Drafted(Recipes):
    """``drafted://``: the texts in ``DRAFTED``."""

    @staticmethod
    def scheme() -> str:
        return "drafted"

    def available(self) -> bool:
        return True

    def names(self) -> list[str]:
        return sorted(DRAFTED)

    def text(self, name: str) -> tuple[str, str]:
        return DRAFTED[name], PLACE


class Typed(FileConfigSource):
    """``typed://``: the groups that are named on the command line, once more, as ``typed/GROUP``.

    ``conf/config.yaml`` lists them behind the recipe, so that a group that a person types wins over what the recipe says.
    """

    @staticmethod
    def scheme() -> str:
        return "typed"

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, option = config_path.removeprefix("typed/").partition("/")
        result = super().load_config(f"{group}/{option}")
        result.header["package"] = group
        return result

    def is_group(self, config_path: str) -> bool:
        return config_path in {f"typed/{group}" for group in TYPED}

    def is_config(self, config_path: str) -> bool:
        return self.is_group(config_path.rpartition("/")[0]) and super().is_config(config_path.removeprefix("typed/"))

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []  # nobody chooses them


def _name(config_path: str) -> str:
    return config_path.removeprefix(f"{GROUP}/").removesuffix(".yaml")


def _config(text: str, place: str) -> Container:
    """The text as a configuration: keys and values."""
    try:
        config = OmegaConf.create(text)
    except AssertionError as error:  # of OmegaConf's, where the text is one number
        raise _refused(place, "it holds no keys", "A recipe is keys and values, such as summary: my own job") from error
    except RecursionError as error:
        raise _refused(place, "it is nested too deeply", "A recipe is sections of keys and values.") from error
    except yaml.MarkedYAMLError as error:
        line = f"{place}:{error.problem_mark.line + 1}" if error.problem_mark is not None else place
        cure = "Each key stands once; the keys of one section are indented alike, with blanks."
        raise _refused(line, str(error.problem or error.context).removeprefix("found "), cure) from error
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise _refused(place, str(error).splitlines()[0], "Correct it there.") from error
    if not isinstance(config, DictConfig):
        raise _refused(place, "it holds a list", "A recipe is keys and values, such as summary: my own job")
    if "defaults" in config and not OmegaConf.is_list(config.defaults):
        raise _refused(place, f"defaults is {config.defaults!r}", "It is a list, as in the recipes that `autofit recipes` shows.")
    return config


def _refused(place: str, found: str, cure: str) -> BadInput:
    return BadInput([Fault(key="", where=place, found=found, cure=cure)])


class RecipePath(SearchPathPlugin):
    """Puts these in front of Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in recipe_folders():
            search_path.prepend("autofit", f"recipes://{folder}")
        search_path.prepend("autofit", "drafted://")
        search_path.prepend("autofit", f"typed://{home() / 'conf'}")
