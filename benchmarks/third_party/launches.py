"""Other people's launches with their keys (``launches.yaml``), held against what autofit understands of them.

    python -m benchmarks.third_party.launches REPOS                   all of them, into docs/launches.md
    python -m benchmarks.third_party.launches REPOS --only dfine      one of them, whose row is made anew

``--python`` as in ``benchmarks.third_party``: programs are looked for beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common.rows import ROOT, Row
from benchmarks.third_party.play import place_of
from launcher.cli import recognise
from launcher.errors import BadInput

KEYS = Path(__file__).with_name("launches.yaml")
DATA = ROOT / "benchmarks" / "results" / "third_party_launches.jsonl"
TABLE = ROOT / "docs" / "launches.md"
BEGIN, END = "<!-- made by `python -m benchmarks.third_party.launches` -->", "<!-- end -->"
KINDS = {"python": "settings in the source", "config": "settings in files", "console": "programs, and what starts others"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repos", type=Path)
    parser.add_argument("--only", default="", help="names of launches, with commas")
    parser.add_argument("--python", default=sys.executable)
    chosen = parser.parse_args()
    os.environ["PATH"] = os.pathsep.join([str(Path(chosen.python).parent), os.environ["PATH"]])
    wanted = set(filter(None, chosen.only.split(",")))
    launches = yaml.safe_load(KEYS.read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())} if wanted else {}
    for launch in launches:
        if not wanted or launch["name"] in wanted:
            rows[launch["name"]] = held_against_its_key(launch, chosen.repos.resolve())
            print(json.dumps(rows[launch["name"]], ensure_ascii=False), flush=True)
    ordered = [rows[launch["name"]] for launch in launches if launch["name"] in rows]
    DATA.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ordered), encoding="utf-8")
    write_table(ordered)


def held_against_its_key(launch: Mapping[str, Any], repos: Path) -> Row:
    """A launch's row: understood, refused as the key has it, or wrong."""
    row: Row = {key: launch[key] for key in ("name", "kind", "repo", "command")}
    repository = place_of(launch["repo"], repos)
    folder = repository / launch.get("folder", "") if repository is not None else None
    if folder is None or not folder.is_dir():
        return {**row, "verdict": "not here", "why": str(folder or launch["repo"])}
    programs = f"{os.environ['PATH'].split(os.pathsep)[0]}/"
    with beside(folder, launch.get("files", {})):
        began = time.perf_counter()
        try:
            understood = recognise.understand(shlex.split(launch["command"]))
            recognise.refuse_doubts(understood, overrides=())
        except BadInput as refused:
            said = " ".join(f"{one.found}: {one.cure}" for one in refused.faults).replace(str(repos), "").replace(programs, "")
            named = bool(launch.get("refused")) and launch["refused"] in said
            return {**row, "verdict": "refused" if named else "refused otherwise", "said": said}
        seconds = round(time.perf_counter() - began, 1)
    seen = {one.wheel: (one.value, one.spelling) for one in understood.beliefs}
    wrong = otherwise(launch, seen)
    return {**row, "verdict": "wrong" if wrong else "right", "seen": seen, "seconds": seconds, **({"why": wrong} if wrong else {})}


def otherwise(launch: Mapping[str, Any], seen: Mapping[str, tuple[Any, str]]) -> str:
    """What was understood otherwise than the key has it; nothing where all is right."""
    values = {wheel: value for wheel, (value, _) in seen.items()}
    words = {wheel: spelling for wheel, (_, spelling) in seen.items()}
    faults = [f"{wheel} {values.get(wheel)} instead of {key}" for wheel, key in launch.get("asks", {}).items() if values.get(wheel) != key]
    faults += [f"{wheel} by {words.get(wheel)} instead of {key}" for wheel, key in launch.get("by", {}).items() if words.get(wheel) != key]
    faults += [f"{wheel} {values[wheel]}, which it isn't" for wheel in launch.get("never", ()) if wheel in values]
    return "; ".join(faults) if "asks" in launch else "it was to be refused"


@contextmanager
def beside(folder: Path, files: Mapping[str, str]) -> Iterator[None]:
    """In the folder, with a person's files, which are removed again."""
    before, made = Path.cwd(), [folder / name for name in files if not (folder / name).exists()]
    os.chdir(folder)
    try:
        for path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[str(path.relative_to(folder))], encoding="utf-8")
        yield
    finally:
        os.chdir(before)
        for path in made:
            path.unlink(missing_ok=True)


def table(rows: list[Row]) -> str:
    """Counts by kind, and each launch."""
    verdicts = ("right", "refused", "refused otherwise", "wrong", "not here")
    shown = [verdict for verdict in verdicts if any(row["verdict"] == verdict for row in rows)]
    lines = [f"| launches | {' | '.join(shown)} | of |", "|---" * (len(shown) + 2) + "|"]
    for kind, name in KINDS.items():
        counted = Counter(row["verdict"] for row in rows if row["kind"] == kind)
        lines.append(f"| {name} | {' | '.join(str(counted[verdict]) for verdict in shown)} | {counted.total()} |")
    lines += ["", "| repository | command | understood, or why not |", "|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['repo']} | `{row['command'].replace('|', '/')}` | {_told(row)} |")
    return "\n".join(lines)


def _told(row: Row) -> str:
    if "seen" in row:
        told = ", ".join(f"{wheel} {value} (`{word}`)" for wheel, (value, word) in row["seen"].items())
    else:
        told = f"{row['verdict']}: {row.get('said') or row['why']}"[:400]
    return f"{'**wrong**: ' + row['why'] + '; ' if row['verdict'] == 'wrong' else ''}{told}".replace("|", "/").replace("\n", " ")


def write_table(rows: list[Row]) -> None:
    before, _, rest = TABLE.read_text(encoding="utf-8").partition(BEGIN)
    TABLE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
