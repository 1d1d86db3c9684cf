"""Adapter a rung that fits to be the asked training, by running twins of it. ``ladder.twins`` compares what they saw.

Once per launch, where the rung that was found accumulates more than was asked; what comes of it is kept with the fit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from launcher.adapter.protocol import Adapter, Correction
from launcher.config.schema import Recipe
from launcher.errors import BadInput
from launcher.ladder import same_training
from launcher.ladder.rungs import Rung
from launcher.ladder.same_training import SameTraining
from launcher.ladder.twins import OF_ITS_LENGTH, Finding, FindingKind, Twin, compare, with_one_row, with_other_rows
from launcher.shared.activity import doing
from launcher.trial.job import Job
from launcher.trial.twins import OutOfTime, Twins

MOST_ROWS = 64
"""Of a micro-batch by which a factor is confirmed."""
ONE_ROW_DRAWS = 3
"""Times that a repeated row is drawn, where it has no target that first time (none of its tokens is masked)."""
REFUSED = frozenset(FindingKind) - {FindingKind.SAME, FindingKind.UNCOMPARABLE}


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What became of it."""

    same: SameTraining
    refused: str = ""
    """Why no rung with more accumulation than asked may be launched; empty where this one may."""
    job: Job | None = None
    """The launch with what cures it, where that was needed."""
    anew: bool = False
    """That changes more than the length of training, so that it may need more memory: the rung is to be tried again with it."""


def needed(job: Job, rung: Rung) -> bool:
    """Whether the rung puts its optimizer step together otherwise than asked."""
    return rung.accumulation > job.ladder.asked.accumulation


def prove(job: Job, rung: Rung) -> Proof:
    """Runs the twins of a rung. Raises Interrupted on a signal."""
    began = time.monotonic()
    proof = _Proving(job, rung, until=began + job.recipe.trial.proof_timeout_s).proof()
    return replace(proof, same=replace(proof.same, seconds=time.monotonic() - began))


def of_exact(job: Job, rung: Rung, same: SameTraining) -> SameTraining:
    """``same``, after twins with and without what the rung turns from outside and is to change no gradient. Raises Interrupted on a
    signal."""
    limit_s, exact = job.recipe.trial.proof_timeout_s, job.adapter.asked.exact
    asked = {name: asked for name, (asked, _) in job.ladder.given_up(rung).items() if name in exact}
    if not asked or same.gradient != same_training.PROVEN:
        return same
    began = time.monotonic()
    twins = Twins(job, rung, until=began + limit_s, name="exact")
    try:
        with doing(f"running the same rows with {', '.join(asked)} as asked: is an update at rung {rung.index} the asked one?"):
            first, other = twins.of_values(asked)
        finding = compare(first, [other])
    except (BadInput, OSError, ValueError, OutOfTime) as error:
        late = f"took longer than {limit_s:g} s (trial.proof_timeout_s)"
        finding = Finding(kind=FindingKind.UNCOMPARABLE, why=f"its twins {f'could not be run: {error}' if str(error) else late}")
    finally:
        twins.forget()
    return replace(same_training.with_exact(same, finding), seconds=same.seconds + time.monotonic() - began)


def with_cure(job: Job, cure: Mapping[str, Any]) -> Job:
    """The launch with what was found to put its update right."""
    if not cure:
        return job
    rules = job.recipe.trainer
    recipe = job.recipe.model_copy(update={"trainer": rules.model_copy(update={"args": {**rules.args, **cure}})})
    return replace(job, adapter=type(job.adapter)(recipe))


