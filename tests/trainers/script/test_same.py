"""Real scripts, really run as twins on the CPU: is an update of several micro-batches the large batch's?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.ladder.same_training import PROVEN
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget, snapshot
from autofit_launcher.trial import proof
from autofit_launcher.trial.proof import Proof
from tests.helpers import script as script_of
from tests.helpers.places import SCRIPTS

SCRIPT = SCRIPTS / "updates.py"
COLLATORS = SCRIPT.with_name("collators.py")
OUTSIDE = {"accumulation": "outside"}


def proven(place: Path, kind: str, *words: str, script: Path = SCRIPT, **args: object) -> Proof:
    """What becomes of rung 2, 8 x 4 instead of 32 x 1 (or of what ``accumulation`` asks). ``args``: of the recipe's trainer."""
    asked = args.pop("asked", 1)
    spelled = {**script_of.FLAGS, **args.pop("spelled", {})}  # type: ignore[dict-item]
    command = [sys.executable, str(script), *(("--kind", kind) if kind else ()), *words]
    more = {"trial": {"proof_timeout_s": 1200.0}, "ladder": {"order": ("micro_batch",)}}
    adapter = ScriptAdapter(script_of.recipe(*command, ask={"micro_batch": 32, "accumulation": asked}, spelled=spelled, more=more, **args))
    assert adapter.check() == []
    job = script_of.job(adapter, place / "runs", cpu_budget(2**30))
    return proof.prove(job, job.ladder.rungs[2])


def test_a_mean_that_is_divided_is_the_same_training_and_nothing_of_the_persons_is_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    found = proven(tmp_path, "mean")
    assert found.same.lines == dict.fromkeys(("gradient", "steps", "schedule", "samples"), PROVEN) and not found.refused, found
    assert found.same.apart is not None and found.same.apart < 1e-5 and found.same.layouts == ("4 x 1", "1 x 4")
    assert {name for name in snapshot(tmp_path) if not name.startswith("runs/")} == {"mine"}
    assert not list((tmp_path / "runs").glob("**/*.pt")), "gradients are large, and of no use afterwards"


@pytest.mark.slow
def test_what_so_few_rows_do_not_show_is_looked_for_in_as_many_as_the_rungs_own(tmp_path: Path) -> None:
    """One value has no spread, so that 1 x 4 shows no number."""
    found = proven(tmp_path, "spread")
    assert found.refused and found.same.layouts == ("8 x 1", "2 x 4"), found


def test_rows_that_see_each_other_are_refused_by_name(tmp_path: Path) -> None:
    found = proven(tmp_path, "contrastive")
    assert "its rows see each other" in found.refused and found.same.gradient.startswith("differs by") and found.job is None


@pytest.mark.slow
def test_class_weights_are_put_right_and_the_run_carries_what_was_proven(tmp_path: Path) -> None:
    found = proven(tmp_path, "weighted")
    assert found.same.proven and not found.refused and found.same.cure == {"update": "targets_divided"}, found
    assert found.job is not None
    command = found.job.adapter.command(found.job.ladder.rungs[2], found.job.budget, folder=tmp_path / "run")
    assert command.env["UPDATE"] == "targets:4.0:4" and any(path.match("update/sitecustomize.py") for path in command.files)
    tried = found.job.adapter.trial(found.job.ladder.rungs[2], found.job.budget, folder=tmp_path / "trial", cache=tmp_path)
    assert tried.payload["env"]["UPDATE"] == command.env["UPDATE"], "its trial has what the cure needs"
    asked = found.job.adapter.command(found.job.ladder.asked, found.job.budget, folder=tmp_path / "run")
    assert "UPDATE" not in asked.env, "the asked rung's words stay as they are"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cure"),
    [
        ("adds_up", {"update": "average"}), ("sum_divided", {"update": "add"}), ("sum", {}), ("norm", {}), ("scripted", {}),
        ("looks_first", {}), ("on_meta", {}),
    ],
)  # fmt: skip
def test_what_is_the_same_or_only_a_factor_away(tmp_path: Path, kind: str, cure: dict[str, str]) -> None:
    found = proven(tmp_path, kind)
    assert found.same.verdict == "same" and found.same.cure == cure and not found.refused, found


