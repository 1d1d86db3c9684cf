"""Cases of (model, ask, budget) -> how each search found the rung: trials, seconds, and whether it is the walk's; rows and a table.

python -m benchmarks.fit --slice 4              four more cases, with real trials on CPU budgets (resumable: a row a search)
python -m benchmarks.fit --only yolo-640        all cases of one ask
python -m benchmarks.fit --slice 0              only the table

An ask is measured first: rung 0 is tried with all the memory that it wants. Its budgets are parts of that. Each search then makes its own
trials (``trial.fresh=true``) in a process of its own, as a person would launch it; nothing is learned from one to the next.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import ROOT, Row, append, read

DATA = ROOT / "benchmarks" / "results" / "fit.jsonl"
TABLE = ROOT / "docs" / "fit.md"
SEARCHES = ("walk", "predicted")
PARTS = (1.05, 0.75, 0.55, 0.42, 0.3)
"""Of what rung 0 needs: the first lets it fit, the others leave more and more of the ladder behind."""
HEADROOM = 0.1
AMPLE = "16GiB"
LONGEST_S = 3 * 3600.0

_WIDE = ["ladder.wheels.micro_batch.floor=1"]
_YOLO = ["recipe=yolo_demo", *_WIDE, "ladder.wheels.image_size.values=[480,320,160]", "trainer.args.epochs=1"]
_SPEECH = ["recipe=whisper_demo", *_WIDE]
_TEXT = ["recipe=llm_sft_demo", *_WIDE]
_SONGS = ["recipe=separator_demo", *_WIDE]
ASKS: Mapping[str, Sequence[str]] = {
    "yolo-640": [*_YOLO, "ask.micro_batch=8"],
    "yolo-480": [*_YOLO, "ask.image_size=480", "ask.micro_batch=16"],
    "yolo-v8n": [*_YOLO, "ask.model=yolov8n.yaml", "ask.micro_batch=12"],
    "yolo-11s": [*_YOLO, "ask.model=yolo11s.yaml", "ask.image_size=320", "ask.micro_batch=8"],
    "yolo-checkpointing-first": [*_YOLO, "ladder.order=[checkpointing,micro_batch,image_size]", "ask.image_size=320", "ask.micro_batch=16"],
    "speech": [*_SPEECH],
    "speech-32": [*_SPEECH, "ask.micro_batch=32", "ask.val_micro_batch=64"],
    "text": [*_TEXT],
    "text-64": [*_TEXT, "ask.micro_batch=64", "ask.val_micro_batch=64"],
    "text-sums": [*_TEXT, "ask.micro_batch=48", "ask.val_keeps=sums", "ladder.wheels.val_keeps.values=[]"],
    "songs": [*_SONGS],
    "songs-64": [*_SONGS, "ask.micro_batch=64", "ask.segment=12032", "ladder.wheels.segment.values=[8064]"],
}
"""Name -> autofit's words. Twelve asks at five budgets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One ask at one budget."""

    ask: str
    part: float

    @property
    def name(self) -> str:
        return f"{self.ask} x {self.part:g}"


def cases() -> Iterator[Case]:
    """Every case: all asks at one budget before the next budget, so that a slice has something of each."""
    return (Case(ask=ask, part=part) for part in (PARTS[1], PARTS[3], PARTS[0], PARTS[2], PARTS[4]) for ask in ASKS)


def left(rows: Iterable[Row], *, only: str | None = None) -> Iterator[Case]:
    """The cases that not every search has played yet."""
    played = {(row["ask"], row["part"], row["search"]) for row in rows if row["what"] == "searched"}
    for case in cases():
        if only in (None, case.ask) and any((case.ask, case.part, search) not in played for search in SEARCHES):
            yield case


# ----------------------------------------------------------------------------------------------------------------------
# Playing


def play(case: Case, data: Path, folder: Path) -> None:
    """Whatever is missing of a case, each answer written down as it comes."""
    place = folder / case.ask
    place.mkdir(parents=True, exist_ok=True)
    rows = read(data)
    asked = next((row for row in rows if row["what"] == "measured" and row["ask"] == case.ask), None)
    if asked is None:
        asked = {"what": "measured", "ask": case.ask, **_measured(case.ask, place), **_made_with()}
        append(data, asked)
    played = {(row["ask"], row["part"], row["search"]) for row in rows if row["what"] == "searched"}
    budget = int(asked["peak_bytes"] * case.part / (1 - HEADROOM))
    for search in SEARCHES if asked["peak_bytes"] else ():
        if (case.ask, case.part, search) not in played:
            said = _searched(case, search, budget, place)
            append(data, {"what": "searched", "ask": case.ask, "part": case.part, "search": search, "budget_bytes": budget, **said})


