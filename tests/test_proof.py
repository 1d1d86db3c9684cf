"""What a launch makes of a proof: it is kept with the fit, carried into the run, and a refusal sends the search on without accumulation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher import proof, story, trial
from launcher.contract.report import Phase, PhaseUse, TrialReport
from launcher.fit import Fit, Status
from launcher.job import Job
from launcher.ladder import Rung, Wheel, build
from launcher.proof import Proof
from launcher.sameness import SameTraining, unproven
from launcher.trial import Trial
from launcher.verdict import Kind, Verdict
from tests.test_kept import Launches, Screen, launches  # noqa: F401

SAME = SameTraining(apart=1e-7, layouts=("4 x 1", "1 x 4"))


class Proofs:
    """Counts the proofs that are made, and says what each comes to."""

    def __init__(self, found: Proof) -> None:
        self.made: list[int] = []
        self.found = found

    def prove(self, job: Job, rung: Rung) -> Proof:
        self.made.append(rung.index)
        return self.found if not self.found.same.cure else replace(self.found, job=proof.with_cure(job, self.found.same.cure))


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> Proofs:
    made = Proofs(Proof(same=SAME))
    monkeypatch.setattr(proof, "prove", made.prove)
    return made


def record_of(fit: Fit) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(fit.job.folder.final.read_text(encoding="utf-8"))
    return said


def test_a_proof_is_made_once_and_kept_with_its_fit(launches: Launches, proofs: Proofs) -> None:  # noqa: F811
    first = launches.fit()
    assert proofs.made == [first.rung.index] if first.rung is not None else False
    assert record_of(first)["same_training"]["gradient"] == "proven" and record_of(first)["same_training"]["layouts"] == ["4 x 1", "1 x 4"]
    second = launches.fit()
    assert launches.tried == [] and len(proofs.made) == 1 and second.same == first.same


def test_what_puts_an_update_right_is_in_the_run_its_recipe_and_the_kept_fit(launches: Launches, proofs: Proofs) -> None:  # noqa: F811
    proofs.found = Proof(same=replace(SAME, cure={"epochs": 5}))
    for fit in (launches.fit(), launches.fit()):
        assert fit.job.recipe.trainer.args["epochs"] == 5 and "epochs: 5" in fit.job.folder.recipe.read_text(encoding="utf-8")
        assert record_of(fit)["same_training"]["cure"] == {"epochs": 5}
    assert len(proofs.made) == 1 and launches.tried == []


def test_where_nothing_is_turned_nothing_has_to_be_proven(launches: Launches, proofs: Proofs) -> None:  # noqa: F811
    launches.budget = replace(launches.budget, cap_bytes=10**9)
    fit = launches.fit()
    assert fit.rung is not None and fit.rung.index == 0 and proofs.made == [] and fit.same is not None and fit.same.proven


def test_a_refusal_leaves_no_rung_with_more_accumulation(launches: Launches, proofs: Proofs) -> None:  # noqa: F811
    proofs.found = Proof(same=unproven("rows see each other"), refused="its rows see each other")
    fit = launches.fit()
    assert fit.status is Status.NO_RUNG_FITS and fit.chosen is None and len(proofs.made) == 1
    assert record_of(fit)["same_training"]["refused"] == "its rows see each other"


def test_a_refusal_sends_the_search_on_to_what_keeps_the_micro_batch(
    launches: Launches,  # noqa: F811
    proofs: Proofs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proofs.found = Proof(same=unproven("rows see each other"), refused="its rows see each other")

    def tried(job: Job, rung: Rung, **_: Any) -> Trial:
        need = rung.micro_batch * int(rung.values["image_size"] or 0)
        kind = Kind.FITS if need <= 8 * 64 else Kind.OUT_OF_MEMORY
        report = TrialReport(phase="done", uses=(PhaseUse(phase=Phase.TRAIN, seconds=1.0, reserved_bytes=need),), cap_bytes=8 * 64)
        report.write(job.folder.trial(rung.index) / "report.json")
        verdict = Verdict(kind=kind, phase="train", why="", source=None if kind is Kind.FITS else "measured", peak_bytes=need)
        return Trial(rung=rung, verdict=verdict, report=report, seconds=1.0, folder=job.folder.trial(rung.index))

    monkeypatch.setattr(trial, "run", tried)
    wheels = [Wheel(name="micro_batch", values=(8, 4, 2)), Wheel(name="image_size", values=(128, 64))]
    job, screen = launches.job(), Screen()
    fit = story.fit(replace(job, ladder=build(wheels, effective_batch=8)), screen)  # type: ignore[arg-type]
    assert fit.rung is not None and (fit.rung.values["image_size"], fit.rung.accumulation) == (64, 1)
    assert len(proofs.made) == 1 and fit.same is not None and fit.same.proven, "what is launched is as asked"


def test_only_what_is_proven_is_said_to_be_as_asked(tmp_path: Path) -> None:
    from rich.console import Console

    from launcher.display import Display

    console = Console(record=True, width=200)
    rung = build([Wheel(name="micro_batch", values=(8, 4))], effective_batch=8).rungs[1]
    Display(console).proven(unproven("its rows can't be seen"), rung, refused="")
    Display(console).proven(SAME, rung, refused="")
    Display(console).proven(SAME, rung, refused="its rows see each other")
    said = console.export_text()
    assert "not proven: gradient not comparable because its rows can't be seen" in said
    assert "updates at 4 x 1, 1 x 4 are 1e-07 apart" in said and "rung 1 is not the asked training: its rows see each other" in said
