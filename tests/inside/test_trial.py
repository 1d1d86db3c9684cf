"""Real scripts that never heard of autofit, really tried on the CPU: every way to train and validate that we know, and every fault."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.common.report import LEFT_AFTER, MICRO_BATCHES, PASS_SAMPLES
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget, snapshot
from autofit_launcher.trial import trial
from autofit_launcher.trial.trial import Trial
from tests.helpers import script
from tests.helpers.places import EXAMPLES, SCRIPTS
from tests.helpers.script import FLAGS

MIB = 2**20
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
"""Of this environment, whether it was activated or not."""
OUTSIDE = {"accumulation": "outside"}


def tried(
    name: str,
    tmp_path: Path,
    *words: str,
    cap: int = 512 * MIB,
    rung: int = 0,
    launcher: tuple[str, ...] = (),
    say: Callable[[str, str], object] = lambda words, style: None,
    micro_batch: int = 64,
    accumulation: int = 1,
    spelled: Mapping[str, str] = FLAGS,
    **args: object,
) -> Trial:
    """One rung of a script in tests/scripts (or a path), run in an empty folder of its own, with the runs in it as a person has them."""
    path = str(SCRIPTS / f"{name}.py") if "/" not in name else str(EXAMPLES / name)
    told: dict[str, Any] = {"spelled": {**FLAGS, **spelled}, "floor": 2, **args}
    ask = {"micro_batch": micro_batch, "accumulation": accumulation}
    made = script.recipe(*(launcher or (sys.executable,)), path, *words, ask=ask, **told)
    adapter = ScriptAdapter(made)
    place = tmp_path / "work"
    place.mkdir(exist_ok=True)
    with contextlib.chdir(place):
        assert adapter.check() == []
        job = replace(script.job(adapter, place / "runs", cpu_budget(cap)), say=say)
        return trial.run(job, job.ladder.rungs[rung])


def fits(done: Trial) -> bool:
    assert done.verdict.kind is Kind.FITS, f"{done.verdict.why}\n{done.verdict.evidence}\n{done.report}"
    return True


def said(done: Trial, text: str) -> bool:
    return any(text in note for note in done.report.notes)


@pytest.mark.parametrize("way", ["teaches_without_a_loader", pytest.param("teaches", marks=pytest.mark.slow)])
def test_a_frozen_model_that_runs_in_each_step_is_no_validation(tmp_path: Path, way: str) -> None:
    done = tried("ways", tmp_path, way, rung=1)
    assert [use.phase for use in done.report.uses] == ["start", "setup", "train", "validate"], done.report
    held = {use.phase: use.held_bytes for use in done.report.uses}
    assert held["validate"] > held["train"] + 8 * MIB, "the script's own validation was seen, and what it keeps"
    assert done.report.observed["micro_batch"] == 32 and fits(done)


def test_a_script_that_reads_back_what_it_writes_fits_and_nothing_of_the_persons_is_touched(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "precious.txt").write_text("mine")
    (work / "log.txt").write_text("epoch -1\n")
    before = snapshot(work)
    done = tried("reads_back", tmp_path)
    assert fits(done) and done.report.train_again_batches >= 1
    after = {name: content for name, content in snapshot(work).items() if not name.startswith("runs/")}
    assert after == before and not (work / "out").exists()
    assert not (done.folder / "scratch").exists()


@pytest.mark.parametrize(
    "words", [("fork", "--made", "above"), *(pytest.param(words, marks=pytest.mark.slow) for words in (("fork",), ("spawn",)))]
)
def test_a_training_in_a_child_is_followed_bounded_and_judged(words: tuple[str, ...], tmp_path: Path) -> None:
    done = tried("in_a_child", tmp_path, "--how", *words, rung=1)
    assert fits(done) and done.report.observed == {"micro_batch": 32, "accumulation": 2, "device": "cpu"}
    assert done.report.validation_batches and done.report.train_again_batches, done.report
    too_small = tried("in_a_child", tmp_path, "--how", *words, "--width", "4096", cap=96 * MIB)
    assert too_small.verdict.kind is Kind.OUT_OF_MEMORY, too_small.verdict


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--plain",)])
def test_a_step_that_accelerate_forces_at_the_end_of_a_pass_is_no_other_accumulation(tmp_path: Path, words: tuple[str, ...]) -> None:
    pytest.importorskip("accelerate")
    done = tried("accelerated", tmp_path, *words, rung=3, spelled={"accumulation": "--gradient_accumulation_steps"})
    assert fits(done) and done.report.observed == {"micro_batch": 8, "accumulation": 8, "device": "cpu"}


HANGS = """
import os, sys, threading
os.register_at_fork(after_in_child=lambda: 'torch' not in sys.modules and threading.Event().wait())
"""
"""A library that no fork bears before torch is there."""


@pytest.mark.parametrize("also", ["import numpy\n", ""], ids=["where its threads are ended", "the trial's"])
def test_a_fork_that_hangs_is_started_anew(also: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "hangs.py").write_text(HANGS)
    run = f"import runpy\nrunpy.run_path('{EXAMPLES}/classifier/train.py', run_name='__main__')"
    (tmp_path / "t.py").write_text(f"import hangs\n{also}{run}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    monkeypatch.setattr(trial, "FORK_STALLS_S", 2.0)
    done = tried(str(tmp_path / "t.py"), tmp_path, "--width", "8")
    assert fits(done) and said(done, "tried anew, alone: at first it stood still")


def test_an_endless_iterator_is_fast_forwarded_to_its_validation(tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    def hear(words: str, style: str) -> None:
        if words.split()[0] not in ("start", "setup"):
            seen.touch()  # a phase of the script's own process is shown while it runs: what it waits for

    done = tried("ways", tmp_path, "endless", "--until", str(seen), rung=1, say=hear)
    assert fits(done) and seen.exists()
    assert done.report.facts["forwarded"] and done.report.observed["micro_batch"] == 32
    assert done.report.facts["versions"]["torch"] and done.report.facts["trained_weights"] > 0


def test_what_a_script_without_an_optimizer_needs_is_proven_by_its_backward_passes(tmp_path: Path) -> None:
    done = tried("by_hand", tmp_path)
    assert fits(done) and done.report.validation_batches >= 1 and done.report.train_again_batches >= 1
    assert done.report.observed == {"micro_batch": 64, "device": "cpu"} and said(done, "without torch.optim")


@pytest.mark.slow
def test_one_iterator_for_all_epochs_is_replayed_to_the_scripts_own_end(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "keeps_one_iterator", rung=1)
    assert fits(done) and done.report.train_again_batches >= 1 and not said(done, "not proven")


@pytest.mark.slow
def test_a_validation_in_the_first_step_alone_is_measured_and_said(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "validates_first")
    assert fits(done) and said(done, "validates in its first steps alone") and not said(done, "never validates")
    assert "validate" in [use.phase for use in done.report.uses]


@pytest.mark.slow
def test_what_libraries_write_in_native_code_is_found_again_and_touches_nothing(tmp_path: Path) -> None:
    done = tried("writes_natively", tmp_path)
    assert fits(done) and not said(done, "is not proven")
    assert [left.name for left in (tmp_path / "work").iterdir()] == ["runs"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "left"),
    [(("--batches", "15"), 15), ((), 0), (("--beside", "160"), 0), (("--batches", "15", "--validate-every", "10"), 15)],
    ids=["batches", "all", "another's", "validates"],
)
def test_batches_after_which_a_script_leaves_its_passes_are_counted(tmp_path: Path, words: tuple[str, ...], left: int) -> None:
    done = tried("leaves_its_pass", tmp_path, *words, rung=2)
    assert fits(done) and done.report.facts[LEFT_AFTER] == left


@pytest.mark.slow
def test_a_schedule_has_as_many_steps_in_fast_forward_as_in_the_run(tmp_path: Path) -> None:
    """Its length is told in optimizer steps: one at every micro-batch was one too many for OneCycleLR."""
    assert fits(tried("leaves_its_pass", tmp_path, "--one-cycle", rung=2, spelled=OUTSIDE))


def test_a_validations_batches_are_not_taken_for_those_of_training(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "evaluates_in_each_batch")
    assert fits(done) and done.report.facts[MICRO_BATCHES] == [64]


@pytest.mark.slow
def test_a_script_without_validation_fits_and_says_so(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "never_validates")
    assert fits(done) and said(done, "never validates")
    assert done.report.absent == ("validate", "train_again")
    assert "train" in [use.phase for use in done.report.uses], "the phase in which a script ends is measured like any other"


@pytest.mark.slow
def test_a_validation_without_a_batch_is_none_and_that_is_said(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "empty_validation")
    assert fits(done) and done.report.absent == ("validate", "train_again")
    assert said(done, "no batch: 48 samples, and a last batch that isn't whole is dropped") and said(done, "only training is proven")
    below = tried("ways", tmp_path, "empty_validation", rung=1)
    assert fits(below) and below.report.validation_batches == 1 and not below.report.absent


@pytest.mark.parametrize("words", [(), ("--chosen", "status")])
def test_a_script_that_ends_badly_where_it_has_not_learnt_is_launched(words: tuple[str, ...], tmp_path: Path) -> None:
    """As fast-forward has it: its error was taken for ours, its exit status for the trial's own hooks'."""
    done = tried("ways", tmp_path, "expects_a_score", *words)
    assert fits(done) and done.report.facts["forwarded"] and said(done, "the script ends after its validation")
    assert said(done, "AssertionError: it has not learnt") == (not words)


@pytest.mark.parametrize(("command", "how", "kinds", "why"), [
    ("ways ignores_flags", {}, {Kind.ALTERED}, "micro_batch=32 instead of 64"),
    ("ways diverges", {}, {Kind.DIVERGED}, ""),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in (
        ("ways exits_early", {}, {Kind.VACUOUS}, "before its first optimizer step"),
        ("ways crashes_at_import", {}, {Kind.CRASHED}, "no_such_package_anywhere"),
        ("ways crashes_in_validation", {}, {Kind.CRASHED}, "is invalid for input of size 192"),  # fast-forwarded to, and plainly
        ("ways skips_a_figure", {"cap": 200 * MIB}, {Kind.OUT_OF_MEMORY}, "Unable to allocate"),
        ("can_not_be_accumulated", {"rung": 2, "spelled": OUTSIDE}, {Kind.ALTERED}, "is given a closure"),
        ("ways catches_oom --width 3000", {"cap": 60 * MIB}, {Kind.ALTERED, Kind.OUT_OF_MEMORY}, ""),
        ("ways dislikes_being_watched", {}, {Kind.VACUOUS}, "the fault is autofit's"),
    )),
])  # fmt: skip
def test_what_does_not_fit_is_told_by_its_verdict(tmp_path: Path, command: str, how: dict[str, Any], kinds: set[Kind], why: str) -> None:
    name, *words = command.split()
    done = tried(name, tmp_path, *words, **how)
    assert done.verdict.kind in kinds and why in done.verdict.why, done.verdict
    assert [left.name for left in (tmp_path / "work").iterdir()] == ["runs"]


def test_gradients_are_there_where_a_late_validation_is_fast_forwarded_to(tmp_path: Path) -> None:
    """They were cleared when it began."""
    done = tried("ways", tmp_path, "clears_first")
    assert fits(done) and done.report.facts["forwarded"]


@pytest.mark.parametrize("how", ["longest", pytest.param("buckets", marks=pytest.mark.slow)])
def test_one_long_item_is_found_and_comes_first(tmp_path: Path, how: str) -> None:
    done = tried("sizes", tmp_path, "--how", how, cap=100 * MIB)
    assert done.verdict.kind is Kind.OUT_OF_MEMORY and done.verdict.phase == "train"
    assert said(done, "longest first: 400 of 400 items sampled, sizes from 640 to 64000")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "cap", "note"),
    [
        ("stream", 250, " batches looked at (all of a pass), from "),
        ("scale", 250, "400 of 400 items sampled, sizes from 640 to 640; "),
        ("poisson", 512, " batches looked at"),
    ],
)
def test_the_largest_batch_that_a_loader_gives_is_the_trials(tmp_path: Path, how: str, cap: int, note: str) -> None:
    """Rows that come late in a stream, a scale that is drawn for one batch in a hundred, a number of rows that is drawn."""
    first = tried("sizes", tmp_path, "--how", how, micro_batch=32, cap=cap * MIB)
    assert said(first, note) and said(first, "the largest batch first")
    assert fits(first) if how == "poisson" else first.verdict.kind is Kind.OUT_OF_MEMORY and first.verdict.phase == "train"
    below = tried("sizes", tmp_path, "--how", how, micro_batch=32, cap=cap * MIB, rung=1)
    assert fits(below) and below.report.observed["micro_batch"] == 16


@pytest.mark.slow
def test_a_batch_that_grows_late_is_what_was_asked(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "grows", rung=1)
    assert fits(done) and done.report.observed["micro_batch"] == 32 and done.report.facts[MICRO_BATCHES] == [32, 128]
    assert said(done, "the script changes its batch itself: 32, then 128 samples")


def test_predictions_kept_in_validation_are_kept_for_the_whole_set(tmp_path: Path) -> None:
    done = tried("keeps_predictions", tmp_path, cap=100 * MIB, micro_batch=256)
    assert done.report.growth_bytes_per_batch == pytest.approx(2 * 256 * 256 * 8 * 4, rel=0.2)
    assert done.verdict.kind is Kind.OUT_OF_MEMORY and done.verdict.phase == "validate"


@pytest.mark.parametrize("words", [
    ("--where", "train", "--sleep", "0.01"),
    *(pytest.param(words, marks=pytest.mark.slow) for words in (("--how", "list"), ("--where", "train", "--sleep", "1.2"))),
])  # fmt: skip
def test_what_a_script_gathers_is_joined_for_the_whole_set(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What the trial leaves out is taken to be there twice: of 40 batches of validation, or of training, which take 0.4 s, or 48."""
    whole = 2506 * 4096 * 4
    done = tried("gathers", tmp_path, *words)
    assert fits(done) and (done.report.validation_batches < 12 or "train" in words)
    assert "train" not in words or "joined 2506 2506" not in (done.folder / "stdout.log").read_text(), "not all of it was trained"
    assert 2 * whole <= done.verdict.peak_bytes <= 2 * whole + 16 * MIB  # 12.0 to 14.1 are the process itself


