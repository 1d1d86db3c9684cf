"""The rows of all points, and the pages made of them."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from benchmarks.common.rows import ROOT, Row
from benchmarks.versions.cases import POINTS

DATA = ROOT / "benchmarks" / "results" / "versions.jsonl"
TABLE = ROOT / "docs" / "versions.md"


def finished(row: Row | None) -> bool:
    """Whether the point needs no further try: a row of one that was interrupted says no time."""
    return row is not None and (not row["installed"] or "seconds" in row)


def read(path: Path) -> dict[str, Row]:
    """The last row of every point; a torn line is as if it had not been written."""
    rows: dict[str, Row] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            rows[row["point"]] = row
        except (ValueError, KeyError, TypeError):
            continue
    return rows


def write(path: Path, row: Row) -> None:
    """The row in the place of the point's earlier one."""
    with (path.parent / ".versions.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = {**read(path), row["point"]: row}
        beside = path.with_suffix(".new")
        beside.write_text("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in rows.values()), encoding="utf-8")
        beside.replace(path)


def table(rows: Iterable[Row]) -> str:
    """The rows as the Markdown of docs/versions.md's middle part."""
    lines = ["| point | versions | tests | fit and full run |", "|---|---|---|---|"]
    order = {name: place for place, name in enumerate(POINTS)}
    for row in sorted(rows, key=lambda row: order.get(row["point"], len(order))):
        if not row.get("installed"):
            lines.append(f"| {row['point']} | can't be installed: {row.get('why', '')} | | |")
            continue
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items() if name != "numpy")
        lines.append(f"| {row['point']} | {versions} | {_told_of_tests(row.get('tests'))} | {_told_of_run(row)} |")
    return "\n".join(lines)


def _told_of_tests(tests: Row | None) -> str:
    if not tests:
        return "not run"
    return f"{tests['passed']} passed" + (f", {len(tests['failed'])} failed: {', '.join(tests['failed'])}" if tests["failed"] else "")


def _told_of_run(row: Row) -> str:
    """What the run came to, and before it what was tried of the ladder."""
    fit = row.get("fit")
    tried = f"rungs {', '.join(fit['trials'])}; effective batch {fit['effective_batch']}; run " if fit else ""
    return f"{tried}{row.get('run', 'not run')}"


_NAMED = {"ultralytics": "Ultralytics", "transformers": "transformers", "lightning": "Lightning", "accelerate": "accelerate"}
_BESIDE = {"torch": "torch", "python": "Python"}


def summary(rows: Iterable[Row]) -> str:
    """What works in every respect, as one sentence: of each package the versions that were run, and nothing between them."""
    seen: dict[str, set[str]] = {name: set() for name in (*_NAMED, *_BESIDE)}
    count = 0
    for row in filter(works, rows):
        count += 1
        for name in (_package(row), *_BESIDE):
            seen[name].add(row["versions"][name])
    told = "; ".join(f"{(_NAMED | _BESIDE)[name]} {', '.join(sorted(of, key=Version))}" for name, of in seen.items() if of)
    return (
        f"Everything passed in {count} environment{'s' * (count > 1)}: {told}." if count else "No environment has been run to its end yet."
    )


def _package(row: Row) -> str:
    """What a point is about: the trainer's package, or the one that its example is written with."""
    return row["trainer"] if row["trainer"] != "script" else next(name for name in ("lightning", "accelerate") if name in row["versions"])


BEGIN, END = "<!-- made by `make versions` -->", "<!-- end -->"


def write_table(rows: Iterable[Row]) -> None:
    rows = list(rows)
    text = TABLE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    TABLE.write_text(f"{before}{BEGIN}\n\n{summary(rows)}\n\n{table(rows)}\n\n{END}{after}", encoding="utf-8")


def passed(row: Row) -> bool:
    """Some tests ran, and none failed."""
    return bool(row["tests"]["passed"]) and not row["tests"]["failed"]


def works(row: Row) -> bool:
    """Whether nothing at all failed: tests, fit and full run."""
    return finished(row) and bool(row["installed"]) and row.get("run") == "ended" and passed(row)
