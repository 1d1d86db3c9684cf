"""What trials show of a training's length, and what a run made of it: lines of a certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.adapter.log_line import LogLine
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.common.report import LEFT_AFTER, PASS_SAMPLES, SAID_ACCUMULATION, UPDATES, TrialReport
from autofit_launcher.full_run.run import LAST_LINES, StepsMade
from autofit_launcher.ladder import same_training
from autofit_launcher.ladder.rungs import Wheel, build
from autofit_launcher.ladder.same_training import PROVEN, Due, Length, SameTraining, given_up, judged, unproven, with_steps
from tests.helpers import script

LADDER = build([Wheel(name="micro_batch", values=(8, 4, 2)), Wheel(name="sequence_length", values=(128, 64))], effective_batch=8)
NOTHING = LogLine(progress=Progress())
UNSEEN = unproven("rows unseen")
SURE = Due(least=40, most=40, by="its trainer's own reckoning", sure=True)
WORDS = Due(least=38, most=40, by="--epochs 2 over 155 samples", sure=False)


def test_what_is_given_up_is_named() -> None:
    assert given_up(LADDER, LADDER.rungs[-1]) == "sequence_length 64 instead of 128" and not given_up(LADDER, LADDER.rungs[1])


@pytest.mark.parametrize(("facts", "length", "found"), [
    ({UPDATES: 40, SAID_ACCUMULATION: 2, PASS_SAMPLES: 320}, None, (40, 40, True)),
    ({UPDATES: 40, SAID_ACCUMULATION: 1}, None, None),  # reckoned with other accumulation than the rung's
    ({PASS_SAMPLES: 155}, Length(word="--epochs", passes=2), (38, 40, False)),
    ({PASS_SAMPLES: 155}, Length(word="--steps", updates=30), (30, 31, False)), ({}, Length(word="--epochs", passes=2), None),
    ({PASS_SAMPLES: 155}, None, None), ({PASS_SAMPLES: 155, LEFT_AFTER: 4}, Length(word="--epochs", passes=2), (4, 4, False)),
])  # fmt: skip
def test_what_is_due(facts: dict[str, int], length: Length | None, found: tuple[int, int, bool] | None) -> None:
    due = same_training.due(TrialReport(facts=facts), LADDER.rungs[1], length)
    assert found == ((due.least, due.most, due.sure) if due is not None else None)


@pytest.mark.parametrize("made", [38, 39, 40])
def test_a_run_that_made_what_was_due_proves_its_steps(made: int) -> None:
    found = judged(made, WORDS, times=4, same=UNSEEN)
    assert found.line == PROVEN and not found.otherwise
    assert with_steps(UNSEEN, found).steps == PROVEN


@pytest.mark.parametrize(("made", "due", "times"), [(10, WORDS, 4), (160, WORDS, 4), (20, SURE, 2), (41, SURE, 1), (1719, SURE, 1)])
def test_a_run_that_made_other_steps_is_another_training(made: int, due: Due, times: float) -> None:
    found = judged(made, due, times=times, same=UNSEEN)
    assert found.otherwise and found.line.startswith("differs by ") and f"made {made} optimizer steps" in found.line
    assert with_steps(SameTraining(), found).steps == found.line, "whatever was proven before"


def test_half_of_the_steps_of_what_was_proven_to_make_all_of_them_is_an_early_end() -> None:
    assert judged(20, SURE, times=2, same=UNSEEN).otherwise
    assert not judged(20, SURE, times=2, same=SameTraining()).otherwise
    assert judged(80, SURE, times=2, same=SameTraining()).otherwise, "more are never an early end"


@pytest.mark.parametrize(
    ("made", "due", "times"), [(21, SURE, 2), (25, SURE, 1), (10, SURE, 1), (25, WORDS, 4), (37, WORDS, 4), (90, WORDS, 4)]
)
def test_a_training_that_ended_early_or_counts_otherwise_is_told_and_is_no_alarm(made: int, due: Due, times: float) -> None:
    found = judged(made, due, times=times, same=UNSEEN)
    assert not found.otherwise and found.line.startswith(f"not comparable because the run made {made} optimizer steps where")
    assert with_steps(SameTraining(), found).steps == PROVEN, "twins have proven it, and stopping early is the script's own"
    assert with_steps(UNSEEN, found).steps == found.line


def test_the_process_that_made_most_steps_tells_them(tmp_path: Path) -> None:
    steps = StepsMade(tmp_path)
    assert steps.counted() is None and StepsMade(tmp_path / "nowhere").counted() is None
    for name, counts in (("7", [3]), ("8", [12])):
        (tmp_path / f"{name}.steps").write_text(json.dumps({"steps": counts, "ended": True}))
    (tmp_path / "9.steps").write_text("")
    assert steps.counted() == 12
    (tmp_path / "8.steps").write_text(json.dumps({"steps": [12, 12], "ended": True}))
    assert steps.counted() is None, "whose steps are meant isn't known where several optimizers step"


@pytest.mark.parametrize(("line", "stops"), [
    ("Epoch 3: early stopping", True), ("EarlyStopping: Training stopped early as no improvement observed in last 5 epochs.", True),
    ("INFO stopping training early", True), ("EarlyStopping counter: 3 out of 5", False), ("early_stopping_patience: 5", False),
    ("early stopping enabled", False), ('  "early_stopping": true,', False), ("Namespace(early_stop=True, patience=3)", False),
    ("the early bird stops", False),
])  # fmt: skip
def test_a_run_that_stops_early_says_so_in_its_last_words(tmp_path: Path, line: str, stops: bool) -> None:
    steps = StepsMade(tmp_path)
    steps.heard(f"{line}\n", NOTHING)
    for _ in range(10):
        steps.heard("best checkpoint saved", NOTHING)
    assert steps.stopped_early == (line if stops else "")
    for _ in range(LAST_LINES):
        steps.heard("epoch 4: loss 0.3", NOTHING)
    assert not steps.stopped_early, "it went on"


def test_without_a_process_of_ours_what_accumulates_and_a_trainers_bar_tell_them(tmp_path: Path) -> None:
    steps, bar = StepsMade(tmp_path), Progress(step=40, steps=40)
    assert steps.in_all(bar, SURE) == 40 and steps.in_all(bar, WORDS) is None
    assert steps.in_all(replace(bar, steps=80), SURE) is None and steps.in_all(replace(bar, of_epoch=True), SURE) is None
    asked = script.recipe("python", "t.py", ask={"micro_batch": 8, "accumulation": 2}, spelled={"micro_batch": "-b"})
    one = load_adapter("script")(asked)
    for line in ("accumulate: 24 micro-batches, 6 optimizer steps (4 micro-batches in each)", "bye"):
        steps.heard(line, one.read_log(line, bar, rung=LADDER.asked))
    assert steps.in_all(bar, SURE) == 6
