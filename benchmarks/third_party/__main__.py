"""Unpacked repositories of other people's -> a row for each of how autofit got on with it, and the table of them in docs/scripts.md.

    python -m benchmarks.third_party REPOS                    every case that has no row yet
    python -m benchmarks.third_party REPOS --only mnist       one of them, whether it has a row or not
    python -m benchmarks.third_party --table                  only the table

REPOS holds the repositories, unpacked, as ``name``, ``owner+name`` or ``owner/name``. ``--python`` is the interpreter that has what they
need (default: this one). Nothing of theirs is changed: each case works on copies, in WORK (default: a temporary folder).
A case is two launches: with enough memory and ``--fit-only``, after which folder and caches must be as they were; then with less than
the first one needed, up to the end of the full run. A repository or package that isn't there is a row that says so.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.third_party.cases import CASES
from benchmarks.third_party.play import tried
from benchmarks.third_party.table import keep, rows, write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repos", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--python", default=sys.executable, help="the scripts' interpreter")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "autofit-third-party")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if not chosen.table and chosen.repos is None:
        parser.error("say where the unpacked repositories lie: make third-party REPOS=folder")
    wanted = set(filter(None, chosen.only.split(",")))
    for case in () if chosen.table else CASES:
        if case.name in wanted or (not wanted and rows().get(case.name, {}).get("status") in (None, "not here")):
            row = tried(case, chosen.repos.resolve(), shutil.which(chosen.python) or chosen.python, chosen.work.resolve())
            keep(row)
            print(json.dumps({key: row.get(key) for key in ("case", "status", "why", "understood")}), flush=True)
    write_table()


if __name__ == "__main__":
    main()
