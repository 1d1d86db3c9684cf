"""Cases of ``benchmarks.fit`` -> what other tools find there, and whether it lives through three epochs with validation.

python -m benchmarks.peers                        every case that has no row yet (some 30 s each); --python: one that has lightning, too

Each gets the whole budget and may use all of it. Attempts are counted from what it prints: its own, and its restarts from nothing.
Rows go into ``results/fit.jsonl``, behind the asks' that have been measured there; the table is that of ``benchmarks.fit``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from autofit_launcher.adapter.commands import Command, under_budget
from autofit_launcher.trainers.suite import cpu_budget
from benchmarks.common.rows import ROOT, Row, append, read
from benchmarks.fit import cases, table
from benchmarks.fit import play as fit

EPOCHS = 3
LONGEST_S = 600.0
PEERS: Mapping[str, Sequence[str]] = {
    "accelerate": ("songs", "songs-64"),
    "lightning": ("songs", "songs-64"),
    "transformers": ("text", "text-64", "text-tokens"),
}
"""Tool -> the asks that it can play."""
_BATCH = re.compile(r"^attempt (\d+)|Total train batch size .* = ([\d,]+)", re.MULTILINE)
SCRIPT = ROOT / "examples" / "text" / "train.py"


def left(rows: Sequence[Row]) -> Iterator[tuple[str, cases.Case, Row]]:
    """(peer, case, what was measured of its ask) without a row."""
    measured = {row["ask"]: row for row in rows if row["what"] == "measured"}
    played = {(row["peer"], row["ask"], row["part"]) for row in rows if row["what"] == "peer"}
    for case in cases.cases():
        for peer, asks in PEERS.items():
            if case.ask in asks and case.ask in measured and (peer, case.ask, case.part) not in played:
                yield peer, case, measured[case.ask]


def play(peer: str, case: cases.Case, asked: Row, folder: Path, python: str) -> Row:
    place, budget = fit.Place.of(case.ask, folder), fit.budget_of(case, asked)
    words = _transformers(place) if peer == "transformers" else _separator(peer, place)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}
    command = under_budget(Command(argv=(python, *words), env=env), cpu_budget(budget), settings=place.path / "budget.json")
    began = time.monotonic()
    log = place.path / f"{peer}.log"
    with log.open("wb") as out:
        try:
            ended = subprocess.run(
                command.argv, cwd=place.path, env=command.env, stdout=out, stderr=out, timeout=LONGEST_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            ended = 124
    seconds, said = time.monotonic() - began, log.read_text(encoding="utf-8", errors="replace")
    return {**_told(said, ended), "seconds": round(seconds, 1), "budget_bytes": budget}


def _told(said: str, ended: int) -> Row:
    attempts = [int(next(filter(None, found.groups())).replace(",", "")) for found in _BATCH.finditer(said)]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return {"survived": ended == 0, "micro_batch": attempts[-1] if attempts else None, "attempts": attempts,
            "end": "" if ended == 0 else f"{lines[-1][:160] if lines else ''} (exit status {ended})"}  # fmt: skip


def _separator(peer: str, place: fit.Place) -> list[str]:
    """The example's own configuration as the ask would have it."""
    asked = place.answer("ladder")["rungs"][0]["rung"]
    config = yaml.safe_load((ROOT / "examples" / "separator" / "configs" / "demo.yaml").read_text(encoding="utf-8"))
    config["training"]["batch_size"], config["data"]["segment"] = asked["micro_batch"], asked["segment"]
    (place.path / "peer.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    script = str(ROOT / "benchmarks" / "peers" / "separator.py")
    return [script, peer, "--config", "peer.yaml", "--epochs", str(EPOCHS)]


def _transformers(place: fit.Place) -> list[str]:
    """The native command of the asked rung with Trainer's own word for it, and a folder that is empty each time."""
    words = shlex.split(place.answer("fit", f"device.memory={fit.AMPLE}", f"trainer.args.set={{--num_train_epochs:{EPOCHS}}}")["command"])
    at = next(number for number, word in enumerate(words) if word == str(SCRIPT))
    words[words.index("--output_dir") + 1] = f"peer-{time.time_ns()}"
    return [str(SCRIPT), *words[at + 1 :], "--auto_find_batch_size", "True", "--log_level", "info"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with autofit, accelerate, and lightning for its cases")
    parser.add_argument("--slice", type=int, metavar="N", help="so many more cases")
    parser.add_argument("--data", type=Path, default=fit.DATA)
    parser.add_argument("--table", type=Path, default=table.PAGE)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "fit", help="where the asks were measured")
    chosen = parser.parse_args()
    for number, (peer, case, asked) in enumerate(left(read(chosen.data))):
        if chosen.slice is not None and number >= chosen.slice:
            break
        row = {"what": "peer", "peer": peer, "ask": case.ask, "part": case.part}
        row |= play(peer, case, asked, chosen.folder.resolve(), chosen.python)
        append(chosen.data, row)
        print(json.dumps(row), flush=True)
    table.write(read(chosen.data), chosen.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
