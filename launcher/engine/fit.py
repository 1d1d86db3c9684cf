"""The story: recipe -> ladder -> trial -> verdict -> launch -> supervise -> record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from launcher.adapter.protocol import load_adapter, own_words_of
from launcher.adapter.recognised import PLACE
from launcher.config import recipe as recipes
from launcher.config.recipe import Draft
from launcher.config.schema import Recipe
from launcher.engine import attempts, reuse
from launcher.engine.resumption import Interrupted as Interruption
from launcher.engine.state import Fit, Status, status_of
from launcher.errors import COMMAND_LINE, BadInput, Fault, Interrupted
from launcher.forecast import past_trials
from launcher.history import owner, peaks, runs
from launcher.history.run_folder import RunFolder, no_run_folder
from launcher.ladder import build, course, search, throughput
from launcher.ladder.rungs import MICRO_BATCH, Ladder, Rung
from launcher.ladder.same_training import SameTraining, as_asked
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine import budget as devices
from launcher.machine import device_lock, host, install, process
from launcher.machine.budget import Budget
from launcher.machine.device_lock import Turn
from launcher.machine.process import Shows
from launcher.paths import tell_launched
from launcher.run import start as launch
from launcher.shared.activity import doing
from launcher.shared.report import Phase
from launcher.shared.sizes import format_size
from launcher.trial import proof, rung_zero, trial
from launcher.trial.job import Job
from launcher.trial.prewarm import MANY_CORES, Standby
from launcher.trial.proof import Proof
from launcher.trial.rung_zero import Misread
from launcher.trial.trial import Trial

if TYPE_CHECKING:  # only a search that is led by it pays for a forecast
    from launcher.forecast.lookahead import Ahead

T = TypeVar("T")


class Screen(attempts.Screen, Protocol):
    """Who is told what happens, as it happens. ``display.Display`` draws it."""

    def queued(self, holder: str) -> None: ...
    def plan(self, job: Job) -> None: ...
    def kept(self, fit: Fit) -> None: ...
    def misread(self, fit: Fit) -> None: ...
    def proven(self, same: SameTraining, rung: Rung, *, refused: str) -> None: ...
    def foreseen(self, ahead: Ahead) -> None: ...
    def timed(self, speeds: Mapping[int, float], fastest: Rung) -> None: ...
    def summary(self, fit: Fit) -> None: ...
    def ended(self, fit: Fit) -> None: ...
    def report(self, trial: Trial, job: Job) -> None: ...


def ladder_of(draft: Draft) -> Ladder:
    """The draft's ladder; nothing is run, no data is looked at. Raises BadInput with all faults."""
    faults = list(draft.faults)
    ladder: Ladder | None = None
    if draft.recipe is not None:
        try:
            ladder = build.ladder_of(load_adapter(draft.recipe.trainer.adapter)(draft.recipe))
        except BadInput as refused:
            faults += refused.faults
    if faults or ladder is None:
        raise BadInput(draft.provenance.placed(faults))
    return ladder


def prepare(draft: Draft, *, queued: Callable[[str], None] | None = None) -> Job:
    """Checks everything that can be checked without running the trainer, waits for the device's turn, then makes the run folder.

    Raises BadInput with all faults; nothing has been launched then, except the recipe's own ``prepare`` command. ``queued`` hears which
    other launch is waited for.
    """
    recipe = draft.recipe
    if recipe is None:
        raise BadInput(draft.faults)
    with doing("checking the recipe, its data and the device"):
        return _prepared(draft, recipe, queued)


