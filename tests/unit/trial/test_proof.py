"""What a launch makes of a proof: it is kept with the fit, carried into the run, and a refusal sends the search on without accumulation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from launcher.adapter.protocol import Correction, row_by_row
from launcher.cli.launch_view import Display
from launcher.config.schema import Recipe
from launcher.engine import launch as engine
from launcher.engine.events import Fitted, Proven
from launcher.engine.state import Fit, Status
from launcher.ladder.asked import Asked
from launcher.ladder.rungs import Rung, Wheel, build
from launcher.ladder.same_training import SameTraining, unproven
from launcher.ladder.twins import OF_ITS_LENGTH, OF_ITS_OWN_WAY, Finding, Twin
from launcher.ladder.verdict import Kind, Verdict
from launcher.shared.report import SAID_ACCUMULATION, UPDATES, Phase, PhaseUse, TrialReport
from launcher.shared.sizes import MIB
from launcher.trial import proof, trial
from launcher.trial.job import Job
from launcher.trial.proof import Proof
from launcher.trial.trial import Trial
from launcher.trial.twins import OutOfTime, Twins
from tests.helpers import few
from tests.helpers.few import Few, Launches
from tests.helpers.updates import twin

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


def record_of(fit: Fit) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(fit.job.folder.record.read_text(encoding="utf-8"))
    return said


def shown(fit: Fit) -> str:
    console = Console(record=True, width=400)
    Display(console).hear(Fitted(fit=fit))
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
    proofs.found = Proof(same=replace(SAME, cure={"update": "targets"}, notes=("put right",)), anew=True)
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


def test_the_fastest_rung_is_chosen_among_those_that_were_tried_with_their_cure(
    launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it micro-batches of 6 fit and are the fastest; with it those of 3 are faster than those of 4."""
    proofs.found = Proof(same=replace(SAME, cure={"update": "targets"}), anew=True)
    monkeypatch.setattr(few, "LADDER", build([Wheel(name="micro_batch", values=(12, 6, 4, 3))], effective_batch=12))
    monkeypatch.setattr(few, "NEED", {12: 900 * MIB, 6: 500 * MIB, 4: 300 * MIB, 3: 200 * MIB})
    made, tried = launches.job, list[tuple[int, bool]]()

    def job() -> Job:
        one = made()
        rules = one.recipe.ladder.model_copy(update={"objective": "throughput"})
        return replace(one, adapter=Few(one.recipe.model_copy(update={"ladder": rules}), data=[launches.data], code=[launches.code]))

    def run(job: Job, rung: Rung, **_: Any) -> Trial:
        one, with_cure = launches.trial(job, rung), "update" in job.recipe.trainer.args
        tried.append((rung.micro_batch, with_cure))
        timed = replace(one, report=replace(one.report, step_seconds=0.6 if rung.micro_batch == 3 else 1.0))
        too_large = with_cure and rung.micro_batch > 4
        return replace(timed, verdict=replace(one.verdict, kind=Kind.OUT_OF_MEMORY)) if too_large else timed

    monkeypatch.setattr(launches, "job", job)
    monkeypatch.setattr(trial, "run", run)
    fit = launches.fit()
    assert tried == [(12, False), (6, False), (3, False), (4, False), (6, True), (4, True), (3, True)]
    assert fit.chosen is not None and fit.chosen.rung.micro_batch == 3 and fit.job.recipe.trainer.args["update"] == "targets"


