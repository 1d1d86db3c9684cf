"""autofit as a person starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT


def autofit(*words: str, cwd: Path, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "launcher", *words]
    root = str(ROOT)
    return subprocess.run(
        argv, cwd=cwd, env={**os.environ, "PYTHONPATH": root, **env}, capture_output=True, text=True, timeout=timeout, check=False
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(done.stdout.splitlines()) == 1, "with --json standard output is that one line"
    return last
