"""Real scripts, really run as twins on the CPU: is an update of several micro-batches the large batch's?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launcher.config.schema import DeviceRules, LadderRules, Recipe, TrainerRules, TrialRules, WheelRule
from launcher.history.run_folder import RunFolder
from launcher.ladder.build import ladder_of
from launcher.ladder.same_training import PROVEN
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget, snapshot
from launcher.trial import proof
from launcher.trial.job import Job
from launcher.trial.proof import Proof
from tests.helpers.places import SCRIPTS

SCRIPT = SCRIPTS / "updates.py"
COLLATORS = SCRIPT.with_name("collators.py")
GIB = 2**30


def proven(place: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *words: str, script: Path = SCRIPT, **args: object) -> Proof:
    """What becomes of rung 2, 8 x 4 instead of 32 x 1. ``args``: of the recipe's trainer."""
    monkeypatch.chdir(place)
    spelled = {"micro_batch": "--batch-size", "accumulation": "--accum", **args.pop("spelled", {})}  # type: ignore[dict-item]
    command = [sys.executable, str(script), *(("--kind", kind) if kind else ()), *words]
    recipe = Recipe(
        name="test", ask={"micro_batch": 32, "accumulation": 1},
        trainer=TrainerRules(adapter="script", args={"command": command, "spelled": spelled, **args}),
        ladder=LadderRules(order=("micro_batch",), wheels={"micro_batch": WheelRule(floor=2)}),
        device=DeviceRules(kind="cpu"), trial=TrialRules(proof_timeout_s=1200.0),
    )  # fmt: skip
    job = made(place, recipe)
    return proof.prove(job, job.ladder.rungs[2])


def made(place: Path, recipe: Recipe) -> Job:
    adapter = ScriptAdapter(recipe)
    assert adapter.check() == []
    return Job(adapter=adapter, ladder=ladder_of(adapter), budget=cpu_budget(GIB), folder=RunFolder.create(place / "runs", "test"))


def test_a_mean_that_is_divided_is_the_same_training_and_nothing_of_the_persons_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("precious")
    found = proven(tmp_path, monkeypatch, "mean")
    assert found.same.lines == dict.fromkeys(("gradient", "steps", "schedule", "samples"), PROVEN) and not found.refused, found
    assert found.same.apart is not None and found.same.apart < 1e-5 and found.same.layouts == ("4 x 1", "1 x 4")
    assert {name for name in snapshot(tmp_path) if not name.startswith("runs/")} == {"mine"}
    assert not list((tmp_path / "runs").glob("**/*.pt")), "gradients are large, and of no use afterwards"


def test_a_model_that_is_made_after_a_look_at_a_batch_begins_with_weights_as_they_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = proven(tmp_path, monkeypatch, "", script=SCRIPT.with_name("looks_first.py"))
    assert found.same.verdict == "same" and not found.refused and not found.same.cure, found


def test_rows_that_see_each_other_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven(tmp_path, monkeypatch, "contrastive")
    assert "its rows see each other" in found.refused and found.same.gradient.startswith("differs by") and found.job is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "why"),
    [("decays", "something else than its optimizer changes its weights at every micro-batch"), ("anneals", "something counts them")],
)
def test_what_a_script_does_at_every_batch_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, why: str) -> None:
    found = proven(tmp_path, monkeypatch, kind)
    assert why in found.refused and found.job is None, found


@pytest.mark.slow
def test_class_weights_are_put_right_and_the_run_carries_what_was_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven(tmp_path, monkeypatch, "weighted")
    assert found.same.proven and not found.refused and found.same.cure == {"update": "targets_divided"}, found
    assert found.job is not None
    command = found.job.adapter.command(found.job.ladder.rungs[2], found.job.budget, folder=tmp_path / "run")
    assert command.env["UPDATE"] == "targets:4.0" and any(path.match("update/sitecustomize.py") for path in command.files)
    asked = found.job.adapter.command(found.job.ladder.asked, found.job.budget, folder=tmp_path / "run")
    assert "UPDATE" not in asked.env, "the asked rung's words stay as they are"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cure"),
    [("adds_up", {"update": "average"}), ("sum_divided", {"update": "add"}), ("sum", {}), ("noise", {}), ("norm", {}), ("scripted", {})],
)
def test_what_is_the_same_or_only_a_factor_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, cure: dict[str, str]) -> None:
    found = proven(tmp_path, monkeypatch, kind)
    assert found.same.verdict == "same" and found.same.cure == cure and not found.refused, found


@pytest.mark.slow
def test_rows_that_are_mixed_in_a_drawn_order_are_told_as_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven(tmp_path, monkeypatch, "mixup")
    assert "mixed in an order that is drawn" in found.same.gradient and not found.refused, found


