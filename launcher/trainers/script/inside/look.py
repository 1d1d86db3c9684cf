"""Runs a command up to its first training batch, and prints as JSON what its batch size is and where it arrives. Nothing of it is left.

python -m launcher.trainers.script.inside.look SECONDS COMMAND [WORDS...]

Where its own numbers are remembered by where they are written, a script may break on that; then it is run once more without.
``{"ended": ...}`` where it comes to no training.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.inside.caches import CACHES, separate
from launcher.inside.lifeline import die_with_parent
from launcher.inside.quiet import QUIET
from launcher.inside.settings import ProbeSettings, injected
from launcher.trainers.script.inside.arriving import FOUND

LOOK_S = 0.05
_TAIL = 1500


def looked(command: Sequence[str], *, seconds: float) -> dict[str, Any]:
    """What was found with marked numbers, else what was found without."""
    found: dict[str, Any] = {}
    for look in ("marks", "plain"):
        place = Path(tempfile.mkdtemp(prefix="autofit-look-"))
        try:
            found = _run(command, place, look, time.monotonic() + seconds)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if "ended" not in found or found["ended"] is None:  # it would be as slow without
            break
    return found


def _run(command: Sequence[str], place: Path, look: str, until: float) -> dict[str, Any]:
    records = place / "records"
    records.mkdir()
    settings = place / "probe.json"
    ProbeSettings(records=str(records), overlay=str(place / "overlay"), kept=(str(place),), budget_only=True, look=look).write(settings)
    env = {**os.environ, **QUIET, "MPLBACKEND": "Agg", "TMPDIR": str(place)}
    env |= separate(env, place / CACHES, launch=place / CACHES)
    env |= injected(settings, env)
    with (place / "log").open("wb") as log:
        child = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent, start_new_session=True
        )
    try:
        broken = Path(f"{settings}.failed")
        while not (records / FOUND).exists() and not broken.exists() and child.poll() is None and time.monotonic() < until:
            time.sleep(LOOK_S)
        if (records / FOUND).exists():
            return dict(json.loads((records / FOUND).read_text(encoding="utf-8")))
        if broken.exists():
            raise RuntimeError(broken.read_text(encoding="utf-8").strip())
        return {"ended": child.returncode, "said": (place / "log").read_bytes().decode(errors="replace")[-_TAIL:]}
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """With what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


if __name__ == "__main__":
    print(json.dumps(looked(sys.argv[2:], seconds=float(sys.argv[1]))))
