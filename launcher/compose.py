"""Words of a command line -> drafts of recipes, one for each job of a multirun. With ``sources`` the only module that knows Hydra.

Hydra is imported where it is needed: ``--help`` answers without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.errors import BadInput, Fault, did_you_mean
from launcher.places import home, recipe_folders

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from launcher.recipe import Draft, Provenance


def drafts(words: Sequence[str], *, program: str, drafted: Mapping[str, str] | None = None) -> list[Draft]:
    """The recipe that the words compose to, once for each combination of a multirun; nothing is run.

    ``drafted``: recipes that are in no file, name -> text. Empty where a flag of Hydra's own asked to print something instead.
    Raises BadInput.
    """
    from hydra.core.hydra_config import HydraConfig

    from launcher import recipe as recipes

    texts = dict(drafted or {})
    _refuse_unknown_recipes(words, known={*recipe_files(), *texts})
    found: list[Draft] = []

    def keep(config: DictConfig) -> None:
        found.append(recipes.read(config, _provenance(HydraConfig.get(), texts)))

    with _drafted(texts):
        _hydra([program, *map(_added_or_overridden, words)], keep)
    return found


def complete(words: Sequence[str]) -> None:
    """Tab completion of overrides, printed by Hydra for the line in ``COMP_LINE``."""
    _hydra(["autofit", *words], lambda config: None)


def recipe_files() -> dict[str, Path]:
    """Recipe name -> file; the person's own hide built-in ones of the same name."""
    return {path.stem: path for folder in recipe_folders() for path in sorted(folder.glob("*.yaml"))}


def groups() -> dict[str, list[str]]:
    """The configuration groups and their options."""
    folders = [folder for folder in sorted((home() / "conf").iterdir()) if folder.is_dir()]
    return {folder.name: sorted(path.stem for path in folder.glob("*.yaml")) for folder in folders} | {"recipe": sorted(recipe_files())}


def _hydra(argv: Sequence[str], task: Callable[[DictConfig], None]) -> None:
    """Calls ``task`` with each configuration that Hydra composes of a command line."""
    import hydra

    _plugins()
    before = sys.argv
    sys.argv = list(argv)
    try:
        hydra.main(config_path=str(home() / "conf"), config_name="config", version_base="1.3")(task)()
    finally:
        sys.argv = before


def _plugins() -> None:
    """Makes recipes/ folders (the user's own first) the group ``recipe``, and ``${autofit:...}`` a resolver."""
    from hydra.core.plugins import Plugins
    from omegaconf import OmegaConf

    from launcher import sources

    for plugin in (sources.RecipeFolder, sources.Drafted, sources.RecipePath):
        Plugins.instance().register(plugin)
    places = {"examples": str(home() / "examples"), "python": sys.executable}
    OmegaConf.register_new_resolver("autofit", lambda name: places[name], replace=True)


@contextmanager
def _drafted(texts: Mapping[str, str]) -> Iterator[None]:
    """While open, the texts are options of the group ``recipe``."""
    from launcher import sources

    sources.DRAFTED.update(texts)
    try:
        yield
    finally:
        sources.DRAFTED.clear()


def _refuse_unknown_recipes(words: Sequence[str], *, known: Iterable[str]) -> None:
    """Refuses a command line whose ``recipe=`` names none, or one that isn't there. Hydra would list its search path instead."""
    known = sorted(known)
    said = [word.removeprefix("recipe=") for word in words if word.startswith("recipe=")]
    listed = f"There is: {', '.join(known)}; your own go into ./recipes/NAME.yaml."
    if not said and not any(word.startswith("-") for word in words):
        raise _refused("recipe", "none is named", f"Give one: recipe=NAME. {listed}")
    for name in [name for value in said for name in value.split(",")]:
        if re.fullmatch(r"[\w.-]+", name) and name not in known:
            raise _refused("recipe", f"there is no recipe {name!r}", f"{did_you_mean(name, known)}{listed}")


def _refused(key: str, found: str, cure: str) -> BadInput:
    return BadInput([Fault(key=key, found=found, cure=cure, where="command line")])


_OWN_KEY = re.compile(r"^(ask|trainer|ladder|device|trial|run)\.[^=]*=")


def _added_or_overridden(word: str) -> str:
    """``trainer.args.epochs=9`` works whether a recipe says it or not: our own gate knows the keys and says what was meant."""
    return f"++{word}" if _OWN_KEY.match(word) else word


def _provenance(hydra_config: Any, drafted: Mapping[str, str]) -> Provenance:
    from launcher.recipe import Provenance

    choices = hydra_config.runtime.choices
    name = choices.get("recipe")
    recipe = recipe_files().get(name) if name not in drafted else None
    groups = [home() / "conf" / group / f"{option}.yaml" for group, option in choices.items() if "/" not in group and option]
    files = [recipe, *filter(Path.is_file, groups), home() / "conf" / "config.yaml"]
    overrides = tuple(hydra_config.overrides.task)
    return Provenance(overrides=overrides, drafted=drafted.get(name), files=tuple(path for path in files if path))
