"""autofit as a person starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT


def autofit(*words: str, cwd: Path, timeout: float = 300, before: Sequence[str] = (), **env: str) -> subprocess.CompletedProcess[str]:
    """``before``: words of a program that starts it."""
    argv = [*before, sys.executable, "-m", "autofit_launcher", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(done.stdout.splitlines()) == 1, "with --json standard output is that one line"
    return last