class _Proving:
    """One proof under way."""

    def __init__(self, job: Job, rung: Rung, *, until: float) -> None:
        self._job, self._rung, self._twins = job, rung, Twins(job, rung, until=until)
        self._besides = ""
        """Why the last cure that was tried isn't enough."""

    def proof(self) -> Proof:
        adapter, limit_s = self._job.adapter, self._job.recipe.trial.proof_timeout_s
        if not limit_s:
            return self._unproven(adapter, "trial.proof_timeout_s is 0")
        try:
            layouts = adapter.small(self._rung, self._job.ladder.asked)
            if len(layouts) < 2:
                return self._unproven(adapter, "its optimizer step can't be made smaller")
            return self._compared(adapter, layouts)
        except (BadInput, OSError, ValueError) as error:
            return self._unproven(adapter, f"its twins could not be run: {error}")
        except OutOfTime:
            return self._unproven(adapter, f"it took longer than {limit_s:g} s (trial.proof_timeout_s)")
        finally:
            self._twins.forget()

    def _unproven(self, adapter: Adapter, why: str) -> Proof:
        """Nothing could be compared: launched all the same, save where it would be shorter than asked."""
        same = same_training.unproven(why)
        return Proof(same=same, refused=_too_short(adapter, same))

    def _compared(self, adapter: Adapter, layouts: Sequence[tuple[int, int]]) -> Proof:
        finding, twins = self._found(adapter, layouts)
        if finding.kind is FindingKind.UNCOMPARABLE and layouts[0][0] == 4:
            other = _other(layouts, four=bool(twins[0].steps))
            again, fewer = self._found(adapter, other)
            if again.kind is not FindingKind.UNCOMPARABLE:
                finding, twins, layouts = again, fewer, other
        known = adapter.corrected(finding)
        if known.doubted:
            return self._unproven(adapter, known.doubted)
        same = same_training.certificate(finding, twins[0], twins[1:])
        if refused := _refusal(finding, same, told=known.told) or _too_short(adapter, same):
            with contextlib.suppress(OutOfTime, BadInput, OSError, ValueError):  # what is known to differ isn't launched for want of a cure
                if known.recipe is not None and (put_right := self._cured(known.recipe, finding, layouts, refused)) is not None:
                    return put_right
            return Proof(same=same, refused=_and(refused, self._besides))
        if (put_right := self._with_its_schedule(known, same, layouts)) is not None:
            return put_right
        if finding.kind is FindingKind.SAME and twins[0].ragged:
            ended = self._to_the_end_of_a_pass(adapter, same, layouts, whole=twins[0].whole)
            if (put_right := self._with_the_end_of_a_pass(known, ended, layouts)) is not None:
                return put_right
            same = ended
        if (finding.kind is FindingKind.SAME or known.told) and any(twin.batch_norm for twin in twins):
            same = self._with_batch_norm(adapter, same, layouts, known.told)
        if finding.kind is not FindingKind.SAME or known.points is None:
            return Proof(same=same)
        return self._with_points(adapter, known.points, same, layouts)

    def _with_points(self, adapter: Adapter, recipe: Recipe, same: SameTraining, layouts: Sequence[tuple[int, int]]) -> Proof:
        """Whether it evaluates at the same optimizer steps, where a word says how often; turned along where that puts it right. It is told
        and refuses nothing: an update is the same whenever it is evaluated."""
        try:
            twins = self._twins.run(adapter, [layouts[0], layouts[-1]], points=True)
            if not (otherwise := same_training.evaluated_otherwise(*twins)):
                return Proof(same=same)
            job, changed = self._with(recipe)
            if same_training.evaluated_otherwise(*self._twins.run(job.adapter, [layouts[0], layouts[-1]], points=True)):
                return Proof(same=replace(same, schedule=otherwise))
        except OutOfTime:
            return Proof(same=same)
        note = f"as it stands its schedule {otherwise}; put right from outside, and shown so"
        return Proof(same=replace(same, cure={**same.cure, **changed}, notes=(*same.notes, note)), job=job)

    def _with(self, recipe: Recipe) -> tuple[Job, dict[str, Any]]:
        """The launch with a recipe of its adapter's, and what is another in it."""
        changed = {key: value for key, value in recipe.trainer.args.items() if self._job.recipe.trainer.args.get(key) != value}
        return with_cure(self._job, changed), changed

    def _to_the_end_of_a_pass(
        self, adapter: Adapter, same: SameTraining, layouts: Sequence[tuple[int, int]], *, whole: int | None
    ) -> SameTraining:
        """What becomes of the last, smaller step of a pass: usually not the asked one, which is told. It is as large a part of a step,
        in as many micro-batches, as in the pass over the data (``whole`` samples), where four rows can show that."""
        (micro, accumulation), many = layouts[0], self._rung.effective_batch
        asked, rung = self._job.ladder.asked, self._rung
        times = rung.accumulation * rung.world_size // (asked.accumulation * asked.world_size)
        other = (micro // times, accumulation * times) if micro % times == 0 else layouts[-1]
        samples = micro * accumulation * asked.world_size
        left = min(max(round(samples * (whole % many if whole else many // 2) / many), 1), max(samples - 1, 1))
        twins = self._twins.run(adapter, [layouts[0], other], pass_samples=2 * samples + left)
        return same_training.but_for_the_last_step(same, compare(twins[0], twins[1:]), twins[0], twins[1])

    def _with_batch_norm(self, adapter: Adapter, same: SameTraining, layouts: Sequence[tuple[int, int]], own: str) -> SameTraining:
        """By how much statistics of micro-batches change the update (and what else the trainer's own accumulation changes), when all else
        is the same."""
        (micro, accumulation), *_ = layouts
        half = (micro // 2, 2 * accumulation) if micro > 2 else layouts[-1]  # statistics of one row say nothing of the rung's own
        twins = self._twins.run(adapter, [layouts[0], half], batch_norm_trains=True)
        apart = compare(twins[0], twins[1:]).apart
        return same_training.but_for_batch_norm(same, apart, twins, own=own)

    def _cured(self, recipe: Recipe, finding: Finding, layouts: Sequence[tuple[int, int]], refused: str) -> Proof | None:
        """With what corrects the finding, where that is proven; one cure may follow another."""
        put_right = self._put_right(recipe, layouts, refused, anew=finding.kind not in OF_ITS_LENGTH)
        if put_right is None or finding.kind is not FindingKind.SCALE:
            return put_right
        adapter = self._with(recipe)[0].adapter
        why = self._only_of_few(adapter, layouts)
        return self._unproven(adapter, why) if why else put_right

    def _with_the_end_of_a_pass(self, known: Correction, ended: SameTraining, layouts: Sequence[tuple[int, int]]) -> Proof | None:
        """With what makes the last, smaller step of a pass the asked one, where it isn't and something does; otherwise it is told."""
        otherwise = same_training.ends_otherwise(ended)
        with contextlib.suppress(OutOfTime, BadInput, OSError, ValueError):
            for recipe in known.ends if otherwise else ():
                found = self._put_right(recipe, layouts, f"its training {otherwise}", anew=True)
                if found is not None and not same_training.ends_otherwise(found.same):
                    return found
        return None

    def _with_its_schedule(self, known: Correction, same: SameTraining, layouts: Sequence[tuple[int, int]]) -> Proof | None:
        """Accumulated from outside, where the script steps a schedule more often than its optimizer; otherwise it is told."""
        otherwise = same_training.scheduled_otherwise(same)
        if not otherwise or known.outside is None:
            return None
        with contextlib.suppress(OutOfTime, BadInput, OSError, ValueError):
            found = self._put_right(known.outside, layouts, otherwise, anew=True)
            return found if found is not None and not same_training.scheduled_otherwise(found.same) else None
        return None

    def _put_right(self, recipe: Recipe, layouts: Sequence[tuple[int, int]], otherwise: str, *, anew: bool) -> Proof | None:
        """With a recipe that makes it the asked training, where that is proven. ``otherwise``: what it is as it stands."""
        job, changed = self._with(recipe)
        again = self._compared(job.adapter, layouts)
        if again.refused or again.same.verdict != FindingKind.SAME:
            self._besides = again.refused
            return None
        note = f"as it stands {otherwise}; put right from outside, and proven so"
        same = replace(again.same, cure={**changed, **again.same.cure}, notes=(note, *again.same.notes))
        return Proof(same=same, job=again.job or job, anew=anew or again.anew)

    def _found(self, adapter: Adapter, layouts: Sequence[tuple[int, int]]) -> tuple[Finding, list[Twin]]:
        """What twins of these layouts come to; of one row, repeated, where that tells why they differ."""
        twins = self._twins.run(adapter, layouts)
        if any(twin.widened and not twin.steps for twin in twins):  # what it computes itself stays of half precision
            self._twins.single = False
            twins = self._twins.run(adapter, layouts)
        if not all(twin.steps for twin in twins):  # made as short as that, it may have nothing to do
            twins = self._twins.run(adapter, layouts, short=False)
        finding = compare(twins[0], twins[1:])
        if finding.rows_differ and twins[0].indices:
            again = self._twins.run(adapter, layouts, rows=list(twins[0].indices), rows_of=twins[0].dataset)
            forced = compare(again[0], again[1:])
            if forced.kind is not FindingKind.UNCOMPARABLE:
                twins, finding = again, with_other_rows(forced, finding.why)
        if finding.kind is FindingKind.DIFFERENT and not finding.later:
            with contextlib.suppress(OutOfTime):  # why they differ isn't known then; that they do is
                finding = self._with_why(finding, adapter, [layouts[0], layouts[-1]])
        return finding, twins

    def _with_why(self, finding: Finding, adapter: Adapter, layouts: Sequence[tuple[int, int]]) -> Finding:
        """Why they differ, where twins of one row tell."""
        for draws in range(1, ONE_ROW_DRAWS + 1):
            one = self._twins.run(adapter, layouts, same_row=draws)
            if (found := with_one_row(finding, one[0], one[1])) is not finding:
                return found
        return finding

    def _only_of_few(self, mended: Adapter, layouts: Sequence[tuple[int, int]]) -> str:
        """Why a factor seen on few rows isn't the run's: a divisor that is held at one (YOLO's sum of target scores) looks like it there.
        Nothing where as many as the rung's own micro-batch say the same."""
        most, asked = min(self._rung.micro_batch, MOST_ROWS) // 4 * 4, layouts[0][1]
        if most <= layouts[0][0]:
            return ""
        many, twins = self._found(mended, [(most, asked), (most // 4, 4 * asked)])
        if many.kind in (FindingKind.SAME, FindingKind.UNCOMPARABLE):
            return ""
        return f"its gradients differ by a factor on {layouts[0][0]} rows and otherwise on {twins[0].micro_batch}: {many.why}"


def _and(refused: str, besides: str) -> str:
    """Both reasons, where what cures the first shows another."""
    alike = besides.partition("(")[0] in refused  # figures differ
    return refused if alike else f"{refused}; with that corrected {besides}"


def _other(layouts: Sequence[tuple[int, int]], *, four: bool) -> list[tuple[int, int]]:
    """Two micro-batches, where ``four`` rows were trained on and one by itself can't be; otherwise two rows: there may be memory or data
    for no more."""
    least = layouts[0][1]
    return [(4, least), (2, 2 * least)] if four else [(2, least), (1, 2 * least)]


def _too_short(adapter: Adapter, same: SameTraining) -> str:
    """Why a rung isn't launched of which the number of optimizer steps isn't proven: a script counts steps that are held back."""
    counted = adapter.asked.counted
    if not counted or same.steps == same_training.PROVEN:
        return ""
    return f"{counted} counts training in steps, which are held back from outside, and their number is {same.steps}"


def _refusal(finding: Finding, same: SameTraining, *, told: str) -> str:
    """Why the rung is refused, or nothing. ``told``: what is the trainer's own way, and therefore isn't."""
    if finding.kind in REFUSED and not told:
        return finding.why
    course = {name: line for name, line in same.lines.items() if name != "gradient"}  # which the finding is
    return next((f"its {name} {line}" for name, line in course.items() if line.startswith("differs")), "")
