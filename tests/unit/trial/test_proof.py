"""What a launch makes of a proof: it is kept with the fit, carried into the run, and a refusal sends the search on without accumulation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autofit_launcher.adapter.protocol import Asked, Correction, row_by_row
from autofit_launcher.cli.launch_view import Display
from autofit_launcher.common.orders import FAILED
from autofit_launcher.common.report import Phase, PhaseUse, TrialReport
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine.launch import Launch
from autofit_launcher.history.records import Status
from autofit_launcher.ladder.rungs import Rung, Wheel, build
from autofit_launcher.ladder.same_training import SameTraining, unproven
from autofit_launcher.ladder.twins import Finding, FindingKind, Step, Twin
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trial import proof, trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.proof import OutOfTime, Proof, read
from autofit_launcher.trial.trial import Trial
from tests.helpers.few import Few, Launches
from tests.helpers.updates import twin, write

SAME = SameTraining(apart=1e-7, layouts=("4 x 1", "1 x 4"))


class Proofs:
    """Counts the proofs that are made, and says what each comes to."""

    def __init__(self, found: Proof) -> None:
        self.made: list[int] = []
        self.found = found

    def prove(self, job: Job, rung: Rung) -> Proof:
        self.made.append(rung.index)
        if self.found.same.cure and self.found.same.cure.items() <= job.recipe.trainer.args.items():
            return Proof(same=SAME)  # the launch has it
        return self.found if not self.found.same.cure else replace(self.found, job=proof.with_cure(job, self.found.same.cure))


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> Proofs:
    made = Proofs(Proof(same=SAME))
    monkeypatch.setattr(proof, "prove", made.prove)
    return made


def record_of(fit: Launch) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(fit.job.folder.record.read_text(encoding="utf-8"))
    return said


def shown(fit: Launch) -> str:
    console = Console(record=True, width=400)
    Display(console).fitted(fit)
    return console.export_text()


def test_a_proof_is_made_once_and_kept_with_its_fit(launches: Launches, proofs: Proofs) -> None:
    first = launches.fit()
    assert proofs.made == [first.rung.index] if first.rung is not None else False
    assert record_of(first)["same_training"]["gradient"] == "proven" and record_of(first)["same_training"]["layouts"] == ["4 x 1", "1 x 4"]
    second = launches.fit()
    assert launches.tried == [] and len(proofs.made) == 1 and second.same == first.same


def test_what_puts_an_update_right_is_in_the_run_its_recipe_and_the_kept_fit(launches: Launches, proofs: Proofs) -> None:
    proofs.found = Proof(same=replace(SAME, cure={"epochs": 5}))
    for fit in (launches.fit(), launches.fit()):
        assert fit.job.recipe.trainer.args["epochs"] == 5 and "epochs: 5" in fit.job.folder.recipe.read_text(encoding="utf-8")
        assert record_of(fit)["same_training"]["cure"] == {"epochs": 5}
    assert len(proofs.made) == 1 and launches.tried == []


@pytest.mark.parametrize("room_for", [4, 2, 0])
def test_a_rung_with_its_cure_is_tried_again_and_below_it_every_trial_has_it(
    launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch, room_for: int
) -> None:
    """Without it micro-batches of 4 fit; with it those of ``room_for``."""
    proofs.found = Proof(same=replace(SAME, cure={"update": "targets"}, notes=("put right",)))
    monkeypatch.setattr(Few, "check", lambda self: ["it trains at no other batch"], raising=False)
    with_cure: list[int] = []

    def tried(job: Job, rung: Rung, **_: Any) -> Trial:
        one = launches.trial(job, rung)
        if "update" not in job.recipe.trainer.args:
            return one
        with_cure.append(rung.micro_batch)
        kind = Kind.FITS if rung.micro_batch <= room_for else Kind.OUT_OF_MEMORY
        return replace(one, verdict=replace(one.verdict, kind=kind, why="" if kind is Kind.FITS else "no room", peak_bytes=123))

    monkeypatch.setattr(trial, "run", tried)
    fit = launches.fit()
    assert launches.tried == [8, 4, *with_cure] and with_cure == [4, 2][: 1 if room_for == 4 else 2], "the one above has failed without it"
    if not room_for:
        assert fit.status is Status.NO_RUNG_FITS and fit.chosen is None and "3 of 3 rungs tried." in shown(fit)
        return
    assert fit.chosen is not None and fit.chosen.rung.micro_batch == room_for and fit.chosen.verdict.peak_bytes == 123
    assert fit.job.recipe.trainer.args["update"] == "targets" and fit.same is not None
    assert fit.same.cure == {"update": "targets"} and fit.same.notes == ("put right",)
    again = launches.fit()
    assert launches.tried == [] and again.chosen is not None and again.chosen.verdict.peak_bytes == 123, "the kept fit is of that trial"
    assert again.job.recipe.trainer.args["update"] == "targets"


@pytest.mark.parametrize("fixed", [False, True])
def test_a_refusal_leaves_no_rung_with_more_accumulation(
    launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch, fixed: bool
) -> None:
    monkeypatch.setattr(Few, "check", lambda self: ["it trains at no other batch"] * fixed, raising=False)
    proofs.found = Proof(same=unproven("rows see each other"), refused="its rows see each other")
    fit = launches.fit()
    assert fit.status is Status.NO_RUNG_FITS and fit.chosen is None and len(proofs.made) == 1
    assert record_of(fit)["same_training"]["refused"] == "its rows see each other"
    said = shown(fit)
    assert "with more accumulation than asked its rows see each other" in said, said
    assert ("--allow-batch" in said) is not fixed, said


def test_a_refusal_sends_the_search_on_to_what_keeps_the_micro_batch(
    launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch
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
    fit = engine.begin(replace(launches.job(), ladder=build(wheels, effective_batch=8)))
    assert fit.rung is not None and (fit.rung.values["image_size"], fit.rung.accumulation) == (64, 1)
    assert len(proofs.made) == 1 and fit.same is not None and not fit.same.unproven, "what is launched is as asked, but for its images"
    assert fit.same.gradient == "differs by what is given up: image_size 64 instead of 128"


class Mendable(Few):
    """A trainer whose full run takes any micro-batch, and of which a cure is known."""

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        return row_by_row(asked)

    def corrected(self, finding: Finding) -> Correction:
        return Correction(cure={"update": "average"} if finding.kind in (FindingKind.FACTOR, FindingKind.WEIGHTED) else {})


@dataclass(frozen=True)
class Told:
    """What one twin is asked."""

    args: Mapping[str, Any]
    micro: int
    accumulation: int
    told: Mapping[str, Any]

    def first_or(self, apart: float, **more: Any) -> Twin:
        """The twin without accumulation is what the other is held against, so far ``apart``."""
        return twin(self.micro, self.accumulation, apart=None if self.accumulation == 1 else apart, **more)

    def same(self, **more: Any) -> Twin:
        return self.first_or(1e-7, **more)


Play = Callable[..., tuple[Proof, list[str]]]


@pytest.fixture
def played(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> Play:
    """The proof of rung 1 with twins that say what they are told to, and the rounds that were run."""

    def play(says: Callable[[Told], Twin], micro: int = 4) -> tuple[Proof, list[str]]:
        rounds = []

        def ran(self: Any, adapter: Any, layouts: Sequence[tuple[int, int]], asked: Any, **told: Any) -> list[list[Twin]]:
            rounds.append(" ".join([*(f"{micro}x{accumulation}" for micro, accumulation in layouts), *sorted(told)]))
            return [[says(Told(adapter.recipe.trainer.args, micro, accumulation, told))] for micro, accumulation in layouts]

        monkeypatch.setattr(proof._Proving, "_run", ran)
        job = launches.job()
        job = replace(job, adapter=Mendable(job.recipe))  # type: ignore[arg-type]
        return proof.prove(job, replace(rung := job.ladder.rungs[1], values={**rung.values, "micro_batch": micro})), rounds

    return play


def test_a_factor_is_put_right_and_proven_so(played: Play) -> None:
    found, rounds = played(lambda of: of.same() if "update" in of.args else of.first_or(3.0, factor=4.0, rest=1e-7))
    assert found.same.proven and not found.refused and found.same.cure == {"update": "average"} and "adds up" in found.same.notes[0], found
    assert found.job is not None and found.job.recipe.trainer.args["update"] == "average" and rounds == ["4x1 1x4"] * 2


def test_a_cure_that_does_not_help_is_not_taken(played: Play) -> None:
    found, rounds = played(lambda of: of.first_or(0.5, factor=4.0, rest=1e-7 if of.told else 0.5))
    assert "averaged by itself" in found.refused and found.job is None and found.same.cure == {}
    assert rounds == ["4x1 1x4", "4x1 1x4 same_row"] * 2


def test_rows_that_see_each_other_have_no_cure(played: Play) -> None:
    found, rounds = played(lambda of: of.first_or(0.5, rest=0.5))
    assert "its rows see each other" in found.refused and found.job is None and rounds == ["4x1 1x4", "4x1 1x4 same_row"]


def _late(of: Told) -> Twin:
    """Time is up once it is known that something differs."""
    if of.told or "update" in of.args:
        raise OutOfTime
    return of.first_or(0.5, rest=0.5)


def test_what_is_known_to_differ_is_refused_though_no_time_is_left_to_say_why(played: Play) -> None:
    found, _ = played(_late)
    assert "50.0% apart" in found.refused and found.same.gradient.startswith("differs by 0.5")


def test_what_a_trainer_doubts_is_launched_and_told_as_not_comparable(played: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mendable, "corrected", lambda self, finding: Correction(doubted=f"{finding.why}, in doubt"))
    found, _ = played(_late)
    assert not found.refused and found.same.gradient.startswith("not comparable because its gradients at 1 x 4 are 50.0% apart"), found
    assert found.same.gradient.endswith("in doubt")


@pytest.mark.parametrize(("error", "words"), [(OutOfTime(), "took longer than 300 s"), (OSError("no space left"), "no space left")])
def test_twins_that_can_not_be_run_to_their_end_are_told_and_stop_no_launch(error: Exception, words: str, played: Play) -> None:
    def says(of: Told) -> Twin:
        raise error

    found, _ = played(says)
    assert not found.refused and words in found.same.gradient


@pytest.mark.parametrize(("micro", "layouts"), [(4, ("2 x 1", "1 x 2")), (1, ("4 x 1", "2 x 2"))])
@pytest.mark.parametrize("steps", [0, 1])
def test_where_four_rows_are_too_many_or_one_too_few_two_are_taken(micro: int, layouts: tuple[str, str], steps: int, played: Play) -> None:
    """At once, or in the second step, when an optimizer holds its moments: YOLO's lower rungs were refused then, for fewer steps."""
    failed = {"steps": steps, "ended": "failed", "why": "out of memory"}
    found, _ = played(lambda of: of.same(**failed) if of.micro == micro else of.same())
    assert found.same.proven and found.same.layouts == layouts


