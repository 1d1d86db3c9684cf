"""Cases of (model, ask, budget) -> how each search found the rung, in how many trials and seconds, and how far forecasts were off.

python -m benchmarks.fit --slice 4              four more cases, with real trials on CPU budgets (resumable: a row a search)
python -m benchmarks.fit --only yolo            all cases of the asks of that name
python -m benchmarks.fit --speeds 2             two more asks: every rung that gives up as little timed, beside objective=throughput
python -m benchmarks.fit --slice 0              only the table and the plot

An ask is measured first: rung 0 is tried with all the memory that it wants. Its budgets are parts of that. Each search then makes its own
trials in a launch of its own, as a person would launch it:

    walk        down the ladder (``ladder.search=walk``)
    predicted   for the first time on a machine: no trace is kept, no forecast has been corrected
    known       once more, with the traces and the corrections that the first has left
    again       the very same launch: its fit is kept
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
from launcher.forecast import ratios
from launcher.forecast.ratios import Seen

DATA = ROOT / "benchmarks" / "results" / "fit.jsonl"
TABLE = ROOT / "docs" / "fit.md"
SEARCHES: Mapping[str, Sequence[str]] = {
    "walk": ("ladder.search=walk", "trial.fresh=true"),
    "predicted": ("ladder.search=predicted", "trial.fresh=true"),
    "known": ("ladder.search=predicted", "trial.fresh=true"),
    "again": ("ladder.search=predicted",),
}
"""Name -> autofit's words for it, in the order in which they are played."""
PARTS = (1.05, 0.85, 0.7, 0.55, 0.42)
"""Of what rung 0 needs: the first lets it fit, the others leave more and more of the ladder behind."""
HEADROOM = 0.1
AMPLE = "16GiB"
LONGEST_S = 3600.0

