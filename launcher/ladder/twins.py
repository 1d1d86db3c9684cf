"""Twins of a training: what each saw, and whether they did the same. Pure.

Twins are short runs of the person's own command: the same rows in two layouts of one optimizer step (4 x 1 and 1 x 4), random
things at rest. What is the same lies at 1e-8 to 4e-7 in single precision, what isn't above 2e-2: docs/decisions/007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

APART = 1e-4
"""Relative distance of gradients, before clipping, up to which the first step is the same."""
APART_LATER = 1e-2
"""Of the steps after it, which begin at weights that differ by rounding."""
ROUNDED = 2.5
"""Times the rounding of the weights' kind of number, where that is more (2e-2 of bfloat16): not all can be compared in single precision."""
STRAYED = 1e-6
"""Relative distance that weights may go between two micro-batches of a step: what a normalization that is made anew rounds them by."""
UNEVEN = 1e-2
"""Of what two micro-batches of the same row add to the gradients."""
ALMOST = 1e-3
"""A factor this near k or 1/k is that."""


class FindingKind(StrEnum):
    """What the twins of a rung came to."""

    SAME = "same"
    SCALE = "scale"  # every gradient is k times, or a k-th of, the asked one's
    WEIGHTED = "weighted"  # each micro-batch is averaged by itself, whatever its number of targets
    ROWS_SEE = "rows_see_each_other"  # a loss or a layer that looks across the batch
    BY_HAND = "weights_by_hand"  # something else than an optimizer changes weights at every micro-batch
    SETTINGS = "other_settings"  # learning rate, or another number of the optimizer
    SAMPLES = "other_samples"  # an optimizer step is made of another number of samples
    RANKS = "ranks_apart"  # ranks that step together at the asked layout step by different gradients at another
    PASSES = "other_passes"  # a pass over the data takes another number of them
    DIFFERENT = "different"
    UNCOMPARABLE = "not_comparable"


