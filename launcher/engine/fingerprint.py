"""Collects everything that a job's fit depends on, in words. What isn't known to be the same counts as changed.

The budget is none of them: within which caps a fit holds is told by its trials (``history.kept_fits``).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher import paths
from launcher.adapter.inputs import Inputs
from launcher.config.schema import Recipe
from launcher.history import digests
from launcher.history.digests import UnknownIdentity
from launcher.history.kept_fits import Fingerprint
from launcher.machine import nvml
from launcher.machine.devices import Budget
from launcher.shared.files import CODE
from launcher.trial.job import Job

DISTRIBUTION = "autofit_launcher"
"""Our own, as the folder of its metadata is called; a stranger's project has the name autofit on the index."""
NOT_HERE = "not here"
"""A model that must be fetched before it can be tried."""
_ELSEWHERE = {"name", "summary", "prepare", "run", "launch", "notify", "recover", "rung", "device"}
"""Sections of a recipe that don't say what is trained; what ``device`` comes to is the budget."""
_HOW = {"ladder": {"search"}, "trial": {"timeout_s", "fresh"}}
"""How a rung is looked for, not what it needs."""


def fingerprint_of(job: Job, *, written: Iterable[str] = ()) -> Fingerprint:
    """Everything as it is now. Raises UnknownIdentity, with why, where they can't all be told.

    ``written``: what trials of it were seen to write beside its code: what a run writes itself is none of what it hangs on.
    """
    inputs = job.adapter.inputs(job.ladder)
    inputs = replace(inputs, written=[*inputs.written, *map(Path, written)])
    if inputs.unknown:
        raise UnknownIdentity(inputs.unknown)
    ladder = [(dict(rung.values), rung.accumulation, rung.world_size) for rung in job.ladder.rungs]
    known = {
        **_recipe(job.recipe),
        "ladder": f"{len(ladder)} rungs [{digests.short(json.dumps(ladder, sort_keys=True))}]",
        "folder": os.getcwd(),
        **_named(job.recipe),
        **_inputs(inputs),
        **_programs(inputs, written=[Path(job.recipe.run.root), *map(Path, written)]),
        **{f"environment {name}": value for name, value in digests.environment(os.environ).items()},
        **digests.system(),
        **_device(job.budget),
        **{f"cap on {count} card(s)": f"{one.cap_bytes} bytes" for count, one in job.by_cards.items()},
    }
    return Fingerprint(training=job.training, depends_on=known)


def _recipe(recipe: Recipe) -> dict[str, str]:
    said = recipe.model_dump(mode="json", exclude=_ELSEWHERE)
    for section, keys in _HOW.items():
        said[section] = {key: value for key, value in said[section].items() if key not in keys}
    return dict(_flat(said))


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inside in value.items():
            yield from _flat(inside, f"{key}.{name}" if key else str(name))
    else:
        yield key, json.dumps(value)


def _named(recipe: Recipe) -> dict[str, str]:
    """Files and folders that the trainer's own arguments name, whatever they are for; not where a run that begins anew writes."""
    args = recipe.trainer.args
    goes_on = any(value for name, value in args.items() if name.startswith("resume"))
    said = [text for name, value in args.items() if goes_on or name not in _WRITTEN for text in _texts(value)]
    found = {}
    for word in dict.fromkeys(part for text in said for part in (text, text.partition("=")[2]) if part):
        place = _place(word)
        if place is not None and place.is_file():
            found[f"file {word}"] = digests.content(place)
        elif place is not None and os.path.abspath(place) != os.getcwd():
            found[f"file {word}"] = digests.files(place, most=MOST_NAMED)
    return found


_WRITTEN = frozenset({"save_dir", "project", "name", "output_dir", "logging_dir", "run_name", "resume"})
"""Arguments that say where a run writes; a script's ``resume`` says how it would go on."""
MOST_NAMED = 100_000


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inside in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _texts(inside)


def _place(word: str) -> Path | None:
    """The path that a word is; None for what is none of this machine."""
    try:
        place = Path(word).expanduser()
        return place if place.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _inputs(inputs: Inputs) -> dict[str, str]:
    data = {"data": digests.files(*inputs.data)} if inputs.data else {}
    models = {f"model {name}": digests.files(path) if path is not None else NOT_HERE for name, path in inputs.models.items()}
    texts = {f"file {path}": digests.content(path) for path in inputs.texts}
    code = {"code": digests.files(*inputs.code, suffixes=CODE, without=inputs.written)} if inputs.code else {}
    return {**data, **models, **texts, **code, **inputs.more}


def _programs(inputs: Inputs, *, written: Sequence[Path]) -> dict[str, str]:
    """autofit by its own files, every installed package, and the trainer's by theirs: people edit those."""
    package = Path(paths.__file__).parent
    ours = {"autofit": digests.files(package, paths.home() / "conf", suffixes=(*CODE, ".json"))}
    folders = digests.site_folders_of(inputs.program) if inputs.program else digests.site_folders()
    shadowing = [Path(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    shadows = {"PYTHONPATH": digests.files(*shadowing, suffixes=CODE, without=written)} if shadowing else {}
    edited = {f"files of {path.name}": digests.files(path, suffixes=CODE) for path in inputs.packages}
    installed = {f"package {name}": value for name, value in digests.packages(folders, without=written).items() if name != DISTRIBUTION}
    program = {"program": shutil.which(inputs.program) or ""} if inputs.program else {}
    return {**ours, **program, **installed, **shadows, **edited}


def _device(budget: Budget) -> dict[str, str]:
    card = (
        {"driver": nvml.driver_version() or "unknown", "card": ",".join(one.uuid for one in budget.each)} if budget.kind == "cuda" else {}
    )
    return {
        "device": f"{budget.kind}, {budget.name}, {budget.total_bytes} bytes",
        "device.headroom": f"{budget.headroom:g}",
        "device.emulated": str(budget.emulated),
        "device.may_spill": str(budget.may_spill),
        **card,
    }
