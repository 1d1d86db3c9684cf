"""What a person reads, as text; nothing of the person's is taken for markup."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autofit_launcher.adapter.commands import Checkpoint
from autofit_launcher.cli.launch_view import Display
from autofit_launcher.cli.say import Terminal
from autofit_launcher.common.report import SAMPLES, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.engine.launch import Launch
from autofit_launcher.errors import Fault
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history.records import AttemptRecord, RunRecord, Status
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from tests.helpers import script
from tests.helpers.yolo_recipe import make


def job(tmp_path: Path) -> Job:
    recipe = make("data.yaml").model_copy(update={"summary": "odd [/red] words [bold]", "name": "mine[0]"})
    return script.job(UltralyticsAdapter(recipe), tmp_path)


def shown(draw: object) -> str:
    out = io.StringIO()
    draw(Display(Console(file=out, width=160, highlight=False)))  # type: ignore[operator]
    return out.getvalue()


REPORT = TrialReport()
FITS = Verdict(kind=Kind.FITS, phase="done", why="fits", peak_bytes=700 * MIB)


def out_of_memory(peak: int = 0, *, phase: str = "train", why: str = "", **more: Any) -> Verdict:
    return Verdict(kind=Kind.OUT_OF_MEMORY, phase=phase, why=why, peak_bytes=peak * MIB, **more)


def tried(here: Job, *verdicts: Verdict, at: int = 0, report: TrialReport = REPORT) -> list[Trial]:
    """A trial with each verdict, from the rung ``at`` on."""
    pairs = zip(here.ladder.rungs[at:], verdicts, strict=False)
    return [Trial(rung=rung, verdict=one, report=report, seconds=1.0, folder=here.folder.path) for rung, one in pairs]


def said(here: Job, trials: Sequence[Trial] = (), status: Status = Status.NO_RUNG_FITS, **more: Any) -> str:
    """What is said of a fit, in one line; of one that is done the last trial is the chosen one."""
    chosen = trials[-1] if status is Status.DONE else None
    fit = Launch(job=here, trials=list(trials), chosen=chosen, status=status, **more)
    return " ".join(shown(lambda screen: screen.fitted(fit)).split())


def test_each_trial_has_its_line_and_what_was_given_up_is_told(tmp_path: Path) -> None:
    here = job(tmp_path)
    report = replace(REPORT, observed={"micro_batch": 2}, optimizer_steps=3)
    failed, fits = *tried(here, out_of_memory(900, why="[really]")), *tried(here, FITS, at=1, report=report)
    text = " ".join(shown(lambda screen: screen.trial_ended(failed)).split())
    assert f"rung 0 ({failed.rung}) out_of_memory 900 MiB 1.0 s: [really]" in text
    text = " ".join(shown(lambda screen: (screen.planned(here), [screen.trial_ended(one) for one in (failed, fits)])).split())
    assert "rung 0 (as asked) out_of_memory" in text and "rung 1 (micro_batch 2) fits" in text
    text = said(here, [failed, replace(fits, kept="2026-11-01")], Status.DONE)
    assert "rung 1" in text and "kept" in text and "given up: micro_batch 2 instead of 4 (effective batch 64, as asked)" in text


def test_where_nothing_fits_the_least_need_that_was_seen_is_told(tmp_path: Path) -> None:
    here = job(tmp_path)
    assert "No rung fits" in said(here) and "a lower floor or another wheel of the ladder" in said(here)
    more, less = out_of_memory(1500, source="measured"), out_of_memory(1100, phase="validate", source="measured")
    text = said(here, tried(here, more, less))
    assert "MiB: rung 1" in text and "needs 1.1 GiB in phase validate" in text
    assert "needs at least 1.5 GiB in phase train" in said(here, tried(here, more)), "its validation was not seen"
    text = said(here, tried(here, more, replace(less, source="allocator", asked_bytes=100 * MIB)))
    assert "needs at least 1.2 GiB" in text and "at least device.memory=" in text
    lost = out_of_memory(1, phase="done", why="something was lost: bad_alloc", source="host")
    text = said(here, tried(here, lost))
    assert "how much was not seen" in text and "device.memory=" not in text, "that memory was there all along"
    squeezed = tried(here, out_of_memory(850, why="it emptied its cache", source="measured"), report=TrialReport(cap_bytes=900 * MIB))
    assert "how much was not seen" in said(here, squeezed)


def test_a_batch_that_no_trial_saw_is_not_told_as_a_fact(tmp_path: Path) -> None:
    here = job(tmp_path)
    steps: dict[str, Any] = {"optimizer_steps": 3, "facts": {SAMPLES: 2}}
    for report, seen in [
        (TrialReport(), False),
        (TrialReport(**steps), False),
        (TrialReport(**steps, observed={"micro_batch": 2, "accumulation": 32}), True),
        (TrialReport(optimizer_steps=3, observed={"micro_batch": 2}), True),
    ]:
        (trial,) = tried(here, FITS, at=1, report=report)
        text = said(here, [trial], Status.DONE)
        assert ("(effective batch 64, as asked)" in text) is seen
        assert ("(effective batch 64 as told; the trial could not see it)" in text) is not seen
        fit = Launch(job=here, trials=[trial], chosen=trial, status=Status.DONE)
        assert fit.as_record()["effective_batch_seen"] is seen and trial.record().effective_batch_seen is seen


CRASH = Verdict(kind=Kind.CRASHED, phase="train", why="ValueError: a single value per channel")
NOTHING = Verdict(kind=Kind.VACUOUS, phase="train", why="the trial did only 0 of 1 validation batches")
SHORT = out_of_memory(phase="start", why="the run needs 13 of processes: a higher limit (ulimit -u)", source="processes")


@pytest.mark.parametrize(("verdicts", "status", "words", "never"), [
    ([SHORT], Status.NO_RUNG_FITS, ("No rung fits what the machine has beside its device",), "more memory"),
    ([out_of_memory(1100, source="measured"), CRASH], Status.NO_RUNG_FITS, ("rung 0 (",), "report it"),
    ([CRASH], Status.CRASHED, ("Stopped: the trainer crashed in a trial, which no lower rung would cure.",), "Nearest"),
    ([NOTHING], Status.VACUOUS,
     ("the trial proved nothing", f"({NOTHING.why})", "that is a fault of autofit's: please report it, with"),
     "the trainer vacuous"),
])  # fmt: skip
def test_why_nothing_is_launched_is_told_in_the_words_of_what_happened(
    verdicts: list[Verdict], status: Status, words: tuple[str, ...], never: str, tmp_path: Path
) -> None:
    here = job(tmp_path)
    text = said(here, tried(here, *verdicts), status)
    assert [one for one in words if one not in text] == [] and never not in text, text


def test_another_effective_batch_is_never_silent(tmp_path: Path) -> None:
    here = job(tmp_path)
    (lower,), (seen,) = tried(here, FITS, at=1), tried(here, FITS, report=TrialReport(facts={SAMPLES: 8}))
    text = said(here, [replace(lower, rung=replace(lower.rung, accumulation=here.ladder.asked.accumulation))], Status.DONE)
    assert text.count("32 instead of 64") == 2 and "divide it by 2 for SGD, by 1.4 for Adam" in text
    assert "effective batch 128, as the trial saw it; the command's words say 64" in said(here, [seen], Status.DONE)


def test_words_of_the_persons_are_never_taken_for_markup_and_no_dot_is_glued_to_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = job(tmp_path)
    assert "odd [/red] words [bold]" in shown(lambda screen: screen.planned(here))
    faults = [Fault(key="a[0]", found="[/x] found", cure="cure [y]"), Fault(key="b", found="no /data/my.yaml", cure="")]
    Terminal(as_json=False).faults(faults)
    told = capsys.readouterr().err
    assert "[/x] found. cure [y]" in told and told.rstrip().endswith("/data/my.yaml")


def failed(here: Job, tmp_path: Path) -> Launch:
    """A launch whose full run has failed."""
    rung = here.ladder.rungs[0]
    (chosen,) = tried(here, FITS)
    outcome = RunRecord(returncode=1, seconds=9.0, ended=Ended.DONE)
    command = here.adapter.command(rung, here.budget, folder=here.folder.path)
    attempt = AttemptRecord(rung_index=rung.index, command=command.shell())
    return Launch(job=here, trials=[chosen], chosen=chosen, command=command, outcome=outcome, status=Status.FAILED, attempts=[attempt])


def test_a_run_that_ended_long_before_its_length_is_not_called_done_without_a_word_of_that(tmp_path: Path) -> None:
    """Something ended it that its script hides: a signal that it takes for its end, an error that it prints."""
    fit = failed(job(tmp_path), tmp_path)
    assert fit.outcome is not None
    whole = RunRecord(returncode=0, seconds=9.0, ended=Ended.DONE)
    fit.outcome = whole.model_copy(update={"ended_at": "epoch 3 of 40"})
    text = shown(lambda screen: screen.finished(fit))
    assert "the last that it told was epoch 3 of 40" in text and "what ended it, its words don't say" in text
    fit.outcome = whole.model_copy(update={"ended_at": "epoch 3 of 40", "stopped_early": "stopping early"})
    assert "it says “stopping early”" in shown(lambda screen: screen.finished(fit))
    fit.outcome = whole.model_copy(update={"evidence": "RuntimeError: no"})
    assert "RuntimeError: no: a traceback is among its last words" in shown(lambda screen: screen.finished(fit))
    fit.outcome = whole
    assert "the last that it told" not in shown(lambda screen: screen.finished(fit))


def test_after_a_failed_run_the_checkpoint_left_and_how_to_go_on_are_said(tmp_path: Path) -> None:
    here = job(tmp_path)
    fit, last = failed(here, tmp_path), tmp_path / "run" / "weights" / "last.pt"
    assert "checkpoint left" not in shown(lambda screen: screen.finished(fit))
    fit.note(left=[Checkpoint(path=last, done=1, unit="epochs")])
    text = shown(lambda screen: screen.finished(fit))
    assert f"checkpoint left: {last}" in text and f"`autofit resume {here.folder.path}` goes on with it" in " ".join(text.split())


def test_of_a_script_that_nobody_has_told_how_to_resume_it_is_not_said_that_it_left_no_checkpoint(tmp_path: Path) -> None:
    fit = failed(job(tmp_path), tmp_path)
    fit.job = replace(fit.job, adapter=ScriptAdapter(script.recipe(ask={"micro_batch": 4})))
    text = shown(lambda screen: screen.finished(fit))
    assert "trainer.args.resume says how this script does" in text and "no checkpoint is left" not in text


@pytest.mark.parametrize(("how", "words"), [
    ({"returncode": 0, "ended": Ended.DIVERGED, "evidence": "loss: nan"}, "has diverged: its loss was not finite: loss: nan"),
    ({"returncode": -15, "ended": Ended.STALLED}, "stood still and was ended"),
    ({"returncode": 1, "ended": Ended.UNWRITABLE, "evidence": "no room is left"}, "could not write: no room is left"),
    ({"returncode": -9, "ended": Ended.KILLED}, "was ended by SIGKILL"),
    ({"returncode": 3, "ended": Ended.CRASHED}, "failed with exit status 3"),
])  # fmt: skip
def test_how_a_full_run_failed_is_said_as_it_was(tmp_path: Path, how: dict[str, Any], words: str) -> None:
    fit = failed(job(tmp_path), tmp_path)
    assert fit.outcome is not None
    fit.outcome = fit.outcome.model_copy(update=how)
    text = " ".join(shown(lambda screen: screen.finished(fit)).split())
    assert words in text and "exit status -" not in text