OF_ITS_OWN_WAY = (FindingKind.SAMPLES, FindingKind.SETTINGS)
"""What a script's own accumulation may bring about (a warm-up that is counted in micro-batches), and accumulation from outside doesn't."""
OF_ITS_LENGTH = (FindingKind.SAME, FindingKind.PASSES)
"""What a length that counts micro-batches brings about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinFigures:
    """How one twin's gradients lie to the first's."""

    apart: float = 0.0
    """|g - g1| / |g1|."""
    factor: float = 1.0
    """The best c of g = c g1."""
    rest: float = 0.0
    """|g - c g1| / |g|."""
    length: float = 0.0
    length_first: float = 0.0
    mismatch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One optimizer step of a twin."""

    optimizer: int
    """Number, as they were made."""
    rows: int
    """That had been drawn by then."""
    backwards: int
    settings: tuple[Mapping[str, float], ...]
    """Numbers of each parameter group, the learning rate above all."""
    scheduled: tuple[int, ...] = ()
    """How often each learning-rate schedule had been stepped."""
    passes: int = 0
    against: TwinFigures | None = None
    weights: str = ""
    epsilon: float = 0.0
    """Rounding of the kind of number that the weights are; of an optimizer's first step."""
    spread: float = 0.0
    """How differently the gradients of its ranks lie to the first twin's."""
    strayed: float = 0.0
    """How far the weights had gone by then from where they were at the first backward pass, though no step was made; of a first step."""
    uneven: float = 0.0
    """How differently its micro-batches added to the gradients, where each is the same row; of a first step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Twin:
    """What one twin saw."""

    micro_batch: int
    accumulation: int
    ranks: int = 1
    """That train together. Rows are then those of all, step by step, and gradients those of the rank whose are farthest away."""
    alike: bool = False
    """Each of its ranks reads the same rows."""
    steps: tuple[Step, ...] = ()
    ended: str = ""
    """exit: by itself; limit: it was long enough; failed; steps: it was cut off; empty: there is nothing of it."""
    why: str = ""
    """Of a failure, or of there being nothing."""
    rows: tuple[str, ...] = ()
    """Digests in the order in which they were drawn."""
    indices: tuple[str, ...] = ()
    dataset: int = 0
    whole: int | None = None
    """Samples of a whole pass, by its loader's own length."""
    ragged: bool = False
    """A pass over the real data ends with a smaller optimizer step."""
    batch_norm: bool = False
    evaluations: int = 0
    """Passes over data that is never trained on."""
    sharing: int = 0
    """Workers that share a stream of rows, of the loader that trains; 0 where they don't."""
    mixed: bool = False
    """An order of a micro-batch's rows was drawn while it was trained on."""
    widened: bool = False
    """Its weights of half precision were turned to single."""
    beside: float = 0.0
    """How far what is kept of the weights beside them lies from the first twin's, in parts of its distance to the weights."""

    @property
    def layout(self) -> str:
        return f"{self.micro_batch} x {self.accumulation}{f' x {self.ranks} ranks' if self.ranks > 1 else ''}"

    @property
    def samples(self) -> int:
        return self.micro_batch * self.accumulation * self.ranks

    @property
    def read_each_step(self) -> int | None:
        """Different samples that ranks read for a step; None where too few steps were seen. What is fetched ahead comes with the first."""
        steps = self.of(self.optimizers[0]) if self.steps else []
        read = steps[1].rows - steps[0].rows if len(steps) > 1 else None
        return read // self.ranks if read and self.alike else read

    def of(self, optimizer: int) -> list[Step]:
        return [step for step in self.steps if step.optimizer == optimizer]

    @property
    def optimizers(self) -> list[int]:
        return sorted({step.optimizer for step in self.steps})

    @property
    def updates(self) -> int:
        """Steps of the optimizer that stepped most."""
        return max(Counter(step.optimizer for step in self.steps).values(), default=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What the comparison came to."""

    kind: FindingKind
    why: str = ""
    """A sentence for people; empty where it is the same."""
    apart: float | None = None
    """Greatest relative distance of the first step's gradients."""
    power: int = 0
    """1 where gradients grow with the accumulation, -1 where they shrink, of one row that is repeated for ``WEIGHTED``."""
    rows_differ: bool = False
    later: bool = False
    """The first step is the same, and those after it aren't."""
    other_rows: str = ""
    """Why a step has other rows than the asked one's, though on the same rows they are the same."""


# ----------------------------------------------------------------------------------------------------------------------
# The comparison


def compare(first: Twin, others: Sequence[Twin]) -> Finding:
    """The decision tree: what can't be compared, then settings, then gradients. Where those are the same, so were the rows, whatever else
    was drawn and left out (the end of a pass that is dropped)."""
    found = _gradients(others, first)
    checks: list[Callable[[Twin, Twin], Finding | None]] = [
        _unseen,
        _together,
        _shared_out,
        _strays,
        _begins,
        _repeats,
        _samples,
        _passes,
        settings_apart,
    ]
    if found.kind is not FindingKind.SAME:
        checks.insert(-1, _rows)
    for check in checks:
        for other in others:
            if (otherwise := check(first, other)) is not None:
                return otherwise
    if found.kind is FindingKind.DIFFERENT and first.mixed:
        return _uncomparable("rows of a micro-batch are mixed in an order that is drawn (mixup), and a smaller one has fewer of them")
    return with_other_rows(found, _shared(first, others)) if first.sharing > 1 else found


def with_other_rows(found: Finding, why: str) -> Finding:
    """A finding of twins of the same rows, where those of a run's steps are others than the asked ones."""
    return replace(found, other_rows=f"{why}; on the same rows it is the same") if found.kind is FindingKind.SAME else found


def _shared(first: Twin, others: Sequence[Twin]) -> str:
    last = max(others, key=lambda other: other.accumulation)
    return (
        f"{first.sharing} workers share a stream of rows and give whole batches in turn, so that a step at {last.layout} has rows of "
        f"several workers and one at {first.layout} of one"
    )


def _uncomparable(why: str, **more: Any) -> Finding:
    return Finding(kind=FindingKind.UNCOMPARABLE, why=why, **more)


def _unseen(first: Twin, other: Twin) -> Finding | None:
    for twin in (first, other):
        if not twin.steps:
            return _uncomparable(f"of {twin.layout} nothing was seen: {twin.why}")
    if first.optimizers != other.optimizers:
        return _uncomparable(f"{len(other.optimizers)} optimizers step at {other.layout}, {len(first.optimizers)} at {first.layout}")
    return None


def _together(first: Twin, other: Twin) -> Finding | None:
    """Whether all ranks step by the same gradients; the first twin's, whose are looked at first, hold theirs against those of its own rank
    0."""
    held = [one for step in range(3) for one in _held(first, step)]
    worst = max((figures.apart if not figures.mismatch else math.inf for figures, _ in held), default=0.0)
    if worst > max((APART, *(rounding for _, rounding in held))):
        how = f"{_percent(worst)} apart" if math.isfinite(worst) else "of other shapes"
        return _uncomparable(
            f"its {first.ranks} ranks step by different gradients ({how}): each has another part of the model, or its own copy"
        )
    apart = max((step.spread for step in other.steps[:3]), default=0.0)
    if not apart > max(APART, *(ROUNDED * step.epsilon for step in other.steps)):
        return None
    why = f"its {other.ranks} ranks step by different gradients at {other.layout}: where they accumulate they don't exchange them"
    return Finding(kind=FindingKind.RANKS, why=why, apart=apart)


def unshared(twin: Twin) -> str:
    """Why a step of several ranks isn't of as many samples as are said; empty where ranks share them, or nothing was seen of it."""
    read = twin.read_each_step
    if twin.alike:
        said = f": a step has {read} different samples, and {twin.samples} are said" if read else ""
        return f"its {twin.ranks} ranks read the same samples, as without a DistributedSampler{said}"
    if read is None or twin.ranks == 1 or read != twin.samples * twin.ranks:
        return ""
    return f"each of its {twin.ranks} ranks reads the whole batch: a step has {read} samples, and {twin.samples} are said"


def _shared_out(first: Twin, other: Twin) -> Finding | None:
    """Whether another number of ranks makes a step of as many samples."""
    asked, got = first.read_each_step, other.read_each_step
    if first.ranks == other.ranks or asked is None or got is None or asked == got:
        return None
    made = f"an optimizer step is made of {got} samples at {other.layout}, of {asked} at {first.layout}"
    why = unshared(first) or unshared(other)
    return Finding(kind=FindingKind.SAMPLES, why=f"{made}: {why}" if why else made)


def _strays(first: Twin, other: Twin) -> Finding | None:
    """Whether weights change between the micro-batches of a step, which one micro-batch has none of (a decay, or noise, by hand)."""
    far = max(other.of(one)[0].strayed - first.of(one)[0].strayed for one in first.optimizers)
    if far <= max(STRAYED, *(ROUNDED * first.of(one)[0].epsilon for one in first.optimizers)):
        return None
    why = f"something else than its optimizer changes its weights at every micro-batch (by {far:.1g} in a step at {other.layout})"
    return Finding(kind=FindingKind.BY_HAND, why=why, apart=far)


def _begins(first: Twin, other: Twin) -> Finding | None:
    """Whether both begin with the same weights, and their rows are seen."""
    if any(first.of(one)[0].weights != other.of(one)[0].weights for one in first.optimizers):
        when = "each time" if first.ranks == other.ranks else f"on {other.ranks} than on {first.ranks} ranks"
        return _uncomparable(f"its weights begin differently {when}")
    if not first.rows or not other.rows:
        return _uncomparable("its rows can't be seen: no data loader of torch's gives them, nor does its model take them one by one")
    return None


def _samples(first: Twin, other: Twin) -> Finding | None:
    """Whether each step is made of as many samples as the first twin's. One batch may have been fetched ahead."""
    for optimizer in first.optimizers:
        asked, got = first.of(optimizer), other.of(optimizer)
        ahead = max(asked[0].rows - first.samples, 0)
        if asked[0].rows < first.samples:
            return _uncomparable(f"an optimizer step is made of {asked[0].rows} samples at {first.layout}, not of {first.samples}")
        for number, (a, b) in enumerate(zip(asked[:3], got[:3], strict=False)):
            if b.rows < a.rows - ahead:
                made = b.rows - (got[number - 1].rows if number else min(other.micro_batch, b.rows - 1) if ahead else 0)
                told = a.rows - asked[number - 1].rows if number else first.samples
                words = f"an optimizer step is made of {made} samples at {other.layout}, not of {told}"
                return Finding(kind=FindingKind.SAMPLES, why=words)
    return None


def _repeats(first: Twin, other: Twin) -> Finding | None:
    """Whether a loader gives each batch once for every micro-batch that is made of it (GRPO's): its passes can't be cut alike then."""
    times = other.accumulation // first.accumulation
    if times < 2 or len(set(first.rows)) < 2 or not (_as_often(first, other, times) or _longer_by_repeats(first, other, times)):
        return None
    return _uncomparable(f"its data loader gives each of its batches {times} times at {other.layout}")


def _as_often(first: Twin, other: Twin, times: int) -> bool:
    """The rows of the first step, so many times as often."""
    begun = Counter(first.rows[: first.samples])
    return Counter(other.rows[: first.samples * times]) == Counter({row: n * times for row, n in begun.items()})


def _longer_by_repeats(first: Twin, other: Twin, times: int) -> bool:
    """A pass is so many times as long, and its first batch (which may be of several steps) comes twice, one after the other."""
    if first.whole is None or other.whole != first.whole * times:
        return False
    lengths = range(first.samples, len(other.rows) // 2 + 1, first.samples)
    return any(other.rows[:length] == other.rows[length : 2 * length] for length in lengths)


def _passes(first: Twin, other: Twin) -> Finding | None:
    """As many samples in a pass over the data: one that is so many micro-batches long is another data set."""
    if first.whole is None or other.whole is None or abs(first.whole - other.whole) < first.samples:
        return None
    why = f"a pass takes {other.whole} samples at {other.layout}, {first.whole} at {first.layout}"
    return Finding(kind=FindingKind.PASSES, why=why)


def _rows(first: Twin, other: Twin) -> Finding | None:
    """The same rows in each of the first steps, whatever their order."""
    steps = min(len(first.of(first.optimizers[0])), len(other.of(first.optimizers[0])), 3)
    for number in range(steps):
        part = slice(number * first.samples, (number + 1) * first.samples)
        if Counter(first.rows[part]) != Counter(other.rows[part]):
            return _uncomparable(f"other rows are drawn at {other.layout} than at {first.layout}", rows_differ=True)
    return None


def settings_apart(first: Twin, other: Twin) -> Finding | None:
    """Learning rates and the like, bitwise, at every step that both made."""
    found = next(_differing(first, other), None)
    if found is None:
        return None
    number, key, asked, got = found
    name = {"lr": "learning rate"}.get(key, key)
    why = f"the {name} of step {number + 1} is {got:g} at {other.layout}, {asked:g} at {first.layout}"
    return Finding(kind=FindingKind.SETTINGS, why=why)


def _differing(first: Twin, other: Twin) -> Iterator[tuple[int, str, float, float]]:
    steps = [(first.of(optimizer), other.of(optimizer)) for optimizer in first.optimizers]
    pairs = [(number, a, b) for ours, theirs in steps for number, (a, b) in enumerate(zip(ours, theirs, strict=False))]
    for number, one, two in ((number, *both) for number, a, b in pairs for both in zip(a.settings, b.settings, strict=False)):
        for key, value in one.items():
            if value != two.get(key) and not (math.isnan(value) and math.isnan(two.get(key, 0.0))):
                yield number, key, value, two.get(key, math.nan)


def rates_to_come(first: Twin, other: Twin) -> str:
    """Why learning rates of later steps may be others, though those seen are the same: a schedule that is stepped more often, and hasn't
    moved any yet."""
    number = min(len(first.steps), len(other.steps))
    if not number or len({(step.optimizer, str(step.settings)) for step in first.steps}) > len(first.optimizers):
        return ""
    asked, got = first.steps[number - 1].scheduled, other.steps[number - 1].scheduled
    more = next(((a, b) for a, b in zip(asked, got, strict=False) if b > a + 1), None)
    if more is None:
        return ""
    return (
        f"a schedule had been stepped {more[1]} times by optimizer step {number} at {other.layout}, {more[0]} times at {first.layout}, and "
        "no learning rate had moved yet"
    )


def _held(twin: Twin, step: int) -> list[tuple[TwinFigures, float]]:
    """Of every optimizer's step of that number, where it was held against the first twin's; and what their numbers' rounding may make."""
    steps = [twin.of(one)[step] for one in twin.optimizers if len(twin.of(one)) > step]
    return [(one.against, ROUNDED * twin.of(one.optimizer)[0].epsilon) for one in steps if one.against is not None]


def _gradients(others: Sequence[Twin], first: Twin) -> Finding:
    begun = [one for other in others for one in _held(other, 0)]
    if len(begun) < len(others) * len(first.optimizers):
        return _uncomparable("its first gradients could not be held against one another")
    if mismatch := next((figures.mismatch for figures, _ in begun if figures.mismatch), ""):
        return _uncomparable(mismatch)
    if not all(math.isfinite(figures.length) and math.isfinite(figures.length_first) for figures, _ in begun):
        return _uncomparable("its gradients are not finite on so few rows")
    if not any(figures.length_first for figures, _ in begun):
        return _uncomparable("its gradients are zero")
    worst = max(figures.apart for figures, _ in begun)
    if all(figures.apart <= max(APART, rounding) for figures, rounding in begun):
        later = [(figures.apart, rounding) for other in others for step in (1, 2) for figures, rounding in _held(other, step)]
        if all(apart <= max(APART_LATER, rounding) for apart, rounding in later):
            return Finding(kind=FindingKind.SAME, apart=worst)
        apart = max(apart for apart, _ in later)
        why = f"the first update is the same, those after it are not ({_percent(apart)} apart)"
        return Finding(kind=FindingKind.DIFFERENT, why=why, apart=apart, later=True)
    powers = {_power(*held, other.accumulation / first.accumulation) for other in others for held in _held(other, 0)}
    last = max(others, key=lambda other: other.accumulation)
    if len(powers) == 1 and (power := powers.pop()):
        what = "adds up its micro-batches' gradients" if power > 0 else "divides its micro-batches' gradients by their number"
        factor = _held(last, 0)[0][0].factor
        why = f"it {what}: at {last.layout} they are {factor:.4g} times those at {first.layout}"
        return Finding(kind=FindingKind.SCALE, why=why, apart=worst, power=power)
    return Finding(
        kind=FindingKind.DIFFERENT,
        why=f"its gradients at {last.layout} are {_percent(worst)} apart from those at {first.layout}",
        apart=worst,
    )


def _percent(apart: float | None) -> str:
    """With a digit that isn't 0, however small: 0.04%."""
    return f"{apart or 0:.1%}" if not apart or apart >= 0.001 else f"{100 * apart:.1g}%"


def _power(figures: TwinFigures, rounding: float, times: float) -> int:
    """1 where gradients are k times the asked ones, -1 where a k-th, 0 otherwise."""
    if figures.rest > max(APART, rounding):
        return 0
    if abs(figures.factor / times - 1) < max(ALMOST, rounding):
        return 1
    return -1 if abs(figures.factor * times - 1) < max(ALMOST, rounding) else 0


def with_one_row(different: Finding, first: Twin, other: Twin) -> Finding:
    """What differs, after twins of one row, repeated: where they agree, up to a factor, only unequal rows make the difference. The very
    finding where that row tells nothing: without a target it has no gradient; nor does its first step say why later ones differ."""
    held = _held(other, 0)
    if (
        different.kind is not FindingKind.DIFFERENT
        or different.later
        or not any(math.isfinite(one.length_first) and one.length_first for one, _ in held)
    ):
        return different
    if any(step.uneven > max(UNEVEN, ROUNDED * step.epsilon) for step in (other.of(one)[0] for one in other.optimizers)):
        why = f"its micro-batches are trained on differently, one after another ({_percent(different.apart)} apart): something counts them"
        return replace(different, why=why)
    if any(figures.length_first and figures.length <= APART * figures.length_first for figures, _ in held):
        return _see_each_other(different, alone=True)
    if all(figures.rest <= max(APART, rounding) for figures, rounding in held):
        why = (
            f"each micro-batch is averaged by itself, so that those with fewer targets, other weights or more padding count as much as the "
            f"others ({_percent(different.apart)} apart)"
        )
        powers = {_power(*one, other.accumulation / first.accumulation) for one in held}
        return Finding(kind=FindingKind.WEIGHTED, why=why, apart=different.apart, power=powers.pop() if len(powers) == 1 else 0)
    return _see_each_other(different)


def _see_each_other(different: Finding, *, alone: bool = False) -> Finding:
    """``alone``: a row by itself has no gradient, which only a loss that looks at other rows explains."""
    apart = f"{_percent(different.apart)} apart"
    why = f"its rows see each other: the loss, or a layer, looks across the micro-batch (a contrastive loss does; {apart})"
    if not alone:
        why = (
            "its rows see each other (a contrastive loss, a layer that looks across the micro-batch), or something that isn't divided by "
            f"their number is done to each micro-batch (a penalty on the weights, a hook that clamps gradients; {apart})"
        )
    return Finding(kind=FindingKind.ROWS_SEE, why=why, apart=different.apart)
