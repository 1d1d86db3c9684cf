"""What ended a run, from its exit status and its own words, as trainers really print them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from autofit_launcher.adapter.protocol import Weights
from autofit_launcher.full_run.cause import Ended, RunEnd, find, gone_on_without, phase_of

OOM = "RuntimeError: err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 3276800 bytes. Error code 12"


def traceback(*frames: str, error: str = OOM) -> str:
    return "\n".join(["Traceback (most recent call last):", *(f'  File "x.py", line 3, in {name}' for name in frames), error])


@pytest.mark.parametrize(("frames", "phase"), [
    (("<module>", "main", "train", "_do_train", "forward", "loss", "predict", "_predict_once", "forward"), "train"),
    (("train", "_do_train", "validate", "__call__", "forward"), "validate"),
    (("train", "_do_train", "final_eval", "__call__", "forward"), "validate"),
    (("train", "_inner_training_loop", "_maybe_log_save_evaluate", "evaluate", "evaluation_loop", "prediction_step"), "validate"),
    (("train_and_eval", "train_step", "forward"), "train"),
    (("train", "_maybe_log_save_evaluate", "_save_checkpoint", "save_model", "save_pretrained", "to_json_file"), "save"),
    (("train", "_maybe_log_save_evaluate", "_nested_gather"), "train"), (("validate", "plot_predictions", "save"), "validate"),
    (("train", "save_for_backward"), "train"),
])  # fmt: skip
def test_the_phase_is_told_by_the_functions_of_the_last_traceback(frames: tuple[str, ...], phase: str) -> None:
    earlier = traceback("validate", error="ValueError: caught long ago")
    assert phase_of(f"{earlier}\n{traceback(*frames)}") == phase


@pytest.mark.parametrize(("finite", "ended"), [(None, Ended.DONE), (False, Ended.DIVERGED), (True, Ended.DONE)])
def test_a_run_whose_losses_hide_that_it_diverged_is_told_by_its_weights(finite: bool | None, ended: Ended) -> None:
    weights = Weights(path=Path("out/model.safetensors"), finite=finite) if finite is not None else None
    cause = find(RunEnd(returncode=0, words="", weights=weights))
    assert cause.ended is ended and ("out/model.safetensors" in cause.evidence) is (ended is Ended.DIVERGED)


def test_what_ended_a_run_is_nothing_that_it_went_on_without() -> None:
    figure, first = "MemoryError: no room for a figure", "RuntimeError: [enforce fail at alloc_cpu.cpp:127] can't allocate memory"
    chained = f"{traceback('save', error=first)}\n\nThe above exception was the direct cause of the following exception:\n\n"
    ended = traceback("run", error=f"MemoryError: a checkpoint found no room: {first}")
    words = f"{traceback('plot', error=figure)}\nit went on\n{chained}{ended}"
    found = find(RunEnd(returncode=1, words=words)).failure
    assert found is not None and gone_on_without([figure, first, found.line], words, found) == [figure]
    assert gone_on_without([figure], words, None) == [figure]


OOM_OF_A_CARD = traceback("f", error="torch.OutOfMemoryError: CUDA out of memory.")


@pytest.mark.parametrize(
    ("seen", "ended"),
    [
        (RunEnd(returncode=0, words=""), Ended.DONE),
        (RunEnd(returncode=1, words=traceback("train")), Ended.OUT_OF_MEMORY),
        (RunEnd(returncode=1, words=traceback("train"), on_card=True), Ended.HOST_MEMORY),
        (RunEnd(returncode=1, words=OOM_OF_A_CARD, on_card=True), Ended.OUT_OF_MEMORY),
        (RunEnd(returncode=1, words=OOM_OF_A_CARD, on_card=True, taken="pid 7"), Ended.CARD_TAKEN),
        (RunEnd(returncode=1, words=traceback("f", error="RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.")),
         Ended.HOST_MEMORY),
        (RunEnd(returncode=1, words=traceback("f", error="RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly")), Ended.CRASHED),
        *((RunEnd(returncode=status, words=words, on_card=True), ended) for status, words, ended in (
            (1, traceback("f", error="RuntimeError: CUDA error: uncorrectable ECC error encountered"), Ended.CARD_FAILED),
            (1, traceback("f", error="torch.AcceleratorError: CUDA error: unspecified launch failure"), Ended.CARD_FAILED),
            (-signal.SIGABRT, "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", Ended.CARD_FAILED),
            (1, traceback("f", error="RuntimeError: CUDA error: an illegal memory access was encountered"), Ended.CRASHED),
            (1, "ECC: unspecified launch failure\n" + traceback("f", error="KeyError: 'labels'"), Ended.CRASHED),
        )),
        (RunEnd(returncode=-signal.SIGKILL, words=""), Ended.KILLED),
        (RunEnd(returncode=143, words=""), Ended.KILLED),
        (RunEnd(returncode=-signal.SIGKILL, words="", oom_kills=1), Ended.OUT_OF_MEMORY),
        (RunEnd(returncode=-signal.SIGKILL, words="", oom_kills=1, on_card=True), Ended.HOST_MEMORY),
        (RunEnd(returncode=-signal.SIGSEGV, words="", at_limit=True), Ended.OUT_OF_MEMORY),
        (RunEnd(returncode=-signal.SIGSEGV, words=""), Ended.CRASHED),
        (RunEnd(returncode=1, words=traceback("f", error="OSError: [Errno 28] No space left on device: 'last.pt'")), Ended.UNWRITABLE),
        (RunEnd(returncode=1, words=traceback("f"), divergence="NaN persisted for 4 epochs"), Ended.OUT_OF_MEMORY),
        (RunEnd(returncode=1, words=traceback("f", error="RuntimeError: x"), divergence="NaN persisted for 4 epochs"), Ended.DIVERGED),
        (RunEnd(returncode=1, words=traceback("f", error="RuntimeError: unexpected pos 64 vs 0"), unwritable="no room is left"),
         Ended.UNWRITABLE),
        (RunEnd(returncode=-signal.SIGKILL, words="", unwritable="no room is left"), Ended.KILLED),
        (RunEnd(returncode=1, words=traceback("f", error="OSError: [Errno 30] Read-only file system: 'last.pt'")), Ended.UNWRITABLE),
        (RunEnd(returncode=1, words=traceback("train"), unwritable="no room is left"), Ended.OUT_OF_MEMORY),
        (RunEnd(returncode=0, words="", not_finite="epoch 9 loss: nan"), Ended.DIVERGED),
        (RunEnd(returncode=-signal.SIGTERM, words="", ended_for=Ended.STALLED), Ended.STALLED),
    ],
)  # fmt: skip
def test_what_ended_a_run(seen: RunEnd, ended: Ended) -> None:
    assert find(seen).ended is ended


STARTED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 10, in <module>
[rank0]:     train()
[rank0]: {error}
[rank1]: Traceback (most recent call last):
[rank1]:   File "/torch/distributed/distributed_c10d.py", line 6614, in barrier
[rank1]:     work.wait()
[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:13442.
W1123 05:40:22.576000 32022 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 32036 closing signal SIGTERM
E1123 05:40:22.645000 32022 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {status}) local_rank: 0 (pid: 32035)
Traceback (most recent call last):
  File "/torch/distributed/launcher/api.py", line 386, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
Failures:
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 32036)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : {status} (pid: 32035)
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""
"""As torch 2.15's torchrun says it."""
ACCELERATE = "subprocess.CalledProcessError: Command '['python', 'train.py']' {how}."


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        (STARTED.format(error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", status=1), Ended.OUT_OF_MEMORY),
        (STARTED.format(error="KeyError: 'labels'", status=1), Ended.CRASHED),
        (STARTED.format(error="torch.OutOfMemoryError: CUDA out of memory.", status=-9), Ended.KILLED),
        (traceback("train") + "\n" + traceback("simple_launcher", error=ACCELERATE.format(how="returned non-zero exit status 1")),
         Ended.HOST_MEMORY),
        (traceback("train") + "\n" + "step 7\n" * 100 + traceback("f", error=ACCELERATE.format(how="returned non-zero exit status 1")),
         Ended.CRASHED),
        (traceback("simple_launcher", error=ACCELERATE.format(how="died with <Signals.SIGKILL: 9>")), Ended.KILLED),
        (traceback("spawn", error="torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL"),
         Ended.KILLED),
    ],
)  # fmt: skip
def test_what_ended_a_run_is_said_by_the_training_and_not_by_the_program_that_started_it(words: str, ended: Ended) -> None:
    assert find(RunEnd(returncode=1, words=words, on_card=True)).ended is ended


