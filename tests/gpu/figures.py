"""What the GPU checks share: when they run, autofit as a person calls it, and the file that their figures go to."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.machine import nvml
from launcher.shared.report import TrialReport
from tests.helpers.places import ROOT

RESULTS = Path(os.environ.get("GPU_TESTS_RESULTS") or ROOT / "benchmarks" / "results" / "gpu-tests.jsonl")

_, absence = nvml.opened()
NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(absence is not None, reason=f"no GPU: {absence.found if absence else ''}"),
]


def autofit(cwd: Path, *words: str, timeout: float = 900) -> tuple[int, dict[str, Any], str]:
    """(exit status, the line of JSON, standard error)"""
    argv = [sys.executable, "-m", "launcher", *words, "--json"]
    done = subprocess.run(argv, cwd=cwd, env=None, capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


def write_figures(case: str, said: dict[str, Any], *, packages: tuple[str, ...]) -> None:
    """Appends a line to ``RESULTS``: the card, the versions, each trial with its peaks per phase, the ladder's choice, the full run."""
    line = {
        "case": case,
        "card": said["device"]["name"],
        "emulated_by": "the allocator's cap",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
        "budget_bytes": said["device"]["budget_bytes"],
        "cap_bytes": said["device"]["cap_bytes"],
        "trials": [
            {
                **{key: one[key] for key in ("rung_index", "rung", "verdict", "source", "phase", "peak_bytes", "seconds")},
                "peaks": peaks(one),
            }
            for one in said["trials"]
        ],
        "rung_index": said["rung_index"],
        "rung": said["rung"],
        "given_up": said["given_up"],
        "run": said.get("run"),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def peaks(trial: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Phase -> its peaks, of one entry of ``trials``; empty where the child died before it could say."""
    report = TrialReport.read(Path(trial["folder"]) / "report.json")
    kinds = ("allocated_bytes", "reserved_bytes", "device_bytes")
    return {use.phase: {kind: getattr(use, kind) for kind in kinds} for use in (report.uses if report else ())}


def predicted_device_bytes(said: dict[str, Any]) -> int:
    """Most that the chosen rung's trial saw in use on the card, in any phase."""
    chosen = next(one for one in said["trials"] if one["rung_index"] == said["rung_index"])
    return max(of_phase["device_bytes"] for of_phase in peaks(chosen).values())
