"""Processes beside the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.places import ROOT


@contextmanager
def child(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that runs ``code``, from its first line on standard output on; it is killed in the end."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, env=env) as one:
        assert one.stdout is not None
        one.stdout.readline()
        try:
            yield one
        finally:
            one.kill()