def test_a_run_whose_starter_says_that_it_was_killed_was_so_for_want_of_memory_where_the_kernel_says_so() -> None:
    words = STARTED.format(error="", status=-9)
    assert find(RunEnd(returncode=1, words=words, on_card=True, oom_kills=1)).ended is Ended.HOST_MEMORY


SAVING = "ValueError: I/O operation on closed file."
"""What is left of a MemoryError in torch.save where Ultralytics has tried it again (torch 2.15, under RLIMIT_DATA)."""


def test_a_checkpoint_that_could_not_be_written_is_memory_only_at_the_limit_and_with_room_on_the_disk() -> None:
    words = traceback("save_model", "torch_save", error=SAVING)
    full = f"RuntimeError: PytorchStreamWriter failed writing file data/0: file write failed\n{words}"
    assert find(RunEnd(returncode=1, words=words, at_limit=True)).ended is Ended.OUT_OF_MEMORY
    assert find(RunEnd(returncode=1, words=words)).ended is Ended.CRASHED
    assert find(RunEnd(returncode=1, words=full, at_limit=True)).ended is Ended.UNWRITABLE


def test_a_disk_that_is_full_is_named_with_the_last_words_whatever_they_are() -> None:
    words = traceback("save", error="RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0")
    found = find(RunEnd(returncode=1, words=words, unwritable="no room is left on the disk of its run folder, /runs/x", at_limit=True))
    assert found.evidence.startswith("no room is left on the disk of its run folder, /runs/x") and "unexpected pos 64" in found.evidence