_WIDE = ["ladder.wheels.micro_batch.floor=1"]
_YOLO = ["recipe=yolo_demo", *_WIDE, "ask.image_size=224", "ladder.wheels.image_size.values=[160,96]", "ask.micro_batch=16"]
_SPEECH = ["recipe=whisper_demo", *_WIDE]
_TEXT = ["recipe=llm_sft_demo", *_WIDE]
_SONGS = ["recipe=separator_demo", *_WIDE]
ASKS: Mapping[str, Sequence[str]] = {
    "yolo-16": [*_YOLO],
    "yolo-32": [*_YOLO, "ask.image_size=160", "ladder.wheels.image_size.values=[96]", "ask.micro_batch=32"],
    "yolo-v8n": [*_YOLO, "ask.model=yolov8n.yaml", "ask.micro_batch=12"],
    "yolo-11s": [*_YOLO, "ask.model=yolo11s.yaml", "ask.image_size=160", "ladder.wheels.image_size.values=[96]", "ask.micro_batch=24"],
    "yolo-checkpointing": [*_YOLO, "ladder.order=[checkpointing,micro_batch,image_size]"],
    "speech": [*_SPEECH],
    "speech-32": [*_SPEECH, "ask.micro_batch=32", "ask.val_micro_batch=64"],
    "text": [*_TEXT],
    "text-64": [*_TEXT, "ask.micro_batch=64", "ask.val_micro_batch=64"],
    "text-tokens": [*_TEXT, "ask.micro_batch=48", "ask.val_keeps=tokens", "ladder.wheels.val_keeps.values=[]"],
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
        if case.ask.startswith(only or "") and any((case.ask, case.part, search) not in played for search in SEARCHES):
            yield case


# ----------------------------------------------------------------------------------------------------------------------
# Playing


class Place:
    """Where one ask is played: its runs, autofit's fits, traces and corrections beside them; none of the person's are touched."""

    def __init__(self, ask: str, folder: Path) -> None:
        self.ask, self.words, self.path = ask, ASKS[ask], folder / ask
        self.path.mkdir(parents=True, exist_ok=True)

    def forget(self) -> None:
        """Traces and corrections."""
        shutil.rmtree(self.path / "cache" / "autofit" / "traces", ignore_errors=True)
        self._corrections.unlink(missing_ok=True)

    @property
    def _corrections(self) -> Path:
        return self.path / "share" / "autofit" / "forecasts.jsonl"

    def seen(self) -> list[Row]:
        """Real peaks of trials beside their forecasts, by phase, since ``forget``."""
        return [{name: row[name] for name in ("trainer", "phase", "foreseen_bytes", "real_bytes")} for row in read(self._corrections)]

    def answer(self, verb: str, *words: str) -> Row:
        """What autofit answers, in how many seconds, and how long a micro-batch of each trial took."""
        env = {f"XDG_{name}_HOME": str(self.path / name.lower()) for name in ("STATE", "CACHE")}
        env |= {"XDG_DATA_HOME": str(self.path / "share"), "OMP_WAIT_POLICY": "passive"}
        argv = [str(Path(sys.executable).parent / "autofit"), verb, "--json", *self.words, "device=cpu", *words]
        began = time.monotonic()
        ended = subprocess.run(
            argv, cwd=self.path, env={**os.environ, **env}, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
        seconds = time.monotonic() - began
        try:
            said: Row = json.loads(ended.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            said = {"status": f"no answer, exit status {ended.returncode}: {ended.stderr.strip()[-300:]}"}
        for one in [said, *said.get("trials", ())]:
            one["step_seconds"] = _step_seconds(one.get("folder", ""))
        shutil.rmtree(self.path / "runs", ignore_errors=True)
        return {**said, "took_s": round(seconds, 2)}


def _step_seconds(folder: str) -> float | None:
    try:
        report = json.loads((Path(folder) / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return report.get("step_seconds") or None


def play(case: Case, data: Path, folder: Path) -> None:
    """Whatever is missing of a case, each answer written down as it comes."""
    place = Place(case.ask, folder)
    asked = measured(place, data)
    played = {(row["ask"], row["part"], row["search"]) for row in read(data) if row["what"] == "searched"}
    budget = budget_of(case, asked)
    for search in SEARCHES if asked["peak_bytes"] else ():
        if (case.ask, case.part, search) not in played:
            said = _searched(place, search, budget)
            append(
                data,
                {
                    "what": "searched",
                    "ask": case.ask,
                    "part": case.part,
                    "search": search,
                    "budget_bytes": budget,
                    "commit": commit(),
                    **said,
                },
            )


def budget_of(case: Case, asked: Row) -> int:
    return int(asked["peak_bytes"] * case.part / (1 - HEADROOM))


def measured(place: Place, data: Path) -> Row:
    """What rung 0 needs where it may have all it wants; its row is written where there is none."""
    row = next((row for row in read(data) if row["what"] == "measured" and row["ask"] == place.ask), None)
    if row is None:
        said = place.answer("trial", "rung=0", f"device.memory={AMPLE}")
        row = {"what": "measured", "ask": place.ask, "peak_bytes": said.get("peak_bytes", 0), "seconds": said["took_s"]}
        append(data, row := {**row, "verdict": said.get("verdict", said["status"]), **made_with()})
    return row


def _searched(place: Place, search: str, budget: int) -> Row:
    if search == "predicted":
        place.forget()
    said = place.answer("fit", f"device.memory={budget / 2**20:.3f}MiB", f"device.headroom={HEADROOM}", *SEARCHES[search])
    names = ("rung_index", "verdict", "phase", "peak_bytes", "seconds")
    trials = [{name: one[name] for name in names} for one in said.get("trials", ()) if "kept" not in one]
    row = {"status": said["status"], "rung_index": said.get("chosen_rung_index"), "trials": trials, "seconds": said["took_s"]}
    return {**row, "seen": place.seen()} if search == "predicted" else row


def time_rungs(ask: str, data: Path, folder: Path) -> None:
    """Every rung that gives up as little as the asked one, timed by a trial of its own; and what objective=throughput takes."""
    place = Place(ask, folder)
    memory = f"device.memory={AMPLE}"
    chosen = place.answer("fit", memory, "ladder.search=predicted", "ladder.objective=throughput", "trial.fresh=true")
    asked = chosen["trials"][0]["rung"]
    speeds, made = {}, {one["rung"]["micro_batch"]: one for one in chosen["trials"]}
    rung, micro = 0, asked["micro_batch"]
    for rung, micro in _alike(place, asked):
        said = place.answer("trial", f"rung={rung}", memory)
        if said.get("step_seconds"):
            speeds[micro] = round(micro / said["step_seconds"], 3)
    row = {"what": "timed", "ask": ask, "samples_per_second": speeds, "chosen": chosen["rung"]["micro_batch"], "trials": len(made)}
    append(data, {**row, **made_with()})


def _alike(place: Place, asked: Row) -> list[tuple[int, int]]:
    """(number, micro-batch) of the rungs that differ by their micro-batch alone."""
    rungs = place.answer("ladder")["rungs"]
    same = [one for one in rungs if {**one["rung"], "micro_batch": 0} == {**asked, "micro_batch": 0}]
    return [(one["rung_index"], one["rung"]["micro_batch"]) for one in same]


def commit() -> str:
    argv = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def made_with() -> Row:
    import platform
    from importlib.metadata import version

    versions = {name: version(name) for name in ("torch", "ultralytics", "transformers", "accelerate")}
    machine = {"cores": os.cpu_count(), "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)}
    return {"commit": commit(), "versions": {"python": platform.python_version(), **versions}, "machine": machine}


# ----------------------------------------------------------------------------------------------------------------------
# The table

HEAD = """\
# Finding the rung

*Generated by `make fit` from [fit.jsonl](../benchmarks/results/fit.jsonl); not edited by hand.*

Each case is a real ask at a real budget; each search makes its own real trials in a launch of its own, one after another on one machine.
*walk* goes down the ladder; *predicted* is a first launch ever (no trace is kept, no forecast has been corrected); *known* a later one, of
the same model at the same budget, that must make its trials again; *again* the very same launch, whose fit is kept.

| case | rung | trials: walk | predicted | known | seconds: walk | predicted | known | again |
|---|---|---|---|---|---|---|---|---|
"""


def document(rows: Sequence[Row]) -> str:
    """The tables, and what they come to."""
    by_case: dict[tuple[str, float], dict[str, Row]] = {}
    for row in rows:
        if row["what"] == "searched":
            by_case.setdefault((row["ask"], row["part"]), {})[row["search"]] = row
    whole = {key: found for key, found in by_case.items() if all(search in found for search in SEARCHES)}
    lines = [_line(Case(ask=ask, part=part), found) for (ask, part), found in sorted(whole.items())]
    parts = [HEAD + "\n".join(lines), _summary(list(whole.values())), _forecasts(rows), _speeds(rows)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _line(case: Case, found: Mapping[str, Row]) -> str:
    rungs = {name: row["rung_index"] for name, row in found.items()}
    told = "none" if rungs["walk"] is None else str(rungs["walk"])
    rung = told if len(set(rungs.values())) == 1 else f"**{told} / {rungs['predicted']} / {rungs['known']}**"
    trials = " | ".join(str(len(found[name]["trials"])) for name in ("walk", "predicted", "known"))
    seconds = " | ".join(f"{found[name]['seconds']:.{1 if name == 'again' else 0}f}" for name in SEARCHES)
    return f"| {case.name} | {rung} | {trials} | {seconds} |"


def _summary(cases: Sequence[Mapping[str, Row]]) -> str:
    if not cases:
        return "No case has been played to its end yet."
    lines = [f"{len(cases)} cases, {sum(len(found['walk']['trials']) for found in cases)} trials by the walk."]
    for name in ("predicted", "known"):
        same = sum(found["walk"]["rung_index"] == found[name]["rung_index"] for found in cases)
        trials = [len(found[name]["trials"]) for found in cases]
        ratios = [found[name]["seconds"] / found["walk"]["seconds"] for found in cases]
        long = [ratio for found, ratio in zip(cases, ratios, strict=True) if len(found["walk"]["trials"]) >= LONG]
        at_length = f"; {statistics.median(long):.2f} where the walk takes {LONG} trials or more ({len(long)} cases)" if long else ""
        lines.append(
            f"- {name}: the walk's rung in {same}; trials {statistics.median(trials):g} median, {_p95(trials):g} at the 95th percentile; "
            f"seconds over the walk's {statistics.median(ratios):.2f} median{at_length}."
        )
    fitted = [found["again"]["seconds"] for found in cases if found["again"]["rung_index"] is not None]
    if fitted:
        lines.append(
            f"- again: {statistics.median(fitted):.2f} s median, {max(fitted):.2f} s at most, where a rung fits ({len(fitted)} cases)."
        )
    return "\n".join(lines)


LONG = 4


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


def _forecasts(rows: Sequence[Row]) -> str:
    """How far forecasts were off, as they were and as trials of other asks would have corrected them."""
    points = [(row["ask"], one) for row in rows if row["what"] == "searched" for one in row.get("seen", ())]
    if not points:
        return ""
    lines = [
        "## How far forecasts were off",
        "A real trial's peak of each phase, data segments above the imports, beside what had been foreseen of it before any trial.",
        "*Corrected*: by the trials of all *other* asks of the trainer (another model, size, batch).",
        "",
        "| trainer | phase | trials | median | 95th percentile | foreseen too little | corrected: median | 95th percentile |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for trainer, phase in sorted({(one["trainer"], one["phase"]) for _, one in points}):
        mine = [(ask, one) for ask, one in points if (one["trainer"], one["phase"]) == (trainer, phase)]
        off = [one["foreseen_bytes"] / one["real_bytes"] - 1 for _, one in mine]
        told = " | ".join(f"{value:.1%}" for value in _off(off)) + f" | {sum(one < 0 for one in off)} of {len(off)}"
        lines.append(
            f"| {trainer} | {phase} | {len(mine)} | {told} | " + " | ".join(f"{value:.1%}" for value in _off(_corrected(mine))) + " |"
        )
    return "\n".join(lines)


def _off(values: Sequence[float]) -> tuple[float, float]:
    """(median, 95th percentile) of their sizes."""
    sizes = [abs(value) for value in values]
    return (statistics.median(sizes), _p95(sizes)) if sizes else (0.0, 0.0)


def _corrected(points: Sequence[tuple[str, Row]]) -> list[float]:
    """Each point by the points of all other asks."""
    found = []
    for ask, one in points:
        others = [Seen(device="cpu", **other) for elsewhere, other in points if elsewhere != ask]
        off = ratios.correction(others, proportional=False)
        found.append((off.scale * one["foreseen_bytes"] + off.offset) / one["real_bytes"] - 1)
    return found


def _speeds(rows: Sequence[Row]) -> str:
    timed = [row for row in rows if row["what"] == "timed"]
    if not timed:
        return ""
    lines = [
        "## The fastest micro-batch",
        "Samples a second at every rung that gives up nothing, and what `ladder.objective=throughput` took with all memory free.",
        "",
        "| ask | samples a second by micro-batch | taken | of the fastest | trials |",
        "|---|---|---|---|---|",
    ]
    shares = []
    for row in timed:
        speeds = row["samples_per_second"]
        shares.append(share := speeds[str(row["chosen"])] / max(speeds.values()))
        told = ", ".join(f"{micro}: {speed:.3g}" for micro, speed in speeds.items())
        lines.append(f"| {row['ask']} | {told} | {row['chosen']} | {share:.2f} | {row['trials']} |")
    return "\n".join([*lines, "", f"{statistics.median(shares):.2f} of the fastest in the median, {min(shares):.2f} at the least."])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slice", type=int, metavar="N", help="so many more cases; all of them where it isn't said")
    parser.add_argument("--speeds", type=int, metavar="N", help="instead: so many more asks whose rungs are timed")
    parser.add_argument("--only", help="cases of asks whose names begin so")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "fit", help="where cases are played")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    if chosen.speeds is not None:
        timed = {row["ask"] for row in read(chosen.data) if row["what"] == "timed"}
        for ask in [ask for ask in ASKS if ask not in timed and ask.startswith(chosen.only or "")][: chosen.speeds]:
            print(ask, flush=True)
            time_rungs(ask, chosen.data, folder)
    for number, case in enumerate(left(read(chosen.data), only=chosen.only) if chosen.speeds is None else ()):
        if chosen.slice is not None and number >= chosen.slice:
            break
        print(case.name, flush=True)
        play(case, chosen.data, folder)
    if rows := read(chosen.data):
        chosen.table.write_text(document(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
