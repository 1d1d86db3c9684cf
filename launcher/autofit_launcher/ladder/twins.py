"""Twins of a training: what each saw, and whether they did the same. Pure.

Twins are two short runs of the person's own command on the same rows: one micro-batch of them, as asked, and as many micro-batches of one
row; random things at rest. What is the same lies at 1e-8 to 4e-7 in single precision, what isn't above 2e-2: docs/decisions/007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

APART = 1e-4
"""Relative distance of gradients, before clipping, up to which the first step is the same."""
APART_LATER = 1e-3
"""Relative distance up to which later steps are the same, whose weights differ by rounding (2e-5 at most was seen)."""
APART_ALONE = 1e-2
"""Relative distance of one parameter's gradients, or of what moves beside the weights, that is more than rounding of the whole."""
STRAYED = 1e-6
"""Relative distance that weights may go between two micro-batches of a step: what a normalization that is made anew rounds them by."""
ALMOST = 1e-3
"""A factor this near k or 1/k is that."""


class FindingKind(StrEnum):
    """The ways in which a comparison of twins can end."""

    SAME = "same"
    FACTOR = "factor"  # every gradient is k times, or a k-th of, the asked one's
    WEIGHTED = "weighted"  # each micro-batch is averaged by itself, whatever its number of targets
    DIFFERENT = "different"
    UNCOMPARABLE = "not_comparable"


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinFigures:
    """The distance of one twin's gradients from the first twin's."""

    apart: float = 0.0
    """|g - g1| / |g1|."""
    factor: float = 1.0
    """The best c of g = c g1."""
    rest: float = 0.0
    """|g - c g1| / |g|."""
    length: float = 0.0
    length_first: float = 0.0
    alone: float = 0.0
    """|g - g1| / |g1| of the parameter ``name``, which differs most by itself."""
    name: str = ""
    mismatch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """An optimizer step of a twin."""

    optimizer: int
    """Index of the optimizer in creation order."""
    rows: int
    """Number of rows drawn up to this step."""
    settings: tuple[Mapping[str, str], ...]
    """Numbers of each parameter group, the learning rate above all."""
    against: TwinFigures | None = None
    scheduled: int = 0
    """Times that its learning-rate schedule had been stepped."""
    weights: str = ""
    """Digest of the weights at the first backward pass; only an optimizer's first step has it."""
    strayed: float = 0.0
    """Distance of the weights from those at the first backward pass, though no step was made; only an optimizer's first step has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Twin:
    """The report of one twin; of several ranks, the report of the one whose gradients lie farthest away."""

    __pydantic_config__ = {"extra": "ignore"}  # noqa: RUF012
    micro_batch: int
    accumulation: int
    ranks: int = 1
    steps: tuple[Step, ...] = ()
    ended: str = ""
    """exit: by itself; limit: it was long enough; failed; steps: it was cut off."""
    why: str = ""
    """The reason for a failure, or for there being nothing to see."""
    rows: tuple[str, ...] = ()
    """Digests of the rows in the order in which they were drawn."""
    at: Mapping[str, str] = field(default_factory=dict)
    """Data set and index in it -> digest of that row."""
    whole: Sequence[int] = ()
    """Samples of a whole pass, by its loader's own length: by its rows, and by its batches (TRL's GRPO gives one for each micro-batch)."""
    ragged: bool = False
    """A whole pass ends with a smaller optimizer step: the third is one."""
    unshown: bool = False
    """A whole pass ends with a smaller optimizer step, and the steps seen here are whole."""
    by_hand: bool = False
    """The collate function draws for one row after another, which stood still: of what it masks, say, each row has as much here."""
    batch_norm: bool = False
    beside: float = 0.0
    """Distance between this twin and the first in what moves beside the weights, as a part of its way in the first."""

    @property
    def layout(self) -> str:
        return f"{self.micro_batch} x {self.accumulation}{f' x {self.ranks} ranks' if self.ranks > 1 else ''}"

    @property
    def samples(self) -> int:
        """Samples of an optimizer step on one rank."""
        return self.micro_batch * self.accumulation

    def of(self, optimizer: int) -> list[Step]:
        return [step for step in self.steps if step.optimizer == optimizer]

    @property
    def optimizers(self) -> list[int]:
        return sorted({step.optimizer for step in self.steps})

    @property
    def updates(self) -> int:
        """Steps of the optimizer that stepped most."""
        return max(Counter(step.optimizer for step in self.steps).values(), default=0)


LATER = "the first update is the same, those after it are not"
SHOW_NOTHING = ("its gradients are not finite on so few rows", "its gradients are zero")
"""Reasons for which more rows may show more: a spread of one value, a loss of pairs of one class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The outcome of a comparison of two twins."""

    kind: FindingKind
    why: str = ""
    """A sentence for people; empty where the training is the same, and nothing hides it."""
    of: str = "gradient"
    """The part of the certificate that it speaks of: gradient, steps, schedule or samples."""
    apart: float | None = None
    """Greatest relative distance of the first step's gradients, where that is what it speaks of."""
    power: int = 0
    """1 where gradients grow with the accumulation, -1 where they shrink; of one row that is repeated for ``WEIGHTED``."""


