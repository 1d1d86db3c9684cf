"""Rung 0 is the person's own words: what its trial ran is what was asked, whatever was read of them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.cli.launch_view import Display
from autofit_launcher.common.report import (
    DIVIDED_BY,
    DRAWN_BATCH,
    LEFT_AFTER,
    MICRO_BATCHES,
    OWN_ACCUMULATION,
    PASS_SAMPLES,
    SAID_ACCUMULATION,
    SAMPLES,
    TRAINED,
    WORLD_SIZE,
    TrialReport,
)
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine.launch import Launch
from autofit_launcher.history.records import Status
from autofit_launcher.ladder.rungs import Ladder, Rung
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial import rung_zero, trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.rung_zero import Misread
from autofit_launcher.trial.trial import Trial
from tests.helpers import script


def adapter(
    tmp_path: Path, *words: str, ask: dict[str, int] | None = None, spelled: dict[str, str] = script.FLAGS, **more: Any
) -> ScriptAdapter:
    """A command that was read as 32 samples, once, from the source's defaults unless words say it."""
    (tmp_path / "train.py").write_text("")
    says = {"micro_batch": 32, "accumulation": 1, **(ask or {})}
    args = {"command": ["python", str(tmp_path / "train.py"), *words], "spelled": spelled, "says": says, **more.pop("args", {})}
    return ScriptAdapter(script.recipe(ask=says, **args, more={"trial": {"proof_timeout_s": 0}}, **more))


def tried(ladder: Ladder, *, at: int = 0, rung: Rung | None = None, kind: Kind = Kind.FITS, told: int | None = None, **facts: Any) -> Trial:
    """A trial, with what it observed under the wheels' names and everything else as facts."""
    observed = {name: facts.pop(name) for name in ("micro_batch", "accumulation") if name in facts}
    report = TrialReport(observed=observed, facts=facts, optimizer_steps=0 if kind is Kind.OUT_OF_MEMORY else 4)
    rung = rung or ladder.rungs[at]
    expects = {"accumulation": told if told is not None else rung.accumulation}
    verdict = Verdict(kind=kind, phase="train", why="")
    return Trial(rung=rung, verdict=verdict, report=report, seconds=1.0, folder=Path(), expects=expects)


def found(one: ScriptAdapter, trial: Trial) -> Misread | None:
    return rung_zero.misread(trial, unsaid=one.asked.unsaid)


def believing(one: ScriptAdapter, ran: dict[str, int], arrived: dict[str, Any]) -> ScriptAdapter:
    believed = one.believing(ran, arrived)
    assert believed is not None
    return ScriptAdapter(believed)


def held(one: ScriptAdapter, asked: Trial | None, lower: Trial) -> Verdict:
    return rung_zero.held_against(lower, asked, ladder_of(one)).verdict


def test_what_ran_as_it_was_read_is_no_misreading(tmp_path: Path) -> None:
    one = adapter(tmp_path)
    assert found(one, tried(ladder_of(one), micro_batch=32, accumulation=1, **{WORLD_SIZE: 1, SAMPLES: 32})) is None
    assert found(one, tried(ladder_of(one), kind=Kind.OUT_OF_MEMORY)) is None, "nothing was seen"


@pytest.mark.parametrize("kind", [Kind.FITS, Kind.OUT_OF_MEMORY, Kind.VACUOUS, Kind.SPILLED])
def test_whatever_came_of_rung_0_its_batch_is_what_was_asked(tmp_path: Path, kind: Kind) -> None:
    """A file that nobody had read says 16384: 32 in its place was trained, and told as asked."""
    one = adapter(tmp_path)
    wrong = found(one, tried(ladder_of(one), kind=kind, micro_batch=16384, **{SAID_ACCUMULATION: 2}))
    assert wrong is not None and wrong.read == {"micro_batch": 32, "accumulation": 1}
    anew = believing(one, wrong.ran, wrong.arrived)
    ladder = ladder_of(anew)
    assert (ladder.asked.micro_batch, ladder.asked.accumulation, ladder.effective_batch) == (16384, 2, 32768)
    assert anew.line(ladder.asked, run=tmp_path).words == [*anew.args.command], "rung 0 is the command as it stands"
    assert anew.line(ladder.rungs[1], run=tmp_path).words[2:] == ["--batch-size", "8192", "--accum", "4"]
    assert found(anew, tried(ladder, micro_batch=16384, accumulation=2)) is None


