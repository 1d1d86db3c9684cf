"""Published measurements of YOLO trainings beside what is foreseen of them: ``python -m benchmarks.prediction``.

The eight of the 19 points of docs/prediction.md that are whole trainings; the others (probes, BERT) are no training that autofit launches.
Traces come from autofit's cache or are made (10 to 20 s of processor time each). Writes ``results/prediction.jsonl`` and the table in
docs/prediction.md. No card is needed. Ultralytics prints ``memory_reserved() / 1e9`` up to 8.3.74, ``/ 2**30`` later.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from launcher.adapter.tracing import Ask
from launcher.forecast import gpu_catalogue, trace_store
from launcher.forecast.replay import replay
from launcher.shared.report import Phase
from launcher.shared.trace import Trace, live
from launcher.trainers.ultralytics import environment
from launcher.trainers.ultralytics.tracing import DETERMINISTIC_BYTES, WANTED

RESULTS = Path(__file__).parents[1] / "results" / "prediction.jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "prediction.md"
BEGIN, END = "<!-- made by benchmarks/prediction/ -->", "<!-- end -->"
LABELS = 20
"""In the densest image; not published for any of them."""
MODULE = "launcher.trainers.ultralytics.inside.trace"

# model, classes, images, side in pixels, card, published bytes, where
POINTS: tuple[tuple[str, int, int, int, str, float, str], ...] = (
    ("yolo11m", 3, 8, 640, "rtx_3090", 4.45e9, "Ultralytics 8.3.74, torch 2.5.1; later 4.59 to 4.64"),
    ("yolo11l", 3, 8, 640, "rtx_3090", 5.66e9, "the same data; later 5.81 to 5.87"),
    ("yolo11x", 3, 8, 640, "rtx_3090", 8.66e9, "the same data; later 8.84 to 9.09"),
    ("yolov8m", 7, 16, 640, "rtx_3060", 6.43e9, "Ultralytics 8.0.170, torch 2.0.1; later 6.61 to 6.66"),
    ("yolo11n", 13, 16, 640, "t4", 2.48e9, "Ultralytics 8.3.17, torch 2.4.1; later 2.39 to 2.43"),
    ("yolov8l", 48, 16, 640, "t4", 11.2e9, "Ultralytics 8.2.5, torch 2.2.1; later 10.9 to 11.0"),
    ("yolov8x", 17, 16, 640, "t4", 14.3e9, "Ultralytics 8.1.29, torch 2.2.1; later 14.9, at the card's limit"),
    ("yolo26s", 4, 5, 960, "t4", 3.76 * 2**30, "Ultralytics 8.4.116, torch 2.11; later 3.94 GiB"),
)


def ask(model: str, classes: int) -> Ask:
    payload = {
        "model": f"{model}.yaml", "age": "", "classes": classes, "channels": 3, "labels": LABELS, "optimizer": "AdamW", "automatic": False,
        "amp": True, "freeze": None, "checkpointing": False, "cuda": True, "wanted": WANTED,
    }  # fmt: skip
    return Ask(module=MODULE, payload=payload, packages=("ultralytics", "torchvision"))


def judged(trace: Trace, point: tuple[str, int, int, int, str, float, str]) -> dict[str, Any]:
    """The runs had segments that don't expand, and their figure is that of training before any validation."""
    model, classes, images, side, name, published, where = point
    (card,) = gpu_catalogue.named([name])
    sizes = {"images": images, "side": side // 32, "val_images": 2 * images, "val_side": side // 32 + 1}
    events = trace.at(sizes)
    low, high = (
        next(use.reserved_bytes for use in replay(events, one) if use.phase == Phase.TRAIN)
        for one in card.bounds(least_cublas_bytes=DETERMINISTIC_BYTES)
    )
    middle = low + card.lean * (max(low, high) - low)
    return {
        "model": model, "classes": classes, "images": images, "pixels": side, "card": name, "published_bytes": round(published),
        "live_bytes": live(events)[Phase.TRAIN], "low_bytes": low, "high_bytes": max(low, high), "middle_bytes": round(middle),
        "source": where, "made_with": dict(trace.versions),
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| training | card | published GB | live | low | high | likeliest |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        said = (row[f"{kind}_bytes"] for kind in ("live", "low", "high", "middle"))
        cells = (f"{size / 1e9:.2f} ({size / row['published_bytes'] - 1:+.1%})" for size in said)
        what = f"{row['model']}, {row['classes']} classes, {row['images']} x {row['pixels']}"
        lines.append(f"| {what} | {row['card']} | {row['published_bytes'] / 1e9:.2f} | " + " | ".join(cells) + " |")
    off = [row["middle_bytes"] / row["published_bytes"] - 1 for row in rows]
    under = sum(row["live_bytes"] < row["published_bytes"] for row in rows)
    size = sorted(map(abs, off))
    lines.append("")
    lines.append(
        f"{len(rows)} trainings: the likeliest is off by {statistics.median(size):.1%} (median), {size[-1]:.1%} at most, bias "
        f"{statistics.mean(off):+.1%}; what is alive lies below the published figure in {under} of {len(rows)}."
    )
    return "\n".join(lines)


def main() -> None:
    asks = {point: ask(*point[:2]) for point in POINTS}
    found = trace_store.traces(asks.values(), environments={MODULE: environment.prepare})
    rows = []
    for point, one in asks.items():
        trace = found[one.key]
        if isinstance(trace, str):
            raise SystemExit(f"{point[0]}: {trace}")
        rows.append(judged(trace, point))
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