def _prepared(draft: Draft, recipe: Recipe, queued: Callable[[str], None] | None) -> Job:
    faults = list(draft.faults)
    try:
        adapter = load_adapter(recipe.trainer.adapter)(recipe)
    except BadInput as refused:
        raise BadInput(draft.provenance.placed([*faults, *refused.faults])) from refused
    ladder = _collect(faults, lambda: build.ladder_of(adapter))
    budget = _collect(faults, lambda: _budget(recipe))
    faults = [fault for fault in faults if fault.key != HELD]  # perhaps another launch holds it, which is waited for
    faults += _disk_faults(Path(recipe.run.root))
    if _to_be_made(draft):  # what is wrong beside the data is told before a command is run
        faults += [fault for fault in _collect(faults, adapter.check) or [] if fault.key != "data"]
        if not faults and ladder is not None:
            _collect(faults, lambda: _make_data(recipe))
            adapter = type(adapter)(recipe)
    if not (faults and _to_be_made(draft)):
        faults += _collect(faults, adapter.check) or []
    if faults or ladder is None:
        raise BadInput(draft.provenance.placed(faults))
    try:
        with ExitStack() as undone:
            turn = undone.enter_context(turn_of(recipe, queued))
            if budget is None or turn.waited:
                budget = _budget_in_turn(recipe, waited=turn.waited)
            folder = RunFolder.create(Path(recipe.run.root), recipe.name)
            undone.pop_all()
    except BadInput as refused:
        raise BadInput(draft.provenance.placed(refused.faults)) from refused
    folder.replace(folder.recipe, recipes.as_yaml(recipe))
    tell_launched(folder.path)
    folder.event("prepared", recipe=recipe.name, device=budget, rungs=len(ladder.rungs), effective_batch=ladder.effective_batch)
    return Job(adapter=adapter, ladder=ladder, budget=budget, folder=folder, turn=turn)


LEAST_DISK_BYTES = 512 * 2**20
"""A run folder with less room than this can't take checkpoints (weights, their average and optimizer state of a small model)."""


def _disk_faults(root: Path) -> list[Fault]:
    """A folder that can't be written, or a disk too full for a run, is told before the trials, not after the first epoch."""
    if (wrong := host.not_writable(root)) is not None:
        return [no_run_folder(root, wrong)]
    free = host.disk_free(root)
    if free >= LEAST_DISK_BYTES:
        return []
    found = f"{root} has {format_size(free)} of disk left, too little for checkpoints"
    return [Fault(key="run.root", found=found, cure="Free space there, or set run.root to a folder on another disk.")]


def _collect(faults: list[Fault], make: Callable[[], T]) -> T | None:
    """What ``make`` gives, or None with its faults added."""
    try:
        return make()
    except BadInput as refused:
        faults += refused.faults
    except PermissionError as error:
        found = f"it may not be looked at: {error.strerror}"
        faults.append(Fault(key="", where=str(error.filename), found=found, cure="Let this user read it and enter its folders."))
    return None


def _budget(recipe: Recipe) -> Budget:
    device = recipe.device

    def found(headroom: float) -> Budget:
        return devices.find(device.kind, index=device.index, memory_bytes=device.memory, headroom=headroom, share=device.share)

    if device.headroom != "auto":
        return found(device.headroom)
    name = found(peaks.USUAL).name
    choice = peaks.choose(peaks.of(peaks.known(), trainer=recipe.trainer.adapter, device=name))
    budget = found(choice.headroom)
    return replace(budget, notes=(*budget.notes, f"device.headroom=auto is {choice.headroom:.1%}: {choice.why}"))


HELD = "device.share"
"""The key of a fault of which time is the cure: others hold the card."""
GIVEN_BACK_S = 10.0
"""How long a card may take to give back what the launch before has held."""


def turn_of(recipe: Recipe, queued: Callable[[str], None] | None = None) -> Turn:
    """The launch's turn on its device, after waiting for others (``queued`` hears for which). Raises BadInput where it must not wait."""
    device = recipe.device
    identity = devices.identity(device.kind, index=device.index)
    wanted = identity != "cpu" if device.turns is None else device.turns
    if not identity or not wanted:
        return Turn()
    launch = f"{recipe.name} in {Path(recipe.run.root).resolve()}"
    with doing("waiting for this launch's turn on the device"):
        return device_lock.take(identity, share=device.share, wait=device.when_taken == "wait", launch=launch, told=queued)