@pytest.mark.parametrize("said", [{}, {"micro_batch": 8, "accumulation": 1}], ids=["nothing is known of the command", "it says 8"])
def test_what_a_recipe_says_to_its_script_is_said_in_the_run_too(tmp_path: Path, said: dict[str, int]) -> None:
    """The trial had run the recipe's 16, that was believed to be the command's own, and the run, which was told nothing, trained with 8."""
    one = adapter(tmp_path, "--batch-size", "8", args={"says": said})
    one = ScriptAdapter(one.recipe.model_copy(update={"ask": {"micro_batch": 16, "accumulation": 2}}))
    words = one.line(ladder_of(one).asked, run=tmp_path).words
    assert words[-4:] == ["--batch-size", "16", "--accum", "2"]
    assert one.believing({"micro_batch": 16, "accumulation": 2, WORLD_SIZE: 1}, {}) is None
    assert one.believing({"micro_batch": 24, "accumulation": 2}, {}) is None, "its word isn't what ran"


@pytest.mark.parametrize(("words", "ran"), [
    (("--batch-size", "32"), {"micro_batch": 12, "accumulation": 1}), (("--accum", "1"), {"micro_batch": 32, "accumulation": 3}),
    ((), {"micro_batch": 12}),
], ids=["the command's own word", "another accumulation than typed", "accumulation not seen"])  # fmt: skip
def test_where_it_is_not_known_how_what_ran_is_turned_the_micro_batch_stays(
    tmp_path: Path, words: tuple[str, ...], ran: dict[str, int]
) -> None:
    one = adapter(tmp_path, *words)
    wrong = found(one, tried(ladder_of(one), **ran))
    assert wrong is not None
    name = next(iter(wrong.read))
    assert f"ran {name} {ran[name]}, and {wrong.read[name]} ({script.FLAGS[name]}" in wrong.words(one.asked.read_at)
    left, believed = rung_zero.anew(one, wrong)
    assert not believed and [rung.values for rung in ladder_of(left).rungs] == [{"micro_batch": 32}]


@pytest.mark.parametrize("words", [(), ("--batch-size", "32")])
def test_a_batch_that_no_word_says_is_set_at_the_loader_at_which_it_arrives(tmp_path: Path, words: tuple[str, ...]) -> None:
    spelled = {"micro_batch": "--batch-size", "accumulation": "outside"} if words else {}
    one = adapter(tmp_path, *words, spelled=spelled, ask={} if words else {"micro_batch": 1}, args={} if words else {"says": {}})
    ran, arrived = {"micro_batch": 12, "accumulation": 1}, {"loader:train.py:5": 12, "loader:train.py:9": 64}
    anew = believing(one, ran, arrived)
    assert anew.check() == []
    assert [(one.micro_batch, one.accumulation) for one in ladder_of(anew).rungs] == [(12, 1), (6, 2), (4, 3), (3, 4), (2, 6), (1, 12)]
    line = anew.line(ladder_of(anew).rungs[1], run=tmp_path)
    assert line.acts == {"ACCUMULATE": "2", "ACCUMULATE_SPLIT": "12:6:train.py:5"} and line.words == [*anew.args.command]
    assert one.believing(ran, {**arrived, "loader:train.py:7": 12}) is None, "which of both?"


CALLED = {"call:per_device_train_batch_size": 12, "call:gradient_accumulation_steps": 2, "call:per_device_eval_batch_size": 8,
          "call:max_steps": -1, "call:num_train_epochs": 3.0}  # fmt: skip


@pytest.mark.parametrize(("spelled", "says", "arrived", "turned"), [
    ({}, {}, {**CALLED, "loader:lib.py:3": 12},
     {"micro_batch": "call:per_device_train_batch_size", "accumulation": "call:gradient_accumulation_steps",
      "val_micro_batch": "call:per_device_eval_batch_size"}),
    ({"micro_batch": "--batch-size", "accumulation": "outside"}, {"micro_batch": 12}, {"call:accumulate_grad_batches": 2},
     {"micro_batch": "--batch-size", "accumulation": "call:accumulate_grad_batches"}),
], ids=["transformers", "a word, and Lightning"])  # fmt: skip
def test_what_a_known_trainer_is_called_with_is_set_there(
    tmp_path: Path, spelled: dict[str, str], says: dict[str, int], arrived: dict[str, Any], turned: dict[str, str]
) -> None:
    words = ("--batch-size", "12") if spelled else ()
    one = adapter(tmp_path, *words, spelled=spelled, ask={"micro_batch": says.get("micro_batch", 1)}, args={"says": says})
    anew = believing(one, {"micro_batch": 12, "accumulation": 2}, arrived)
    assert anew.recipe.trainer.args["spelled"] == turned
    assert anew.check() == [] and (anew.recipe.ask["micro_batch"], anew.recipe.ask["accumulation"]) == (12, 2)
    assert anew.recipe.trainer.args.get("lengths", {}) == ({"call:num_train_epochs": 3} if "call:max_steps" in arrived else {})
    lower = next(rung for rung in ladder_of(anew).rungs if rung.micro_batch == 6)
    fields = anew.line(lower, run=tmp_path).elsewhere["call"]
    assert lower.accumulation == 4 and fields[turned["accumulation"].removeprefix("call:")] == 4