TRAINER = {"micro_batch": "--per_device_train_batch_size", "accumulation": "--gradient_accumulation_steps"}


def test_scores_that_a_trainer_joins_at_every_batch_are_needed_twice_at_the_last(tmp_path: Path) -> None:
    seen, whole = 8 * 16 * 16384 * 4, 600 * 16384 * 4
    words = "--output_dir out --use_cpu true --save_strategy no --eval_strategy epoch --per_device_eval_batch_size 16 --rows 120"
    done = tried("hf_trainer", tmp_path, *words.split(), "--val_rows", "600", "--classes", "16384", micro_batch=8, spelled=TRAINER)
    assert done.verdict.kind is Kind.FITS and done.report.validation_batches * 16 * 16384 * 4 <= seen
    assert 2 * whole <= done.verdict.peak_bytes <= 2 * whole + 40 * MIB


@pytest.mark.slow
def test_backward_passes_inside_another_are_not_counted(tmp_path: Path) -> None:
    """Each micro-batch of 64, two of which make a step, is one, whatever runs inside it."""
    done = tried("ways", tmp_path, "recomputes", "--accum", "2", accumulation=2)
    assert fits(done) and done.report.observed == {"micro_batch": 64, "accumulation": 2, "device": "cpu"}
    assert not said(done, "by itself") and done.report.train_batches <= 2 * done.report.optimizer_steps + 1


