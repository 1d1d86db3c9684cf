"""Recipes -> Hydra's config group ``recipe``: one drafted from a command line, ./recipes of the person, then the built-in ones."""

from __future__ import annotations

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from launcher.places import recipe_folders

GROUP = "recipe"

DRAFTED: dict[str, str] = {}
"""Recipes that are in no file, name -> text: ``autofit run -- COMMAND`` writes one for the time of composing."""


class RecipeFolder(FileConfigSource):
    """A folder ``recipes://PATH`` whose files are the options of the group ``recipe``."""

    @staticmethod
    def scheme() -> str:
        return "recipes"

    def load_config(self, config_path: str) -> ConfigResult:
        return super().load_config(_inside(config_path))

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(f"{GROUP}/") and super().is_config(_inside(config_path))

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return [] if results_filter is ObjectType.CONFIG else [GROUP]
        if config_path != GROUP or results_filter is ObjectType.GROUP:
            return []
        return sorted(path.stem for path in Path(self.path).glob("*.yaml"))


class Drafted(ConfigSource):
    """``drafted://``: the texts in ``DRAFTED`` as options of the group ``recipe``."""

    @staticmethod
    def scheme() -> str:
        return "drafted"

    def load_config(self, config_path: str) -> ConfigResult:
        text = DRAFTED[_name(config_path)]
        header = ConfigSource._get_header_dict(text)
        return ConfigResult(config=OmegaConf.create(text), path=self.full_path(), provider=self.provider, header=header)

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(f"{GROUP}/") and _name(config_path) in DRAFTED

    def available(self) -> bool:
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return sorted(DRAFTED) if config_path == GROUP and results_filter is not ObjectType.GROUP else []


def _name(config_path: str) -> str:
    return _inside(config_path).removesuffix(".yaml")


def _inside(config_path: str) -> str:
    return config_path.removeprefix(f"{GROUP}/")


class RecipePath(SearchPathPlugin):
    """Puts the folders in front of Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in recipe_folders():
            search_path.prepend("autofit", f"recipes://{folder}")
        search_path.prepend("autofit", "drafted://")
