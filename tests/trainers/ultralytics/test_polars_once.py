"""polars takes the same memory each time, however many cores there are and whatever it is asked later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from launcher.machine.headroom import LEAST_BYTES

pytest.importorskip("polars")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a CPU budget is RLIMIT_DATA, which only Linux has")
READS = """
import json, os, sys, time
from launcher.shared import procfs
from launcher.trainers.ultralytics.inside import polars_once
before = dict(os.environ)
polars_once.start()
same = dict(os.environ) == before
base = procfs.data_bytes()
import polars
for _ in range(2):
    for rows in range(1, 40):
        table = "\\n".join([",".join(f"column{i}" for i in range(15)), *[",".join(["1.25"] * 15)] * 8 * rows])
        polars.read_csv(table.encode(), infer_schema_length=None).to_dict(as_series=False)
    time.sleep(0.2)
threads = [open(f"/proc/self/task/{one}/comm").read().strip() for one in os.listdir("/proc/self/task")]
print(json.dumps({"grown": procfs.data_bytes() - base, "pool": polars.thread_pool_size(), "threads": threads, "same": same}))
"""


def seen(**words: str) -> Any:
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", **words}
    done = subprocess.run([sys.executable, "-c", READS], env=env, capture_output=True, text=True, check=True, timeout=200)
    return json.loads(done.stdout)


def test_what_it_is_asked_later_takes_no_memory_that_it_has_not_yet() -> None:
    """Left to itself it grew by up to 16 MiB, in one process and not in the next. Of some 300 processes one did by 7 MiB, on a busy
    machine: less than every fit leaves free."""
    found = [seen() for _ in range(3)]
    grown = sorted(one["grown"] for one in found)
    assert grown[1] < 2 * 2**20 and grown[2] < LEAST_BYTES and all(one["pool"] == 1 and one["same"] for one in found), found


def test_a_persons_own_words_for_it_win() -> None:
    assert seen(POLARS_MAX_THREADS="3")["pool"] == 3
