"""What a person reads, as text; nothing of the person's is taken for markup."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from launcher.contract.report import TrialReport
from launcher.display import Display
from launcher.errors import Fault
from launcher.fit import Fit, Status
from launcher.job import Job
from launcher.record import RunFolder
from launcher.trainers.suite import cpu_budget
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from launcher.trial import Trial
from launcher.verdict import Kind, Verdict
from launcher.wheels import ladder_of
from tests.trainers.ultralytics.test_adapter import make


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
    report = TrialReport(step_seconds=0.4, train_samples=100, validation_batches_total=2, validation_batch_seconds=1.0)
    trials = [
        Trial(rung=here.ladder.rungs[0], verdict=failed, report=TrialReport(), seconds=8.8, folder=tmp_path),
        Trial(rung=here.ladder.rungs[1], verdict=fits, report=report, seconds=12.0, folder=tmp_path),
    ]
    text = shown(lambda screen: screen.summary(Fit(job=here, trials=trials, chosen=trials[1], status=Status.DONE)))
    assert "out_of_memory in train" in text and "900 MiB" in text
    assert "200.0 ms" in text, "0.4 s for a micro-batch of 2"
    assert "44 s" in text, "2 epochs x (50 x 0.4 + 2 x 1.0) s"
    assert "given up: micro_batch 2 instead of 4 (effective batch 64, as asked)" in text


def test_no_rung_fits_says_what_could_be_done(tmp_path: Path) -> None:
    text = shown(lambda screen: screen.summary(Fit(job=job(tmp_path), status=Status.NO_RUNG_FITS)))
    assert "No rung fits" in text and "Lower a floor, add a wheel, or give it more memory." in text


def test_words_of_the_persons_are_never_taken_for_markup(tmp_path: Path) -> None:
    here = job(tmp_path)
    assert "odd [/red] words [bold]" in shown(lambda screen: screen.plan(here))
    assert "[/x] found. cure [y]" in shown(lambda screen: screen.faults([Fault(key="a[0]", found="[/x] found", cure="cure [y]")]))