@pytest.mark.slow
def test_targets_are_weighed_within_each_asked_micro_batch(tmp_path: Path) -> None:
    """32 x 2 are asked: the sum of two means over targets, each of which is made of four micro-batches of 8."""
    found = proven(tmp_path, "weighted", asked=2)
    assert found.same.proven and found.same.layouts == ("4 x 2", "1 x 8") and found.same.cure == {"update": "targets_divided"}, found
    assert found.job is not None
    command = found.job.adapter.command(found.job.ladder.rungs[2], found.job.budget, folder=tmp_path / "run")
    assert command.env["UPDATE"] == "targets:4.0:4"


@pytest.mark.slow
@pytest.mark.parametrize(("spelled", "refused"), [({}, ""), ({"accumulation": "outside"}, "what it keeps beside its weights")])
def test_an_average_is_held_against_what_its_weight_did(tmp_path: Path, spelled: dict[str, str], refused: str) -> None:
    """The gradient of a bias before a normalization is rounding alone, and Adam steps it as far as any."""
    found = proven(tmp_path, "averages_of_adam", spelled=spelled)
    assert found.same.verdict == ("different" if refused else "same") and refused in found.refused, found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cure"), [("mean", {}), ("sum", {"env": {"ACCUMULATE_LOSS": "sum"}}), ("weighted", None)])
def test_what_accumulates_from_outside_goes_through_the_same(tmp_path: Path, kind: str, cure: dict[str, object] | None) -> None:
    found = proven(tmp_path, kind, spelled={"accumulation": "outside"})
    assert found.same.proven and (found.same.cure == cure if cure is not None else found.same.cure["update"] == "targets"), found


@pytest.mark.slow
@pytest.mark.parametrize(("way", "why"), [("by_hand", "mixed or clipped by itself"), ("learning_rate", "the learning rate of step 1 is")])
def test_what_a_script_does_by_hand_at_every_batch_is_refused_from_outside(tmp_path: Path, way: str, why: str) -> None:
    script = SCRIPT.with_name("can_not_be_accumulated.py")
    found = proven(tmp_path, "", "--way", way, script=script, spelled={"accumulation": "outside"})
    assert why in found.refused and found.job is None, found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "why"), [
    ("first_alone", "an optimizer step is made of 1 samples at 1 x 4, not of 4"),
    ("counts_batches", "1 optimizer steps are made at 1 x 4, 7 at 4 x 1"),
    ("pass_of_steps", "a pass takes 7 samples at 1 x 4, 28 at 4 x 1"),
])  # fmt: skip
def test_what_a_scripts_own_accumulation_does_otherwise_is_refused(tmp_path: Path, kind: str, why: str) -> None:
    """diffusers' warm-up, ``step % accumulation == 0`` with steps counted from 0, lengths that count micro-batches."""
    found = proven(tmp_path, kind, "--steps", "7", lengths={"--epochs": 3})
    assert why in found.refused and found.job is None, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words", "spelled", "why"),
    [
        ("mean", (), {}, "it isn't made of the rows that are left"),
        ("steps_at_the_end", (), {}, "it weighs its micro-batches otherwise"),
        ("mean", (), OUTSIDE, ""),
        ("steps_at_the_end", ("--drop-last",), {}, "it isn't made of the rows that are left"),
        ("mean", ("--drop-last",), OUTSIDE, ""),
    ],
)
def test_the_smaller_step_at_the_end_of_a_pass_is_told(
    tmp_path: Path, kind: str, words: tuple[str, ...], spelled: dict[str, str], why: str
) -> None:
    """From outside it is right; by the script's own accumulation it weighs its rows otherwise, is lost, or is made though asked batches of
    so few rows are dropped."""
    found = proven(tmp_path, kind, "--rows", "250", *words, spelled=spelled)
    assert not found.refused and found.same.gradient == PROVEN and found.same.proven is not bool(why), found
    assert why in found.same.samples


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cure"), [("half_weighted", {"update": "targets_divided"}), ("half_by_hand", None)])
def test_weights_of_half_precision_hide_no_difference_behind_their_rounding(tmp_path: Path, kind: str, cure: dict[str, str] | None) -> None:
    found = proven(tmp_path, kind)
    if cure is None:
        assert "of half precision were turned to single" in found.same.gradient and not found.refused, found
    else:
        assert found.same.proven and found.same.cure == cure and found.same.apart is not None and found.same.apart < 1e-4, found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torch", "numpy", "private"])
