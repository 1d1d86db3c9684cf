"""What a person reads, as text; nothing of the person's is taken for markup."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from launcher.adapter.commands import Checkpoint
from launcher.cli import prose
from launcher.cli.launch_view import Display
from launcher.config.schema import LadderRules, Recipe, TrainerRules
from launcher.engine.events import Finished, Fitted, Planned
from launcher.engine.state import Fit, Status
from launcher.errors import Fault
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.search import Tried, Try, next_move
from launcher.ladder.verdict import Kind, Verdict
from launcher.run.attempt import Attempt, Ended, Outcome
from launcher.shared.report import SAMPLES, TrialReport
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from launcher.trial.events import TrialStarted
from launcher.trial.job import Job
from launcher.trial.trial import Trial
from tests.helpers.yolo_recipe import make


def job(tmp_path: Path) -> Job:
    recipe = make("data.yaml").model_copy(update={"summary": "odd [/red] words [bold]", "name": "mine[0]"})
    adapter = UltralyticsAdapter(recipe)
    folder = RunFolder.create(tmp_path, "mine")
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=cpu_budget(), folder=folder)


def shown(draw: object) -> str:
    out = io.StringIO()
    draw(Display(Console(file=out, width=160, highlight=False)))  # type: ignore[operator]
    return out.getvalue()


def test_the_table_shows_each_tried_rung_and_what_was_given_up(tmp_path: Path) -> None:
    here = job(tmp_path)
    failed = Verdict(kind=Kind.OUT_OF_MEMORY, phase="train", why="out of memory [really]", peak_bytes=900 * 2**20)
    fits = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * 2**20)
    seen = {"micro_batch": 2}
    report = TrialReport(
        observed=seen, optimizer_steps=3, step_seconds=0.4, train_samples=100, validation_batches_total=2, validation_batch_seconds=1.0
    )
    trials = [
        Trial(rung=here.ladder.rungs[0], verdict=failed, report=TrialReport(), seconds=8.8, folder=tmp_path),
        Trial(rung=here.ladder.rungs[1], verdict=fits, report=report, seconds=12.0, folder=tmp_path),
    ]
    text = shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, chosen=trials[1], status=Status.DONE))))
    assert "out_of_memory in train" in text and "900 MiB" in text
    assert "200.0 ms" in text, "0.4 s for a micro-batch of 2"
    assert "44 s" in text, "2 epochs x (50 x 0.4 + 2 x 1.0) s"
    assert "given up: micro_batch 2 instead of 4 (effective batch 64, as asked)" in text


def test_no_rung_fits_says_what_could_be_done(tmp_path: Path) -> None:
    text = shown(lambda screen: screen.hear(Fitted(fit=Fit(job=job(tmp_path), status=Status.NO_RUNG_FITS))))
    assert "No rung fits" in text and "Lower a floor, add a wheel, or give it more memory." in text


def test_where_the_machine_beside_its_device_was_short_that_is_what_is_told(tmp_path: Path) -> None:
    here = job(tmp_path)
    short = Verdict(
        kind=Kind.OUT_OF_MEMORY, phase="start", why="the run needs 13 of processes: a higher limit (ulimit -u)", source="processes"
    )
    trials = [Trial(rung=here.ladder.rungs[0], verdict=short, report=TrialReport(), seconds=8.8, folder=tmp_path)]
    text = shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS))))
    assert "for want of what the machine has beside its device" in text and "ulimit -u" in text and "give it more memory" not in text


def test_where_nothing_fits_the_least_need_that_was_seen_is_told(tmp_path: Path) -> None:
    here = job(tmp_path)
    more = Verdict(kind=Kind.OUT_OF_MEMORY, phase="train", why="", source="measured", peak_bytes=1500 * 2**20)
    less = Verdict(kind=Kind.OUT_OF_MEMORY, phase="validate", why="", source="measured", peak_bytes=1100 * 2**20)
    trials = [
        Trial(rung=rung, verdict=verdict, report=TrialReport(), seconds=1.0, folder=tmp_path)
        for rung, verdict in zip(here.ladder.rungs, (more, less), strict=False)
    ]
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS)))).split())
    assert "Nearest: rung 1" in text and "needs 1.1 GiB in phase validate, which device.memory=1.1GiB holds" in text
    refused = replace(less, source="allocator", asked_bytes=100 * 2**20)
    trials[1] = replace(trials[1], verdict=refused)
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS)))).split())
    assert "needs at least 1.2 GiB" in text and "at least device.memory=1.2GiB" in text


def test_a_trial_that_emptied_its_allocators_cache_below_its_cap_has_not_shown_what_it_needs(tmp_path: Path) -> None:
    here = job(tmp_path)
    squeezed = Verdict(kind=Kind.OUT_OF_MEMORY, phase="validate", why="it emptied its cache", source="measured", peak_bytes=850 * 2**20)
    over = replace(squeezed, why="", peak_bytes=1100 * 2**20)
    trials = [
        Trial(rung=rung, verdict=verdict, report=TrialReport(cap_bytes=900 * 2**20), seconds=1.0, folder=tmp_path)
        for rung, verdict in zip(here.ladder.rungs, (over, squeezed), strict=False)
    ]

    def told(trials: list[Trial]) -> str:
        fit = Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS)
        return " ".join(shown(lambda screen: screen.hear(Fitted(fit=fit))).split())

    assert "Nearest: rung 0" in told(trials) and "needs 1.1 GiB" in told(trials)
    assert "Nearest: rung 1" in told(trials[1:]) and "how much it needs was not seen: it emptied its cache" in told(trials[1:])


def test_a_batch_that_no_trial_saw_is_not_told_as_a_fact(tmp_path: Path) -> None:
    here = job(tmp_path)
    fits = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * 2**20)
    steps = {"optimizer_steps": 3, "facts": {SAMPLES: 2}}
    for report, seen in [
        (TrialReport(), False),
        (TrialReport(**steps), False),
        (TrialReport(**steps, observed={"micro_batch": 2, "accumulation": 32}), True),
        (TrialReport(optimizer_steps=3, observed={"micro_batch": 2}), True),
    ]:
        trial = Trial(rung=here.ladder.rungs[1], verdict=fits, report=report, seconds=12.0, folder=tmp_path)
        fit = Fit(job=here, trials=[trial], chosen=trial, status=Status.DONE)
        text = shown(lambda screen, fit=fit: screen.hear(Fitted(fit=fit)))
        assert ("(effective batch 64, as asked)" in text) is seen
        assert ("(effective batch 64 as told; the trial could not see it)" in text) is not seen
        assert fit.as_record()["effective_batch_seen"] is seen and trial.as_record()["effective_batch_seen"] is seen


def test_why_a_rung_that_fits_was_refused_is_told_beside_what_would_fit(tmp_path: Path) -> None:
    here = job(tmp_path)
    fits = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * 2**20)
    below = Trial(rung=here.ladder.rungs[1], verdict=fits, report=TrialReport(), seconds=1.0, folder=tmp_path)
    command = here.adapter.command(below.rung, here.budget, folder=here.folder.path)
    fit = Fit(job=here, status=Status.NO_RUNG_FITS, refused="its sampler draws by the batch size", nearest=below, nearest_command=command)
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=fit))).split())
    assert "that is the asked training: with more accumulation its sampler draws by the batch size. Nearest that fits" in text


def test_a_rung_that_crashed_and_was_passed_over_is_told_where_none_fits(tmp_path: Path) -> None:
    here = job(tmp_path)
    full = Verdict(kind=Kind.OUT_OF_MEMORY, phase="validate", why="", source="measured", peak_bytes=1100 * 2**20)
    crash = Verdict(kind=Kind.CRASHED, phase="train", why="ValueError: a single value per channel")
    trials = [
        Trial(rung=rung, verdict=verdict, report=TrialReport(cap_bytes=900 * 2**20), seconds=1.0, folder=tmp_path)
        for rung, verdict in zip(here.ladder.rungs, (full, crash), strict=False)
    ]
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS)))).split())
    assert "; rung 1 crashed (ValueError: a single value per channel)" in text and "Nearest: rung 0" in text
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials[1:], status=Status.CRASHED)))).split())
    assert "Stopped: the trainer crashed in a trial, which no lower rung would cure." in text


def test_what_autofit_has_turned_in_vain_is_told_as_its_own_fault(tmp_path: Path) -> None:
    here = job(tmp_path)
    why = "the trainer ran accumulation=1 instead of 32"
    ignored = Verdict(kind=Kind.ALTERED, phase="done", why=why, otherwise=("accumulation",))
    trials = [Trial(rung=rung, verdict=ignored, report=TrialReport(), seconds=1.0, folder=tmp_path) for rung in here.ladder.rungs[1:3]]
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS)))).split())
    assert f"autofit turned accumulation, and {why}: it has mistaken how that is said; the script is not at fault" in text
    assert "Please report it, with" in text and "add a wheel" not in text


def test_a_trial_that_proved_nothing_is_no_fault_of_a_command_that_trains(tmp_path: Path) -> None:
    here = job(tmp_path)
    nothing = Verdict(kind=Kind.VACUOUS, phase="train", why="the trial did only 0 of 1 validation batches")
    trial = Trial(rung=here.ladder.asked, verdict=nothing, report=TrialReport(), seconds=1.0, folder=tmp_path)
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=[trial], status=Status.VACUOUS)))).split())
    assert "the trial proved nothing" in text and "(the trial did only 0 of 1 validation batches)" in text
    assert "that is a fault of autofit's, not of the script: please report it, with" in text and "the trainer vacuous" not in text


def test_a_run_that_cannot_be_proven_is_refused_in_its_own_words(tmp_path: Path) -> None:
    here = job(tmp_path)
    refused = Verdict(kind=Kind.NOT_COVERED, phase="setup", why="several evaluation data sets are not covered; give one")
    trial = Trial(rung=here.ladder.asked, verdict=refused, report=TrialReport(), seconds=1.0, folder=tmp_path)
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=[trial], status=Status.NOT_COVERED)))).split())
    assert "can't prove that such a run fits. several evaluation data sets are not covered; give one." in text and "crashed" not in text


def test_another_effective_batch_is_never_silent(tmp_path: Path) -> None:
    here = job(tmp_path)
    rung = replace(here.ladder.rungs[1], accumulation=here.ladder.asked.accumulation)
    fits = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * 2**20)
    trial = Trial(rung=rung, verdict=fits, report=TrialReport(), seconds=12.0, folder=tmp_path)
    text = " ".join(shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=[trial], chosen=trial, status=Status.DONE)))).split())
    assert "effective batch 32 instead of 64" in text and "divide it by 2 for SGD, by 1.4 for Adam" in text
    seen = Trial(rung=here.ladder.asked, verdict=fits, report=TrialReport(facts={SAMPLES: 8}), seconds=12.0, folder=tmp_path)
    text = shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=[seen], chosen=seen, status=Status.DONE))))
    assert "effective batch 128, as the trial saw it; the command's words say 64" in text


def test_a_rung_that_stands_there_twice_is_explained(tmp_path: Path) -> None:
    here = job(tmp_path)
    fits = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * 2**20)
    once, again, other = (
        Trial(rung=here.ladder.rungs[at], verdict=fits, report=TrialReport(), seconds=1.0, folder=tmp_path) for at in (1, 1, 2)
    )

    def told(trials: list[Trial]) -> str:
        fit = Fit(job=here, trials=trials, chosen=trials[-1], status=Status.DONE)
        return " ".join(shown(lambda screen: screen.hear(Fitted(fit=fit))).split())

    assert "rung 1 was tried twice: as it was, and with the correction that makes its update the asked one" in told([once, again])
    assert "tried twice" not in told([once, other])


def test_words_of_the_persons_are_never_taken_for_markup(tmp_path: Path) -> None:
    here = job(tmp_path)
    assert "odd [/red] words [bold]" in shown(lambda screen: screen.hear(Planned(job=here)))
    console = Console(file=(out := io.StringIO()), width=160, highlight=False)
    prose.faults(console, [Fault(key="a[0]", found="[/x] found", cure="cure [y]")])
    assert "[/x] found. cure [y]" in out.getvalue()


def test_no_dot_is_glued_to_a_path() -> None:
    console = Console(file=(out := io.StringIO()), width=160, highlight=False)
    prose.faults(console, [Fault(key="data", found="there is no /data/my.yaml", cure="")])
    assert out.getvalue().rstrip().endswith("/data/my.yaml")


def test_why_another_rung_than_the_estimated_one_is_tried_is_told(tmp_path: Path) -> None:
    rungs = job(tmp_path).ladder.rungs
    oom, fits = (Verdict(kind=kind, phase="train", why="") for kind in (Kind.OUT_OF_MEMORY, Kind.FITS))
    earlier = [*(Tried(rung=rung, verdict=oom, need=1.2) for rung in rungs[1:-1]), Tried(rung=rungs[-1], verdict=fits, need=0.5)]
    move = next_move(job(tmp_path).ladder, [Tried(rung=rungs[0], verdict=oom, need=1.2)], policy="predicted", earlier=earlier)
    assert isinstance(move, Try) and move.rung is not rungs[-1]
    text = " ".join(shown(lambda screen: screen.hear(TrialStarted(rung=move.rung, number=2, why=move.why))).split())
    assert (
        f"rung {move.rung.index} next: rung {rungs[-1].index} is estimated to fit" in text
        and "once this one above it has really failed" in text
    )


def test_memory_that_was_there_all_along_is_not_asked_for(tmp_path: Path) -> None:
    """A trial that lost something to memory by its words alone, far below its cap."""
    here = job(tmp_path)
    lost = Verdict(kind=Kind.OUT_OF_MEMORY, phase="done", why="something was lost: bad_alloc", source="host", peak_bytes=2**20)
    trial = Trial(rung=here.ladder.rungs[0], verdict=lost, report=TrialReport(), seconds=8.8, folder=tmp_path)
    text = shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=[trial], status=Status.NO_RUNG_FITS))))
    assert "how much it needs was not seen: something was lost: bad_alloc" in text and "device.memory=" not in text


def failed(here: Job, tmp_path: Path) -> Fit:
    """A launch whose full run has failed."""
    rung = here.ladder.rungs[0]
    fits = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * 2**20)
    chosen = Trial(rung=rung, verdict=fits, report=TrialReport(), seconds=12.0, folder=tmp_path)
    outcome = Outcome(returncode=1, seconds=9.0, peak_resident_bytes=0, peak_device_bytes=0, peak_bytes=0, memory_failure=None)
    command = here.adapter.command(rung, here.budget, folder=here.folder.path)
    attempt = Attempt(number=1, rung=rung, command=command.shell(), began=0.0)
    return Fit(job=here, trials=[chosen], chosen=chosen, command=command, outcome=outcome, status=Status.FAILED, attempts=[attempt])


def test_a_run_that_ended_long_before_its_length_is_not_called_done_without_a_word_of_that(tmp_path: Path) -> None:
    """Something ended it that its script hides: a signal that it takes for its end, an error that it prints."""
    fit = failed(job(tmp_path), tmp_path)
    assert fit.outcome is not None
    whole = replace(fit.outcome, returncode=0)
    fit.outcome = replace(whole, ended_at="epoch 3 of 40")
    text = shown(lambda screen: screen.hear(Finished(fit=fit)))
    assert "the last that it told was epoch 3 of 40" in text and "what ended it, its words don't say" in text
    fit.outcome = replace(whole, ended_at="epoch 3 of 40", stopped_early="stopping early")
    assert "it says “stopping early”" in shown(lambda screen: screen.hear(Finished(fit=fit)))
    fit.outcome = replace(whole, evidence="RuntimeError: no")
    assert "RuntimeError: no: a traceback is among its last words" in shown(lambda screen: screen.hear(Finished(fit=fit)))
    fit.outcome = whole
    assert "the last that it told" not in shown(lambda screen: screen.hear(Finished(fit=fit)))


def test_after_a_failed_run_the_checkpoint_left_and_how_to_go_on_are_said(tmp_path: Path) -> None:
    here = job(tmp_path)
    fit, last = failed(here, tmp_path), tmp_path / "run" / "weights" / "last.pt"
    assert "checkpoint left" not in shown(lambda screen: screen.hear(Finished(fit=fit)))
    fit.attempts = [replace(fit.attempts[0], left=[Checkpoint(path=last, done=1, unit="epochs")])]
    text = shown(lambda screen: screen.hear(Finished(fit=fit)))
    assert f"checkpoint left: {last}" in text
    (line,) = [line for line in text.splitlines() if line.startswith("to go on from it: ")]
    assert line.endswith(f"autofit resume {here.folder.path}")


def test_of_a_script_that_nobody_has_told_how_to_resume_it_is_not_said_that_it_left_no_checkpoint(tmp_path: Path) -> None:
    fit = failed(job(tmp_path), tmp_path)
    args = {"command": ["python", "train.py"]}
    trainer, ladder = TrainerRules(adapter="script", args=args), LadderRules(order=("micro_batch",))
    script = ScriptAdapter(Recipe(name="mine", ask={"micro_batch": 4}, trainer=trainer, ladder=ladder))
    fit.job = replace(fit.job, adapter=script)
    text = shown(lambda screen: screen.hear(Finished(fit=fit)))
    assert "trainer.args.resume says how this script does" in text and "no checkpoint is left" not in text


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"returncode": 0, "ended": Ended.DIVERGED, "evidence": "epoch 9 loss: nan"},
            "is not done: it has diverged: epoch 9 loss: nan",
        ),
        (
            {"returncode": -15, "ended": Ended.DIVERGED, "evidence": "loss: nan"},
            "diverged (its loss was not finite) and was ended: loss: nan",
        ),
        ({"returncode": -15, "ended": Ended.STALLED}, "stood still and was ended"),
        ({"returncode": 1, "ended": Ended.DISK_FULL, "evidence": "no room is left"}, "could not write: no room is left"),
        ({"returncode": -9, "ended": Ended.KILLED}, "was ended by SIGKILL"),
        ({"returncode": 3, "ended": Ended.CRASHED}, "failed with exit status 3"),
    ],
)
def test_how_a_full_run_failed_is_said_as_it_was(tmp_path: Path, how: dict[str, Any], words: str) -> None:
    fit = failed(job(tmp_path), tmp_path)
    assert fit.outcome is not None
    fit.outcome = replace(fit.outcome, **how)
    text = " ".join(shown(lambda screen: screen.hear(Finished(fit=fit))).split())
    assert words in text and "exit status -" not in text


def test_where_every_rung_fails_at_a_runs_end_the_advice_is_to_draw_no_figures(tmp_path: Path) -> None:
    here = job(tmp_path)
    no = Verdict(kind=Kind.OUT_OF_MEMORY, phase="finish", why="out of memory", peak_bytes=900 * 2**20)
    trials = [Trial(rung=rung, verdict=no, report=TrialReport(), seconds=1.0, folder=tmp_path) for rung in here.ladder.rungs]
    text = shown(lambda screen: screen.hear(Fitted(fit=Fit(job=here, trials=trials, status=Status.NO_RUNG_FITS))))
    assert "trainer.args.plots=False" in text and "floor" not in text
