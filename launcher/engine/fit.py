"""Finds the rung to launch: reuses a kept fit, else tries rungs until one fits, then proves that it is the asked training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from launcher.adapter.protocol import own_words_of
from launcher.config import recipe as recipes
from launcher.config.recipe import Draft
from launcher.engine import attempts, reuse
from launcher.engine.prepare import (
    ladder_of,
    prepare,
)
from launcher.engine.screen import Screen
from launcher.engine.state import Fit, Status, recorded, status_of
from launcher.errors import PLACE, BadInput, Fault
from launcher.forecast import past_trials
from launcher.history import owner
from launcher.ladder import build, course, search, throughput
from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from launcher.ladder.same_training import SameTraining, as_asked
from launcher.ladder.verdict import Kind, Verdict
from launcher.run import start
from launcher.shared.activity import doing
from launcher.shared.report import Phase
from launcher.trial import proof, rung_zero, trial
from launcher.trial.job import Job
from launcher.trial.prewarm import MANY_CORES, Standby
from launcher.trial.proof import Proof
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial, as_tried

if TYPE_CHECKING:  # only a search that is led by it pays for a forecast
    from launcher.forecast.lookahead import Ahead


def fit(job: Job, screen: Screen) -> Fit:
    """Tries rungs until one fits. The record is written as it happens, and says in the end what really happened."""
    result = Fit(job=job, fit_only=True)
    with job.turn, owner.held(job.folder.path), recorded(result):
        walk(result, screen)
        screen.summary(result)
    return result


def walk(result: Fit, screen: Screen) -> None:
    """Trials, one after another, until a rung fits or nothing is left to try; none where a fit of the very same launch is kept."""
    began = time.monotonic()
    screen.plan(result.job)
    if not result.trials and _as_kept(result, screen):
        return
    move, run_as = _searched(result, screen)
    if result.misread is not None and not result.misread.believed and _made_anew(result, screen):
        screen.plan(result.job)
        if _as_kept(result, screen):
            return
        move, run_as = _searched(result, screen)
    _concluded(result, move, run_as, screen)
    result.trial_seconds = time.monotonic() - began
    if result.chosen is not None and result.standing is not None:
        with doing("keeping the fit"):
            result.standing = reuse.keep(result.job, result.standing, result.trials, result.chosen, same=result.same)
        _known(result, screen)
    if result.chosen is not None:
        _take(result, run_as)
    result.job.folder.event("fitted", status=result.status, rung_index=result.chosen.rung.index if result.chosen else None)


def _searched(result: Fit, screen: Screen) -> tuple[search.Move, Job]:
    """The trials of one ladder: the move that ended them, which is the last trial where that disproves what the ladder was made of; and the
    launch with what makes its chosen rung the asked training."""
    job = result.job
    history = [*_disproved(result), *(as_tried(one, job) for one in result.trials)]
    asked_first = own_words_of(job.adapter) is not None
    with ExitStack() as until_found:
        ahead = _looking_ahead(job, until_found)
        standby = until_found.enter_context(Standby(job.folder.trials / "standby", wanted=job.recipe.trial.standby))

        def move_now() -> search.Move:
            policy = job.recipe.ladder.search
            move = search.next_move(job.ladder, history, policy=policy, asked_first=asked_first)
            patience_s = WORTH_WAITING * result.trials[-1].seconds if result.trials else 0.0
            if ahead is None or not isinstance(move, search.Try):
                return move
            with doing(FORESEEING):
                if not ahead.at_hand(within_s=patience_s):
                    return move
            predicted = _foreseen(ahead, job, screen)
            return search.next_move(job.ladder, history, policy=policy, predicted=predicted, asked_first=asked_first)

        def walked() -> search.Move:
            while isinstance(move := move_now(), search.Try):
                words = {"most": _most(result, history), "why": move.why}
                tried = _try(result, move.rung, screen, words, standby=standby, more=_another_follows(job, move.rung, ahead))
                history.append(as_tried(tried, job))
                if (wrong := _misread(job, result.trials)) is not None:
                    result.misread = wrong
                    break
                if ahead is not None:
                    with doing("keeping what the trial measured"):
                        ahead.learn(tried)
                taken = tried.verdict.kind is Kind.CARD_TAKEN
                if taken and not attempts.card_is_back(job, tried.verdict.why, screen, waits=_waits(result)):
                    break
            return move

        while isinstance(move := walked(), search.Chosen):
            rung = _fastest(result, move.rung, screen) if job.recipe.ladder.objective == "throughput" else move.rung
            if (wrong := _misread(job, result.trials)) is not None:
                result.misread = wrong
                break
            found = _proven(result, rung, screen)
            if not found.refused:
                return search.Chosen(rung=rung), found.job or job
            history[:] = [_ruled_out(one, job.ladder, found.refused) for one in history]
    return move, job


def _concluded(result: Fit, move: search.Move, run_as: Job, screen: Screen) -> None:
    """What the search has come to, and, where no rung fits, what would."""
    job, result.status = result.job, Status.NO_RUNG_FITS
    if result.misread is not None and not result.misread.believed:
        result.status = Status.MISREAD
        job.folder.event("misread", **result.misread.as_record())
    elif isinstance(move, search.Chosen):
        result.chosen = next(one for one in result.trials if one.rung.index == move.rung.index)
        result.command = start.native_command(run_as, move.rung)
        result.status = Status.DONE
    elif isinstance(move, search.Try) or move.why == "not_memory":
        result.status = status_of(result.trials[-1].verdict.kind)
    job.folder.forget_cache()
    if result.status is Status.NO_RUNG_FITS:
        _look_below(result, screen)


def _misread(job: Job, trials: Sequence[Trial]) -> Misread | None:
    """Where the trials of a person's own command disprove what was read of it."""
    words = own_words_of(job.adapter)
    return rung_zero.found(trials, job.ladder, unsaid=words.unsaid()) if words is not None else None


