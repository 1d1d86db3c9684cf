"""What a child and its workers take of the machine, seen from outside."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from launcher.machine import host, process
from launcher.machine.host_meter import HostMeter, HostUse
from launcher.shared import procfs
from launcher.shared.sizes import MIB
from tests.helpers.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
FORKS = """
    import mmap, os, sys, time
    def fill(place, mib):
        for _ in range(mib): place.write(bytes(2**20))
        return place
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    held = fill(mmap.mmap(-1, 256 * 2**20, flags=private), 256)
    for _ in range(3):
        if os.fork() == 0:
            own = fill(mmap.mmap(-1, 32 * 2**20, flags=private), 32)
            time.sleep(60)
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 48 * 2**20)
    shared = fill(mmap.mmap(file, 48 * 2**20), 48)
    os.unlink(sys.argv[1])
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
    time.sleep(2.5)
    os._exit(0)  # at once: a walk may come while an interpreter lets go, with its part in one process and in another
"""


def used(tmp_path: Path, code: str, *words: str) -> HostUse:
    meter = HostMeter(tmp_path)
    argv = (sys.executable, "-c", textwrap.dedent(code), *words)
    child = process.start(argv, env={"PYTHONPATH": str(ROOT)}, stdout=tmp_path / "out", stderr=tmp_path / "err")
    meter.begin(child.pid)
    ending = process.wait(child, stderr=tmp_path / "err")
    meter.stop()
    assert ending.returncode == 0, ending.stderr_tail
    return meter.use


def test_what_forked_workers_have_together_counts_once(tmp_path: Path) -> None:
    """Others may give something of /dev/shm back meanwhile, so the better of two counts."""
    use = max((used(tmp_path, FORKS, f"/dev/shm/autofit-test-{os.getpid()}") for _ in range(2)), key=lambda one: one.shared_taken)
    own = (256 + 3 * 32 + 48) * MIB
    assert own <= use.memory_bytes < own + 64 * MIB
    assert use.memory_there is not None and use.memory_there > use.memory_bytes
    assert use.shared_taken >= 48 * MIB and 48 * MIB <= use.shared_mapped < 52 * MIB
    assert 300 <= use.files < 320 and use.files_there and use.files_beside == use.files
    assert use.tasks == 4


@pytest.mark.parametrize("may_forget", [True, False], ids=["", "where the kernel is not made to forget"])
def test_memory_that_a_process_had_between_two_looks_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_forget: bool) -> None:
    """On a busy machine a look that comes while the peak is being made may miss a part of it, once in a hundred times."""
    if not may_forget:
        monkeypatch.setattr(procfs, "forget_most_resident", lambda pid: False)
    most = max(used(tmp_path, SPIKE).memory_bytes for _ in range(2))
    assert 160 * MIB <= most < 200 * MIB


SPIKE = """
    import mmap, time
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    held = mmap.mmap(-1, 96 * 2**20, flags=flags)
    time.sleep(0.55)
    mmap.mmap(-1, 64 * 2**20, flags=flags).close()
    time.sleep(3)
"""


def test_a_peak_counts_that_is_below_what_its_process_once_had(tmp_path: Path) -> None:
    """Reading a model takes more of the process itself than a step does, but there are no workers yet."""
    most = max(used(tmp_path, STEP_BESIDE_WORKERS).memory_bytes for _ in range(3))
    assert 3 * 64 + 72 <= most // MIB < 3 * 64 + 72 + 40


STEP_BESIDE_WORKERS = """
    import mmap, os, time
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, 160 * 2**20, flags=flags).close()
    time.sleep(0.5)
    told, tells = os.pipe()
    for _ in range(3):
        if os.fork() == 0:
            held = mmap.mmap(-1, 64 * 2**20, flags=flags)
            os.write(tells, b".")
            time.sleep(60)
    for _ in range(3):
        os.read(told, 1)
    time.sleep(1.05)
    mmap.mmap(-1, 72 * 2**20, flags=flags).close()
    time.sleep(2)
"""


def test_what_a_forking_process_takes_while_its_pages_are_walked_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine lets a walk wait for long. What is together with a worker is less of the process's own than it has resident."""
    walk, grown = procfs.rollup, list[int]()

    def grows_meanwhile(pid: int) -> dict[str, int]:
        if not grown and procfs.children(pid):
            grown.append(procfs.resident_bytes(pid))
            os.kill(pid, signal.SIGUSR1)
            deadline = time.monotonic() + 10
            while procfs.resident_bytes(pid) < grown[0] + 64 * MIB and time.monotonic() < deadline:
                time.sleep(0.005)
        return walk(pid)

    monkeypatch.setattr(procfs, "rollup", grows_meanwhile)
    most = used(tmp_path, GROWS_BESIDE_ITS_WORKER).memory_bytes
    assert grown and 96 + 64 <= most // MIB < 96 + 64 + 32