def compare(first: Twin, other: Twin) -> Finding:
    """Compares two twins: first whether they can be compared, then samples, settings and gradients."""
    course = (_different(why, of) for of, why in _differences(first, other) if why)
    found = _unseen(first, other) or next(course, None) or _gradients(first, other)
    if found.kind is FindingKind.DIFFERENT and found.of == "gradient" and (why := _other_rows(first, other)):
        return _uncomparable(why)
    return found


def _uncomparable(why: str) -> Finding:
    return Finding(kind=FindingKind.UNCOMPARABLE, why=why)


def _different(why: str, of: str = "gradient", apart: float | None = None) -> Finding:
    return Finding(kind=FindingKind.DIFFERENT, why=why, of=of, apart=apart)


def _unseen(first: Twin, other: Twin) -> Finding | None:
    for twin in (first, other):
        if not twin.steps:
            return _uncomparable(f"of {twin.layout} nothing was seen: {twin.why}")
    if first.optimizers != other.optimizers:
        return _uncomparable(f"{len(other.optimizers)} optimizers step at {other.layout}, {len(first.optimizers)} at {first.layout}")
    if any(first.of(one)[0].weights != other.of(one)[0].weights for one in first.optimizers):
        return _uncomparable("its weights begin differently each time")
    if not first.rows or not other.rows:
        return _uncomparable("its rows can't be seen: no data loader of torch's gives them, nor does its model take them one by one")
    return None


def _differences(first: Twin, other: Twin) -> Iterator[tuple[str, str]]:
    """Yields differences beside the gradients (samples of a step and of a pass, learning rates, the number of steps), each with the part of
    the certificate that it speaks of; one that explains most comes first."""
    asked, got = first.layout, other.layout
    far = max(other.of(one)[0].strayed - first.of(one)[0].strayed for one in first.optimizers)
    if far > STRAYED:  # a decay, or noise, by hand
        yield "gradient", f"something else than its optimizer changes its weights at every micro-batch (by {far:.1g} in a step at {got})"
    yield "samples", _samples(first, other)
    lengths = list(zip(first.whole, other.whole, strict=False))
    if lengths and all(abs(one - two) >= first.samples for one, two in lengths):
        yield "samples", f"a pass takes {lengths[0][1]} samples at {got}, {lengths[0][0]} at {asked}"
    alike = {place: row == other.at[place] for place, row in first.at.items() if place in other.at}
    if 0 < sum(alike.values()) < len(alike):  # TRL's KTO pairs prompts with other answers; where none is alike, all are drawn anew
        place = min(alike, key=alike.__getitem__).partition("-")[2]
        yield "samples", f"its rows are made from its micro-batches: row {place} is another at {got} than at {asked}"
    yield "schedule", _settings(first, other)
    stepped = [twin.steps[min(len(first.steps), len(other.steps), 2) - 1].scheduled for twin in (first, other)]
    if stepped[1] > stepped[0] + 1:  # though no learning rate has moved yet
        yield "schedule", f"its schedule is stepped with every micro-batch ({stepped[1]} times at {got}, {stepped[0]} at {asked})"
    shorter, longer = sorted((first, other), key=lambda twin: twin.updates)
    ended = shorter.ended == "exit" and longer.ended in ("exit", "limit")
    if ended and shorter.updates != longer.updates and not ends_apart(first, other):
        yield "steps", f"{other.updates} optimizer steps are made at {got}, {first.updates} at {asked}"