def _misread_asked(job: Job, tried: Trial) -> Misread | None:
    """The same of one trial, which tells something only where it is rung 0's."""
    words = own_words_of(job.adapter)
    return rung_zero.at_rung_0(tried, unsaid=words.unsaid()) if words is not None else None


def _made_anew(result: Fit, screen: Screen) -> bool:
    """Whether what the command ran could be put in the place of what was read: the ladder is another one then, and nothing of it tried."""
    job, wrong, words = result.job, result.misread, own_words_of(result.job.adapter)
    believed = words.believing(wrong.ran) if words is not None and wrong is not None and wrong.read else None
    if believed is None or wrong is None:
        return False
    adapter = type(job.adapter)(believed)
    if adapter.check():
        return False
    result.misread = replace(wrong, believed=True)
    screen.misread(result)
    result.trials.clear()
    result.write()  # first: a trial of the other ladder says nothing of this one's rungs
    _take(result, replace(job, adapter=adapter, ladder=build.ladder_of(adapter)))
    job.folder.event("misread", **result.misread.as_record())
    return True


def _proven(result: Fit, rung: Rung, screen: Screen) -> Proof:
    """Whether the rung is the asked training, shown by twins where it accumulates more than was asked; told and written down."""
    job = result.job
    if not proof.needed(job, rung):
        found = _by_its_trial(result, rung, Proof(same=as_asked(job.ladder, rung)))
    else:
        with doing(f"running the same rows in other layouts: is an update at rung {rung.index} the asked one?"):
            found = _by_its_trial(result, rung, proof.prove(job, rung))
        job.folder.event("proven", rung_index=rung.index, **found.same.as_record(), refused=found.refused)
    result.same, result.refused = found.same, found.refused or result.refused
    result.sames[rung.index] = found.same
    result.write()
    screen.proven(found.same, rung, refused=found.refused)
    return found


