"""The search for the rung to launch: what is tried next, what that shows, and what is chosen. The engine's only way to make a trial."""

from __future__ import annotations

from dataclasses import replace

from autofit_launcher.engine.state import Fit
from autofit_launcher.full_run.recovery import MOST_WAITS
from autofit_launcher.ladder import course, search
from autofit_launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from autofit_launcher.ladder.same_training import GIVEN_UP, PROVEN, as_asked
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine import devices
from autofit_launcher.shared.activity import doing
from autofit_launcher.shared.report import WORLD_SIZE, Phase
from autofit_launcher.shared.sizes import format_duration
from autofit_launcher.trial import past, proof, rung_zero, trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.proof import Proof
from autofit_launcher.trial.rung_zero import Misread
from autofit_launcher.trial.trial import Trial, as_tried

WITH_ITS_CURE = "with what makes it the asked training"
OF_MEMORY = (Kind.OUT_OF_MEMORY, Kind.SPILLED, Kind.CARD_TAKEN)
"""Failures of a trial with its cure after which the search keeps that cure; after CARD_TAKEN it is tried again when the card is free."""


class RungSearch:
    """The search on one ladder: tries rungs until one fits and is the asked training, or nothing is left to try."""

    def __init__(self, result: Fit) -> None:
        self._result, self._job = result, result.job
        self._history = [*_disproved(result), *(as_tried(one, self._job.budget.cap_bytes) for one in result.trials)]
        self._earlier = past.of(self._job)
        self.misread: Misread | None = None
        self.unturned = ""
        """The reason, if the trial of rung 0 disproves what was read of the command, or its micro-batch can't be turned as planned."""

    def run(self) -> tuple[search.Move, Job]:
        """Returns the move that ended the search, and the job with what makes its chosen rung the asked training.

        The move is a ``Try`` if the last trial showed that the ladder is to be made anew (``unturned``), or that others hold the card.
        """
        while isinstance(move := self._try_until_one_fits(), search.Chosen):
            found = _prove(self._result, move.rung, self._job)
            if found.refused:
                self._rule_out(found.refused)
            elif found.job is None or self._fits_with_its_cure(found, move.rung):
                # one that accumulates no more than asked needs nothing
                return move, found.job or (self._job if proof.needed(self._job, move.rung) else self._result.job)
        return move, self._job

    def _rule_out(self, why: str) -> None:
        self._history = [_ruled_out(one, self._job.ladder, why) for one in self._history]

    def _fits_with_its_cure(self, found: Proof, rung: Rung) -> bool:
        """Tries the rung again with what makes it the asked training, which may need more memory.

        If it needs too much, the search goes on with the cure: what fitted without it says nothing any more of rungs that accumulate.
        """
        assert found.job is not None
        tried = make_trial(self._result, rung, job=found.job, most=self._most() + 1, why=WITH_ITS_CURE)
        if tried.verdict.fits:
            return True
        if tried.verdict.kind not in OF_MEMORY:
            self._result.refused = f"it is the asked training only with what puts it right from outside, and then: {tried.verdict.why}"
            self._rule_out(self._result.refused)
            return False
        self._job = found.job
        self._history = [one for one in self._history if not _fits_accumulating(one, self._job.ladder)]
        self._history.append(as_tried(tried, self._job.budget.cap_bytes))
        return False

    def _try_until_one_fits(self) -> search.Move:
        policy, ladder = self._job.recipe.ladder.search, self._job.ladder
        while True:
            move = search.next_move(ladder, self._history, policy=policy, earlier=self._earlier, asked_first=self._job.adapter.general)
            if not isinstance(move, search.Try):
                return move
            tried = make_trial(self._result, move.rung, job=self._job, most=self._most(), why=move.why)
            self._history.append(as_tried(tried, self._job.budget.cap_bytes))
            waits = sum(one.verdict.kind is Kind.CARD_TAKEN for one in self._result.trials)
            taken = tried.verdict.kind is Kind.CARD_TAKEN
            if self._is_unturned(tried) or (taken and not card_is_back(self._result, tried.verdict.why, waits=waits)):
                return move

    def _most(self) -> int:
        """The most trials that the search can make, including those already made."""
        return len(self._result.trials) + search.most_left(self._job.ladder, self._history, policy=self._job.recipe.ladder.search)

    def _is_unturned(self, tried: Trial) -> bool:
        """Tells whether the trials show another ladder for a person's command, or a micro-batch that can't be turned as planned."""
        job = self._job
        if not job.adapter.general or self._result.unturned:
            return False
        told = rung_zero.showed(self._result.trials, unsaid=job.adapter.asked.unsaid)
        if told is not None and job.adapter.believing(told.ran, told.arrived) is not None:
            read_at = job.adapter.asked.read_at
            self.misread = replace(told, read={name: value for name, value in told.read.items() if name in (*read_at, WORLD_SIZE)})
            self.unturned = self.misread.words(read_at)
            return True
        if tried.rung.index or MICRO_BATCH not in job.recipe.ladder.order:
            return False
        self.misread = misread(job, tried)
        drawn = rung_zero.drawn(tried) if job.recipe.ladder.keep_batch else ""
        self.unturned = self.misread.words(job.adapter.asked.read_at) if self.misread is not None else drawn
        return bool(self.unturned)


