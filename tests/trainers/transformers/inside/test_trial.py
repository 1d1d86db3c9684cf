"""A truncated, real training of the built-in transformers trainers: what it does, measures, keeps from writing, and notices."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.ladder.build import ladder_of
from launcher.shared.orders import Orders
from launcher.shared.report import PARTS, Phase, TrialReport
from launcher.trainers.suite import cpu_budget, snapshot
from launcher.trainers.transformers import adapter as adapter_module
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trainers.transformers.inside import guard, kept, worst
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Tried:
    report: TrialReport
    returncode: int
    stderr: str
    folder: Path


def run_trial(folder: Path, data: Path, task: str, *, cap_bytes: int = 2 * GIB, rung: int = 0, **more: Any) -> Tried:
    """One rung of a small recipe in a process of its own, as the launcher starts it."""
    adapter = TransformersAdapter(recipe(data, task, **more))
    chosen = ladder_of(adapter).rungs[rung]
    place = folder / "trial"
    place.mkdir()
    plan = adapter.trial(chosen, cpu_budget(), folder=place, cache=folder)
    orders = Orders(
        module=plan.module,
        folder=str(place),
        device="cpu",
        cap_bytes=cap_bytes,
        accumulation=chosen.accumulation,
        payload=dict(plan.payload),
    )
    orders.scratch.mkdir(exist_ok=True)
    orders.write(place / "orders.json")
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "HOME": str(folder / "home"), **plan.env}
    (folder / "home").mkdir()
    argv = [sys.executable, "-P", "-m", "launcher.worker", str(place / "orders.json")]
    ended = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    report = TrialReport.read(orders.report_path)
    assert report is not None, ended.stderr
    return Tried(report=report, returncode=ended.returncode, stderr=ended.stderr, folder=folder)


def observed(report: TrialReport, wheels: Mapping[str, Any]) -> dict[str, Any]:
    return {name: report.observed.get(name) for name in wheels}


def test_a_generation_is_full_when_it_was_cut_and_not_when_every_row_had_ended() -> None:
    import torch

    from launcher.trainers.transformers.inside.generation import Limit

    limit, end = Limit([7, 8]), 7
    assert not limit(torch.tensor([[1, 2, 3], [1, 2, end]]), None).any()
    assert (limit.length, limit.cut) == (3, True)
    limit(torch.tensor([[1, 2, 3, 8], [1, 2, end, end]]), None)
    assert (limit.length, limit.cut) == (4, False)
    endless = Limit(None)
    endless(torch.tensor([[1, 2]]), None)
    assert endless.cut


def test_a_speech_trial_sees_every_phase_at_the_rung_that_was_asked_and_leaves_nothing_behind(spoken: Path, tmp_path: Path) -> None:
    before = snapshot(spoken)
    tried = run_trial(tmp_path, spoken, "speech", ask={"micro_batch": 2, "accumulation": 4, "precision": "bf16"}, args={"save_steps": 1})
    report = tried.report
    assert tried.returncode == 0, tried.stderr
    assert report.phase == Phase.DONE
    assert (report.optimizer_steps, report.train_batches, report.validation_batches, report.train_again_batches) == (5, 6, 2, 4)
    wanted = {"micro_batch": 2, "val_micro_batch": 4, "generation_length": 16, "precision": "bf16", "checkpointing": False, "device": "cpu"}
    assert observed(report, wanted) == wanted
    assert (report.train_samples, report.validation_samples, report.validation_batches_total) == (24, 10, 3)
    assert report.facts["effective_batch"] == 8
    parts = report.facts[PARTS]
    assert parts["states"] == pytest.approx(2 * parts["weights"], rel=0.01), "AdamW's two moments"
    assert any("16 tokens, its full length" in note for note in report.notes)
    assert snapshot(spoken) == before
    assert not list((tmp_path / "home").rglob("*"))
    assert {path.name for path in tmp_path.iterdir()} == {"trial", "home", "environment"}, (
        "the last is the cache that a launch's trials share"
    )


def test_an_evaluation_that_keeps_logits_is_measured_and_extrapolated_to_the_whole_set(sums: Path, tmp_path: Path) -> None:
    keeping = run_trial(tmp_path, sums, "text", ask={"val_keeps": "logits", "sequence_length": 64, "val_micro_batch": 2}).report
    vocabulary = json.loads((sums / "model" / "config.json").read_text())["vocab_size"]
    per_row = 64 * vocabulary * 4 + 64 * 8 + 4  # logits, labels, a loss
    assert keeping.facts["validation_keeps_bytes_per_batch"] == pytest.approx(2 * per_row, rel=0.01)
    left = keeping.validation_batches_total - keeping.validation_batches
    in_all = keeping.facts["validation_keeps_bytes_in_all"]
    assert in_all == pytest.approx(per_row * keeping.validation_samples, rel=0.01)
    assert in_all * 0.9 < keeping.growth_bytes_per_batch * left < in_all * 2.1  # joined anew at every batch: up to twice as much


def test_checkpointing_lowers_the_peak_of_training_and_is_really_on(sums: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "saving").mkdir()
    plain = run_trial(tmp_path / "plain", sums, "text", ask={"micro_batch": 8}).report
    saving = run_trial(tmp_path / "saving", sums, "text", ask={"micro_batch": 8, "checkpointing": True}).report
    peaks = [next(use.reserved_bytes for use in report.uses if use.phase == Phase.TRAIN) for report in (plain, saving)]
    assert saving.observed["checkpointing"] is True and saving.facts["use_cache"] is False
    assert peaks[1] < 0.9 * peaks[0]


def test_a_share_of_the_layers_is_really_checkpointed(sums: Path, tmp_path: Path) -> None:
    report = run_trial(tmp_path, sums, "text", ask={"micro_batch": 8, "checkpointing": 0.5}).report
    assert report.observed["checkpointing"] == 0.5 and report.facts["use_cache"] is False


def test_a_cap_that_is_too_small_is_a_real_allocation_failure_in_training(sums: Path, tmp_path: Path) -> None:
    tried = run_trial(tmp_path, sums, "text", ask={"micro_batch": 16}, cap_bytes=60 * 2**20)
    assert tried.returncode == 1
    assert tried.report.phase == Phase.TRAIN
    assert tried.report.failure is not None and "DefaultCPUAllocator" in tried.report.failure.message


def test_the_end_of_a_run_is_really_run_with_the_best_weights_loaded(sums: Path, tmp_path: Path) -> None:
    """Frozen weights: what is loaded at the end is more than training ever holds beside them."""
    args = {"eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True, "report_to": "none"}
    tried = run_trial(tmp_path, sums, "text", args=args)
    assert tried.returncode == 0, tried.stderr
    finish = next(use for use in tried.report.uses if use.phase == Phase.FINISH)
    assert finish.batches > 0 and finish.reserved_bytes > 0
    assert "Could not locate the best model" not in tried.stderr


def test_a_checkpoint_that_the_run_goes_on_from_is_loaded_in_the_trial(sums: Path, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    saving = {"save_strategy": "steps", "save_steps": 1, "output_dir": str(tmp_path / "done")}
    argv = ["--model_name_or_path", f"{sums}/model", "--data", str(sums), "--output_dir", saving["output_dir"], "--use_cpu", "True"]
    argv += ["--max_steps", "2", "--save_steps", "1", "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "4"]
    code = f"from launcher.trainers.transformers.native import hf_text; hf_text.main({[*argv, '--sequence_length', '64']!r})"
    subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, timeout=300)
    args = {"max_steps": 4, "output_dir": saving["output_dir"], "resume_from_checkpoint": "last"}
    tried = run_trial(tmp_path / "before", sums, "text", ask={"accumulation": 4}, args=args)
    assert tried.returncode == 0, tried.stderr
    assert any("checkpoint-2, which was loaded" in note for note in tried.report.notes), tried.report.notes
    assert tried.report.phase == Phase.DONE


def test_a_learning_rate_that_explodes_is_seen_though_its_losses_are_finite(sums: Path, tmp_path: Path) -> None:
    report = run_trial(tmp_path, sums, "text", args={"learning_rate": 1e6}).report
    assert report.loss_finite is False
    assert any(note.startswith("the loss went from") for note in report.notes), report.notes


def test_what_transformers_would_refuse_in_the_full_run_is_refused_in_the_trial(sums: Path, tmp_path: Path) -> None:
    tried = run_trial(tmp_path, sums, "text", args={"lr_scheduler_type": "sideways"})
    assert tried.returncode == 1
    assert tried.report.failure is not None and "sideways" in tried.report.failure.message


def test_the_installed_transformers_is_the_one_whose_inner_workings_were_checked() -> None:
    """When this fails, read what changed, mend the trial where it needs it, then renew the hash."""
    if importlib.metadata.version("transformers") not in guard.CHECKED:
        pytest.skip(f"written for {guard.CHECKED[-1]}")
    assert adapter_module._CHECKED == guard.CHECKED
    assert guard.changed(guard.RELIED_UPON) == ()


def test_what_was_not_seen_is_said_in_words() -> None:
    hooks = guard.Hooks()
    for name in guard.Hooks.NEEDED.keys() - {"kept"}:
        hooks.seen(name)
    assert hooks.unseen().endswith("knows it: what an evaluation keeps was not seen (transformers.trainer.EvalLoopContainer)")
    hooks.seen("kept")
    assert hooks.unseen() == ""


@pytest.mark.parametrize("version", ["5.24.0", "4.50.0", "6.0.0.dev0", "a-fork"])
def test_another_transformers_is_no_reason_to_refuse(version: str) -> None:
    guard.check_transformers(version)


def test_one_that_reads_otherwise_is_told_apart_in_a_note_and_one_too_old_is_refused() -> None:
    with pytest.raises(guard.NotCovered, match=r"transformers 4\.49\.0 is installed; .*pip install 'transformers>=4\.50'"):
        guard.check_transformers("4.49.0")
    said = guard.untried({"transformers.trainer:Trainer.evaluate": "0"})
    assert said is not None and said.endswith("(1 functions differ): checked by behaviour")
    assert guard.source_hash("transformers.trainer:Trainer.gone").startswith("missing")


def asked(*, accumulation: int = 1, steps: int = 2, steps_after: int = 1) -> Orders:
    return Orders(
        module="", folder="", device="cpu", cap_bytes=1, accumulation=accumulation, steps=steps, steps_after=steps_after, payload={}
    )


def test_an_epoch_goes_from_the_longest_batch_to_a_short_and_an_odd_one_and_the_next_begins_with_the_longest() -> None:
    lengths = [3, 9, 1, 7, 5]
    course = worst.course(lengths, asked(), micro_batch=2, drop_last=False)
    assert course.order == (1, 3, 0, 2, 3, 4, 4)  # 9 and 7, then 3 and 1, then those in the middle, and the epoch ends with a single one
    assert (course.validate_at, course.end_at) == (5, 9)  # each a step of longest batches
    assert worst.longest_batch([3, 9], 3) == [1, 0, 1]


def test_what_is_all_of_one_length_takes_no_more_steps_than_were_asked() -> None:
    course = worst.course([8] * 6, asked(), micro_batch=2, drop_last=False)
    assert (course.order, course.validate_at, course.end_at) == ((0, 1), 2, 3)


def test_accumulated_steps_hold_the_longest_batches_together() -> None:
    course = worst.course([3, 9, 1, 7, 5], asked(accumulation=8, steps=4, steps_after=2), micro_batch=2, drop_last=True)
    assert course.order[:4] == (1, 3, 1, 3)
    assert (course.validate_at, course.end_at) == (5, 7)


def test_an_evaluation_sees_a_longest_a_short_and_the_smaller_last_batch() -> None:
    lengths = [3, 9, 1, 7, 5]
    assert worst.evaluated(lengths, size=2, at_least=2, drop_last=False, short_too=True) == [0, 2, 1, 3, 4]
    assert worst.evaluated(lengths, size=2, at_least=2, drop_last=False, short_too=False) == [1, 3, 4]
    assert worst.evaluated(lengths, size=2, at_least=2, drop_last=True, short_too=False) == [4, 0, 1, 3]
    assert worst.evaluated(lengths, size=9, at_least=2, drop_last=False, short_too=True) == [1, 3, 4, 0, 2]


def test_the_sample_that_takes_most_to_load_is_among_them() -> None:
    assert worst.with_heaviest([1, 3, 0, 2], 4) == [1, 3, 0, 4]
    assert worst.with_heaviest([1, 3], 3) == [1, 3] == worst.with_heaviest([1, 3], None)


def test_a_data_set_that_does_not_tell_its_lengths_is_not_covered() -> None:
    with pytest.raises(guard.NotCovered, match="doesn't say how long its samples are"):
        worst.lengths_of(object())


def test_metrics_of_more_rows_than_a_trial_computes_are_taken_to_grow_as_they_did() -> None:
    def asked(rows: int) -> int:
        return 1000 + 10 * rows

    assert kept.metrics_need(asked, rows=512, rows_in_all=512) == asked(512)
    assert kept.metrics_need(asked, rows=512, rows_in_all=10_000) == asked(10_000)
    assert kept.rows_to_try(rows_in_all=40, bytes_per_row=100) == 40
    assert kept.rows_to_try(rows_in_all=10_000, bytes_per_row=50_000 * 4 * 100) == 0  # scores: see needed_beyond_peak


@pytest.mark.parametrize(
    ("rows", "joins", "moved", "expected"),
    [
        (40, False, None, 80),  # eight more batches of ten bytes on top of the peak
        (40, True, None, 120),  # the last join holds the old and the new: 50 + 80 + 90 - 100
        (400, True, None, 1_920),
        (400, False, None, 980),
        (400, True, 4, 20),  # moved to host memory after every fourth batch
        (8, True, None, 0),
        (9, True, None, 2.5),
        (37, True, None, 112.5),  # the last, small one joins all the nine before it: 50 + 72.5 + 90 - 100
        (402, True, 4, 20),
    ],
)
def test_what_an_evaluation_needs_beyond_its_first_batches(rows: int, joins: bool, moved: int | None, expected: float) -> None:
    """Two batches of four rows were seen, ten bytes each."""
    seen = kept.Kept(container_bytes={0: 20}, batches=2, rows=8, live_bytes=50, peak_bytes=100)
    found = seen.beyond_peak(size=4, rows_in_all=rows, joins=joins, moved_every=moved)
    assert found == expected


@pytest.mark.parametrize(
    ("joins", "moved", "widened", "expected"),
    [
        (True, None, 0, 980),  # all of it, once, at the end
        (True, 4, 0, 980 + 960),  # the 25th part joins the 24 before it
        (False, 4, 0, 980),
        (True, None, 40, 3 * 980),  # bfloat16 on its way to float32
    ],
)
def test_what_an_evaluation_on_a_card_takes_of_host_memory(joins: bool, moved: int | None, widened: int, expected: float) -> None:
    """Two batches of four rows of 400 were seen, ten bytes each."""
    seen = kept.Kept(container_bytes={0: 20}, widened_bytes={0: widened}, batches=2, rows=8)
    assert seen.in_host_memory(size=4, rows_in_all=400, joins=joins, moved_every=moved) == expected
    assert kept.Kept().in_host_memory(size=4, rows_in_all=400, joins=joins, moved_every=moved) == 0


def test_the_largest_batch_of_an_evaluation_may_come_when_all_the_others_are_kept() -> None:
    """A batch of four rows that needs 90 bytes and keeps ten, then a smaller one; ten batches in all."""
    seen = kept.Kept()
    for rows, held, peak in ((4, 10, 90), (2, 15, 90)):
        seen.began(rows)
        seen.container_bytes[0] = seen.held_bytes[0] = held
        seen.ended(live_bytes=20 + held, peak_bytes=peak)
    assert seen.bare_bytes == 90
    assert seen.beyond_peak(size=4, rows_in_all=40, joins=False, moved_every=None) == 100, "nine batches, and the predictions of the last"
    assert seen.beyond_peak(size=4, rows_in_all=40, joins=False, moved_every=2) == 20
    seen.began(4)
    seen.ended(live_bytes=45, peak_bytes=115)  # 20 were there before it: 15 kept, and five that the loop had
    assert seen.bare_bytes == 95