def test_a_command_that_keeps_the_probe_out_is_ended_before_it_gets_far(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import pathlib, time\ntime.sleep(600)\npathlib.Path('mine').touch()\n")
    shell = tmp_path / "run.sh"
    shell.write_text(f"export PYTHONPATH=$PWD\n{sys.executable} {slow} $*\n")
    done = tried(str(SCRIPTS / "in_parts.py"), tmp_path, launcher=("sh", str(shell)))
    assert done.verdict.kind is Kind.VACUOUS and "PYTHONPATH set anew" in done.verdict.why and "slow.py" in done.verdict.why
    assert not (tmp_path / "work" / "mine").exists()


def test_a_batch_that_arrives_at_a_loader_is_turned_there(tmp_path: Path) -> None:
    spelled = {"micro_batch": "loader:batch_in_source.py:18", "accumulation": "outside"}
    done = tried("batch_in_source", tmp_path, rung=3, spelled=spelled, says={"micro_batch": 64})
    assert fits(done) and done.report.observed == {"micro_batch": 8, "accumulation": 4, "device": "cpu"}
    assert (done.rung.accumulation, done.effective_batch) == (8, 64), "a trial has four of the eight micro-batches"


@pytest.mark.slow
def test_a_second_validation_comes_upon_what_the_first_has_left(tmp_path: Path) -> None:
    pairs = str(EXAMPLES.parent / "benchmarks" / "survival" / "scripts" / "pairs.py")
    done = tried(pairs, tmp_path, "--gallery", "2000", "--width", "64", "--rows", "1795", micro_batch=256)
    assert fits(done) and done.report.validation_batches == 8, "metrics of the whole set come of all batches"
    peak = {use.phase: use.held_bytes for use in done.report.uses}
    assert peak["finish"] - peak["validate"] > 0.9 * 2000 * 2000 * 8, "the order of all with all, of the pass before"


PARTS = {"micro_batch": "--microbatch", "accumulation": "itself"}


def test_a_whole_batch_that_a_script_takes_in_parts_is_seen_by_its_parts(tmp_path: Path) -> None:
    done = tried("in_parts", tmp_path, "--batch-size", "64", "--microbatch", "32", micro_batch=32, accumulation=2, rung=1, spelled=PARTS)
    assert fits(done) and done.rung.micro_batch == 16 and done.effective_batch == 64
    assert {name: done.report.observed[name] for name in ("micro_batch", "accumulation")} == {"micro_batch": 16, "accumulation": 4}


def test_parts_of_another_size_than_the_rungs_are_altered(tmp_path: Path) -> None:
    """Sixteen features in parts of 8 look like parts of 16 with the batch in second place; eight of them make a step, and not four."""
    words = ("--wrong", "--microbatch", "32", "--features", "16")
    done = tried("in_parts", tmp_path, *words, micro_batch=32, accumulation=2, rung=1, spelled=PARTS)
    assert done.verdict.kind is Kind.ALTERED and "accumulation=8 instead of 4" in done.verdict.why


def test_the_scripts_own_end_belongs_to_the_trial(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "larger_test_set", "--width", "512", cap=400 * MIB)
    assert fits(done)
    peak = {use.phase: use.reserved_bytes for use in done.report.uses}
    assert peak["finish"] > peak["train_again"] + 16 * MIB
    assert not any("not proven" in note for note in done.report.notes)


def test_a_training_that_needs_too_much_is_ended_when_that_is_known(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "larger_test_set", "--width", "2048", cap=70 * MIB)
    assert done.verdict.kind is Kind.OUT_OF_MEMORY and done.verdict.phase == "train" and done.verdict.peak_bytes > 100 * MIB
    assert done.report.train_batches == 3, "of eight: its second step has shown what all of them need"


@pytest.mark.slow
def test_a_cold_cache_is_filled_in_the_trial_and_the_persons_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "hf"
    (home / "datasets").mkdir(parents=True)
    (home / "datasets" / "warm.txt").write_text("theirs")
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.delenv("HF_DATASETS_CACHE", raising=False)
    before = snapshot(home)
    assert fits(tried("ways", tmp_path, "cold_cache"))
    assert snapshot(home) == before


@pytest.mark.slow
def test_layers_that_thaw_late_are_trained_in_the_trial(tmp_path: Path) -> None:
    done = tried("ways", tmp_path, "thaws", "--width", "2048")
    assert fits(done)
    peak = {use.phase: use.reserved_bytes for use in done.report.uses}
    assert peak["finish"] > peak["train"] + 32 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["pickles_model", "val_by_length", "bare_next", "streamed", "compiled", "trains_in_eval_mode", "saves_in_mid_epoch"]
)
def test_a_way_to_train_and_validate(tmp_path: Path, way: str) -> None:
    done = tried("ways", tmp_path, way, rung=0 if way == "saves_in_mid_epoch" else 1)
    assert fits(done) and done.report.validation_batches >= 1 and done.report.train_again_batches >= 1
    assert [left.name for left in (tmp_path / "work").iterdir()] == ["runs"]