def _measured(ask: str, place: Path) -> Row:
    """What rung 0 needs where it may have all it wants."""
    said, seconds = _answer(["trial", "--json", *ASKS[ask], "rung=0", "device=cpu", f"device.memory={AMPLE}"], place)
    return {"peak_bytes": said.get("peak_bytes", 0), "seconds": round(seconds, 1), "verdict": said.get("verdict", said.get("status"))}


def _searched(case: Case, search: str, budget: int, place: Path) -> Row:
    memory = f"device.memory={budget / 2**20:.3f}MiB"
    words = [*ASKS[case.ask], "device=cpu", memory, f"device.headroom={HEADROOM}", f"ladder.search={search}", "trial.fresh=true"]
    said, seconds = _answer(["fit", "--json", *words], place)
    trials = [
        {"rung_index": one["rung_index"], "verdict": one["verdict"], "peak_bytes": one["peak_bytes"], "seconds": one["seconds"]}
        for one in said.get("trials", ())
    ]
    return {"status": said.get("status"), "rung_index": said.get("chosen_rung_index"), "trials": trials, "seconds": round(seconds, 1)}


def _answer(words: Sequence[str], place: Path) -> tuple[Row, float]:
    """What autofit answers, and how long that took. Its fits and peaks lie beside the runs, none of the person's are touched."""
    env = {**os.environ, "XDG_STATE_HOME": str(place / "state"), "XDG_DATA_HOME": str(place / "share"), "OMP_WAIT_POLICY": "passive"}
    began = time.monotonic()
    program = str(Path(sys.executable).parent / "autofit")
    ended = subprocess.run([program, *words], cwd=place, env=env, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    seconds = time.monotonic() - began
    shutil.rmtree(place / "runs", ignore_errors=True)
    try:
        said = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = {"status": f"no answer, exit status {ended.returncode}: {ended.stderr.strip()[-300:]}"}
    return said, seconds


def _made_with() -> Row:
    from importlib.metadata import version

    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {"commit": head, "versions": {name: version(name) for name in ("torch", "ultralytics", "transformers")}}


# ----------------------------------------------------------------------------------------------------------------------
# The table

HEAD = """\
# Finding the rung

*Generated by `make fit` from [fit.jsonl](../benchmarks/results/fit.jsonl); not edited by hand.*

Each case is a real ask at a real budget; each search makes its own trials, in a launch of its own. The predicted search has no trace of the
model here, only what its own trials measure.

| case | rung | trials: walk | predicted | seconds: walk | predicted |
|---|---|---|---|---|---|
"""


def document(rows: Sequence[Row]) -> str:
    """The table, and what it comes to."""
    by_case: dict[tuple[str, float], dict[str, Row]] = {}
    for row in rows:
        if row["what"] == "searched":
            by_case.setdefault((row["ask"], row["part"]), {})[row["search"]] = row
    whole = {key: found for key, found in by_case.items() if all(search in found for search in SEARCHES)}
    lines = [_line(Case(ask=ask, part=part), found) for (ask, part), found in sorted(whole.items())]
    return HEAD + "\n".join(lines) + "\n\n" + _summary(list(whole.values()))


def _line(case: Case, found: Mapping[str, Row]) -> str:
    walk, other = (found[search] for search in SEARCHES)
    rung = str(walk["rung_index"]) if walk["rung_index"] == other["rung_index"] else f"**{walk['rung_index']} / {other['rung_index']}**"
    return f"| {case.name} | {rung} | {len(walk['trials'])} | {len(other['trials'])} | {walk['seconds']:.0f} | {other['seconds']:.0f} |"


def _summary(pairs: Sequence[Mapping[str, Row]]) -> str:
    if not pairs:
        return "No case has been played to its end yet.\n"
    same = sum(found["walk"]["rung_index"] == found["predicted"]["rung_index"] for found in pairs)
    trials = sorted(len(found["predicted"]["trials"]) for found in pairs)
    ratios = [found["predicted"]["seconds"] / found["walk"]["seconds"] for found in pairs if found["walk"]["seconds"]]
    p95 = trials[min(len(trials) - 1, int(0.95 * len(trials)))]
    walked = statistics.median(len(found["walk"]["trials"]) for found in pairs)
    return (
        f"{len(pairs)} cases: the walk's rung in {same}; trials {statistics.median(trials):g} median, {p95} at the 95th percentile "
        f"(the walk: {walked:g} median); seconds over the walk's {statistics.median(ratios):.2f} median.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", type=int, metavar="N", help="so many more cases; all of them where it isn't said")
    parser.add_argument("--only", choices=ASKS, help="cases of one ask")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "fit", help="where cases are played")
    chosen = parser.parse_args()
    for number, case in enumerate(left(read(chosen.data), only=chosen.only)):
        if chosen.slice is not None and number >= chosen.slice:
            break
        print(case.name, flush=True)
        play(case, chosen.data, chosen.folder.resolve())
    if rows := read(chosen.data):
        chosen.table.write_text(document(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