@pytest.mark.slow
def test_a_stream_that_workers_share_is_told_as_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is of one worker's rows; as several micro-batches it is of several workers' rows, which no twin shows."""
    found = proven(tmp_path, monkeypatch, "streamed")
    assert "2 workers share a stream of rows" in found.same.samples and found.same.steps == PROVEN and not found.refused, found


@pytest.mark.slow
def test_a_learning_rate_that_hangs_on_the_batch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven(tmp_path, monkeypatch, "rate")
    assert "the learning rate of step 1 is" in found.refused and found.same.schedule.startswith("differs by"), found


@pytest.mark.slow
def test_a_warm_up_that_is_drawn_out_by_the_scripts_own_accumulation_is_kept_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As diffusers' examples have it: ``num_warmup_steps=args.lr_warmup_steps * args.gradient_accumulation_steps``."""
    found = proven(tmp_path, monkeypatch, "warms_up")
    assert found.same.proven and found.anew and found.same.cure["spelled"]["accumulation"] == "outside", found
    assert "the learning rate of step 2 is" in found.same.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mean", "weighted"])
def test_what_accumulates_from_outside_goes_through_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    found = proven(tmp_path, monkeypatch, kind, spelled={"accumulation": "outside"})
    assert found.same.proven and bool(found.same.cure) == (kind == "weighted"), found


@pytest.mark.slow
def test_a_script_that_steps_after_its_first_micro_batch_alone_is_accumulated_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``step % accumulation == 0`` with steps counted from 0, as many examples have it."""
    found = proven(tmp_path, monkeypatch, "first_alone")
    assert found.same.proven and found.anew and found.same.cure["spelled"]["accumulation"] == "outside", found
    assert "an optimizer step is made of 1 samples at 1 x 4, not of 4" in found.same.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "counts"), [("counts_batches", ["--steps"]), ("pass_of_steps", ["--steps"]), ("mean", [])])
def test_a_length_in_steps_that_counts_micro_batches_is_turned_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, counts: list[str]
) -> None:
    found = proven(tmp_path, monkeypatch, kind, "--steps", "7", lengths={"--steps": 7, "--epochs": 3})
    assert found.same.proven and not found.refused and found.same.cure == ({"counts": counts} if counts else {}), found
    job = found.job
    if counts:
        assert job is not None
        words = job.adapter.command(job.ladder.rungs[2], job.budget, folder=tmp_path / "run").argv
        assert words[words.index("--steps") + 1] == "28"


@pytest.mark.slow
@pytest.mark.parametrize(("words", "turned"), [(("--eval-every", "100"), True), (("--eval-every", "0"), False)])
def test_evaluations_that_count_micro_batches_are_turned_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str], turned: bool
) -> None:
    found = proven(tmp_path, monkeypatch, "mean", *words, lengths={"--epochs": 3}, points={"--eval-every": 100} if turned else {})
    assert found.same.proven and not found.refused and found.same.cure == ({"counts": ["--eval-every"]} if turned else {}), found
    if turned:
        assert found.job is not None and "differs by its evaluations" in found.same.notes[-1]
        words = found.job.adapter.command(found.job.ladder.rungs[2], found.job.budget, folder=tmp_path / "run").argv
        assert words[words.index("--eval-every") + 1] == "400"


@pytest.mark.slow
def test_a_length_that_counts_micro_batches_and_has_no_word_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven(tmp_path, monkeypatch, "pass_of_steps", "--steps", "7")
    assert "a pass takes 7 samples at 1 x 4, 28 at 4 x 1" in found.refused, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "spelled", "cure"),
    [("mean", {}, "outside"), ("steps_at_the_end", {}, "rows_divided"), ("mean", {"accumulation": "outside"}, "")],
)
def test_the_smaller_step_at_the_end_of_a_pass_is_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, spelled: dict[str, str], cure: str
) -> None:
    """From outside it is right; by the script's own accumulation it weighs its rows otherwise, or is lost."""
    found = proven(tmp_path, monkeypatch, kind, "--rows", "250", spelled=spelled)
    assert not found.refused and found.same.proven, found
    got = found.same.cure.get("update") or found.same.cure.get("spelled", {}).get("accumulation", "")
    assert got == cure and found.anew is bool(cure), found
    assert not cure or "at the end of each pass" in found.same.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cure", "rounded"), [("half", {}, False), ("half_weighted", {"update": "targets_divided"}, False), ("half_by_hand", {}, True)]
)
def test_weights_of_half_precision_hide_no_difference_behind_their_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, cure: dict[str, str], rounded: bool
) -> None:
    found = proven(tmp_path, monkeypatch, kind)
    assert found.same.proven and found.same.cure == cure and found.same.apart is not None, found
    assert (found.same.apart > 1e-4) is rounded, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torch", "numpy", "private", "python"])
def test_what_a_collate_function_draws_belongs_to_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    found = proven(tmp_path, monkeypatch, kind, script=COLLATORS)
    assert found.same.proven and found.same.cure == {"update": "targets_divided"} and not found.refused, found


@pytest.mark.slow
def test_masked_language_modelling_by_transformers_own_collator_is_put_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proven(tmp_path, monkeypatch, "trainer", script=COLLATORS)
    assert found.same.proven and found.same.cure == {"update": "targets"} and not found.refused, found
