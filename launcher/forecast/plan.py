"""Predicts which rung fits which card of the catalogue. No card is needed, and nothing is trained.

Nothing here says that a rung fits: only a trial can. ``Word`` has what a plan can say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from launcher.adapter.protocol import Adapter
from launcher.adapter.registry import load_adapter
from launcher.adapter.tracing import Tracing
from launcher.config.recipe import Draft
from launcher.config.schema import Recipe
from launcher.errors import COMMAND_LINE, BadInput, Fault
from launcher.forecast import gpu_catalogue
from launcher.forecast.forecaster import Forecaster
from launcher.forecast.gpu_catalogue import GpuModel
from launcher.forecast.prediction import Forecast, worst
from launcher.ladder import build
from launcher.ladder.rungs import Ladder, Rung
from launcher.shared.report import Phase

TRACED = "predicted, not proven: judged by 19 published measurements, none of them made here (docs/prediction.md)"
HERE = ("trainer.args.workers", "trainer.args.cache", "trainer.args.save_dir", "trainer.args.output_dir")
"""Faults of these keys are left out: they are about this machine, and the card is in another."""
MOST_REPLAYED = 12
"""The most rungs of a card that are replayed under its cap, at a second or two each."""


class Word(StrEnum):
    """What a plan says of a rung on a card."""

    TO_FIT = "predicted to fit"
    """It runs within the cap even with the most workspaces."""
    EDGE = "on the edge"
    """It runs with the least workspaces, but not with the most: a trial must tell."""
    TOO_LARGE = "predicted too large"
    """It doesn't run within the cap even with the least workspaces."""
    CERTAINLY = "certainly too large"
    """Live bytes and the context alone are more than the cap."""
    UNKNOWN = "no forecast"


@dataclass(frozen=True, kw_only=True, slots=True)
class OnCard:
    """The ladder on one card."""

    name: str
    """As it was asked for."""
    title: str
    usable_bytes: int
    cap_bytes: int
    """The cap of a trial: usable memory, or ``device.memory``, less the headroom."""
    forecasts: Mapping[int, Mapping[Phase, Forecast]]
    """By rung index."""
    words: Mapping[int, Word]

    def first(self, word: Word, ladder: Ladder) -> Rung | None:
        """The first (best) rung with that word; None if there is none."""
        return next((rung for rung in ladder.rungs if self.words[rung.index] is word), None)

    def edge(self, ladder: Ladder) -> Rung | None:
        """The first rung on the edge, above the first that is predicted to fit: worth a trial."""
        to_fit, edge = self.first(Word.TO_FIT, ladder), self.first(Word.EDGE, ladder)
        return edge if edge is not None and (to_fit is None or edge.index < to_fit.index) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class CardPlan:
    """One ladder on several cards."""

    name: str
    ladder: Ladder
    cards: tuple[OnCard, ...]
    why_not: Mapping[int, str]
    """Why a rung has no forecast."""
    versions: Mapping[str, str]
    assumed: tuple[str, ...]
    left_out: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        return {
            "status": "done",
            "recipe": self.name,
            "evidence": TRACED,
            "effective_batch": self.ladder.effective_batch,
            "cards": [self._card(on) for on in self.cards],
            "rungs": [self._rung(rung) for rung in self.ladder.rungs],
            "made_with": dict(self.versions),
            "assumed": self.assumed,
            "left_out": self.left_out,
        }

    def _card(self, on: OnCard) -> dict[str, Any]:
        to_fit, edge = on.first(Word.TO_FIT, self.ladder), on.edge(self.ladder)
        return {
            "gpu": on.name,
            "title": on.title,
            "usable_bytes": on.usable_bytes,
            "cap_bytes": on.cap_bytes,
            "rung_predicted_to_fit": to_fit.index if to_fit else None,
            "rung_on_the_edge": edge.index if edge else None,
        }

    def _rung(self, rung: Rung) -> dict[str, Any]:
        said: dict[str, Any] = {"rung_index": rung.index, "rung": dict(rung.values), "accumulation": rung.accumulation}
        if rung.index in self.why_not:
            return {**said, "why_no_forecast": self.why_not[rung.index]}
        on = {one.name: {"said": one.words[rung.index], "phases": one.forecasts.get(rung.index, {})} for one in self.cards}
        return {**said, "on": on}


def planned(draft: Draft, gpus: Sequence[str]) -> CardPlan:
    """The plan for these cards. Raises BadInput with all faults: of the recipe, the cards' names, or why its training can't be traced."""
    faults = [fault for fault in draft.faults if fault.key != "data"]  # a plan needs no data
    chosen: list[GpuModel] = []
    try:
        chosen = gpu_catalogue.named(gpus)
    except BadInput as refused:
        faults += refused.faults
    adapter: Adapter | None = None
    ladder: Ladder | None = None
    if draft.recipe is not None:
        try:
            adapter = load_adapter(draft.recipe.trainer.adapter)(_on_a_card(draft))
            faults += [fault for fault in adapter.check() if _is_of_a_plan(fault.key)]
            ladder = build.ladder_of(adapter)
        except BadInput as refused:
            faults += refused.faults
    if faults or adapter is None or ladder is None:
        raise BadInput(draft.provenance.placed(faults))
    return _foreseen(adapter, ladder, chosen)