def _samples(first: Twin, other: Twin) -> str:
    """Compares the samples of the first steps with the first twin's. One batch may have been fetched ahead."""
    for optimizer in first.optimizers:
        asked, got = first.of(optimizer), other.of(optimizer)
        ahead = max(asked[0].rows - first.samples, 0)
        for number, (a, b) in enumerate(zip(asked[:2], got[:2], strict=False)):
            if b.rows < a.rows - ahead:
                made = b.rows - (got[number - 1].rows if number else min(other.micro_batch, b.rows - 1) if ahead else 0)
                told = a.rows - asked[number - 1].rows if number else first.samples
                return f"an optimizer step is made of {made} samples at {other.layout}, not of {told}"
    return ""


def _settings(first: Twin, other: Twin) -> str:
    """Compares learning rates and the like, bitwise, at every step that both made; where the ends of passes differ, before those."""
    most = 2 if ends_apart(first, other) else None
    differ = (
        f"the {key.replace('lr', 'learning rate')} of step {number} is {two.get(key)} at {other.layout}, {value} at {first.layout}"
        for optimizer in first.optimizers
        for number, (a, b) in enumerate(zip(first.of(optimizer)[:most], other.of(optimizer)[:most], strict=False), start=1)
        for one, two in zip(a.settings, b.settings, strict=False)
        for key, value in one.items()
        if value != two.get(key)
    )
    return next(differ, "")


def _other_rows(first: Twin, other: Twin) -> str:
    """Compares the rows of each of the first two steps, whatever their order."""
    for at in range(0, 2 * first.samples, first.samples):
        one, two = (Counter(twin.rows[at : at + first.samples]) for twin in (first, other))
        if one != two and (not at or len(other.of(other.optimizers[0])) > 1):
            return f"other rows are drawn at {other.layout} than at {first.layout}"
    return ""


def ends_apart(first: Twin, other: Twin) -> str:
    """Says how the last, smaller step of a pass over the data differs; empty where it doesn't, or passes have none."""
    if not first.ragged or min(len(first.steps), len(other.steps)) < 3:
        return ""
    if not any(figures.mismatch or figures.apart > APART_LATER for figures in _compared(other, 2)):
        return ""
    rows = (Counter(twin.rows[2 * first.samples : first.steps[2].rows]) for twin in (first, other))
    if len({str(sorted(one.items())) for one in rows}) > 1 or other.steps[2].rows > first.steps[2].rows:
        return "it isn't made of the rows that are left"
    return "it weighs its micro-batches otherwise than the large batch does"


def _compared(twin: Twin, step: int) -> list[TwinFigures]:
    """Figures of every optimizer's step of that number that was held against the first twin's."""
    return [at.against for one in twin.optimizers for at in twin.of(one)[step : step + 1] if at.against is not None]


def _gradients(first: Twin, other: Twin) -> Finding:
    figures = _compared(other, 0)
    if len(figures) < len(first.optimizers):
        return _uncomparable("its first gradients could not be held against one another")
    if mismatch := next((one.mismatch for one in figures if one.mismatch), ""):
        return _uncomparable(mismatch)
    if not all(math.isfinite(one.length) and math.isfinite(one.length_first) for one in figures):
        return _uncomparable("its gradients are not finite on so few rows")
    if not any(one.length_first for one in figures):
        return _uncomparable("its gradients are zero")
    worst = max(one.apart for one in figures)
    same = _apart(other, 0) <= APART
    alone = max(figures, key=lambda one: one.alone)
    if same and alone.alone > APART_ALONE:  # not asked of one row, repeated: that looks the same here
        by = f"{alone.name} are {_percent(alone.alone)} apart, though those of the whole model are the same"
        return _different(f"its gradients of {by} (a loss that balances experts over the micro-batch does so)")
    if same:
        return _later(first, other, worst)
    times = other.accumulation / first.accumulation
    powers = {_power(one, times) for one in figures if one.length_first}
    if len(powers) == 1 and (power := powers.pop()):
        what = "adds up its micro-batches' gradients" if power > 0 else "divides its micro-batches' gradients by their number"
        why = f"it {what}: at {other.layout} they are {figures[0].factor:.4g} times those at {first.layout}"
        return Finding(kind=FindingKind.FACTOR, why=why, apart=worst, power=power)
    return _different(f"its gradients at {other.layout} are {_percent(worst)} apart from those at {first.layout}", apart=worst)


