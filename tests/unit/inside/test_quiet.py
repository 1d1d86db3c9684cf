"""What a person's program is told in its trial, and not in its full run, changes nothing of what it needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from launcher.inside.quiet import QUIET

TOKENIZES = """
from tokenizers import Tokenizer, models
tokenizer = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
before = len(__import__("os").listdir("/proc/self/task"))
tokenizer.encode_batch(["a b c"] * 2000)
print(len(__import__("os").listdir("/proc/self/task")) - before)
"""


def test_a_trial_has_the_threads_that_the_run_has() -> None:
    pytest.importorskip("tokenizers")
    plain = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    started = [
        int(subprocess.run([sys.executable, "-c", TOKENIZES], env={**plain, **more}, capture_output=True, text=True, check=True).stdout)
        for more in ({}, QUIET)
    ]
    assert started[0] == started[1] > 0