@pytest.mark.parametrize(("returncode", "words", "evidence"), [
    (3, "epoch 4/4 loss 0.93\n", "exit status 3, without a traceback; its last line: epoch 4/4 loss 0.93"),
    (-signal.SIGSEGV, "epoch 4/4 loss 0.93\n", "SIGSEGV, without a traceback; its last line: epoch 4/4 loss 0.93"),
    (1, "", "exit status 1, without a word"), (1, traceback("f", error="KeyError: 'labels'"), "KeyError: 'labels'"),
])  # fmt: skip
def test_a_line_of_progress_is_not_shown_as_what_a_run_crashed_of(returncode: int, words: str, evidence: str) -> None:
    assert find(RunEnd(returncode=returncode, words=words)).evidence == evidence


@pytest.mark.parametrize(("words", "error"), [
    (f"{traceback('f', error='RuntimeError: no')}\nepoch 4/4\n", "RuntimeError: no"),
    (f"Exception ignored in: <function _Loader.__del__>\n{traceback('f', error='RuntimeError: no')}\n", ""), ("epoch 4/4", ""),
])  # fmt: skip
def test_an_error_that_a_run_ended_well_with_is_told(words: str, error: str) -> None:
    found = find(RunEnd(returncode=0, words=words))
    assert (found.ended, found.evidence) == (Ended.DONE, error)


LOST = "RuntimeError: unable to allocate shared memory(shm) for file </torch_9_1_0>: No space left on device (28)"
MANY = "OSError: [Errno 24] Too many open files"


@pytest.mark.parametrize(("words", "source"), [(LOST, "workers"), (MANY, "files"), ("RuntimeError: received 0 items of ancdata", "files")])
def test_a_run_that_waits_for_a_batch_that_its_worker_has_lost_ran_short_beside_its_device(words: str, source: str) -> None:
    stood = find(RunEnd(returncode=-15, words=traceback("_feed", error=words), ended_for=Ended.STALLED))
    crashed = find(RunEnd(returncode=1, words=traceback("train", error=words)))
    for cause in (stood, crashed):
        assert cause.ended is Ended.HOST_MEMORY
        assert cause.failure is not None and cause.failure.source == source
    assert find(RunEnd(returncode=-15, words=traceback("train"), ended_for=Ended.STALLED)).ended is Ended.STALLED


def test_a_semaphore_that_finds_no_room_is_no_full_disk() -> None:
    """As Python 3.11 says it of a loader's queue, once others have filled /dev/shm."""
    words = (
        "Traceback (most recent call last):\n"
        '  File "/work/train.py", line 46, in <module>\n    for number, (images, labels) in enumerate(train, start=1):\n'
        '  File "/usr/lib/python3.11/multiprocessing/synchronize.py", line 223, in __init__\n'
        "    self._wait_semaphore = ctx.Semaphore(0)\n                           ^^^^^^^^^^^^^^^^\n"
        '  File "/usr/lib/python3.11/multiprocessing/synchronize.py", line 57, in __init__\n'
        "    sl = self._semlock = _multiprocessing.SemLock(\n                         ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "OSError: [Errno 28] No space left on device\n"
    )
    found = find(RunEnd(returncode=1, words=words))
    assert found.ended is Ended.HOST_MEMORY and found.failure is not None and found.failure.source == "shared_memory"
    elsewhere = words.replace("synchronize.py", "serialization.py")
    assert find(RunEnd(returncode=1, words=elsewhere)).ended is Ended.UNWRITABLE