ITSELF = {"micro_batch": "--batch-size", "accumulation": "itself"}


def test_what_a_script_works_out_of_its_whole_batch_is_seen_at_rung_0_or_else_at_the_first_rung_that_steps(tmp_path: Path) -> None:
    """``accumulation = TOTAL // (batch * length)``: one value is turned."""
    one = adapter(tmp_path, spelled=ITSELF, args={"says": {"micro_batch": 32}})
    one = ScriptAdapter(one.recipe.model_copy(update={"ask": {"micro_batch": 32}}))
    ladder = ladder_of(one)
    assert ladder_of(believing(one, {"micro_batch": 32, "accumulation": 4}, {})).effective_batch == 128
    failed = tried(ladder, kind=Kind.OUT_OF_MEMORY, micro_batch=32)
    lower = tried(ladder, at=1, told=1, micro_batch=16, accumulation=1, **{OWN_ACCUMULATION: 8, SAMPLES: 128})
    told = rung_zero.showed([failed, lower], unsaid=one.asked.unsaid)
    assert told is not None
    anew = believing(one, told.ran, told.arrived)
    assert {rung.micro_batch * rung.accumulation for rung in ladder_of(anew).rungs} == {128}
    same = rung_zero.as_believed([failed, lower], ladder_of(anew))
    assert [(trial.rung.micro_batch, trial.rung.accumulation) for trial in same] == [(32, 4), (16, 8)]
    assert held(anew, same[0], same[1]).fits and same[1].effective_batch == 128
    assert anew.line(ladder_of(anew).rungs[1], run=tmp_path).words[2:] == ["--batch-size", "16"]
    assert anew.trial(ladder_of(anew).rungs[1], cpu_budget(), folder=tmp_path, cache=tmp_path).expects == {"accumulation": 8}


def test_a_script_that_keeps_no_step_at_a_lower_rung_is_never_taken_there(tmp_path: Path) -> None:
    """One that accumulates up to a batch of its own after a warm-up (YOLOv5) makes steps of its micro-batches as long as a trial looks."""
    one = adapter(tmp_path, spelled=ITSELF, args={"says": {"micro_batch": 32}})
    one = ScriptAdapter(one.recipe.model_copy(update={"ask": {"micro_batch": 32}}))
    ladder = ladder_of(one)
    trials = [tried(ladder, kind=Kind.OUT_OF_MEMORY, micro_batch=32), tried(ladder, at=1, told=1, micro_batch=16, **{SAMPLES: 16})]
    told = rung_zero.showed(trials, unsaid=one.asked.unsaid)
    assert told is not None
    anew = believing(one, told.ran, told.arrived)
    assert anew.recipe.trainer.args["spelled"]["accumulation"] == "itself"
    same = rung_zero.as_believed(trials, ladder_of(anew))
    assert [trial.rung.index for trial in same] == [0], "the lower rung's steps were half as large"
    due = anew.trial(ladder_of(anew).rungs[1], cpu_budget(), folder=tmp_path, cache=tmp_path).expects
    assert due == {"accumulation": 2}, "which its trial has to show now"


def test_processes_that_no_word_told_are_counted(tmp_path: Path) -> None:
    one = adapter(tmp_path)
    wrong = found(one, tried(ladder_of(one), micro_batch=32, accumulation=1, **{WORLD_SIZE: 2}))
    assert wrong is not None and wrong.read == {WORLD_SIZE: 1}
    assert ladder_of(believing(one, wrong.ran, wrong.arrived)).effective_batch == 64