def _by_its_trial(result: Fit, rung: Rung, found: Proof) -> Proof:
    """With what the rung's own trial shows of its course otherwise than rung 0's, which is what was asked."""
    ladder, asked, tried = result.job.ladder, result.trial_of(0), result.trial_of(rung.index)
    if not rung.index or asked is None or tried is None or rung.effective_batch != ladder.effective_batch:
        return found
    less, two = course.given_up(ladder, rung), (course.shown(tried.report, rung), course.shown(asked.report, asked.rung))
    same = course.held_against(found.same, *two, batch=ladder.effective_batch, less=less)
    refused = (
        course.refusal(found.same, *two, batch=ladder.effective_batch, less=less) if rung.accumulation > ladder.asked.accumulation else ""
    )
    return replace(found, same=same, refused=found.refused or refused)


def _take(result: Fit, job: Job) -> None:
    """The launch goes on with this job; what is taken up again later begins with its recipe."""
    if job is not result.job:
        job.folder.replace(job.folder.recipe, recipes.as_yaml(job.recipe))
        result.job = job


def _ruled_out(tried: search.Tried, ladder: Ladder, why: str) -> search.Tried:
    """What has fitted and isn't the asked training, as the search takes it: no rung with more accumulation than asked is another try."""
    if not tried.verdict.fits or tried.rung.accumulation <= ladder.asked.accumulation:
        return tried
    return replace(tried, verdict=replace(tried.verdict, kind=Kind.ALTERED, source="accumulation", why=why))


def _disproved(result: Fit) -> list[search.Tried]:
    """Rungs at which a full run of this very launch has run out of memory, whatever their trials said: they count as failed."""
    rungs, against = result.job.ladder.rungs, result.standing.against if result.standing is not None else ()
    return [
        search.Tried(rung=rungs[one.rung_index], verdict=Verdict(kind=Kind.OUT_OF_MEMORY, phase=Phase.FINISH, why=one.why))
        for one in against
        if one.rung_index < len(rungs)
    ]


def _another_follows(job: Job, rung: Rung, ahead: Ahead | None) -> bool:
    """Whether the next trial's process is worth its imports beside this one: where this is foreseen to fail; or where nothing is foreseen
    and there are cores enough that its steps are timed truthfully beside an import."""
    part = ahead.parts.get(rung.index) if ahead is not None else None
    if rung is job.ladder.rungs[-1]:
        return False
    return part > 1 if part is not None else (os.cpu_count() or 1) >= MANY_CORES


def _most(result: Fit, history: Sequence[search.Tried]) -> int:
    """Trials that the search makes at most, those that it has made and those for speed among them."""
    rules, ladder = result.job.recipe.ladder, result.job.ladder
    for_speed = throughput.most_more(ladder) if rules.objective == "throughput" else 0
    return len(result.trials) + search.most_left(ladder, history, policy=rules.search) + for_speed


def _try(result: Fit, rung: Rung, screen: Screen, words: Mapping[str, Any] | None = None, **how: Any) -> Trial:
    """One trial, told and written down. ``words``: what is told of it before."""
    made = [one.seconds for one in result.trials if not one.kept]
    words = {**(words or {}), "seconds": sum(made) / len(made) if made else None}
    tried = _made(result.job, rung, screen, number=len(result.trials) + 1, words=words, **how)
    result.trials.append(tried)
    result.write()
    return tried


def _made(job: Job, rung: Rung, screen: Screen, *, number: int, words: Mapping[str, Any] | None = None, **how: Any) -> Trial:
    """One trial, told, and its peaks kept for the launches to come."""
    screen.trying(rung, number, **(words or {}))
    tried = trial.recorded(job, rung, told=screen.phase, **how)
    if _misread_asked(job, tried) is None:  # else it measured another rung
        past_trials.keep(job, as_tried(tried, job))
    screen.tried(tried, job)
    return tried


def _fastest(result: Fit, fitting: Rung, screen: Screen) -> Rung:
    """Of the rungs that give up as much as the one that fits the fastest, by the trials that were made and a few more."""
    ladder, before = result.job.ladder, len(result.trials)
    while (rung := throughput.worth_a_trial(ladder, fitting, _speeds(result), made=len(result.trials) - before)) is not None:
        words = {"most": before + throughput.most_more(ladder), "why": "it may be faster, at the same effective batch"}
        if not _try(result, rung, screen, words).verdict.fits:
            break
    speeds = _speeds(result)
    fastest = throughput.fastest(ladder, fitting, speeds)
    timed = {
        rung.micro_batch: round(speeds[rung.index], 3) for rung in (fitting, *throughput.alike(ladder, fitting)) if rung.index in speeds
    }
    result.job.folder.event("timed", samples_per_second=timed, rung_index=fastest.index)
    screen.timed(timed, fastest)
    return fastest


