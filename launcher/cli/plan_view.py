"""Draws a plan on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from launcher.cli import prose, tables
from launcher.cli.rungs_view import setting, words
from launcher.cli.tables import Column
from launcher.forecast.plan import TRACED, CardPlan, OnCard, Word
from launcher.forecast.prediction import Forecast, worst
from launcher.ladder import levers
from launcher.ladder.rungs import MICRO_BATCH, Rung
from launcher.shared.sizes import GIB, format_size

COLOURS = {Word.TO_FIT: "green", Word.EDGE: "yellow", Word.TOO_LARGE: "red", Word.CERTAINLY: "dim", Word.UNKNOWN: "dim"}
SIGNS = {Word.TO_FIT: "+", Word.EDGE: "~", Word.TOO_LARGE: "-", Word.CERTAINLY: "--", Word.UNKNOWN: "?"}
BEYOND = 2
"""Rungs that are shown below the last one that a card's choice falls on."""


def show(plan: CardPlan, console: Console) -> None:
    shown = _shown(plan)
    _ladder(plan, shown, console)
    if len(shown) < len(plan.ladder.rungs):
        prose.say(
            console, f"{len(plan.ladder.rungs) - len(shown)} of {len(plan.ladder.rungs)} rungs are not shown; --json has all", style="dim"
        )
    what = "GiB of the allocator, likeliest (least to most), the context beside it"
    signs = ", ".join(f"{sign} {word}" for word, sign in SIGNS.items() if word is not Word.UNKNOWN)
    prose.say(console, f"{what}: {signs}", style="dim")
    for on in plan.cards:
        prose.say(console, _choice(on, plan), hang=2)
    for why in dict.fromkeys(plan.why_not.values()):
        prose.say(console, Text.assemble(("no forecast of some rungs", "yellow"), f": {why}"), hang=2)
    _small_print(plan, console)


def played(cards: Sequence[Mapping[str, Any]], evidence: str, console: Console) -> None:
    """A line for each card: the rung of its search, what that was seen to need, what was given up."""
    for card in cards:
        prose.say(console, _searched(card), hang=2)
    prose.say(console, evidence, style="dim", hang=2)


def _searched(card: Mapping[str, Any]) -> Text:
    head = f" ({card['title']}, {format_size(card['usable_bytes'])} usable"
    if card["rung"] is None:
        return Text.assemble((card["gpu"], "bold"), f"{head}): ", ("no rung was found", "yellow"), "; its search says why")
    peak = next((one["peak_bytes"] for one in card["trials"] if one["rung_index"] == card["rung_index"]), None)
    need = f"{format_size(peak)} of {format_size(card['cap_bytes'])}" if peak else "its need is in the search's record"
    rung = ", ".join(f"{name} {setting(value)}" for name, value in card["rung"].items())
    less = {name: one for name, one in (card["given_up"] or {}).items() if name != MICRO_BATCH}  # which accumulation makes up for
    given_up = ", ".join(
        f"{name} {setting(one['used'])} instead of {setting(one['asked'])}{levers.beside_in_record(name, one)}"
        for name, one in less.items()
    )
    said = f"{head}, {format_size(card['cap_bytes'])} with the headroom): rung {card['rung_index']} (played, not proven): {rung}; {need}"
    said += f"; given up: {given_up}" if given_up else ""
    return Text.assemble((card["gpu"], "bold"), said)


def _small_print(plan: CardPlan, console: Console) -> None:
    made_with = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
    for head, sentences in (("assumed", plan.assumed), ("left out", plan.left_out)):
        if sentences:
            prose.say(console, f"{head}: {'; '.join(sentences)}", style="dim", hang=2)
    prose.say(console, f"made with {made_with}; {TRACED}", style="dim", hang=2)


def _shown(plan: CardPlan) -> list[Rung]:
    """Each card's choice with the rung above it and two below, and the asked one."""
    rungs = plan.ladder.rungs
    if len(rungs) <= 24:
        return list(rungs)
    chosen = {0, 1}
    for on in plan.cards:
        for rung in filter(None, (on.first(Word.TO_FIT, plan.ladder), on.edge(plan.ladder))):
            at = rungs.index(rung)
            chosen |= set(range(at - 1, at + BEYOND + 1))
    return [rung for at, rung in enumerate(rungs) if at in chosen]


def _ladder(plan: CardPlan, shown: Iterable[Rung], console: Console) -> None:
    columns = [Column("rung"), *(Column(wheel.name, shared=True) for wheel in plan.ladder.wheels), Column("accum", shared=True)]
    columns += [Column(on.name) for on in plan.cards]
    rows = [
        [
            *map(Text, (str(rung.index), *map(setting, rung.values.values()), str(rung.accumulation))),
            *(_cell(on, rung) for on in plan.cards),
        ]
        for rung in shown
    ]
    tables.show(console, columns, rows)


def _cell(on: OnCard, rung: Rung) -> Text:
    word, phases = on.words[rung.index], on.forecasts.get(rung.index)
    text = _range(worst(list(phases.values()))) if phases else ""
    return Text(f"{text} {SIGNS[word]:<2}", style=COLOURS[word])


def _range(forecast: Forecast) -> str:
    digits = 1 if forecast.low_bytes >= GIB else 2
    middle, low, high = (f"{size / GIB:.{digits}f}" for size in (forecast.middle_bytes, forecast.low_bytes, forecast.high_bytes))
    return f"{middle} ({low} to {high})"


def _choice(on: OnCard, plan: CardPlan) -> Text:
    to_fit, edge = on.first(Word.TO_FIT, plan.ladder), on.edge(plan.ladder)
    usable, cap = format_size(on.usable_bytes), format_size(on.cap_bytes)
    head = f" ({on.title}, {usable} usable, {cap} with the headroom)"
    said = f"rung {to_fit.index} is the first predicted to fit: {words(to_fit)}" if to_fit else "no rung is predicted to fit"
    if to_fit is not None:
        forecast = worst(list(on.forecasts[to_fit.index].values()))
        said += f"; {_range(forecast)} GiB"
        said += f" and about {format_size(forecast.context_bytes)} for the context" if forecast.context_bytes else ""
    if edge is not None:
        said += f"; rung {edge.index} is on the edge: {words(edge)}"
    return Text.assemble((on.name, "bold"), f"{head}: {said}")