def test_what_a_collate_function_draws_belongs_to_its_rows(tmp_path: Path, kind: str) -> None:
    found = proven(tmp_path, kind, script=COLLATORS)
    assert found.same.proven and found.same.cure == {"update": "targets_divided"} and not found.refused, found


@pytest.mark.slow
def test_what_a_collate_function_draws_for_one_row_after_another_is_told_as_not_proven(tmp_path: Path) -> None:
    """Each row masks the same tokens here, and others in the run: they may weigh more there, and nobody has seen it."""
    found = proven(tmp_path, "python", "--even", script=COLLATORS)
    assert "for one row after another stood still" in found.same.gradient and found.same.verdict == "not_comparable", found
    assert not found.refused


# ---- two ranks, over gloo

SHARES = SCRIPTS / "shares.py"
LAUNCHED = (sys.executable, "-P", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--local_addr=localhost")


def by_ranks(place: Path, kind: str, *words: str, accumulation: str = "--accum") -> Proof:
    """What becomes of rung 2, 4 x 4 on each of two ranks instead of 16 x 1."""
    how: dict[str, Any] = {"spelled": {**script_of.FLAGS, "accumulation": accumulation}, "lengths": {"--epochs": 3}}
    ask, more = {"micro_batch": 16, "accumulation": 1}, {"trial": {"proof_timeout_s": 1200.0}}
    adapter = ScriptAdapter(script_of.recipe(*LAUNCHED, str(SHARES), "--kind", kind, *words, ask=ask, more=more, **how))
    assert adapter.check() == []
    job = script_of.job(adapter, place / "runs", cpu_budget(2**30))
    rung = job.ladder.rungs[2]
    assert (rung.micro_batch, rung.accumulation, rung.world_size) == (4, 4, 2)
    return proof.prove(job, rung)


@pytest.mark.slow
def test_two_ranks_that_share_their_rows_are_proven(tmp_path: Path) -> None:
    found = by_ranks(tmp_path, "shared")
    assert found.same.lines == dict.fromkeys(("gradient", "steps", "schedule", "samples"), PROVEN) and not found.refused, found
    assert found.same.apart is not None and found.same.apart < 1e-5
    assert found.same.layouts == ("4 x 1 x 2 ranks", "1 x 4 x 2 ranks")
    assert not list((tmp_path / "runs").glob("**/*.pt")), "gradients are large, and of no use afterwards"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["no_sampler", "whole_batch"])
def test_ranks_that_do_not_share_a_batch_make_the_commands_update_all_the_same(kind: str, tmp_path: Path) -> None:
    found = by_ranks(tmp_path, kind)
    assert found.same.proven and not found.refused, found


@pytest.mark.slow
def test_ranks_that_do_not_exchange_their_gradients_where_they_accumulate_are_refused(tmp_path: Path) -> None:
    found = by_ranks(tmp_path, "apart_when_accumulating")
    assert found.refused and found.same.verdict == "different" and found.same.gradient.startswith("differs by"), found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cure"), [("adds_up", {"update": "average"}), ("no_sync", {}), ("fsdp", {})])
def test_what_is_the_same_on_two_ranks_or_only_a_factor_away(kind: str, cure: dict[str, str], tmp_path: Path) -> None:
    found = by_ranks(tmp_path, kind)
    assert found.same.proven and found.same.cure == cure and not found.refused, found


@pytest.mark.slow
def test_steps_of_two_ranks_that_are_held_back_from_outside_are_proven(tmp_path: Path) -> None:
    found = by_ranks(tmp_path, "shared", accumulation="outside")
    assert found.same.proven and found.same.cure == {}, found