def _speeds(result: Fit) -> dict[int, float]:
    """Rung index -> samples a second, of the trials that fit and were timed."""
    timed = ((one.rung.index, throughput.speed(one.rung, one.report.step_seconds)) for one in result.trials if one.verdict.fits)
    return {index: speed for index, speed in timed if speed is not None}


WORTH_WAITING = 0.5
"""Part of the last trial's seconds that a trace is waited for: on a busy machine it comes late, and trials lead meanwhile."""


def _looking_ahead(job: Job, until_found: ExitStack) -> Ahead | None:
    """Where the search is led by a forecast and there is more than one rung. Its first trace, where it isn't kept, is made while the asked
    rung is tried: most launches fit as they are asked, and wait for nothing then."""
    if job.recipe.ladder.search != "predicted" or len(job.ladder.rungs) == 1:
        return None
    from launcher.forecast.lookahead import Ahead

    with doing(FORESEEING):
        return until_found.enter_context(Ahead(job.adapter, job.ladder, job.budget, earlier=past_trials.of(job)))


FORESEEING = "foreseeing what the rungs need (no memory is used for it)"


def _foreseen(ahead: Ahead, job: Job, screen: Screen) -> Mapping[int, float | None]:
    """What the rungs are foreseen to need, told when it is first known."""
    if not ahead.parts:
        began = time.monotonic()
        with doing(FORESEEING):
            ahead.look()
        job.folder.event("foreseen", parts=ahead.parts, why_not=ahead.why_not, seconds=round(time.monotonic() - began, 3))
        screen.foreseen(ahead)
    return ahead.parts


def _as_kept(result: Fit, screen: Screen) -> bool:
    """Takes the trials of an earlier launch for this one's, where nothing that they hang on has changed; whether it did."""
    job = result.job
    with doing("looking whether a kept fit holds: the data, the models, the packages"):
        stands = reuse.standing(job)
    result.standing = stands
    if stands.used and stands.certificate is not None:
        result.trials = reuse.trials_of(stands.certificate, job)
        if _unseen(job, result.trials):
            result.trials.clear()
            why = "no kept fit holds: its trials don't show that the command was read right"
            result.standing = stands = replace(stands, used=False, certificate=None, why=why)
    if stands.used and stands.certificate is not None:
        result.same = SameTraining.of(stands.certificate.same or {})
        result.sames[stands.certificate.rung_index] = result.same
        _take(result, proof.with_cure(job, result.same.cure))
        job = result.job
        result.chosen = next(one for one in result.trials if one.rung.index == stands.certificate.rung_index)
        result.command = start.native_command(job, result.chosen.rung)
        result.status = Status.DONE
        job.folder.event("fitted", status=result.status, rung_index=result.chosen.rung.index, kept=stands.certificate.id)
    _known(result, screen)
    return result.chosen is not None


def _unseen(job: Job, trials: Sequence[Trial]) -> bool:
    """Whether the trials of a person's own command don't show what was read of it, or disprove it."""
    if own_words_of(job.adapter) is None:
        return False
    return not any(one.rung.index == 0 for one in trials) or _misread(job, trials) is not None


def _known(result: Fit, screen: Screen) -> None:
    """What is known of kept fits goes into the record, and is told."""
    assert result.standing is not None
    result.digest = result.standing.facts.digest if result.standing.facts is not None else None
    result.write()
    screen.kept(result)


def _waits(result: Fit) -> int:
    """Times that the trials found their card taken."""
    return sum(trial.verdict.kind is Kind.CARD_TAKEN for trial in result.trials)


MOST_BELOW = 4
"""Trials that look for a setting beyond the ladder which would fit."""


