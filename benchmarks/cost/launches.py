"""Counts launches whose trials are forked: what hangs, trains otherwise than the plain command, or leaves a process or a file.

    python -m benchmarks.cost.launches [--only "plain loop"] [--times 5] [--until 09:00]      rows into benchmarks/results/launches.jsonl
    python -m benchmarks.cost.launches --table                                               the table in docs/cost.md alone

Each kind of command (``kinds``) is played plainly once, then launched until it has ``--times`` rows, each time in a folder of its own
with nothing known beforehand. Every second launch of some kinds has a budget of which a fifth of their peak is missing, so that a lower
rung runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.provenance import commit
from benchmarks.common.rows import ROOT, Row, append, read
from benchmarks.common.weights import last
from benchmarks.cost.first_step import LARGE, PAGE, too_little
from benchmarks.cost.kinds import KINDS, Kind
from benchmarks.cost.left import HOLDS, files, left
from benchmarks.third_party.play import ROUNDED, newest
from benchmarks.third_party.weights import apart, held

DATA = ROOT / "benchmarks" / "results" / "launches.jsonl"
HEADING = "\n## Launches with forks\n"
LOSSES = re.compile(r"loss[^\w,]+(\d+\.[\d.e-]+)")
ANEW = re.compile(r"autofit: the command is started anew: (.*)")


def played(kind: Kind, place: Path, before: Sequence[str], longest: float) -> Row:
    """Plays the command in a new folder, with ``before`` in front of it; returns how it ended."""
    from tests.conftest import write_yolo_dataset

    shutil.rmtree(place, ignore_errors=True)
    for folder in (work := place / "work", place / "tmp"):
        folder.mkdir(parents=True)
    kind.write(work)
    data = write_yolo_dataset(place / "data", train=32) if "{data}" in kind.words else ""
    python = Path(sys.executable)
    words = shlex.split(kind.words.format(python=python, bin=python.parent, data=data, out=work / "out"))
    own = {HOLDS: str(place), "TMPDIR": str(place / "tmp"), "XDG_STATE_HOME": str(place / "state")}
    env = {**os.environ, **own, "HF_HUB_OFFLINE": "1", "YOLO_CONFIG_DIR": str(place / "state")}
    began, served, hangs = time.monotonic(), False, False
    with (place / "out.log").open("wb") as out, (place / "errors.log").open("wb") as errors:
        child = subprocess.Popen([*before, *words], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
    while child.poll() is None and not hangs:
        time.sleep(0.1)
        served = served or any(work.glob("runs/*/trials/forks"))
        hangs = time.monotonic() - began > longest
    seconds = round(time.monotonic() - began, 1)
    row: Row = {"seconds": seconds, "status": child.returncode, "served": served, "left_processes": left(place)}
    if hangs:
        child.send_signal(signal.SIGKILL)
        child.wait()
    (place / "ended.json").write_text(json.dumps(row), encoding="utf-8")
    return {**row, "status": "hang"} if hangs else row


def ways(folder: Path, *, served: bool) -> dict[str, list[str]]:
    """Trial, process that goes on or twins -> forked, or why it was started anew."""
    found = {}
    for report in sorted(folder.glob("trials/**/orders.json")):
        logs = [log.read_text(encoding="utf-8", errors="replace") for log in report.parent.glob("*.log*")]
        anew = [why for log in logs for why in ANEW.findall(log)]
        said = report.parent / "report.json"
        notes = json.loads(said.read_text(encoding="utf-8")).get("notes", []) if said.exists() else []
        anew += [note for note in notes if note.startswith("started anew: ")]
        otherwise = ["forked" if served else "no server for its program"]
        found[str(report.parent.relative_to(folder / "trials"))] = list(dict.fromkeys(anew)) or otherwise
    return found


def weights(kind: Kind, place: Path) -> dict[str, Any]:
    path = newest(place / "work", kind.leaves)
    if path is None:
        return {}
    return last(path.parents[1], "yolo", file="") if kind.name == "YOLO" else held(path)


def launch(kind: Kind, place: Path, plain: Path, budget: int, row: Row) -> Row:
    """Launches the command on that budget, and compares what came of it with what the plain command has left."""
    once = json.loads((plain / "ended.json").read_text(encoding="utf-8"))
    autofit = [sys.executable, "-P", "-m", "autofit_launcher", "run", "device=cpu", f"device.memory={budget}", "run.root=runs", "--"]
    row |= {"load": round(os.getloadavg()[0], 1), "plain_seconds": once["seconds"], "budget_bytes": budget}
    row |= played(kind, place, autofit, 10 * once["seconds"] + 120)
    folder = next((one.parent for one in place.glob("work/runs/*/record.json")), place)
    told = json.loads((folder / "record.json").read_text(encoding="utf-8")) if folder != place else {}
    row["status"] = row["status"] if row["status"] == "hang" else told.get("status", row["status"])
    trials = [{key: one[key] for key in ("rung_index", "verdict", "peak_bytes", "seconds", "why")} for one in told.get("trials", ())]
    row |= {"rung": told.get("rung_index"), "trials": trials, "ways": ways(folder, served=row.pop("served"))}
    ours, theirs = weights(kind, place), weights(kind, plain)
    row["apart"] = apart(theirs, ours) if ours and theirs else None
    logs = [log.read_text(errors="replace") if log.exists() else "" for log in (plain / "out.log", folder / "run.stdout.log")]
    printed = [LOSSES.findall(log) for log in logs]
    row["losses"] = {"printed": len(printed[0]), "same": printed[0] == printed[1]}
    row["unlike"] = [name for name in kind.alike if (place / "work" / name).read_bytes() != (plain / "work" / name).read_bytes()]
    row["left_files"], row["missing_files"] = (sorted(one) for one in (files(place) - files(plain), files(plain) - files(place)))
    return row


def wrong(row: Row) -> dict[str, str]:
    """What is wrong with a launch, by the column that counts it; empty where nothing is. Where no rung fits, nothing may be there."""
    refused, lower = row["status"] == "no_rung_fits", bool(row["rung"])
    same = row["apart"] == 0.0 and row["losses"]["same"] and not row["unlike"]
    rounded = lower and row["apart"] is not None and (row["apart"] <= ROUNDED or KINDS[row["kind"]].draws)
    gone = {name: row[name] for name in ("left_processes", "left_files", *(() if refused else ("missing_files",))) if row[name]}
    found = {
        "hang": row["status"] if row["status"] == "hang" else "",
        "differ": "" if refused or (row["status"] == "done" and (same or rounded)) else f"{row['status']}, {row['apart']} apart",
        "left": str(gone) if gone else "",
    }
    return {name: said for name, said in found.items() if said}


def wanted(kind: Kind, times: int) -> Iterator[tuple[int, int]]:
    """Yields (number, budget) of the launches that have no row yet; every second one of a kind that has lower rungs runs one."""
    rows = [row for row in read(DATA) if row["kind"] == kind.name]
    for number in range(len(rows), times):
        rows = [row for row in read(DATA) if row["kind"] == kind.name]
        peak = next((row["trials"][-1]["peak_bytes"] for row in rows if row["rung"] == 0), 0)
        yield number, too_little(peak) if kind.lower and number % 2 and peak else LARGE


def section(rows: Sequence[Row]) -> str:
    """Makes the last section of the page."""
    lines = ["| command | launches | lower rung | no rung fits | trials forked | started anew | why | hang | differ | left |"]
    lines.append("|---|" + "---|" * 9)
    for name in (name for name in KINDS if any(row["kind"] == name for row in rows)):
        lines.append(_line(name, [row for row in rows if row["kind"] == name]))
    lines.append(_line("all", rows))
    return f"{HEADING}\n<!-- made by `python -m benchmarks.cost.launches` -->\n\n{WORDS}\n\n" + "\n".join(lines) + "\n"


WORDS = """\
Each kind of command is played plainly, then launched: on a budget that is enough, and some also where a fifth of their peak is missing.
A launch *differs* where its weights or printed losses aren't the plain command's to the bit (one rung lower: its weights by more than
rounding); *left* counts launches after which a process lives, or a file lies or is missing beside those of the plain command. A
process that goes on from a checkpoint, and two twins, count as a trial each."""


def _line(name: str, rows: Sequence[Row]) -> str:
    tried = [way for row in rows for way in row["ways"].values()]
    anew = [why for way in tried if way != ["forked"] for why in way]
    why = "" if name == "all" else "; ".join(dict.fromkeys(re.sub(r"0x\w+|\d{3,}", "#", one) for one in anew)).replace("|", "/")
    forked, refused = tried.count(["forked"]), sum(row["status"] == "no_rung_fits" for row in rows)
    bad = [sum(column in wrong(row) for row in rows) for column in ("hang", "differ", "left")]
    cells = (name, len(rows), sum(bool(row["rung"]) for row in rows), refused, forked, len(tried) - forked, why, *bad)
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--until", default="", help="HH:MM of today, after which no launch begins")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "autofit-launches")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    for kind in [] if chosen.table else [KINDS[name] for name in chosen.only or KINDS]:
        if importlib.util.find_spec(kind.needs) is None:
            print(f"{kind.name}: left out, there is no {kind.needs}", file=sys.stderr)
            continue
        folder = chosen.work / f"{zlib.crc32(repr(kind).encode()):x}"  # short: sockets lie in it
        for number, budget in wanted(kind, chosen.times):
            if chosen.until and time.strftime("%H:%M") >= chosen.until:
                break
            if not (folder / "plain" / "ended.json").exists() and played(kind, folder / "plain", (), 600.0)["status"]:
                (folder / "plain" / "ended.json").unlink()
                raise SystemExit(f"{kind.name}: the plain command doesn't end well, see {folder}")
            row = launch(kind, folder / str(number), folder / "plain", budget, {"kind": kind.name, "number": number, "commit": commit()})
            append(DATA, row)
            print(kind.name, number, row["seconds"], row["ways"], wrong(row) or "ok", file=sys.stderr, flush=True)
            if not wrong(row):
                shutil.rmtree(folder / str(number), ignore_errors=True)
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(HEADING)[0] + section(read(DATA)), encoding="utf-8")


if __name__ == "__main__":
    main()