def test_on_top_of_what_a_script_accumulates_without_a_word_nothing_is_done_from_outside(tmp_path: Path) -> None:
    one = adapter(tmp_path, spelled={**script.FLAGS, "accumulation": "outside"})
    wrong = found(one, tried(ladder_of(one), micro_batch=32, accumulation=1, **{OWN_ACCUMULATION: 3, SAMPLES: 96}))
    assert wrong is not None and wrong.ran["accumulation"] == 3 and one.believing(wrong.ran, wrong.arrived) is None
    assert one.believing(wrong.ran, {"call:accumulate_grad_batches": 3}) is not None, "Lightning's is set where it arrives"


def test_a_factor_of_a_scripts_own_beside_a_word_that_is_typed_stays_one(tmp_path: Path) -> None:
    one = adapter(tmp_path, "--accum", "1")
    ladder = ladder_of(one)
    asked = tried(ladder, micro_batch=32, accumulation=1, **{OWN_ACCUMULATION: 2, SAMPLES: 64})
    assert found(one, asked) is None
    assert held(one, asked, tried(ladder, at=1, micro_batch=16, accumulation=2, **{OWN_ACCUMULATION: 2, SAMPLES: 32})).fits


def test_a_rung_whose_step_has_other_samples_than_the_asked_one_is_never_taken(tmp_path: Path) -> None:
    """A whole batch in tokens, of which nothing was read: at half the micro-batch the script takes twice as many by itself."""
    one = adapter(tmp_path, spelled={**script.FLAGS, "accumulation": "outside"})
    ladder = ladder_of(one)
    unseen = tried(ladder, kind=Kind.OUT_OF_MEMORY, micro_batch=32)
    other = held(one, unseen, tried(ladder, at=1, micro_batch=16, accumulation=2, **{OWN_ACCUMULATION: 4, SAMPLES: 64}))
    assert other.kind is Kind.ALTERED and other.source == "accumulation" and "took 128 samples instead of 32" in other.why
    divides = tried(ladder, at=1, micro_batch=16, accumulation=2, **{DIVIDED_BY: 2, SAMPLES: 8})
    assert held(one, unseen, divides).fits, "a script that divides its batch over processes divides the asked one, too"


def test_what_memory_left_of_the_asked_batch_is_not_what_was_asked(tmp_path: Path) -> None:
    """A script halves its batch to 8 where memory runs out: 8 x 4 from outside is the asked training all the same."""
    one = adapter(tmp_path)
    ladder = ladder_of(one)
    halved = tried(ladder, kind=Kind.ALTERED, micro_batch=8, accumulation=1, **{SAMPLES: 8, MICRO_BATCHES: [32, 8]})
    halved = replace(halved, report=replace(halved.report, swallowed=("out of memory",)))
    assert found(one, halved) is None
    lower = tried(ladder, at=2, micro_batch=8, accumulation=4, **{SAMPLES: 8, MICRO_BATCHES: [8]})
    assert held(one, halved, lower).fits
    over = tried(ladder, kind=Kind.OUT_OF_MEMORY, micro_batch=32, **{MICRO_BATCHES: [32, 16]})
    assert held(one, over, lower).fits, "what ended the trial was caught by the script"
    grown = tried(ladder, kind=Kind.OUT_OF_MEMORY, micro_batch=32, **{MICRO_BATCHES: [32, 64]})
    assert not held(one, grown, lower).fits, "a size that grows is the script's own"


def test_a_number_that_the_script_draws_or_changes_was_not_misread(tmp_path: Path) -> None:
    one = adapter(tmp_path, "--batch-size", "32")
    trial = tried(ladder_of(one), micro_batch=29, **{MICRO_BATCHES: [29, 35, 31], DRAWN_BATCH: [25, 40]})
    assert found(one, trial) is None and "(25 to 40 were seen)" in rung_zero.drawn(trial)
    assert found(one, tried(ladder_of(one), micro_batch=29, **{MICRO_BATCHES: [29]})) is not None


def test_a_trial_of_rung_0_leaves_an_accumulation_that_no_word_says_at_that(tmp_path: Path) -> None:
    """Told four of sixteen it would hide that a file has said two."""
    unsaid, typed = adapter(tmp_path, ask={"accumulation": 16}), adapter(tmp_path, "--accum", "16", ask={"accumulation": 16})
    fixed = rung_zero.anew(typed, None)[0]
    assert isinstance(fixed, ScriptAdapter)
    plans = [one.trial(ladder_of(one).asked, cpu_budget(), folder=tmp_path, cache=tmp_path) for one in (unsaid, typed, fixed)]
    assert [plan.payload["argv"][2:] for plan in plans] == [[], ["--accum", "4"], ["--accum", "16"]], "guarded as it stands: to the letter"
    assert [plan.expects for plan in plans] == [{"accumulation": 16}, {"accumulation": 4}, {"accumulation": 16}]


