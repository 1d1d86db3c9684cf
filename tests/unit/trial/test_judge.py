"""What is concluded from what a trial left behind."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.common.memory_failures import lost_in, memory_failure
from autofit_launcher.common.report import OVER_CAP, Failure, Phase, PhaseUse, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.inside.recorder import failure_of
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine.process import Ending
from autofit_launcher.trial.judge import Needs, judge

RUNG = Rung(index=0, values={"micro_batch": 8, "image_size": 640}, position=(0, 0), accumulation=2)
NEEDS = Needs(optimizer_steps=2, validation_batches=2, observed={"device": "cpu"})
GOOD = TrialReport(
    phase=Phase.DONE,
    observed={"micro_batch": 8, "image_size": 640, "device": "cpu"},
    optimizer_steps=3,
    validation_batches=2,
    train_again_batches=1,
    uses=(PhaseUse(phase="train", seconds=1.0, reserved_bytes=700, device_bytes=700),),
    cap_bytes=1000,
    validation_batches_total=10,
)


def judged(
    report: TrialReport | None, *, returncode: int = 0, device: str = "cpu", taken: str = "", lost: tuple[str, ...] = (), **ending: object
) -> Verdict:
    end = Ending(returncode=returncode, **ending)  # type: ignore[arg-type]
    if device != "cpu" and report is not None:
        report = dataclasses.replace(report, observed={**report.observed, "device": device})
    needs = dataclasses.replace(NEEDS, observed={**RUNG.values, "device": device})
    return judge(report, end, rung=RUNG, needs=needs, lost=lost, taken=taken)


def but(**changes: object) -> TrialReport:
    return dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type]


def failed(message: str, types: tuple[str, ...] = ("RuntimeError", "Exception"), phase: Phase = Phase.TRAIN) -> TrialReport:
    return but(phase=phase, failure=Failure(types=types, message=message, traceback=f"Traceback ...\n{message}"))


CUDA_2_1 = "CUDA out of memory. Tried to allocate 1.47 GiB. GPU 0 has a total capacty of 79.15 GiB of which 620.00 MiB is free."
CUDA_1_X = "CUDA out of memory. Tried to allocate 36.00 MiB (GPU 0; 7.93 GiB total capacity; 130.35 MiB already allocated)"
CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 26214400 bytes. Error code 12 (Cannot allocate memory)"  # noqa: E501


@pytest.mark.parametrize(
    ("text", "source", "asked"),
    [
        (CUDA_2_1, "allocator", int(1.47 * 2**30)),
        (CUDA_1_X, "allocator", 36 * 2**20),
        ("CUDA error: out of memory", "driver", None),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "driver", None),
        ("WARNING ⚠️ CUDA out of memory in TaskAlignedAssigner with batch_size=4 and max_num_obj=9; retrying", "allocator", None),
        ("WARNING ⚠️ ConfusionMatrix plot failure: Unable to allocate 18.6 MiB for an array", "host", int(18.6 * 2**20)),
        ("NCCL: Failed to CUDA calloc 4194304 bytes", "driver", None),
        ("Caught RuntimeError in pin memory thread for device 0. CUDA error: out of memory", "pinned", None),
        (CPU, "host", 26214400),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "host", None),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "workers", None),
        ("unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)", "workers", None),
    ],
)
def test_memory_failures_are_recognised_with_their_source_and_size(text: str, source: str, asked: int | None) -> None:
    found = memory_failure(f"some line\n{text}\nanother line")
    assert found is not None
    assert (found.source, found.asked_bytes) == (source, asked)


@pytest.mark.parametrize("text", [
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376",
    "This is virtual-address-space (VSZ) exhaustion from expandable segments, not physical GPU OOM", "KeyError: 'memory'",
    "RuntimeError: can't start new thread", "FileNotFoundError: /data/out_of_memory.png",
    "RuntimeError: DataLoader worker (pid 7) exited unexpectedly with exit code 1. Details are lost due to multiprocessing.",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
])  # fmt: skip
def test_what_only_sounds_like_memory_is_no_memory_failure(text: str) -> None:
    assert memory_failure(text) is None


def test_a_crash_shows_the_trainers_own_traceback_and_stops() -> None:
    with pytest.raises(SyntaxError) as raised:
        raise SyntaxError("'x' is not a valid YOLO argument")
    verdict = judged(but(failure=failure_of(raised.value)), returncode=1)
    assert verdict.kind is Kind.CRASHED and not verdict.lower_rung_may_help
    assert verdict.why == "SyntaxError: 'x' is not a valid YOLO argument"
    assert verdict.evidence.startswith("Traceback")


def card(phase: str = "train", **what: int) -> PhaseUse:
    return PhaseUse(phase=phase, seconds=1.0, **what)


def use(phase: str, reserved: int) -> PhaseUse:
    return PhaseUse(phase=phase, seconds=1.0, reserved_bytes=reserved, device_bytes=reserved)


TRAINING = but(phase=Phase.TRAIN)
PINNED = "RuntimeError: Caught RuntimeError in pin memory thread for device 0. CUDA error: out of memory"
ENDED = Failure(types=(OVER_CAP, "BaseException"), message="OverCap: phase train needed 1200 bytes", traceback="Traceback ...")
AT_THE_CAP = {"base_bytes": 1000, "cap_bytes": 1000}
ONEDNN = "RuntimeError: could not create a primitive"
NO_THREAD = dataclasses.replace(failed("RuntimeError: can't start new thread"), cap_bytes=12 * MIB)
NOT_EXACT = "NotExact: accumulation from outside can't be exact here: the optimizer is given a closure"
LEFT = 60 - GOOD.validation_batches


def grown(by: float, **more: Any) -> TrialReport:
    return but(uses=(use("validate", 600),), growth_bytes_per_batch=by, **more)


def grown_on_a_card(by: float) -> TrialReport:
    uses = (card("validate", allocated_bytes=100 * MIB, reserved_bytes=400 * MIB, outside_bytes=20 * MIB),)
    return but(uses=uses, cap_bytes=1000 * MIB, validation_batches_total=60, growth_bytes_per_batch=by * MIB / LEFT)


OVER = but(uses=(use("train", 900), use("validate", 1001), use("finish", 1100)), cap_bytes=1000, ceiling_bytes=1500)


@pytest.mark.parametrize(("report", "how", "verdict", "why"), [
    (GOOD, {}, (Kind.FITS, None, 700), "fits"),
    (but(uses=(card(reserved_bytes=700, outside_bytes=200),)), {"device": "cuda"}, (Kind.FITS, None, 900), ""),
    (but(uses=(card(reserved_bytes=700, outside_bytes=400),), phase=Phase.TRAIN), {"device": "cuda"},
     (Kind.OUT_OF_MEMORY, "measured", 1100), ""),
    (but(uses=(card(reserved_bytes=700, retries=2, ooms=2),)), {"device": "cuda"}, (Kind.FITS, None, 700), "a library got over them"),
    (but(uses=(card(reserved_bytes=700, retries=3, ooms=1),)), {"device": "cuda"}, (Kind.OUT_OF_MEMORY, "measured", 700),
     "2 allocation(s) in phase train came only after the allocator had emptied its cache: no room is left"),
    (OVER, {}, (Kind.OUT_OF_MEMORY, "measured", 1100), "in phase validate"),
    (but(uses=(use("train", 1000),), cap_bytes=1000, ceiling_bytes=1500), {}, (Kind.FITS, None, 1000), ""),
    (but(phase=Phase.TRAIN, uses=(use("train", 1200),), failure=ENDED), {"returncode": 1}, (Kind.OUT_OF_MEMORY, "measured", 1200), ""),
    (failed(CPU, phase=Phase.VALIDATE), {"returncode": 1}, (Kind.OUT_OF_MEMORY, "host", 700),
     "out of memory in phase validate, asking for 25 MiB (host)"),
    (failed(CPU), {"device": "cuda"}, (Kind.OUT_OF_MEMORY, "host_memory", 700), "fewer data loader workers"),
    (failed(PINNED), {"device": "cuda", "returncode": 1}, (Kind.OUT_OF_MEMORY, "pinned", 700),
     "pin_memory=False (page-locked"),
    (TRAINING, {"returncode": -signal.SIGKILL}, (Kind.OUT_OF_MEMORY, "host_memory", 700), ""),
    (TRAINING, {"returncode": -signal.SIGKILL, "timed_out": True, "seconds": 60.0}, (Kind.STALLED, None, 700),
     "no end after 60 s, in phase train"),
    (but(phase=Phase.TRAIN, uses=(card(reserved_bytes=250),)),
     {"device": "cuda", "returncode": -signal.SIGSEGV, "peak_data_bytes": 9000}, (Kind.CRASHED, None, 250),
     "ended by signal SIGSEGV in phase train"),
    (failed("'x' is no argument", ("SyntaxError",)), {"device": "cuda", "returncode": 1, "taken": "held"}, (Kind.CRASHED, None, 700), ""),
    (but(swallowed=("TaskAlignedAssigner went to the CPU",)), {}, (Kind.ALTERED, None, 700), ""),
    (TRAINING, {}, (Kind.VACUOUS, None, 700), "ended in phase train"),
    (but(optimizer_steps=1), {}, (Kind.VACUOUS, None, 700), "1 of 2 optimizer steps"),
    (but(validation_batches=0), {}, (Kind.VACUOUS, None, 700), "0 of 2 validation batches"),
    (but(train_again_batches=0), {}, (Kind.VACUOUS, None, 700), "0 of 1 training batches after validation"),
    (but(phase="setup", hint="say --val-every 1"), {}, (Kind.VACUOUS, None, 700), "the trial ended in phase setup: say --val-every 1"),
    (but(validation_batches=0, train_again_batches=0), {}, (Kind.VACUOUS, None, 700), "0 of 2 validation batches"),
    (but(validation_batches=0, train_again_batches=0, absent=("validate", "train_again")), {}, (Kind.FITS, None, 700), ""),
    (but(validation_batches=0, train_again_batches=0, absent=("validate",)), {}, (Kind.VACUOUS, None, 700), "training batches after"),
    (but(phase=Phase.TRAIN, **AT_THE_CAP), {"returncode": -signal.SIGSEGV, "peak_data_bytes": 1950},
     (Kind.OUT_OF_MEMORY, "host", 700), ""),
    (but(phase=Phase.TRAIN, **AT_THE_CAP), {"returncode": -signal.SIGSEGV, "peak_data_bytes": 1200}, (Kind.CRASHED, None, 700), ""),
    (dataclasses.replace(failed(ONEDNN), **AT_THE_CAP, uses=(card("setup", reserved_bytes=960),)), {"returncode": 1},
     (Kind.OUT_OF_MEMORY, "host", 960), ""),
    (failed(ONEDNN), {"returncode": 1}, (Kind.CRASHED, None, 700), ""),
    (NO_THREAD, {"returncode": 1, "peak_data_bytes": 5 * MIB}, (Kind.OUT_OF_MEMORY, "host", 700), ""),
    (NO_THREAD, {"returncode": 1, "peak_data_bytes": 3 * MIB}, (Kind.CRASHED, None, 700), ""),
    (failed(CUDA_2_1), {"device": "cuda", "returncode": 1, "taken": "2.0 GiB of cuda:0 are free"}, (Kind.CARD_TAKEN, None, 700), ""),
    (failed(NOT_EXACT, types=("NotExact", "RuntimeError")), {"returncode": 1}, (Kind.ALTERED, "accumulation", 700),
     "accumulation from outside can't be exact here"),
    (but(observed={"micro_batch": 4, "device": "cpu"}), {}, (Kind.ALTERED, None, 700), "the trainer ran micro_batch=4 instead of 8"),
    (but(observed={"micro_batch": 8, "device": "cuda"}), {}, (Kind.ALTERED, None, 700), "device=cuda instead of cpu"),
    (but(loss_finite=False), {}, (Kind.DIVERGED, None, 700), ""),
    (but(loss_finite=True), {}, (Kind.FITS, None, 700), ""),
    (grown(40), {}, (Kind.FITS, None, 920), ""), (grown(60), {}, (Kind.OUT_OF_MEMORY, "measured", 1080), "validation keeps"),
    (grown(60, validation_batches_left=6), {}, (Kind.FITS, None, 960), ""),  # of the pass that keeps most
    (grown_on_a_card(571), {"device": "cuda"}, (Kind.FITS, None, 1000 * MIB), ""),  # 420 + 580, in pages of 20
    (grown_on_a_card(581), {"device": "cuda"}, (Kind.OUT_OF_MEMORY, "measured", 1020 * MIB), "validation keeps 10.0 MiB"),
])  # fmt: skip
def test_what_is_concluded(report: TrialReport, how: dict[str, Any], verdict: tuple[Kind, str | None, int], why: str) -> None:
    found = judged(report, **how)
    assert (found.kind, found.source, found.peak_bytes) == verdict, found
    assert why in found.why or found.fits
    assert found.lower_rung_may_help is (found.kind in (Kind.OUT_OF_MEMORY, Kind.ALTERED))


TORN = "RuntimeError: [enforce fail at inline_container.cc:671] . unexpected pos 386048 vs 385940"


@pytest.mark.parametrize("words", [TORN, "OSError: [Errno 28] No space left on device", "RuntimeError: basic_ios::clear: iostream error"])
def test_a_trial_that_found_no_room_on_a_disk_ran_out_of_it_and_did_not_crash(words: str) -> None:
    at_the_limit = dataclasses.replace(
        failed(words), base_bytes=1000, cap_bytes=1000, uses=(PhaseUse(phase="train", seconds=1, reserved_bytes=960),)
    )
    for verdict in (
        judged(failed(words), returncode=1, full_disk="no room is left on the disk of its run folder, /runs/x"),
        judged(at_the_limit, returncode=1, full_disk="no room is left on the disk of its run folder, /runs/x"),
        judged(but(phase=Phase.TRAIN), returncode=1, stderr_tail=words, full_disk="no room is left on the disk of its run folder, /runs/x"),
    ):
        assert (verdict.kind, verdict.source) == (Kind.OUT_OF_MEMORY, "disk") and words in verdict.evidence
        assert verdict.why == f"no room is left on the disk of its run folder, /runs/x, in phase train ({words}): " + (
            "make room there, or have fewer checkpoints kept"
        )


def test_a_sample_that_takes_far_longer_than_in_half_the_micro_batch_has_spilled() -> None:
    slow = judged(but(full_step_seconds=8.0, half_step_seconds=1.0), device="cuda")
    assert (slow.kind, slow.lower_rung_may_help) == (Kind.SPILLED, True)
    assert slow.why == "a sample takes 4.0 times as long as in half the micro-batch: the driver has put some of it into host memory"
    assert judged(but(full_step_seconds=2.2, half_step_seconds=1.0), device="cuda").fits


@pytest.mark.parametrize(
    ("text", "ooms"),
    [
        ("cuFFT error: CUFFT_INTERNAL_ERROR", 1),
        ("RuntimeError: CUDA driver error: device not ready", 1),
    ],
    ids=["cuFFT", "WSL"],
)
def test_a_text_with_other_causes_is_memory_where_the_cards_allocator_had_refused(text: str, ooms: int) -> None:
    report = failed(text)
    refused = dataclasses.replace(report, uses=(card(reserved_bytes=100, ooms=ooms, retries=1),))
    assert judged(report, device="cuda", returncode=1).kind is Kind.CRASHED
    assert judged(refused, device="cuda", returncode=1).kind is Kind.OUT_OF_MEMORY


@pytest.mark.parametrize("line", [
    "WARNING \u26a0\ufe0f ConfusionMatrix plot failure: Unable to allocate 18.6 MiB for an array with shape (80, 81)",
    "Exception in thread Thread-7: MemoryError",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory",
    "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.",
])  # fmt: skip
def test_what_a_trials_logs_say_was_lost_to_memory_makes_it_no_fit(line: str, tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text(f"Epoch 1/1\n{line}\nall is well\n")
    lost = lost_in(tmp_path / "stdout.log", tmp_path / "stderr.log", on_card=False)
    verdict = judged(GOOD, lost=lost)
    assert lost == (line,) and verdict.kind is Kind.OUT_OF_MEMORY and line in verdict.why


def test_what_a_card_refused_and_a_script_printed_is_the_cards(tmp_path: Path) -> None:
    """It was called host memory, for which a wheel of loader workers turned first."""
    (tmp_path / "stderr.log").write_text("skipped a batch: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert judged(GOOD, lost=lost_in(tmp_path / "stderr.log", on_card=True)).source == "allocator"


def test_advice_about_a_cards_memory_is_nothing_that_a_training_without_a_card_has_lost(tmp_path: Path) -> None:
    advice = "tip: with a larger batch you may see 'CUDA out of memory'"
    (tmp_path / "stdout.log").write_text(f"{advice}\nepoch 1: 100%\n")
    assert lost_in(tmp_path / "stdout.log", on_card=False) == () and lost_in(tmp_path / "stdout.log", on_card=True) == (advice,)


@pytest.mark.parametrize(("words", "source"), [
    ("RuntimeError: unable to allocate shared memory(shm) for file </torch_9_1_0>: No space left on device (28)", "workers"),
    ("OSError: [Errno 24] Too many open files", "files"), ("RuntimeError: received 0 items of ancdata", "files"),
])  # fmt: skip
def test_a_trial_that_waits_for_a_batch_that_its_worker_has_lost_ran_short_beside_its_device(words: str, source: str) -> None:
    waiting = but(phase=Phase.TRAIN)
    verdict = judged(waiting, returncode=-15, stood_still=True, lost=(words,))
    assert (verdict.kind, verdict.source) == (Kind.OUT_OF_MEMORY, source)


def test_a_semaphore_without_room_in_dev_shm_is_no_crash() -> None:
    """Its error alone is that of a full disk: such a trial was a crash that no lower rung would cure."""
    message = "OSError: [Errno 28] No space left on device"
    frames = 'Traceback (most recent call last):\n  File "/lib/multiprocessing/synchronize.py", line 57, in __init__\n    sl = SemLock(\n'
    report = failed(message)
    assert report.failure is not None and judged(report, returncode=1).kind is Kind.CRASHED
    report = dataclasses.replace(report, failure=dataclasses.replace(report.failure, traceback=frames + message))
    verdict = judged(report, returncode=1)
    assert (verdict.kind, verdict.source) == (Kind.OUT_OF_MEMORY, "shared_memory")
    assert "a larger /dev/shm" in verdict.why