def test_a_cure_with_which_no_trial_runs_is_refused_with_its_reason(
    launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs.found = Proof(same=replace(SAME, cure={"spelled": "outside"}), anew=True)
    monkeypatch.setattr(Few, "check", lambda self: ["it trains at no other batch"], raising=False)

    def tried(job: Job, rung: Rung, **_: Any) -> Trial:
        one = launches.trial(job, rung)
        altered = replace(one.verdict, kind=Kind.ALTERED, why="it steps by itself")
        return one if "spelled" not in job.recipe.trainer.args else replace(one, verdict=altered)

    monkeypatch.setattr(trial, "run", tried)
    fit = launches.fit()
    assert fit.status is Status.NO_RUNG_FITS and "puts it right from outside, and then: it steps by itself" in fit.refused
    assert len(proofs.made) == 1


def test_where_nothing_is_turned_nothing_has_to_be_proven(launches: Launches, proofs: Proofs) -> None:
    launches.budget = replace(launches.budget, cap_bytes=10**9)
    fit = launches.fit()
    assert fit.rung is not None and fit.rung.index == 0 and proofs.made == [] and fit.same is not None and fit.same.proven


def test_a_refusal_leaves_no_rung_with_more_accumulation(launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Few, "check", lambda self: ["it trains at no other batch"], raising=False)
    proofs.found = Proof(same=unproven("rows see each other"), refused="its rows see each other")
    fit = launches.fit()
    assert fit.status is Status.NO_RUNG_FITS and fit.chosen is None and len(proofs.made) == 1
    assert record_of(fit)["same_training"]["refused"] == "its rows see each other"
    said = shown(fit)
    assert "with more accumulation than asked its rows see each other" in said and "--allow-batch" in said, said


def test_a_rung_whose_own_trial_reckons_other_steps_is_refused_whatever_its_twins_say(
    launches: Launches, proofs: Proofs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(job: Job, rung: Rung, **_: Any) -> Trial:
        one = launches.trial(job, rung)
        facts = {UPDATES: 40 // rung.accumulation, SAID_ACCUMULATION: rung.accumulation}
        return replace(one, report=replace(one.report, facts=facts))

    monkeypatch.setattr(trial, "run", tried)
    monkeypatch.setattr(Few, "check", lambda self: ["it trains at no other batch"], raising=False)
    fit = launches.fit()
    assert proofs.made and fit.status is Status.NO_RUNG_FITS and "optimizer steps in all, 40 as asked" in fit.refused
    said = {one["rung_index"]: one["same_training"]["steps"] for one in record_of(fit)["trials"]}
    assert said[0] == "proven" and said[proofs.made[0]].startswith("differs by "), said


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
    fit = engine.fit(replace(launches.job(), ladder=build(wheels, effective_batch=8)))
    assert fit.rung is not None and (fit.rung.values["image_size"], fit.rung.accumulation) == (64, 1)
    assert len(proofs.made) == 1 and fit.same is not None and not fit.same.unproven, "what is launched is as asked, but for its images"
    assert fit.same.gradient == "differs by what is given up: image_size 64 instead of 128"


def test_only_what_is_proven_is_said_to_be_as_asked(tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    rung = build([Wheel(name="micro_batch", values=(8, 4))], effective_batch=8).rungs[1]
    but_for_ends = replace(SAME, samples="differs by 0.5 at the end of each pass")
    Display(console).hear(Proven(rung=rung, same=but_for_ends, refused="", twins=True))
    Display(console).hear(Proven(rung=rung, same=unproven("its rows can't be seen"), refused="", twins=True))
    Display(console).hear(Proven(rung=rung, same=SAME, refused="", twins=True))
    Display(console).hear(Proven(rung=rung, same=SAME, refused="its rows see each other", twins=True))
    said = console.export_text()
    assert "the same training, except samples: differs by 0.5 at the end of each pass" in said
    assert "not proven: gradient, steps, schedule, samples: not comparable because its rows can't be seen" in said
    assert (
        "its updates are 1e-07 apart (rounding: the same)" in said and "rung 1 is not the asked training: its rows see each other" in said
    )


class Proves(Few):
    """A trainer whose full run takes any micro-batch."""

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        return row_by_row(asked)


class Mendable(Proves):
    """A trainer of which cures are known: for an update, for a length, for what a step is made of, for the last step of a pass."""

    def corrected(self, finding: Finding) -> Correction:
        known = self.recipe.trainer.args
        outside = self._with(spelled="outside") if "spelled" not in known else None
        course = self._with(counts=True) if "counts" not in known else None
        cure = self._with(update="average") if "update" not in known else None
        own = {**dict.fromkeys(OF_ITS_OWN_WAY, outside), **dict.fromkeys(OF_ITS_LENGTH, course)}
        ends = [self._with(update="rows"), outside] if outside is not None and "update" not in known else []
        return Correction(recipe=own.get(finding.kind, cure), outside=outside, ends=ends)

    def _with(self, **more: Any) -> Recipe:
        rules = self.recipe.trainer
        return self.recipe.model_copy(update={"trainer": rules.model_copy(update={"args": {**rules.args, **more}})})


@dataclass(frozen=True)
class Told:
    """What one twin is asked."""

    args: Mapping[str, Any]
    micro: int
    accumulation: int
    told: Mapping[str, Any]

    def first_or(self, apart: float, **more: Any) -> Twin:
        """The twin without accumulation is what the others are held against, so far ``apart``."""
        return twin(self.micro, self.accumulation, apart=None if self.accumulation == 1 else apart, **more)

    def same(self, **more: Any) -> Twin:
        return self.first_or(1e-7, **more)

    def counted(self, micro_batches: int = 8) -> int:
        """Steps of a script that counts micro-batches, unless it was told otherwise."""
        return micro_batches if "counts" in self.args else micro_batches // self.accumulation

    def failed(self, why: str, **more: Any) -> Twin:
        return Twin(micro_batch=self.micro, accumulation=self.accumulation, why=f"it failed: {why}", **more)


Play = Callable[[Callable[[Told], Twin]], tuple[Proof, list[str]]]


@pytest.fixture
def played(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> Play:
    """The proof of rung 1 with twins that say what they are told to, and the rounds that were run."""

    def play(says: Callable[[Told], Twin]) -> tuple[Proof, list[str]]:
        rounds = []

        def ran(self: Any, adapter: Any, layouts: Sequence[tuple[int, int]], *, short: bool = True, **told: Any) -> list[Twin]:
            rounds.append(" ".join([*(f"{micro}x{accumulation}" for micro, accumulation in layouts), *sorted(told)]))
            return [says(Told(adapter.recipe.trainer.args, micro, accumulation, told)) for micro, accumulation in layouts]

        monkeypatch.setattr(Twins, "run", ran)
        job = launches.job()
        job = replace(job, adapter=Mendable(job.recipe))  # type: ignore[arg-type]
        return proof.prove(job, job.ladder.rungs[1]), rounds

    return play


def test_one_cure_may_follow_another_and_each_is_proven(played: Play) -> None:
    def says(of: Told) -> Twin:
        if of.accumulation > 1 and "update" not in of.args:
            return of.first_or(of.accumulation - 1.0, factor=float(of.accumulation), rest=1e-7)
        return of.same(steps=of.counted())

    found, _ = played(says)
    assert found.same.proven and not found.refused and found.same.cure == {"update": "average", "counts": True}, found
    assert found.job is not None and found.job.recipe.trainer.args["update"] == "average" and found.job.recipe.trainer.args["counts"]
    assert len(found.same.notes) == 2 and "adds up" in found.same.notes[0]


def test_what_a_cure_leaves_is_named_beside_what_it_cures(played: Play) -> None:
    """As in a separator whose steps of a pass are counted, and whose loss leaves out the worst rows of a micro-batch."""

    def says(of: Told) -> Twin:
        made = of.first_or(0.04, rest=0.04, steps=of.counted())
        return replace(made, whole=32 if of.accumulation == 1 or "counts" in of.args else 8)

    found, _ = played(says)
    assert found.refused.startswith("a pass takes 8 samples at 1 x 4, 32 at 4 x 1; with that corrected its rows see each other"), found


def _other_samples(of: Told) -> Twin:
    return of.same() if of.accumulation == 1 or "spelled" in of.args else of.first_or(0.5, rest=0.5, rows_each=1)


def _drawn_out(of: Told) -> Twin:
    """diffusers' warm-up is so many times as long as it accumulates micro-batches."""
    return of.same(rates=(0.0, 0.1, 0.2) if of.accumulation == 1 or "spelled" in of.args else (0.0, 0.025, 0.05))


@pytest.mark.parametrize(("says", "note"), [
    (_other_samples, "made of 1 samples at 1 x 4, not of 4; put right from outside"),
    (_drawn_out, "the learning rate of step 2 is 0.025 at 1 x 4, 0.1 at 4 x 1; put right from outside"),
])  # fmt: skip
def test_what_a_scripts_own_accumulation_does_otherwise_is_kept_by_accumulating_from_outside_and_tried_again(
    says: Callable[[Told], Twin], note: str, played: Play
) -> None:
    found, _ = played(says)
    assert found.anew and not found.refused and found.same.proven and found.same.cure == {"spelled": "outside"}, found
    assert note in found.same.notes[0]


def test_a_cure_that_does_not_help_is_not_taken(played: Play) -> None:
    found, rounds = played(lambda of: of.first_or(0.5, rest=0.5))
    assert "its rows see each other" in found.refused and found.job is None and found.same.cure == {}
    assert rounds[:2] == ["4x1 1x4", "4x1 1x4 same_row"]


def test_a_repeated_row_without_a_target_is_drawn_again(played: Play) -> None:
    """Masked language modelling masks none of the tokens of a short text now and then: its gradient is zero then."""

    def says(of: Told) -> Twin:
        if "update" in of.args:
            return of.same()
        if of.told.get("same_row") == 1:
            return of.first_or(0.0, factor=0.0, rest=0.0, length=0.0, length_first=0.0)
        return of.first_or(3.0, factor=4.0, rest=1e-7 if of.told else 0.5)

    found, rounds = played(says)
    assert rounds[:3] == ["4x1 1x4", "4x1 1x4 same_row", "4x1 1x4 same_row"] and found.same.cure == {"update": "average"}, found


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


@pytest.mark.parametrize(("error", "words"), [
    (OutOfTime(), "it took longer than 300 s"), (OSError("no space left"), "its twins could not be run: no space left"),
])  # fmt: skip
def test_twins_that_can_not_be_run_to_their_end_are_told_and_stop_no_launch(error: Exception, words: str, played: Play) -> None:
    def says(of: Told) -> Twin:
        raise error

    found, _ = played(says)
    assert not found.refused and words in found.same.gradient


@pytest.mark.parametrize(("micro", "layouts"), [(4, ("2 x 1", "1 x 2")), (1, ("4 x 1", "2 x 2"))])
def test_where_four_rows_are_too_many_or_one_too_few_two_are_taken(micro: int, layouts: tuple[str, str], played: Play) -> None:
    found, _ = played(lambda of: of.failed("out of memory") if of.micro == micro else of.same())
    assert found.same.proven and found.same.layouts == layouts


def test_what_cannot_be_turned_to_single_precision_is_compared_as_it_is(played: Play) -> None:
    calls: list[Told] = []

    def says(of: Told) -> Twin:
        calls.append(of)
        return of.failed("other kinds of numbers", widened=True) if len(calls) <= 2 else of.first_or(4e-3, rest=4e-3, epsilon=2**-7)

    found, rounds = played(says)
    assert found.same.proven and len(rounds) == 2


def test_batch_norm_and_the_end_of_a_pass_get_twins_of_their_own(played: Play) -> None:
    def says(of: Told) -> Twin:
        made = of.same(later=0.5 if "pass_samples" in of.told else 1e-7)
        if "batch_norm_trains" in of.told and of.accumulation > 1:
            made = of.first_or(0.2, rest=0.2)
        return replace(made, batch_norm=True, ragged=True)

    found, rounds = played(says)
    assert rounds[1] == "4x1 2x2 pass_samples" and rounds[-1] == "4x1 2x2 batch_norm_trains" and not found.refused
    assert found.same.gradient.startswith("differs by 0.2 in batch norm alone") and "at the end of each pass" in found.same.samples


@pytest.mark.parametrize("helps", [True, False])
def test_a_schedule_that_is_stepped_with_every_micro_batch_is_held_back_from_outside_or_told(played: Play, helps: bool) -> None:
    found, _ = played(lambda of: of.same(scheduled=1 if "spelled" in of.args and helps else of.accumulation))
    assert not found.refused and found.anew is helps and found.same.cure == ({"spelled": "outside"} if helps else {}), found
    assert found.same.proven is helps and "stepped 8 times by optimizer step 3" in (found.same.notes[0] if helps else found.same.schedule)


@pytest.mark.parametrize(("helps", "anew"), [("update", True), ("spelled", True), ("nothing", False)])
def test_the_end_of_a_pass_is_put_right_by_the_first_cure_that_is_proven(played: Play, helps: str, anew: bool) -> None:
    def says(of: Told) -> Twin:
        return replace(of.same(later=0.5 if "pass_samples" in of.told and helps not in of.args else 1e-7), ragged=True)

    found, _ = played(says)
    assert found.anew is anew and not found.refused and found.same.proven is (helps != "nothing"), found
    assert list(found.same.cure) == ([] if helps == "nothing" else [helps]) and (found.job is None) is (helps == "nothing")
    assert helps == "nothing" or "at the end of each pass" in found.same.notes[0]


def test_other_rows_are_given_the_first_twins_indices(played: Play) -> None:
    def says(of: Told) -> Twin:
        drawn = replace(of.first_or(0.5, rest=0.5), rows=("z",) * 12)
        return drawn if of.accumulation > 1 and "rows" not in of.told else replace(of.same(), indices=("7", "3"))

    found, rounds = played(says)
    assert rounds == ["4x1 1x4", "4x1 1x4 rows rows_of"] and found.same.verdict == "same" and found.same.steps == "proven"
    assert found.same.samples.startswith("not comparable because other rows are drawn at 1 x 4")
    assert "on the same rows" in found.same.gradient


@pytest.mark.parametrize(("apart", "said", "verdict"), [
    (1e-7, "proven", "same"), (0.02, "differs by 0.02: ", "different"),
    (None, "not comparable because its twins took longer than", "not_comparable"),
])  # fmt: skip
def test_what_is_turned_from_outside_is_held_against_the_same_rows_without_it(
    launches: Launches, monkeypatch: pytest.MonkeyPatch, apart: float | None, said: str, verdict: str
) -> None:
    class Outside(Proves):
        asked = Asked(exact=frozenset(("checkpointing",)))

    def ran(self: Twins, asked: Mapping[str, Any]) -> list[Twin]:
        assert asked == {"checkpointing": False}
        if apart is None:
            raise OutOfTime
        return [twin(4, 1), twin(4, 1, apart=apart, rest=apart)]

    monkeypatch.setattr(Twins, "of_values", ran)
    ladder = build([Wheel(name="micro_batch", values=(8,)), Wheel(name="checkpointing", values=(False, True))], effective_batch=8)
    job = replace(launches.job(), ladder=ladder)
    job = replace(job, adapter=Outside(job.recipe))  # type: ignore[arg-type]
    found = proof.of_exact(job, ladder.rungs[1], SAME)
    assert found.gradient.startswith(said) and found.verdict == verdict, found
    assert proof.of_exact(job, ladder.rungs[0], SAME) == SAME, "nothing is turned"
