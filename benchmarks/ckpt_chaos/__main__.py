"""Trainings -> rows of what ckpt-chaos says of each of their crash points, behind those in the data file, and the table of all.

python -m benchmarks.ckpt_chaos --only yolo,text --points 24      those trainings, at most so many crash points of each
python -m benchmarks.ckpt_chaos --who trainer                     only the trainer is killed: autofit goes on by itself
python -m benchmarks.ckpt_chaos --only text --again              of these the crash points whose last run did not pass
python -m benchmarks.ckpt_chaos --points 0                        only the table
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ckpt_chaos import between, launch, table, trainings
from benchmarks.common.provenance import commit, machine, versions
from benchmarks.common.rows import ROOT, append, read

Row = dict[str, Any]
POINTS = 24
LONGEST_S = 600


_THESE = """\
import json, sys
from ckpt_chaos import byo, cli
points = [tuple(point) for point in json.loads(sys.argv.pop(1))]
byo._select = lambda *_: points
sys.exit(cli.main())
"""
"""ckpt-chaos, of these crash points alone: each the number of a file event, and a mode."""


def played(training: str, who: str, points: int | Sequence[tuple[int, str]], work: Path) -> list[Row]:
    """A row for each crash point. ``points``: so many at most, or these. Raises CalledProcessError where ckpt-chaos could not play."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for epochs in range(1, trainings.EPOCHS[training]) if training == "yolo" else ():
        between.ended_after(training, epochs, work / f"ended-after-{epochs}")
    began = time.monotonic()
    command = [sys.executable, "-I", launch.__file__]
    tool = ["-m", "ckpt_chaos"] if isinstance(points, int) else ["-c", _THESE, json.dumps(points)]
    most = points if isinstance(points, int) else len(points)
    subprocess.run(
        [
            sys.executable, *tool, "run", "--work", str(work), "--modes", "before,torn", "--max-points", str(most),
            "--timeout", str(LONGEST_S), "--step-regex", r"resumed from step (\d+)", *_kept(training),
            "--resume-cmd", shlex.join([*command, "resume", training, who, "{out}"]),
            "--result-cmd", shlex.join([sys.executable, "-m", "benchmarks.ckpt_chaos.compare", training, "{out}"]),
            "--fail-on", "CONTROL_FAIL", "--", *command, "train", training, who, "{out}",
        ],
        cwd=ROOT, check=True,
    )  # fmt: skip
    about = {
        "training": training, "who": who, "seconds": round(time.monotonic() - began),
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "versions": versions("ckpt-chaos"), "machine": machine(),
        "commit": commit(),
    }  # fmt: skip
    return [{**one, **about} for one in _judged(work)]


def _kept(training: str) -> list[str]:
    """ckpt-chaos looks whether the newest whole checkpoint was used where all are kept."""
    pattern = trainings.CHECKPOINTS.get(training)
    return ["--checkpoint-glob", f"{{out}}/runs/*/run/{pattern}"] if pattern else []


def _judged(work: Path) -> list[Row]:
    """ckpt-chaos' verdicts, and the checkpoint intervals that were trained twice."""
    from ckpt_chaos.runner import rejudge

    rows = []
    for place, judged in zip(sorted(work.glob("pt_*/result.json"), key=_order), rejudge(work), strict=True):
        lost = place.parent / "lost.json"
        said = json.loads(place.read_text(encoding="utf-8"))
        intervals = json.loads(lost.read_text(encoding="utf-8")) if lost.exists() else {}
        row = {
            "point": judged.label, "verdict": judged.verdict, "crashed": judged.crashed, "drift": judged.drift,
            "raised": judged.outcome.raised, "other_weights": bool(judged.outcome.weights_diff),
            "newest_whole": judged.outcome.newest_complete_step, "resumed_from": judged.outcome.resumed_from_step, **intervals,
        }  # fmt: skip
        rows.append(row | ({"said": said.get("resume_tail", "")[-1500:]} if judged.verdict != "PASS" else {}))
    return rows


def again(rows: Sequence[Row], training: str, who: str) -> list[tuple[int, str]]:
    """The crash points of a training whose last run did not pass, each the number of its file event, and its mode."""
    newest = {row["point"]: row["verdict"] for row in rows if (row["training"], row["who"]) == (training, who) and row["crashed"]}
    found = [re.fullmatch(r"#(\d+) .*\[(\w+)\]", point) for point, verdict in newest.items() if verdict != "PASS"]
    return [(int(one[1]), one[2]) for one in found if one is not None]


def _order(place: Path) -> int:
    return int(json.loads(place.read_text(encoding="utf-8"))["order"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda said: said.split(","), default=[*trainings.TRAININGS], help="these trainings")
    parser.add_argument("--who", choices=("job", "trainer"), default="job", help="what is killed")
    parser.add_argument("--points", type=int, default=POINTS, metavar="N", help="crash points of a training at most")
    parser.add_argument("--again", action="store_true", help="the crash points whose last run did not pass, once more")
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks" / "results" / "ckpt_chaos.jsonl")
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "ckpt_chaos.md")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ckpt_chaos", help="where they are played")
    chosen = parser.parse_args()
    for training in chosen.only if chosen.points else ():
        points = again(read(chosen.data), training, chosen.who) if chosen.again else chosen.points
        work = chosen.folder.resolve() / f"{training}-{chosen.who}"
        for row in played(training, chosen.who, points, work) if points else ():
            append(chosen.data, row)
    chosen.table.write_text(table.document(read(chosen.data)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
