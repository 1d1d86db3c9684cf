"""What loaders with workers hold ahead: counted from what they hand over, and never less than what is seen in /dev/shm once they have."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from launcher.worker.loaders import _read_through
from tests.helpers.places import ROOT

FILLS = """
import json, shutil, sys, time
import torch
from torch.utils.data import DataLoader
from launcher.worker.loaders import HeldAhead

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, at): return {"x": torch.zeros(3, 64, 64), "y": at, "name": "row"}

workers, prefetch, persistent = map(int, sys.argv[1:])
held = HeldAhead(); held.watch()
more = {"prefetch_factor": prefetch, "persistent_workers": bool(persistent)} if workers else {}
loader = DataLoader(Rows(), batch_size=16, num_workers=workers, **more)
before, most = shutil.disk_usage("/dev/shm").used, 0
for _ in range(2):
    for number, batch in enumerate(loader):
        time.sleep(0.5 if number == 2 else 0)
        most = max(most, shutil.disk_usage("/dev/shm").used - before)
        if number == 4: break
both = iter(loader), iter(DataLoader(Rows(), batch_size=8, num_workers=workers, **more))
[next(one) for one in both]
print(json.dumps([most, held.fact()]))
"""


@pytest.mark.parametrize(("workers", "prefetch", "persistent"), [(2, 3, 0), (1, 2, 1)])
def test_every_batch_that_may_be_on_its_way_counts(workers: int, prefetch: int, persistent: int) -> None:
    seen, fact = min((told(workers, prefetch, persistent) for _ in range(2)), key=lambda one: one[0])  # other tests take of it, too
    batch = 16 * 3 * 64 * 64 * 4 + 4096  # the numbers of its rows take a page
    both = batch + batch // 2 + 2048  # of the second loader, half as large
    assert fact == {"held_ahead": {"bytes": (workers * prefetch + 2) * both, "storages": (workers * prefetch + 2) * 4, "cached": 0}}
    assert 0.6 * (workers * prefetch + 1) * batch < seen <= (workers * prefetch + 2) * batch + 2**20


def test_a_loader_without_workers_holds_nothing_ahead() -> None:
    assert told(0, 2, 0)[1] == {}


def test_what_many_samples_have_together_is_read_once() -> None:
    class Vocabulary(dict[str, int]):
        read = 0

        def values(self) -> Any:
            self.read += 1
            return super().values()

    class Sample:
        def __init__(self, vocabulary: Vocabulary) -> None:
            self.vocabulary, self.ids = vocabulary, [1, 2]

        def __getitem__(self, at: int) -> int:
            return self.ids[at]

    vocabulary = Vocabulary((str(number), number) for number in range(1000))
    _read_through({"rows": [Sample(vocabulary) for _ in range(500)]})
    assert vocabulary.read == 1


COLLECTS = """
import json, os, sys
import torch
from torch.utils.data import DataLoader
from launcher.shared import procfs
from launcher.worker.loaders import HeldAhead

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 10_000
    def __getitem__(self, at): return [at, procfs.own_bytes(os.getpid())[0] if at in (0, LAST) else 0]

LAST = 10 * int(sys.argv[1]) - 1
of_parent = [[number] for number in range(400_000)]  # 48 MB of lists and what they hold
HeldAhead().watch()
batches = DataLoader(Rows(), batch_size=int(sys.argv[1]), num_workers=1, collate_fn=lambda rows: rows)
seen = [own for _, rows in zip(range(10), batches) for _, own in rows]
print(json.dumps([seen[0], seen[LAST]]))
"""


@pytest.mark.parametrize(("size", "copies"), [(16, False), (1000, True)])
def test_a_worker_that_collects_garbage_often_has_a_copy_of_all_that_its_parent_had(size: int, copies: bool) -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTS, str(size)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    first, last = json.loads(done.stdout)
    assert (last - first > 15 * 2**20) == copies, (first, last)


CACHES = """
import json, sys
import torch
from torch.utils.data import DataLoader, Subset
from launcher.worker.loaders import HeldAhead

class Rows(torch.utils.data.Dataset):
    def __init__(self, kind):
        self.kind, self.cache, self.images = kind, {}, [None] * 1000
        if kind == "buffer": self.max_buffer_length = 16
    def __len__(self): return 1000
    def __getitem__(self, at):
        row = torch.zeros(1000)
        if self.kind == "dictionary": self.cache[at] = row
        if self.kind in ("list", "buffer"): self.images[at] = row.numpy()[:750].copy(), row.numpy()[:250].copy(), at
        return row

kind, persistent = sys.argv[1], sys.argv[2] == "persistent"
held = HeldAhead(); held.watch()
loader = DataLoader(Subset(Rows(kind), range(1000)), batch_size=10, num_workers=2, prefetch_factor=2, persistent_workers=persistent)
for _ in range(2):
    for number, _ in zip(range(3), loader): pass
print(json.dumps(held.fact()["held_ahead"]["cached"] / 4000))
"""


@pytest.mark.parametrize(
    ("kind", "workers", "rows"),
    [
        ("dictionary", "new", 1000), ("list", "new", 1000), ("dictionary", "persistent", 2000), ("nothing", "new", 0), ("buffer", "new", 0),
    ],
)  # fmt: skip
def test_what_workers_come_to_keep_of_a_whole_data_set_is_counted(kind: str, workers: str, rows: int) -> None:
    done = subprocess.run([sys.executable, "-c", CACHES, kind, workers], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = float(json.loads(done.stdout))
    assert rows - 160 <= seen <= max(0, rows - 20), "all of them without those that the trial's workers have"


def told(*words: int) -> tuple[int, dict[str, object]]:
    argv = [sys.executable, "-c", textwrap.dedent(FILLS), *map(str, words)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    seen, fact = json.loads(done.stdout)
    return seen, fact