GROWS_BESIDE_ITS_WORKER = """
    import mmap, os, signal, time
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    held = mmap.mmap(-1, 96 * 2**20, flags=flags)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    worker = os.fork()
    if worker == 0:
        time.sleep(60)
    signal.sigwait({signal.SIGUSR1})
    more = mmap.mmap(-1, 64 * 2**20, flags=flags)
    time.sleep(1.5)
    os.kill(worker, signal.SIGKILL)
"""


def test_what_a_process_lets_go_that_its_workers_keep_counts_once(tmp_path: Path) -> None:
    """A trainer that ends, say, before its workers do."""
    assert 128 <= used(tmp_path, LETS_GO).memory_bytes // MIB < 128 + 24


LETS_GO = """
    import mmap, os, time
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    held = mmap.mmap(-1, 128 * 2**20, flags=flags)
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(60)
    time.sleep(1)
    held.close()
    time.sleep(1)
"""


def test_a_peak_after_the_workers_ended_counts(tmp_path: Path) -> None:
    """What was together with them is the process's own by then. A walk may come while the peak is being made, or just before it."""
    _, middle, _ = sorted(used(tmp_path, PEAK_AFTER_WORKERS).memory_bytes for _ in range(3))
    assert 128 + 32 <= middle // MIB < 128 + 64 + 32


PEAK_AFTER_WORKERS = """
    import mmap, os, signal, time
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    held = mmap.mmap(-1, 128 * 2**20, flags=flags)
    workers = [os.fork() for _ in range(3) if os.getpid() == os.getpgid(0)]
    time.sleep(60 if 0 in workers else 1)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
    mmap.mmap(-1, 64 * 2**20, flags=flags).close()
    time.sleep(1)
"""


def test_files_that_were_mapped_for_a_time_are_no_memory_that_was_needed(tmp_path: Path) -> None:
    """The kernel can take their pages back. Weights are often read so (safetensors)."""
    assert used(tmp_path, MAPS_A_FILE, str(tmp_path / "weights")).memory_bytes < 40 * MIB


MAPS_A_FILE = """
    import mmap, sys, time
    with open(sys.argv[1], "w+b") as file:
        file.write(bytes(160 * 2**20))
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        read = [mapped[at] for at in range(0, len(mapped), 4096)]
    time.sleep(0.5)
    mapped.close()
    time.sleep(2)
"""


def test_what_a_forked_worker_will_have_copied_of_its_data_set_is_there_in_a_trial(tmp_path: Path) -> None:
    """A million words are some 60 MiB, of which a worker copies each page whose references it counts: none of them by its first batch."""
    pytest.importorskip("torch")
    plainly, watched = (used(tmp_path, code).memory_bytes for code in (COPIES, WATCHED + COPIES))
    assert watched > plainly + 2 * 50 * MIB


WATCHED = """
    from launcher.worker.loaders import HeldAhead"""
COPIES = """
    import time
    from torch.utils.data import DataLoader, Dataset
    if "HeldAhead" in globals():
        HeldAhead().watch()
    class Words(Dataset):
        def __init__(self): self.words = [str(number) for number in range(10**6)]
        def __len__(self): return 4
        def __getitem__(self, at): return at
    loader = iter(DataLoader(Words(), num_workers=2))
    next(loader)
    time.sleep(2.5)
"""


def test_storages_on_their_way_are_told_from_other_open_files(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    use = used(tmp_path, LOADS)
    assert use.files >= use.files_beside + 2 * 50, "of batches of 50 tensors"


LOADS = """
    import time, torch
    from torch.utils.data import DataLoader
    rows = [[torch.zeros(1) for _ in range(50)] for _ in range(20)]
    loader = DataLoader(rows, batch_size=None, num_workers=1)
    kept = [batch for _, batch in zip(range(3), loader)]
    time.sleep(2.5)
"""


def test_a_group_says_how_many_processes_may_still_be_started(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("5:pids:/user/job\n4:memory:/other\n")
    for folder, limit, there in ((tmp_path / "pids" / "user", "max", 400), (tmp_path / "pids" / "user" / "job", "100", 37)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pids.max").write_text(limit)
        (folder / "pids.current").write_text(f"{there}\n")
    assert host.tasks_left(tmp_path, own) == 63


def test_the_group_with_least_room_counts_not_the_one_with_the_least_limit(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/user/job\n")
    for folder, limit, memory in ((tmp_path / "user", "4000", 3900), (tmp_path / "user" / "job", "1000", 100)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(f"{memory}\n")
        (folder / "memory.stat").write_text("inactive_file 10\nactive_file 20\nshmem 5\n")
    assert host.cgroup_memory(tmp_path, own) == (4000, 3870), "what files have in the page cache can be taken back"