def _fits_accumulating(tried: search.Tried, ladder: Ladder) -> bool:
    """Tells whether a rung fits that accumulates more than asked."""
    return tried.verdict.fits and tried.rung.accumulation > ladder.asked.accumulation


def _ruled_out(tried: search.Tried, ladder: Ladder, why: str) -> search.Tried:
    """A rung that fits but isn't the asked training, as a failure that rules out every rung with more accumulation than asked."""
    if not _fits_accumulating(tried, ladder):
        return tried
    return replace(tried, verdict=replace(tried.verdict, kind=Kind.ALTERED, source="accumulation", why=why))


def _disproved(result: Fit) -> list[search.Tried]:
    """Rungs at which a full run of this same launch ran out of memory. They count as failed, whatever their trials said."""
    rungs = result.job.ladder.rungs
    return [
        search.Tried(rung=rungs[one.rung_index], verdict=Verdict(kind=Kind.OUT_OF_MEMORY, phase=Phase.FINISH, why=one.why))
        for one in result.reuse.failures
        if one.rung_index < len(rungs)
    ]


def _prove(result: Fit, rung: Rung, job: Job) -> Proof:
    """Proves whether the rung is the asked training and tells it. Runs twins if it accumulates more or checkpoints from outside.

    ``job``: the launch, with the cure that an earlier proof has found, if there was one.
    """
    twins = proof.needed(job, rung)
    if not twins:
        found = Proof(same=as_asked(job.ladder, rung))
    else:
        with doing(f"running the same rows in two layouts: is an update at rung {rung.index} the asked one?"):
            found = proof.prove(job, rung)
    same = found.same if found.refused else proof.of_exact(found.job or job, rung, found.same)
    if same.gradient == PROVEN and (less := course.given_up(job.ladder, rung)):
        same = replace(same, gradient=f"{GIVEN_UP}: {less}")
    if twins and job is not result.job and (before := result.same) is not None:
        notes = [*before.notes, *(note for note in same.notes if note not in before.notes)]
        same = replace(same, cure={**before.cure, **same.cure}, notes=tuple(notes))
    result.same, result.refused = same, found.refused or result.refused
    result.sames[rung.index] = same
    result.told().proven(rung, same, found.refused)
    return replace(found, same=same)


# ----------------------------------------------------------------------------------------------------------------------
# Trials


USUAL = 5
"""Trials that nine of ten first launches take at most (docs/fit.md)."""


def make_trial(result: Fit, rung: Rung, *, job: Job | None = None, most: int = 0, why: str = "") -> Trial:
    """Tries a rung and adds the trial to the launch's. ``job``: the launch with what puts its update right.

    ``most``: the most trials that this launch can make; ``why``: the reason for choosing this rung. Both are for the screen.
    """
    job, made, result.trying = job or result.job, result.trials, rung
    if why:
        result.screen.say(f"rung {rung.index} next: {why}", "dim")
    result.told().say(f"trial {len(made) + 1}{f' of at most {most}' if 0 < most <= USUAL else ''}: rung {rung.index}  {rung}", "")
    tried = trial.run(job, rung)
    if job.adapter.general and not job.adapter.asked.unseen_step:
        asked = next((one for one in reversed(made) if one.rung.index == 0), None)
        tried = rung_zero.held_against(tried, asked, job.ladder)
    if misread(job, tried) is None:  # else it measured another rung
        past.keep(job, tried)
    made.append(tried)
    result.trying = None
    result.told().trial_ended(tried)
    return tried


def misread(job: Job, tried: Trial) -> Misread | None:
    """Says how a trial of rung 0 disproves what was read of a user's own command; None if it doesn't, or is another rung's."""
    return rung_zero.misread(tried, unsaid=job.adapter.asked.unsaid) if job.adapter.general else None


def card_is_back(result: Fit, holder: str, *, waits: int = 0) -> bool:
    """Tells whether the card is free again, after waiting if the recipe says so. ``waits``: the waits of this launch so far."""
    device = result.job.recipe.device
    if device.when_taken == "stop" or waits > MOST_WAITS:
        return False
    most, result.waits_for = format_duration(device.taken_timeout_s), holder
    result.told().say(f"the card is taken: {holder}. Waiting up to {most} for it (device.when_taken=stop would end it here)")
    back = not devices.wait_for(result.job.budget, timeout_s=device.taken_timeout_s)
    result.waits_for = ""
    return back