@pytest.mark.slow
def test_a_loop_as_nanogpts_is_cut_without_any_data_loader(tmp_path: Path) -> None:
    spelled = {"micro_batch": "--batch_size=", "accumulation": "--gradient_accumulation_steps="}
    done = tried("nanogpt_like", tmp_path, rung=1, spelled=spelled)
    assert fits(done) and done.report.observed["micro_batch"] == 32 and done.report.validation_batches == 4
    assert [left.name for left in (tmp_path / "work").iterdir()] == ["runs"]


def test_a_command_that_trains_nothing_is_told_so_in_its_own_words(tmp_path: Path) -> None:
    done = tried("two_processes", tmp_path, "--help")
    assert "as it stands it trains nothing" in done.verdict.why and "PYTHONPATH" not in done.verdict.why
    assert "usage: two_processes.py" in done.verdict.evidence


def test_two_processes_of_torchrun(tmp_path: Path) -> None:
    done = tried("two_processes", tmp_path, launcher=(TORCHRUN, "--nproc_per_node", "2"), rung=2)
    assert fits(done) and done.rung.world_size == 2 and done.effective_batch == done.rung.effective_batch
    assert done.report.facts[PASS_SAMPLES] == 640, "of both: a step takes samples of both, and so many steps are due"
    assert done.report.validation_batches and done.report.train_again_batches


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "--validates all --norm batch",  # buffers are sent around at each forward pass, in validation too
        "--validates gathers --epochs 12 --every 6",
        "--validates first --norm across --lengths",  # the model's own collectives, and a shape that one rank alone has
        "--validates first-unawaited --uneven shortest",
        "--validates all --uneven join",
        "--validates first --keeps --no-sync",
        "--validates never --uneven shortest",
    ],
)
def test_ranks_that_differ_in_their_data_or_their_validation_go_alike(tmp_path: Path, words: str) -> None:
    launcher = (TORCHRUN, "--nproc_per_node", "2")
    done = tried("data_parallel", tmp_path, *words.split(), launcher=launcher, cap=1024 * MIB, rung=2 if "no-sync" in words else 1)
    assert fits(done) and done.effective_batch == 128
    assert said(done, "never validates: only training is proven") is ("never" in words)
    assert bool(done.report.validation_batches and done.report.train_again_batches) is ("never" not in words)


