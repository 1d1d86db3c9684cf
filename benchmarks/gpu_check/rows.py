"""Values in, lines of gpu-check.jsonl out, and back. A row names its case and step, and everything that a figure depends on."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher.common.files import plain

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "gpu-check.jsonl"
PACKAGES = ("torch", "ultralytics", "transformers", "accelerate", "nvidia-ml-py")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One file of rows, and what every new one begins with."""

    path: Path
    common: Mapping[str, Any]
    """Commit, card, driver, versions: rows of another commit or card are kept, and count as not there."""

    def add(self, case: str, step: str, kind: str, **values: Any) -> dict[str, Any]:
        row = {"case": case, "step": step, "kind": kind, **self.common, **plain(values)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return row

    def of(self, case: str, step: str | None = None) -> list[dict[str, Any]]:
        """This commit's and card's rows of a case."""
        ours = [row for row in read(self.path) if all(row.get(key) == self.common[key] for key in ("commit", "card"))]
        return [row for row in ours if row["case"] == case and (step is None or row["step"] == step)]


def read(path: Path = RESULTS) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def common(*, card: str, uuid: str, driver: str) -> dict[str, Any]:
    return {
        "commit": commit(),
        "card": card,
        "uuid": uuid,
        "driver": driver,
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name)) is not None},
    }


def commit() -> str:
    """What GPU_CHECK_COMMIT says, where a tree has travelled without its `git`; else what `git` says."""
    if told := os.environ.get("GPU_CHECK_COMMIT"):
        return told
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() if said.returncode == 0 else "unknown"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
