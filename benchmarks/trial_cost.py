"""What a trial costs, by phase, with its process started when its turn comes and with one that has imported before: ``make trial-cost``.

    python -m benchmarks.trial_cost            text, speech and YOLO, each three times with either, in turn (some minutes); idle machine

Each launch is led by a forecast whose traces are kept, at a budget at which a trial fails before one fits: the last trial is measured.
Writes ``results/trial_cost.json`` and prints the table that stands in docs/decisions/019.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fit.play import made_with

RESULTS = Path(__file__).parent / "results" / "trial_cost.json"
TIMES = 3
ASKS = {
    "text": ["recipe=llm_sft_demo"],
    "speech": ["recipe=whisper_demo"],
    "yolo": ["recipe=yolo_demo", "ask.image_size=320", "device.memory=500MiB"],
}


def launched(words: Sequence[str], place: Path, *, standby: bool) -> dict[str, Any]:
    """Seconds of the last trial's phases, and its peak."""
    said = ["ladder.search=predicted", "trial.fresh=true", f"trial.standby={str(standby).lower()}", "device=cpu"]
    argv = [str(Path(sys.executable).parent / "autofit"), "fit", "--json", *words, *said]
    env = {**os.environ, **{f"XDG_{name}_HOME": str(place / name.lower()) for name in ("STATE", "CACHE", "DATA")}}
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout.splitlines()[-1])
    last = record["trials"][-1]
    report = json.loads((Path(last["folder"]) / "report.json").read_text(encoding="utf-8"))
    phases: dict[str, float] = {}
    for use in report["uses"]:
        phases[use["phase"]] = round(phases.get(use["phase"], 0.0) + use["seconds"], 2)
    return {"trials": len(record["trials"]), "seconds": last["seconds"], "peak_bytes": last["peak_bytes"], "phases": phases}


def main() -> None:
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory(prefix="autofit-") as folder:
        for name, words in ASKS.items():
            place = Path(folder) / name
            place.mkdir()
            launched(words, place, standby=False)  # data, traces, label caches
            rows[name] = {"cold": [], "standby": []}
            for _ in range(TIMES):
                for how in rows[name]:
                    rows[name][how].append(launched(words, place, standby=how == "standby"))
                    print(name, how, rows[name][how][-1], flush=True)
    RESULTS.write_text(json.dumps({**made_with(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


def table(rows: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Medians; ``start`` is all that comes before the trainer's own setup: the interpreter, its imports, the budget."""
    lines = ["| trainer | process | trial | start | the rest | peak |", "|---|---|---|---|---|---|"]
    for name, both in rows.items():
        for how, found in both.items():
            seconds, peak = (statistics.median(one[key] for one in found) for key in ("seconds", "peak_bytes"))
            start = statistics.median(one["phases"]["start"] for one in found)
            lines.append(f"| {name} | {how} | {seconds:.1f} | {start:.1f} | {seconds - start:.1f} | {peak / 2**20:.0f} MiB |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