def test_what_was_tried_with_less_is_tried_again_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--accum 16`` was turned to 4 in the trial, and was no word for accumulation."""
    one, seen = adapter(tmp_path, "--accum", "16", ask={"accumulation": 16}), list[int]()

    def run(job: Job, rung: Rung) -> Trial:
        seen.append(job.adapter.trial(rung, job.budget, folder=tmp_path, cache=tmp_path).payload["accumulation"])
        return tried(job.ladder, rung=rung, told=seen[-1], micro_batch=32, accumulation=1, **{SAMPLES: 32})

    monkeypatch.setattr(trial, "run", run)
    result = Launch(job=script.job(one, tmp_path / "runs"))
    engine.walk(result)
    assert seen == [4, 16] and result.status is Status.DONE and len(result.trials) == 1


def launched(
    one: ScriptAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ran: int, fits_from: int, **more: Any
) -> tuple[Launch, io.StringIO]:
    """A launch whose rung 0 runs ``ran`` samples, whatever was read; the others run what they are told. Fits at so many and less."""

    def run(job: Job, rung: Rung) -> Trial:
        batch, facts = ran if rung.index == 0 else rung.micro_batch, {**more, SAID_ACCUMULATION: rung.accumulation}
        if batch > fits_from:
            return tried(job.ladder, rung=rung, kind=Kind.OUT_OF_MEMORY, micro_batch=batch, **facts)
        return tried(job.ladder, rung=rung, micro_batch=batch, **{"accumulation": rung.accumulation, SAMPLES: batch, **facts})

    monkeypatch.setattr(trial, "run", run)
    result = Launch(job=script.job(one, tmp_path / "runs"), screen=Display(Console(file=(heard := io.StringIO()), width=200)))
    engine.walk(result)
    return result, heard


def told(heard: io.StringIO) -> str:
    """All that is said of a launch, in one line."""
    return " ".join(heard.getvalue().split())


@pytest.mark.parametrize("fits_from", [16384, 4096])
def test_the_ladder_is_made_anew_of_what_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits_from: int) -> None:
    result, heard = launched(adapter(tmp_path), tmp_path, monkeypatch, ran=16384, fits_from=fits_from)
    record = result.as_record()
    assert result.status is Status.DONE and result.chosen is not None and result.chosen.rung.micro_batch == fits_from
    assert (record["effective_batch"], record["effective_batch_asked"]) == (16384, 16384)
    assert "What ran is what was asked: the ladder is made of that" in told(heard)
    assert record["misread"] == {"read": {"micro_batch": 32}, "ran": {"micro_batch": 16384}, "believed": True}
    assert all(one["rung"]["micro_batch"] <= 16384 and one["effective_batch"] == 16384 for one in record["trials"])
    kept = yaml.safe_load(result.job.folder.recipe.read_text())
    assert kept["ask"]["micro_batch"] == 16384 and kept["trainer"]["args"]["says"]["micro_batch"] == 16384, "what `autofit resume` reads"


def test_a_reading_that_can_not_be_mended_is_launched_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, heard = launched(adapter(tmp_path, "--batch-size", "32"), tmp_path, monkeypatch, ran=12, fits_from=64)
    assert result.status is Status.DONE and result.chosen is not None and result.chosen.rung.index == 0 and len(result.trials) == 1
    assert result.as_record()["misread"] == {"read": {"micro_batch": 32}, "ran": {"micro_batch": 12}, "believed": False}
    words = told(heard)
    assert "the command as it stands ran micro_batch 12, and 32 (--batch-size) had been read. So its micro-batch isn't turned" in words
    assert "effective batch 12, as the trial saw it; the command's words say 32" in words and "batch 12, as asked" not in words
    kept = yaml.safe_load(result.job.folder.recipe.read_text())
    assert kept["ladder"]["order"] == [], "a run that runs out of memory goes down no rung that was read wrong"


@pytest.mark.parametrize(("fits_from", "status"), [(64, Status.DONE), (8, Status.NO_RUNG_FITS)])
def test_drawn_batches_are_guarded_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits_from: int, status: Status) -> None:
    drawn = {DRAWN_BATCH: [20, 45], MICRO_BATCHES: [29, 35, 31]}
    one = adapter(tmp_path, "--batch-size", "32")
    result, heard = launched(one, tmp_path, monkeypatch, ran=29, fits_from=fits_from, **drawn)
    assert result.status is status and [one.rung.index for one in result.trials] == [0] and result.misread is None
    words = told(heard)
    assert "its loader says no number of samples to a batch (20 to 45 were seen)" in words and "misread" not in words
    assert ("its batches have 20 to 45 samples, as they were seen" in words) is (status is Status.DONE)


def test_a_batch_that_nobody_can_read_is_guarded_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = adapter(tmp_path, spelled={}, args={"unturned": "nothing looks like a batch size", "says": {}})
    one = ScriptAdapter(one.recipe.model_copy(update={"ask": {}}))
    assert [rung.values for rung in ladder_of(one).rungs] == [{"micro_batch": None}] and not one.check()
    result, heard = launched(one, tmp_path, monkeypatch, ran=140, fits_from=200, **{OWN_ACCUMULATION: 1})
    assert result.status is Status.DONE and result.misread is None and result.as_record()["effective_batch"] == 140
    assert "given up: nothing (effective batch 140, as the trial saw it)" in told(heard)
    result, heard = launched(one, tmp_path, monkeypatch, ran=140, fits_from=20)
    assert result.status is Status.NO_RUNG_FITS and "the micro-batch isn't turned: nothing looks like a batch size" in told(heard)


@pytest.mark.parametrize(
    ("own", "ran", "is_taken"),
    [
        ([32, 256], [16, 128], True),
        ([32, 64], [16, 64], False),
        ([32, 16], [16], False),  # the late size is the rung's: it is in no list twice
        ([32], [16, 64], False),  # rung 0 ended before its late size
        ([], [16], True),
    ],
)
def test_a_batch_that_the_script_changes_is_followed_only_where_all_its_sizes_are_turned(
    tmp_path: Path, own: list[int], ran: list[int], is_taken: bool
) -> None:
    one = adapter(tmp_path)
    ladder = ladder_of(one)
    sizes = (tried(ladder, micro_batch=32, **{MICRO_BATCHES: own}), tried(ladder, at=1, micro_batch=16, **{MICRO_BATCHES: ran}))
    assert found(one, sizes[0]) is None, "rung 0 is what was asked"
    other = held(one, *sizes)
    assert other.fits is is_taken and (is_taken or "the script changes its batch itself" in other.why)


@pytest.mark.parametrize(
    ("own", "left", "is_taken"),
    [(None, 12, False), (None, 0, True), (None, None, True), (None, 124, True), (12, 12, False), (12, 24, True), (0, 12, False)],
)
def test_a_pass_that_the_script_leaves_by_a_count_of_its_own_is_as_long_as_rung_0s(
    tmp_path: Path, own: int | None, left: int | None, is_taken: bool
) -> None:
    """``if i == 12: break`` takes half the samples at half the batch; one that stops by samples takes as many."""
    one = adapter(tmp_path)
    ladder = ladder_of(one)
    asked, lower = ({PASS_SAMPLES: 2000} | ({} if count is None else {LEFT_AFTER: count}) for count in (own, left))
    other = held(one, tried(ladder, micro_batch=32, **asked), tried(ladder, at=1, micro_batch=16, **lower))
    assert other.fits is is_taken and (is_taken or "leaves each pass over its data after 12 batches" in other.why)


@pytest.mark.parametrize(("own", "ran", "is_taken"), [(4000, 4000, True), (4000, 400, False), (4000, 8000, False), (0, 400, True)])
def test_a_rung_that_trains_another_model_than_the_command_is_never_taken(tmp_path: Path, own: int, ran: int, is_taken: bool) -> None:
    """A script that reads ``../base.yaml`` beside its configuration finds none beside a changed copy, and builds its default model."""
    one = adapter(tmp_path)
    ladder = ladder_of(one)
    asked = tried(ladder, kind=Kind.OUT_OF_MEMORY, **{TRAINED: own})
    asked = replace(asked, report=replace(asked.report, optimizer_steps=2))
    other = held(one, asked, tried(ladder, at=1, **{TRAINED: ran}))
    assert other.fits is is_taken and (is_taken or f"{ran:,} weights, and {own:,} at rung 0" in other.why)
    one_step = replace(asked, report=replace(asked.report, optimizer_steps=1))
    assert held(one, one_step, tried(ladder, at=1, **{TRAINED: ran})).fits is (is_taken or ran > own), "another optimizer may be made later"