def _budget_in_turn(recipe: Recipe, *, waited: bool) -> Budget:
    """The device as it is in our turn; the launch before may still be giving it back."""
    until = time.monotonic() + (GIVEN_BACK_S if waited else 0.0)
    with doing("looking whether the launch before has given the device back"):
        while True:
            try:
                return _budget(recipe)
            except BadInput as refused:
                if time.monotonic() >= until or any(fault.key != HELD for fault in refused.faults):
                    raise
            time.sleep(0.5)


def fit(job: Job, screen: Screen) -> Fit:
    """Tries rungs until one fits. The record is written as it happens, and says in the end what really happened."""
    result = Fit(job=job, fit_only=True)
    with job.turn, owner.held(job.folder.path), _recorded(result):
        _walk(result, screen)
        screen.summary(result)
    return result


def train(job: Job, screen: Screen, *, show: tuple[Shows, Shows]) -> Fit:
    """Fits, then launches the full run at the rung that fits and sees it to its end."""
    result = Fit(job=job)
    with job.turn, owner.held(job.folder.path), _recorded(result):
        _walk(result, screen)
        screen.summary(result)
        if result.chosen is not None and result.command is not None:
            attempts.see_through(result, screen, show=show)
    if result.outcome is not None:
        screen.ended(result)
    return result


def go_on(interrupted: Interruption, screen: Screen, *, show: tuple[Shows, Shows]) -> Fit:
    """Goes on with a launch: with its trials where no rung had been found, then with its full run unless only trials were asked for."""
    os.chdir(interrupted.cwd)
    with owner.held(interrupted.folder.path), ExitStack() as until_the_end:
        with doing("looking at the recipe, its data, the device and what the run has left"):
            result = _as_it_was(interrupted, screen, until_the_end)
        tell_launched(interrupted.folder.path)
        reuse.goes_on(result.job, result.digest)
        interrupted.folder.event("resumed", attempts=len(result.attempts), trials=len(result.trials))
        with _recorded(result):
            if result.chosen is None:
                _walk(result, screen)
                screen.summary(result)
            if result.chosen is not None and result.command is not None and not result.fit_only:
                attempts.see_through(result, screen, show=show)
    if result.outcome is not None:
        screen.ended(result)
    return result


def _as_it_was(interrupted: Interruption, screen: Screen, until_the_end: ExitStack) -> Fit:
    """The launch with everything that is in its folder; nothing is changed. Raises BadInput where it can't go on here and now."""
    recipe = interrupted.draft.recipe
    assert recipe is not None
    adapter = load_adapter(recipe.trainer.adapter)(recipe)
    ladder = build.ladder_of(adapter)
    made = interrupted.attempts(ladder)
    full = _disk_faults(Path(recipe.run.root)) + [fault for fault in adapter.check() if fault.key not in OWN_FOLDER]
    if full:
        raise BadInput(interrupted.draft.provenance.placed(full))
    with doing("waiting for the processes of the run to end"):
        left = process.wait_for_leftovers(interrupted.folder.path)
    if left:
        found = f"processes of it are still there: {', '.join(map(str, left))}"
        raise BadInput([Fault(key="", where=str(interrupted.folder.path), found=found, cure="End them, or wait until they have ended.")])
    turn = until_the_end.enter_context(turn_of(recipe, screen.queued))
    job = Job(adapter=adapter, ladder=ladder, budget=_budget_in_turn(recipe, waited=turn.waited), folder=interrupted.folder, turn=turn)
    result = Fit(job=job, trials=interrupted.trials(ladder), attempts=made, forgiven=len(made), fit_only=interrupted.fit_only)
    result.digest = (interrupted.record.get("kept") or {}).get("digest")
    said = interrupted.record.get("same_training")
    result.same = SameTraining.of(said) if said is not None else None
    said_of = {one["rung_index"]: one["same_training"] for one in interrupted.record.get("trials", ()) if "same_training" in one}
    result.sames = {index: SameTraining.of(same) for index, same in said_of.items()}
    chosen = interrupted.record["chosen_rung_index"]
    if chosen is not None:
        result.chosen = next(one for one in reversed(result.trials) if one.rung.index == chosen)
        result.command = launch.native_command(job, result.chosen.rung)
    return result


