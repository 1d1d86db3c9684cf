"""What loaders with workers hold ahead: counted from what they hand over, and never less than what is seen in /dev/shm once they have."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

from tests.helpers.places import ROOT

FILLS = """
import json, shutil, sys, time
import torch
from torch.utils.data import DataLoader
from autofit_launcher.inside.loaders import HeldAhead

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, at): return {"x": torch.zeros(3, 64, 64), "y": at, "name": "row"}

workers, prefetch = map(int, sys.argv[1:])
held = HeldAhead(); held.watch()
more = {"prefetch_factor": prefetch} if workers else {}
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


def test_every_batch_that_may_be_on_its_way_counts() -> None:
    workers, prefetch = 2, 3
    seen, fact = min((told(workers, prefetch) for _ in range(2)), key=lambda one: one[0])  # other tests take of it, too
    batch = 16 * 3 * 64 * 64 * 4 + 4096  # the numbers of its rows take a page
    both = batch + batch // 2 + 2048  # of the second loader, half as large
    assert fact == {"held_ahead": (workers * prefetch + 2) * both}
    assert 0.6 * (workers * prefetch + 1) * batch < seen <= (workers * prefetch + 2) * batch + 2**20


def test_a_loader_without_workers_holds_nothing_ahead() -> None:
    assert told(0, 2)[1] == {}


def told(*words: int) -> tuple[int, dict[str, object]]:
    argv = [sys.executable, "-c", textwrap.dedent(FILLS), *map(str, words)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    seen, fact = json.loads(done.stdout)
    return seen, fact


LOSES = """
from torch.utils.data import DataLoader
from autofit_launcher.inside.loaders import HeldAhead
HeldAhead().watch()
next(iter(DataLoader(range(4), num_workers=1, collate_fn=lambda rows: lambda: rows)))  # what can't be handed over
"""


def test_a_worker_that_loses_a_batch_ends_with_it_and_is_waited_for_no_more() -> None:
    done = subprocess.run([sys.executable, "-c", LOSES], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1 and "exited unexpectedly" in done.stderr, done.stderr[-2000:]