def _on_a_card(draft: Draft) -> Recipe:
    """The recipe as it would run on a card, without data where it names none. A recipe's ``device.memory`` is another device's."""
    recipe = draft.recipe
    assert recipe is not None
    typed = draft.provenance.where("device.memory") == COMMAND_LINE
    changed: dict[str, Any] = {"device": recipe.device.model_copy(update={"kind": "cuda", **({} if typed else {"memory": None})})}
    if any(fault.key == "data" for fault in draft.faults):
        changed["data"] = None
    return recipe.model_copy(update=changed)


def _is_of_a_plan(key: str) -> bool:
    return key.startswith(("ask.", "trainer.task", "trainer.args.")) and key not in HERE


def _foreseen(adapter: Adapter, ladder: Ladder, chosen: Sequence[GpuModel]) -> CardPlan:
    forecasters = [Forecaster(adapter, ladder, card) for card in chosen]
    first = forecasters[0]
    first.gather(ladder.rungs)
    why_not = {rung.index: why for rung in ladder.rungs if (why := first.why_not(rung))}
    if len(why_not) == len(ladder.rungs):
        raise BadInput([_untraceable(adapter, why_not[ladder.asked.index])])
    for other in forecasters[1:]:
        other.share(first)
    traces, tracings = first.traces(), [one for rung in ladder.rungs if isinstance(one := first.tracing(rung), Tracing)]
    return CardPlan(
        name=adapter.recipe.name,
        ladder=ladder,
        cards=tuple(_on(forecaster, adapter.recipe) for forecaster in forecasters),
        why_not=why_not,
        versions=dict(sorted({item for trace in traces for item in trace.versions.items()})),
        assumed=_once(sentence for trace in traces for sentence in trace.assumed),
        left_out=_once(sentence for one in tracings for sentence in one.left_out),
    )


def _once(sentences: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentences))


def _untraceable(adapter: Adapter, why: str) -> Fault:
    if adapter.recipe.prepare is not None and adapter.recipe.data is not None and not Path(adapter.recipe.data).exists():
        cure = "The recipe's `prepare` makes its data, and its model with it: run `autofit fit` once, then plan."
        return Fault(key="data", found=f"there is no forecast: {why}", cure=cure)
    cure = "Without a forecast, `autofit fit` finds the rung by real trials; device.memory=16GiB plays a smaller card."
    return Fault(key="ask.model", found=f"there is no forecast: {why}", cure=cure)


def _on(forecaster: Forecaster, recipe: Recipe) -> OnCard:
    card = forecaster.card
    assert card is not None
    cap = cap_on(card, recipe)
    forecasts = {rung.index: found for rung in forecaster.ladder.rungs if (found := forecaster.forecasts(rung)) is not None}
    words = {rung.index: word_for(forecasts.get(rung.index), cap) for rung in forecaster.ladder.rungs}
    return OnCard(
        name=card.name,
        title=card.title,
        usable_bytes=card.usable_bytes,
        cap_bytes=cap,
        forecasts=forecasts,
        words=words | _replayed(forecaster, words, forecasts, cap),
    )


def cap_on(card: GpuModel, recipe: Recipe) -> int:
    """What a trial on the card would be held to."""
    return int(min(card.usable_bytes, recipe.device.memory or card.usable_bytes) * (1 - recipe.device.headroom))


def word_for(phases: Mapping[Phase, Forecast] | None, cap_bytes: int) -> Word:
    """The word by the forecast's bounds alone."""
    if not phases:
        return Word.UNKNOWN
    need, least = worst(list(phases.values())), max(one.least_bytes for one in phases.values())
    if least > cap_bytes:
        return Word.CERTAINLY
    if max(one.high_bytes for one in phases.values()) + need.context_bytes <= cap_bytes:
        return Word.TO_FIT
    return Word.EDGE if max(one.low_bytes for one in phases.values()) + need.context_bytes <= cap_bytes else Word.TOO_LARGE


def _replayed(forecaster: Forecaster, words: Mapping[int, Word], forecasts: Mapping[int, Any], cap: int) -> dict[int, Word]:
    """The rungs above the first that is predicted to fit, replayed under the cap: what is reserved without one isn't the need."""
    found: dict[int, Word] = {}
    for rung in forecaster.ladder.rungs:
        word = words[rung.index]
        if word is Word.TO_FIT or len(found) == MOST_REPLAYED:
            break
        if word in (Word.EDGE, Word.TOO_LARGE) and (goes := forecaster.goes_through(rung, cap)) is not None:
            found[rung.index] = Word.TO_FIT if goes[0] else Word.EDGE if goes[1] else Word.TOO_LARGE
            if goes[0]:
                break
    return found
