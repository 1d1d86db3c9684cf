"""A trial and its full run take the budget at the same state of the process: what counts as base is the same in both, for each trainer.

A base that is smaller in the run counts libraries as the run's memory: it needs more than its trial showed, and dies of it near its cap.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.shared.orders import HELD, MALLOC_VALUE, MALLOC_VARIABLE, Orders
from autofit_launcher.shared.probe import ProbeSettings, injected
from autofit_launcher.trainers.ultralytics import environment as ultralytics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a CPU budget is RLIMIT_DATA, which only Linux has"),
]
CAP = 2**31
APART = 4 * 2**20
"""A trial's process holds the trial's own code, too, and Python's own memory and threads' stacks come in pieces of 1 and 2 MiB: up to
3.2 MiB were seen between the two. It was 7 to 13 MiB where polars reserved as it liked."""
TRIES = 3
"""Of the very same process some have 6 MiB more: an allocator's table of places, by what its threads came to first. The least counts."""
ADDR_NO_RANDOMIZE = 0x0040000
YOLO = "from ultralytics import YOLO\nYOLO('yolov8n.yaml')\n"
MODEL = "import matplotlib.pyplot\nimport torch\nmodel = torch.nn.Linear(8, 8)\ntorch.optim.SGD(model.parameters(), lr=0.1).step()\n"


def as_ever() -> None:
    """Where the kernel puts things is drawn for each process, and an allocator's table of places is larger or smaller for it (6 MiB)."""
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def base(argv: Sequence[str], place: Path, env: Mapping[str, str]) -> int:
    """What a process told that took the budget."""
    held = place / "held"
    env = {**os.environ, MALLOC_VARIABLE: MALLOC_VALUE, HELD: str(held), **env}
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=1800, preexec_fn=as_ever)
    told = [json.loads(path.read_text())["base_bytes"] for path in held.glob("*.json")]
    assert len(told) == 1, done.stdout + done.stderr
    return int(told[0])


def of(place: Path, text: str, env: Mapping[str, str], *, budget_only: bool, **payload: Any) -> int:
    """Of a script into which a trial's instrument is loaded, or that of a run that is held to a budget."""
    (place / "train.py").write_text(text)
    orders = Orders(module="", folder=str(place), device="cpu", cap_bytes=CAP, accumulation=1, payload=payload)
    settings = ProbeSettings(records=str(place), orders=dataclasses.asdict(orders), overlay="", budget_only=budget_only)
    settings.write(place / "probe.json")
    return base([sys.executable, "train.py"], place, {**env, **injected(place / "probe.json", {})})


@pytest.mark.parametrize(("library", "text"), [("ultralytics", YOLO), ("torch", MODEL)])
def test_the_base_of_a_run_is_that_of_its_trial(library: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    env, payload = (ultralytics.prepare(tmp_path / "environment"), {"base": ultralytics.BASE}) if text == YOLO else ({}, {})
    least = {"run": CAP, "trial": CAP}
    for number in range(TRIES):
        for how in least:
            place = tmp_path / f"{how}{number}"
            (place / "held").mkdir(parents=True)
            least[how] = min(least[how], of(place, text, env, budget_only=how == "run", **payload))
        if abs(least["run"] - least["trial"]) < APART:
            return
    raise AssertionError(least)
