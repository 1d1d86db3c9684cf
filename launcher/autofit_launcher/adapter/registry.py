"""Finds the installed adapters, and the one with a given name."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from autofit_launcher.adapter.log_line import TrainerWords, joined
from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.errors import BadInput, did_you_mean, refusal
from autofit_launcher.paths import entry_points

log = logging.getLogger(__name__)

GROUP = "autofit.adapters"


def known_adapters() -> list[str]:
    """Names of the installed adapters."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def adapters() -> Iterator[type[Adapter]]:
    """Every installed adapter, by name. One that can't be loaded is left out and logged; ``load_adapter`` says why."""
    for name in known_adapters():
        try:
            yield load_adapter(name)
        except BadInput as refused:
            log.warning("%s", refused)


def words_of(adapter: Adapter) -> TrainerWords:
    """Finds the words of an adapter's trainer; for a general adapter, whose command may run any trainer, those of all installed ones."""
    if not adapter.general:
        return adapter.words
    return joined([adapter.words, *(other.words for other in adapters() if other.name != adapter.name)])


def load_adapter(name: str) -> type[Adapter]:
    """The adapter of that name.

    Raises BadInput if there is none (naming the known ones) or if it can't be loaded (saying why).
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        known = known_adapters()
        cure = f"{did_you_mean(name, known)}Known: {', '.join(known) or 'none; is autofit installed?'}."
        raise refusal(f"unknown adapter {name!r}", cure, key="trainer.adapter")
    try:
        adapter: type[Adapter] = found[0].load()
        if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
            raise TypeError("it is no class that inherits Adapter of autofit_launcher.adapter")
    except Exception as error:  # a package of somebody else's: whatever it raises while it is imported
        wrong = f"the adapter {name!r} ({found[0].value}) can't be loaded: {type(error).__name__}: {error}"
        raise refusal(wrong, "Reinstall, update or remove its package.", key="trainer.adapter") from error
    return adapter
