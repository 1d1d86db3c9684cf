"""What a trial costs, by phase, with its process started when its turn comes and with one that has imported before: ``make trial-cost``.

    python -m benchmarks.trial_cost            text, speech and YOLO, each three times with either, in turn (some minutes); idle machine

Each launch is led by a forecast whose traces are kept, at a budget at which a trial fails before one fits: the last trial is measured.
Writes ``results/trial_cost.json`` and prints the table that stands in docs/decisions/019.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.fit.play import Place, made_with
from benchmarks.rows import Row

RESULTS = Path(__file__).parent / "results" / "trial_cost.json"
TIMES = 3
ASKS = {
    "text": ["recipe=llm_sft_demo"],
    "speech": ["recipe=whisper_demo"],
    "yolo": ["recipe=yolo_demo", "ask.image_size=320", "device.memory=500MiB"],
}


def launched(place: Place, *, standby: bool) -> Row:
    """Seconds of the last trial's phases, and its peak."""
    said = place.answer("fit", "ladder.search=predicted", "trial.fresh=true", f"trial.standby={str(standby).lower()}")
    last = said["trials"][-1]
    phases: dict[str, float] = {}
    for use in last["report"]["uses"]:
        phases[use["phase"]] = round(phases.get(use["phase"], 0.0) + use["seconds"], 2)
    return {"trials": len(said["trials"]), "seconds": last["seconds"], "peak_bytes": last["peak_bytes"], "phases": phases}


def main() -> None:
    rows: dict[str, dict[str, list[Row]]] = {}
    with tempfile.TemporaryDirectory(prefix="autofit-") as folder:
        for name, words in ASKS.items():
            place = Place(Path(folder) / name, words)
            launched(place, standby=False)  # data, traces, label caches
            rows[name] = {"cold": [], "standby": []}
            for _ in range(TIMES):
                for how in rows[name]:
                    rows[name][how].append(launched(place, standby=how == "standby"))
                    print(name, how, rows[name][how][-1], flush=True)
    RESULTS.write_text(json.dumps({**made_with(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


def table(rows: dict[str, dict[str, list[Row]]]) -> str:
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