@pytest.mark.parametrize("length", [0.0, math.nan])
@pytest.mark.parametrize(("micro", "rounds"), [(16, ["4x1 1x4", "16x1 4x4"]), (4, ["4x1 1x4"])])
def test_where_so_few_rows_show_nothing_as_many_as_the_rungs_own_are_taken(
    length: float, micro: int, rounds: list[str], played: Play
) -> None:
    """A spread of one value is no number, and a loss of pairs of one class is zero where no two rows are of one."""

    def says(of: Told) -> Twin:
        few = of.micro * of.accumulation == 4 and not of.told
        return of.same(length=length, length_first=length) if few else of.first_or(0.5, rest=0.5)

    found, ran = played(says, micro)
    assert ran[: len(rounds)] == rounds and bool(found.refused) is (micro > 4)
    assert (found.same.verdict == "not_comparable") is (micro == 4)


@pytest.mark.parametrize(("apart", "said", "verdict"), [
    (1e-7, "proven", "same"), (0.02, "differs by 0.02: ", "different"),
    (None, "not comparable because its twins took longer than", "not_comparable"),
])  # fmt: skip
def test_what_is_turned_from_outside_is_held_against_the_same_rows_without_it(
    launches: Launches, monkeypatch: pytest.MonkeyPatch, apart: float | None, said: str, verdict: str
) -> None:
    class Outside(Mendable):
        asked = Asked(exact=frozenset(("checkpointing",)))

    def ran(self: Any, adapter: Any, layouts: Sequence[tuple[int, int]], asked: Mapping[str, Any], **told: Any) -> list[list[Twin]]:
        assert asked == {"checkpointing": False} and layouts[0] == layouts[1]
        if apart is None:
            raise OutOfTime
        return [[twin(4, 1)], [twin(4, 1, apart=apart, rest=apart)]]

    monkeypatch.setattr(proof._Proving, "_run", ran)
    ladder = build([Wheel(name="micro_batch", values=(8,)), Wheel(name="checkpointing", values=(False, True))], effective_batch=8)
    job = replace(launches.job(), ladder=ladder)
    job = replace(job, adapter=Outside(job.recipe))  # type: ignore[arg-type]
    found = proof.of_exact(job, ladder.rungs[1], SAME)
    assert found.gradient.startswith(said) and found.verdict == verdict, found
    assert proof.of_exact(job, ladder.rungs[0], SAME) == SAME, "nothing is turned"


