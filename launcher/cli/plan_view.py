"""Draws a plan on the terminal, and says it as ``--json`` does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from launcher.cli import prose, tables
from launcher.cli.rungs_view import setting, words
from launcher.cli.tables import Column
from launcher.ladder.verdict import Verdict
from launcher.pretended.plan import OnCard
from launcher.shared.sizes import GIB, format_size

EVIDENCE = "played on PyTorch's own CUDA allocator: what it holds is exact, context and workspaces are assumed; a trial on a card proves it"


def show(cards: Sequence[OnCard], console: Console) -> None:
    for architecture, alike in groupby(cards, key=lambda one: one.card.architecture):
        _trials(list(alike), console, architecture)
    for one in cards:
        prose.say(console, _answer(one), hang=2)
    prose.say(console, EVIDENCE, style="dim", hang=2)


def _trials(cards: Sequence[OnCard], console: Console, architecture: str) -> None:
    """What each rung was played to need, and which of the cards that fits."""
    columns = [Column(name) for name in ("rung", *(wheel.name for wheel in cards[0].ladder.wheels), "accum")]
    rows = []
    for index, one in cards[0].trials.items():
        settings = (str(index), *map(setting, one.rung.values.values()), str(one.rung.accumulation))
        verdicts = [card.trials[index].verdict for card in cards]
        needs = [Text(f"{_need(one)} {'+' if one.fits else '-'}", style="green" if one.fits else "red") for one in verdicts]
        rows.append([*map(Text, settings), *needs])
    title = f"GiB that were needed, played for {architecture} (+ fits, - doesn't, > at least)"
    tables.show(console, [*columns, *(Column(one.card.name) for one in cards)], rows, title=title)


def _need(verdict: Verdict) -> str:
    return f"{'>' if verdict.why.endswith('at least') else ''}{verdict.peak_bytes / GIB:.1f}"


def _answer(one: OnCard) -> Text:
    cap, style = format_size(one.cap_bytes), "" if one.rung else "yellow"
    said = f"{one.ended_by.kind} in {one.ended_by.phase}: {one.ended_by.why}" if one.ended_by else "no rung fits"
    if one.rung is not None:
        need = format_size(one.trials[one.rung.index].verdict.peak_bytes)
        said = f"rung {one.rung.index} (played, not proven): {words(one.rung)}; {need} of {cap}"
    head = f" ({one.card.title}, {format_size(one.card.usable_bytes)} usable, {cap} with the headroom): "
    return Text.assemble((one.card.name, "bold"), head, (said, style))


def record(one: OnCard) -> dict[str, Any]:
    card = {"gpu": one.card.name, **one.card.model_dump(include={"title", "architecture"}), "usable_bytes": one.card.usable_bytes}
    rung = one.rung.told if one.rung else {}
    less = {name: {"asked": asked, "used": used} for name, (asked, used) in one.ladder.given_up(one.rung).items()} if one.rung else {}
    trials = [tried.as_record() for tried in one.trials.values()]
    return {**card, "cap_bytes": one.cap_bytes, "rung_index": None, "rung": None, **rung, "given_up": less, "trials": trials}