def _apart(other: Twin, step: int) -> float:
    """Greatest relative distance of the twins' gradients in that step, over the optimizers. Gradients that nearly cancel round by what
    they are added up from, which is as long as the longest of those compared, at least: up to ``APART_ALONE`` it is a part of that."""
    parts = [0.0]
    for optimizer in other.optimizers:
        compared = [at.against for at in other.of(optimizer) if at.against is not None]
        longest = max([0.0, *(one.length_first for one in compared)])
        parts += [one.apart * (one.length_first / longest if 0.0 < one.apart <= APART_ALONE else 1.0) for one in compared[step : step + 1]]
    return max(parts)


def _later(first: Twin, other: Twin, worst: float) -> Finding:
    """Compares the steps after the first update, which is the same, and what moves beside the weights."""
    begun, second, third = (_apart(other, step) for step in range(3))
    grows, third = second / max(begun, 1e-8), 0.0 if first.ragged else third  # Muon in half precision multiplies rounding, step by step
    if second > APART_LATER or third > max(APART_LATER, second * grows if second <= APART else 0.0):
        return _different(f"{LATER} ({_percent(max(second, third))} apart)", apart=max(second, third))
    if other.beside > APART_ALONE:
        what = "what it keeps beside its weights (an average of them, a memory bank) moves with every micro-batch, not with every step"
        return _different(f"{what} ({_percent(other.beside)} apart); the update itself is the same")
    hidden = f"rounding grows {grows:.0f} times with each step, and hides what may differ after the second; all else is the same"
    return Finding(kind=FindingKind.SAME, apart=worst, why=hidden if third > APART_LATER else "")


def _percent(apart: float | None) -> str:
    """Writes a percentage with a digit that isn't 0, however small: 0.04%."""
    return f"{apart or 0:.1%}" if not apart or apart >= 0.001 else f"{100 * apart:.1g}%"


def _power(figures: TwinFigures, times: float) -> int:
    """Returns 1 where gradients are k times the asked ones, -1 where they are a k-th, 0 otherwise."""
    if figures.rest > APART:
        return 0
    return 1 if abs(figures.factor / times - 1) < ALMOST else -1 if abs(figures.factor * times - 1) < ALMOST else 0


def with_one_row(different: Finding, first: Twin, other: Twin) -> Finding:
    """Says why gradients differ, by twins of one row, repeated: if those agree, up to a factor, only unequal rows make the difference."""
    held = [figures for figures in _compared(other, 0) if math.isfinite(figures.length_first) and figures.length_first]
    again = _gradients(first, other)
    if all(one.apart <= APART for one in held) and again.kind is not FindingKind.SAME:  # later, of one row as well
        return different
    apart = _percent(different.apart)
    if all(one.rest <= APART and one.length > APART * one.length_first for one in held):
        why = f"each micro-batch is averaged by itself, whatever its number of targets, or mixed or clipped by itself ({apart} apart)"
        return replace(different, kind=FindingKind.WEIGHTED, why=why, power=again.power)
    why = "its rows see each other (a contrastive loss, a layer that looks across the micro-batch)"
    if not any(one.length <= APART * one.length_first for one in held):
        why += ", or something isn't divided by the number of micro-batches, or counts them (a penalty, a clamp in a hook)"
    return replace(different, why=f"{why}; {apart} apart")