# ----------------------------------------------------------------------------------------------------------------------
# What twins wrote down


def test_what_a_twin_wrote_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, 7, steps=[{"optimizer": 0, "rows": 4, "settings": [{"lr": "0.1"}], "weights": "w"}])
    (found,) = read(tmp_path, 4, 1, 1)
    assert found.steps == (Step(optimizer=0, rows=4, settings=({"lr": "0.1"},), weights="w"),) and found.ended == "exit"
    assert found.rows == ("a", "b") and found.whole == [64, 64]
    write(tmp_path, 8, steps=[{"optimizer": 0, "rows": 4, "settings": [], "against": {"apart": 0.5}}])
    assert read(tmp_path, 4, 1, 1)[0].why == "2 processes made steps, and 1 were read of the command"
    assert read(tmp_path / "none", 4, 1, 1)[0].why == "no optimizer of torch's made a step"
    (tmp_path / "caught").mkdir()
    write(tmp_path / "caught", 7, steps=[{"optimizer": 0, "rows": 4, "settings": []}])
    (tmp_path / "caught" / "log").write_text("can't allocate memory\n", encoding="utf-8")
    (tmp_path / "caught" / FAILED).touch()
    (found,) = read(tmp_path / "caught", 4, 1, 1)
    assert (found.ended, found.why) == ("failed", "an error that it caught (its last words: can't allocate memory)"), "Ultralytics' program"
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "log").write_text("Traceback\nModuleNotFoundError: No module named 'soundfile'\n\n", encoding="utf-8")
    assert "No module named 'soundfile'" in read(tmp_path / "early", 4, 1, 1)[0].why


def test_each_rank_is_held_against_the_same_one(tmp_path: Path) -> None:
    for number, rows in ((0, ["a", "b"]), (1, ["c", "d"])):
        steps = [{"optimizer": 0, "rows": 2, "settings": [{"lr": "0.1"}]}]
        write(tmp_path, 30 - number, steps=steps, rank=number, size=2, rows=rows)
    write(tmp_path, 5, steps=[])  # torchrun's own
    found = read(tmp_path, 2, 1, 2)
    assert [one.rows for one in found] == [("a", "b"), ("c", "d")] and found[0].layout == "2 x 1 x 2 ranks"
    assert "2 processes made steps, and 1 were read" in read(tmp_path, 2, 1, 1)[0].why
