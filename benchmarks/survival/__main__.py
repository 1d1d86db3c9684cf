"""How many more cases -> their rows behind those in the data file, and the table made anew from all of them.

python -m benchmarks.survival --slice 10          ten more cases, two at a time
python -m benchmarks.survival --runs 150          as many as it takes until so many full runs have been launched
python -m benchmarks.survival --short --slice 4   four more trainings of a few optimizer steps
python -m benchmarks.survival --seed 17           seed 17 once more, with the budget of its row; nothing is written down
python -m benchmarks.survival --slice 0           only the table
python -m benchmarks.survival --played --slice 4  four more on a pretended card, into survival_played.jsonl
python -m benchmarks.survival --ranks --slice 6   six more of two ranks, into survival_ranks.jsonl
python -m benchmarks.survival --beside --slice 5  five more with little of something beside the device, into survival_beside.jsonl; as root
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TextIO

from autofit_launcher.pretended import cards, catalogue
from benchmarks.common.rows import ROOT, Row, append, read
from benchmarks.survival import beside, cases, play, table

MOST_AT_ONCE = 2
CARD = "rtx_3090"
"""Which is pretended; budgets make it smaller."""
PAGES = {cases.PLAYED: "survival_played", cases.RANKS: "survival_ranks", cases.BESIDE: "survival_beside"}
"""Which have pages of their own, by their first seed."""


def seeds_left(rows: Sequence[Row], first: int = 0) -> Iterator[int]:
    """Every seed that has no row of this generator yet, from ``first`` on; one whose fault is ``mended`` since has none."""
    played = {row["seed"] for row in rows if row["generator"] == cases.GENERATOR and "mended" not in row}
    return (seed for seed in itertools.count(first) if seed not in played)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--slice", type=int, metavar="N", help="so many more cases")
    amount.add_argument("--runs", type=int, default=150, metavar="N", help="until so many full runs have been launched, in all")
    amount.add_argument("--seed", type=int, help="one case once more, with the budget of its row")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--short", action="store_const", const=cases.SHORT, dest="first", help="trainings of one to eight optimizer steps")
    kind.add_argument(
        "--played", action="store_const", const=cases.PLAYED, dest="first", help="on a pretended card, within 5 %% of the need"
    )
    kind.add_argument("--ranks", action="store_const", const=cases.RANKS, dest="first", help="two ranks, within 5 %% of the need")
    kind.add_argument("--beside", action="store_const", const=cases.BESIDE, dest="first", help="one memory beside the device is small")
    parser.add_argument("--jobs", type=int, default=min(MOST_AT_ONCE, os.cpu_count() or 1), choices=range(1, MOST_AT_ONCE + 1))
    parser.add_argument("--data", type=Path, help="benchmarks/results/survival.jsonl")
    parser.add_argument("--table", type=Path, help="docs/survival.md")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "survival", help="where cases are played")
    parser.add_argument("--keep", action="store_true", help="keep the folders of all cases, not of failures only")
    parser.set_defaults(first=0)
    chosen = parser.parse_args()
    name = PAGES.get(chosen.first, "survival")
    chosen.data = chosen.data or ROOT / "benchmarks" / "results" / f"{name}.jsonl"
    chosen.table = chosen.table or ROOT / "docs" / f"{name}.md"
    with _environment(chosen) as environment:
        return _played(chosen, play.Table(folder=chosen.folder.resolve(), keep=chosen.keep, environment=environment))


def _environment(chosen: argparse.Namespace) -> contextlib.AbstractContextManager[Mapping[str, str]]:
    if chosen.first not in PAGES or chosen.first == cases.BESIDE:
        return contextlib.nullcontext(os.environ)
    (model,) = catalogue.named([CARD])
    return cards.played(cards.Cards(model=model, count=2 if chosen.first == cases.RANKS else 1))


def _played(chosen: argparse.Namespace, place: play.Table) -> int:
    place.folder.mkdir(parents=True, exist_ok=True)
    with (place.folder / "lock").open("w") as lock:
        if not _only_one(lock):
            return 1
        if chosen.seed is not None:
            return again(chosen.seed, chosen.data, place)
        more(chosen, place)
    rows = read(chosen.data)
    if rows:
        own = {cases.RANKS: table.of_ranks, cases.BESIDE: table.of_beside}.get(chosen.first)
        page = own(rows) if own is not None else table.document(rows, played=chosen.first == cases.PLAYED)
        chosen.table.write_text(page, encoding="utf-8")
    return 130 if place.stopping.is_set() else 0


def _only_one(lock: TextIO) -> bool:
    """At most two cases at a time on a machine: a second `make survival` would play beside the first."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"survival: another one is playing in {Path(lock.name).parent}; wait for it, or name another --folder", file=sys.stderr)
        return False
    return True


def again(seed: int, data: Path, place: play.Table) -> int:
    """Plays a seed once more; with the budget of its row where it has one. Prints the new row."""
    row = next((row for row in read(data) if row["seed"] == seed and row["generator"] == cases.GENERATOR), {})
    played = (
        beside.play(cases.make(seed), place) if seed >= cases.BESIDE else play.play(cases.make(seed), place, budget=row.get("budget_bytes"))
    )
    print(json.dumps(played, indent=1, ensure_ascii=False))
    return 0 if played["status"] == "done" else 1


def more(chosen: argparse.Namespace, place: play.Table) -> None:
    """Plays cases that have no row yet, as many as asked, ``jobs`` at a time; each row is written when its case is over."""
    rows = read(chosen.data)
    seeds, play_one = seeds_left(rows, chosen.first), beside.play if chosen.first == cases.BESIDE else play.play
    started = 0
    running: set[Future[Row]] = set()

    def wanted() -> bool:
        if chosen.slice is not None:
            return started < int(chosen.slice)
        return len(table.launched(rows)) + len(running) < int(chosen.runs)

    with ThreadPoolExecutor(chosen.jobs) as pool:
        try:
            while running or wanted():
                while len(running) < chosen.jobs and wanted():
                    running.add(pool.submit(play_one, cases.make(next(seeds)), place))
                    started += 1
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for one in done:
                    rows.append(row := one.result())
                    append(chosen.data, row)
                    print(_line(row), flush=True)
        except KeyboardInterrupt:
            place.stopping.set()
            print("survival: interrupted; the cases that were playing have no row and come again", file=sys.stderr)


def _line(row: Row) -> str:
    part = table.ratio(row)
    words = (row.get("words") or [row.get("memory", "")])[-1][:120]
    peaks = f"run/trial {part:.3f}" if part else ""
    return f"seed {row['seed']:>4}  {row['trainer']:<6} {row['task']:<17} {row['status']:<13} {row['seconds']:>6.0f} s  {peaks:<16} {words}"


if __name__ == "__main__":
    sys.exit(main())