OWN_FOLDER = ("trainer.args.save_dir", "trainer.args.output_dir")
"""Keys of folders that must be empty when a run begins, and hold the run's own files when it goes on."""


@contextmanager
def _recorded(result: Fit) -> Iterator[None]:
    """While open, the record says what is going on; whatever ends it, record and events have that end. A full disk ends nothing."""
    folder = result.job.folder
    result.write()
    try:
        yield
    except KeyboardInterrupt as stopped:
        result.status = Status.INTERRUPTED
        raise _of(result, Interrupted("SIGINT")) from stopped
    except Interrupted as stopped:
        result.status = Status.INTERRUPTED
        raise _of(result, stopped) from None
    except BaseException:
        result.status = Status.STOPPED
        raise
    finally:
        folder.forget_cache()
        result.write()
        reuse.ended(result.job, result.digest)
        folder.event("finished", status=result.status, memory=result.memory, results=result.results)


def _of(result: Fit, stopped: Interrupted) -> Interrupted:
    stopped.run_dir = str(result.job.folder.path)
    trials = f"`autofit resume {stopped.run_dir}` goes on with its trials."
    stopped.how_to_go_on = runs.how_to_go_on(stopped.run_dir, result.attempts[-1].goes_on_from) if result.attempts else trials
    return stopped


def _walk(result: Fit, screen: Screen) -> None:
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
        result.command = launch.native_command(run_as, move.rung)
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
    refused = course.refusal(found.same, *two, less=less) if rung.accumulation > ladder.asked.accumulation else ""
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
        result.command = launch.native_command(job, result.chosen.rung)
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


def as_tried(tried: Trial, job: Job) -> search.Tried:
    """A trial as the search sees it."""
    cap = tried.report.cap_bytes or job.budget.cap_bytes
    by_phase = {use.phase: use.held_bytes / cap for use in tried.report.uses if use.held_bytes}
    need = tried.verdict.peak_bytes / cap if tried.verdict.peak_bytes else None
    if need is not None and Phase.VALIDATE in by_phase:
        by_phase[Phase.VALIDATE] = max(need if need > max(by_phase.values()) else 0.0, by_phase[Phase.VALIDATE])  # with the whole set's
    return search.Tried(rung=tried.rung, verdict=tried.verdict, need=need, by_phase=by_phase)


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


def _to_be_made(draft: Draft) -> bool:
    """Whether the recipe's ``prepare`` is to make its data. It isn't for data that a person has typed: that is there, or is missing."""
    recipe = draft.recipe
    if recipe is None or recipe.prepare is None or recipe.data is None or os.path.exists(recipe.data):
        return False
    typed = draft.provenance.where("data") == COMMAND_LINE
    return not typed or draft.provenance.where("prepare") == COMMAND_LINE


def _make_data(recipe: Recipe) -> None:
    """Runs the recipe's ``prepare`` command. Raises BadInput where it doesn't make the data."""
    assert recipe.prepare is not None and recipe.data is not None
    with doing(f"making the data: {' '.join(recipe.prepare)}"):
        status, said = process.output_of(recipe.prepare)
    if status == 0 and os.path.exists(recipe.data):
        return
    found = f"`{' '.join(recipe.prepare)}` did not make {recipe.data}"
    if missing := install.missing_module(said):
        raise BadInput(
            [Fault(key="prepare", found=f"{found}: it needs {missing}, which is not installed", cure=f"{install.module(missing)}.")]
        )
    raise BadInput([Fault(key="prepare", found=f"{found}: {said.strip()[-2000:]}", cure="Run it by hand, or set data=.")])


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