def _look_below(result: Fit, screen: Screen) -> None:
    """Where only the effective batch keeps the micro-batch up: tries lower ones, so that the end can say which command would fit.

    Nothing of it is launched; the person may accept it (``ladder.keep_batch=false``).
    """
    job = result.job
    micro = next(wheel for wheel in job.ladder.wheels if wheel.name == MICRO_BATCH)
    left_out = [trial for trial in result.trials if trial.verdict.source == "accumulation" or (result.refused and trial.verdict.fits)]
    refused = bool(left_out)
    memory = all(trial.verdict.kind is Kind.OUT_OF_MEMORY or trial in left_out for trial in result.trials)
    fixed = type(job.adapter).general and len(micro.values) == 1
    if not job.recipe.ladder.keep_batch or not memory or not (refused or fixed):
        return
    below, before = _below(job), len(result.trials)
    for number, (freed, rung) in enumerate(below, start=before + 1):
        why = "no rung fits; this one would change the effective batch, and is tried for advice alone"
        screen.trying(rung, number, most=before + len(below), why=why)
        tried = trial.recorded(freed, rung, told=screen.phase)
        screen.tried(tried, job)
        if tried.verdict.fits:
            result.nearest, result.nearest_command = tried, job.adapter.full_run(rung, job.budget, folder=job.folder.path)
        if tried.verdict.fits or not tried.verdict.lower_rung_may_help:
            return


def _below(job: Job) -> list[tuple[Job, Rung]]:
    """Rungs with only the micro-batch lowered and accumulation as asked, numbered after the ladder's own; none where they can't be."""
    rules = job.recipe.ladder.model_copy(update={"keep_batch": False, "order": (MICRO_BATCH,), "wheels": {}})
    adapter = type(job.adapter)(job.recipe.model_copy(update={"ladder": rules}))
    try:
        if adapter.check():
            return []
        ladder = build.ladder_of(adapter)
    except BadInput:
        return []
    below = [rung for rung in ladder.rungs[1:] if rung.micro_batch < job.ladder.asked.micro_batch][:MOST_BELOW]
    beyond = len(job.ladder.rungs)
    return [(replace(job, adapter=adapter), replace(rung, index=beyond + at)) for at, rung in enumerate(below)]


def try_one(draft: Draft, screen: Screen) -> tuple[Trial, dict[str, Any]]:
    """Tries the one rung that the recipe names (``rung``). Returns the trial and the final record."""
    last = len(ladder_of(draft).rungs) - 1
    wanted = draft.recipe.rung if draft.recipe is not None else None
    if wanted is None or wanted > last:
        found = "no rung is named" if wanted is None else f"there is no rung {wanted}"
        cure = f"Give one from 0 to {last}; `autofit ladder` numbers them."
        raise BadInput([Fault(key="rung", found=found, cure=cure, where="command line")])
    job, (tried,) = try_some(draft, screen, lambda ladder, made: None if made else ladder.rungs[wanted])
    screen.report(tried, job)
    record = {"status": "done", **tried.as_record(), "run_dir": str(job.folder.path), "report": tried.report}
    job.folder.replace_json(job.folder.final, record)
    return tried, record


def try_some(draft: Draft, screen: Screen, choose: Callable[[Ladder, Sequence[search.Tried]], Rung | None]) -> tuple[Job, list[Trial]]:
    """Tries what is chosen of the ladder, by the trials before, until nothing is."""
    job, made = prepare(draft, queued=screen.queued), list[Trial]()
    screen.plan(job)
    with job.turn, owner.held(job.folder.path):
        while (rung := choose(job.ladder, [as_tried(one, job) for one in made])) is not None:
            made.append(_made(job, rung, screen, number=len(made) + 1))
            if (wrong := _misread_asked(job, made[-1])) is not None and (words := own_words_of(job.adapter)) is not None:
                raise BadInput([Fault(key="ask", found=rung_zero.words(wrong, words.place), cure=rung_zero.cure(wrong), where=PLACE)])
    job.folder.forget_cache()
    return job, made