@pytest.mark.slow
def test_ranks_of_accelerate_go_alike(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    launcher = (sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
    spelled = {"accumulation": "--gradient_accumulation_steps"}
    done = tried("accelerated", tmp_path, "--dispatch", launcher=launcher, cap=1024 * MIB, rung=2, spelled=spelled)
    assert fits(done) and done.rung.world_size == done.report.facts["world_size"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("script", "words"), [("lightning/train.py", ("--devices", "2")), ("ways", ("by_fabric",))])
def test_two_processes_that_lightning_starts_are_seen_and_go_alike(tmp_path: Path, script: str, words: tuple[str, ...]) -> None:
    """Nothing on the command line of its launcher says that there are two."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    spelled = {"micro_batch": "--batch_size", "accumulation": "--accumulate_grad_batches"} if "/" in script else FLAGS
    done = tried(script, tmp_path, *words, cap=2048 * MIB, rung=1, spelled=spelled)
    assert fits(done) and done.rung.accumulation == 2
    assert done.report.facts["world_size"] == 2 and said(done, "2 processes train together: 64 samples in each step of theirs")
    assert done.report.validation_batches and done.report.train_again_batches


@pytest.mark.slow
@pytest.mark.parametrize(("example", "accumulation"), [("lightning", "--accumulate_grad_batches"), ("accelerate", "outside")])
def test_an_example_is_driven_unchanged(tmp_path: Path, example: str, accumulation: str) -> None:
    pytest.importorskip(example)
    spelled = {"micro_batch": "--batch_size", "accumulation": accumulation}
    done = tried(f"{example}/train.py", tmp_path, cap=2048 * MIB, rung=1, spelled=spelled)
    assert fits(done) and done.report.observed["micro_batch"] == 32
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"runs"}
