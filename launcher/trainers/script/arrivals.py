"""A script whose batch size can't be read in its source -> where it arrives: the script is run up to its first training batch.

What arrives is asked (``inside.look``). It is set at the loader, so that all that the script works out of its own number stays; where the
script has a word of its own for accumulation beside it, both are set as they are bound. What can't be proven is asked for: ``--set``.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from launcher.adapter.python_source import files_of, parsed
from launcher.adapter.python_source import place as written
from launcher.adapter.recognised import Belief
from launcher.machine import process
from launcher.shared.activity import doing
from launcher.trainers.script import kept_batch, lightning_source, source_facts, source_values
from launcher.trainers.script.source_values import Place
from launcher.trainers.script.spelling import LOADER, OUTSIDE

LONGEST_S = 300.0
_INSIDE = "launcher.trainers.script.inside.look"
_TRAINS = re.compile(r"^\s*(?:import|from)\s.*\b(torch|lightning|pytorch_lightning|accelerate|transformers)\b", re.MULTILINE)
_TAIL = 300


class Source(NamedTuple):
    """What a script's source says of its batches."""

    beliefs: Mapping[str, Belief]
    lengths: Mapping[str, int]
    """Spelling -> how long it trains, by a value beside the batch size."""
    unknown: str = ""
    """Why nothing is known of it, in words; empty where something is, or where nobody has looked."""


def in_source(words: Sequence[str], script: Path, value: str, *, ranks: int = 1) -> Source:
    """What is written for its batch size; by the source, else by a look at the first training batch. ``value``: what a person has named;
    ``ranks``: processes that the command starts.

    Raises BadInput where that names nothing, or several values.
    """
    whole = kept_batch.found(script, ranks=ranks)
    place = source_values.pointed(script, value) if value else whole.part if whole is not None else None
    if whole is not None and place == whole.part:  # a shorter length would make other steps of its tokens, so none is turned
        return Source(whole.beliefs(), source_values.lengths(whole.part))
    if place is not None:
        return _by_hand(place, script)
    loader = source_facts.loader_in_source(script)
    place = source_values.bound(loader.at, loader.said, loader.batch) if loader is not None else None
    trainer = lightning_source.accumulation(files_of(script))
    if place is not None and trainer is None and "accumulation" in (kept := source_values.beside(place, script)):
        return _of_value(place, kept)
    alone = loader is not None and (place is not None or trainer is not None or not source_values.accumulates(files_of(script)))
    if loader is None or not alone:
        found = _with_trainer(_of_look(words, script), trainer) if _may_be_looked_at(words, script) else Source({}, {})
        both = source_values.of_one_call(script) if not found.beliefs else None
        return _of_value(both[0], {"accumulation": both[1]}) if both is not None else found
    spelling = f"{LOADER}:{loader.place}" if loader.place else OUTSIDE
    source = f"{_said_by([place] if place is not None else [])}DataLoader, {written(loader.at, loader.line)}"
    belief = Belief(wheel="micro_batch", value=loader.batch, spelling=spelling, source=source)
    lengths = source_values.lengths(place) if place is not None and place.held_in else {}
    return _with_trainer(Source({"micro_batch": belief}, lengths), trainer)


def _with_trainer(found: Source, trainer: Belief | None) -> Source:
    """With the accumulation of Lightning's Trainer, where that trains."""
    return found._replace(beliefs={**found.beliefs, "accumulation": trainer}) if trainer is not None and found.beliefs else found


def _may_be_looked_at(words: Sequence[str], script: Path) -> bool:
    """Whether it is a program that can be started, and trains as far as its imports tell."""
    return shutil.which(words[0]) is not None and any(_TRAINS.search(parsed(file)[0]) for file in files_of(script))


def _of_look(words: Sequence[str], script: Path) -> Source:
    found = _looked(words)
    batch = found.get("batch")
    if not isinstance(batch, int):
        return Source({}, {}, unknown=_unknown(found, words, script))
    if found["library"]:
        made = f"its loader is made by {found['library']}, for a batch of {batch}, and autofit doesn't know how that is told"
        return Source({}, {}, unknown=f"{made}{_ask(words, script)}")
    places = source_values.at(found["places"])
    place = places[0] if len(places) == 1 and places[0].value == batch and len(found["places"]) == 1 else None
    if place is not None and "accumulation" in (kept := source_values.beside(place, script)):
        return _of_value(place, kept)
    lengths = source_values.lengths(place) if place is not None and place.held_in else {}
    file = Path(found["file"])
    source = f"{_said_by(places, found['places'])}DataLoader, {file.name} line {found['line']}"
    belief = Belief(wheel="micro_batch", value=batch, spelling=f"{LOADER}:{file.name}:{found['line']}", source=source)
    return Source({"micro_batch": belief}, lengths)


def _of_value(place: Place, kept: Mapping[str, Place]) -> Source:
    """The micro-batch and what is kept beside it, set as they are bound."""
    beliefs = {"micro_batch": place.belief("micro_batch"), **{wheel: one.belief(wheel) for wheel, one in kept.items()}}
    return Source(beliefs, source_values.lengths(place))


def _by_hand(place: Place, script: Path) -> Source:
    """Of a value that the person names as the batch size."""
    found = _of_value(place, source_values.beside(place, script))
    outside = Belief(wheel="accumulation", value=1, spelling=OUTSIDE, source="no value for it was found beside it")
    return found._replace(beliefs={"accumulation": outside, **found.beliefs})


def _said_by(places: Sequence[Place], marks: Sequence[str] = ()) -> str:
    """What the batch was written as, in the words of the file."""
    if len(marks) > 1:
        lines = dict.fromkeys(source_values.line_of(mark) for mark in marks)
        return f"worked out of {', '.join(lines)}; it arrives at "
    return f"{places[0]}; it arrives at " if places else ""


def _looked(words: Sequence[str]) -> dict[str, Any]:
    command = process.python_module(_INSIDE, str(LONGEST_S), *words)
    with doing(f"running it on the CPU up to its first training batch ({LONGEST_S:.0f} s at most), to see which value is its batch size"):
        status, said = process.output_of(command, timeout_s=2 * LONGEST_S + 10)
    try:
        return dict(json.loads(said.splitlines()[-1]))
    except (ValueError, IndexError):
        return {"ended": status, "said": said}


def _unknown(found: Mapping[str, Any], words: Sequence[str], script: Path) -> str:
    if "ended" not in found:
        why = found.get("why") or f"the loader that trains says {found.get('batch')!r} for its batch size, which is a sampler's affair"
        return f"{why}, so it isn't seen which value is its batch size{_ask(words, script)}"
    last = (found.get("said", "").strip().splitlines() or ["it said nothing"])[-1][-_TAIL:]
    ended = f"took longer than {LONGEST_S:g} s to its first training batch" if found["ended"] is None else "ended before it trained"
    return f"{script} was run to see which value is its batch size, and {ended} ({last}){_ask(words, script)}"


def _ask(words: Sequence[str], script: Path) -> str:
    likely = source_values.likely(script)
    seen = f" (written there: {'; '.join(map(str, likely))})" if likely else ""
    name = likely[0].name if likely else "CONFIG['batch']"
    return f': say which value it is{seen}, as in autofit run --set "{name}" -- {shlex.join(words)}'
