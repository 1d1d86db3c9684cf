"""The rows of all cases, and the table of them in docs/scripts.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.common.rows import ROOT, Row
from benchmarks.third_party.cases import CASES
from benchmarks.third_party.play import ROUNDED

DATA = ROOT / "benchmarks" / "results" / "third_party.jsonl"
TABLE = ROOT / "docs" / "scripts.md"
BEGIN, END = "<!-- made by `make third-party` -->", "<!-- end -->"


def rows(path: Path = DATA) -> dict[str, Row]:
    """The newest row of each case."""
    if not path.exists():
        return {}
    return {row["case"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def keep(row: Row, path: Path = DATA) -> None:
    """Puts a row in its case's place."""
    every = {**rows(path), row["case"]: row}
    order = [case.name for case in CASES if case.name in every]
    beside = path.with_suffix(".new")
    beside.write_text("".join(json.dumps(every[name], ensure_ascii=False) + "\n" for name in order), encoding="utf-8")
    beside.replace(path)


def table(every: Iterable[Row]) -> str:
    """The rows for people, and how many came out how."""
    every = list(every)
    counted = Counter(_kind(row) for row in every)
    lines = [
        f"{len(every)} launches: {', '.join(f'{counted[kind]} {kind}' for kind in KINDS if counted[kind])}.",
        "",
        "| repository | command | batch, accumulation | with less memory than it asks | effective batch | the same training "
        "| optimizer steps | weights at the end | full run | folder, caches |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in every:
        cells = [row["repo"], f"`{_script(row['command'])} …`"]
        if row["status"] == "not here":
            lines.append(f"| {' | '.join([*cells, 'not here: ' + row['why'], *[''] * 7])} |")
            continue
        lines.append(f"| {' | '.join([*cells, *_told(row)])} |")
    return "\n".join(lines)


KINDS = ("right", "refused as they should be", "broken without autofit, too", "faults", "not here")


def _kind(row: Row) -> str:
    if row["status"] == "ok":
        return "refused as they should be" if row["tight"]["rung"] is None else "right"
    return {"breaks": "broken without autofit, too", "fault": "faults"}.get(row["status"], "not here")


def _script(command: str) -> str:
    """The command up to its script, module or verb."""
    words = command.split()
    named = (at + (word == "-m") for at, word in enumerate(words) if word == "-m" or word.endswith(".py"))
    return " ".join(words[: next(named, 1) + 1])


def _told(row: Row) -> list[str]:
    words = [line.split() for line in row["understood"]]
    spelled = {wheel: (value, name) for wheel, value, name, *_ in (line for line in words if len(line) > 2)}
    known = ", ".join(
        f"{name} {value}" for wheel in ("micro_batch", "accumulation") if wheel in spelled for value, name in [spelled[wheel]]
    )
    tight = row.get("tight")
    known = f"**fault**: {row['why']}; {known}".replace("|", "/") if row["status"] == "fault" else known
    folder = "untouched" if not row["touched"] else f"touched: {', '.join(row['touched'][:3])}"
    if row["status"] == "breaks":
        return [known, f"breaks without autofit, too, and that is said: {row['why']}", *[""] * 5, folder]
    if tight is None:
        return [known, f"the asked one: {row['asked']['status']}; {row['why']}", *[""] * 5, folder]
    if tight["rung"] is None:
        why = row["why"] or f"refused: {row['key']['refuses']}"
        return [known, f"{tight['status']}: {why}".replace("|", "/").replace("\n", " "), *[""] * 5, folder]
    first = next((one["verdict"] for one in tight["trials"] if one["verdict"] != "fits"), "fits")
    turned = f"{tight['rung'].get('micro_batch', 'as it stands')} x {tight['accumulation']}{' from outside' if tight['outside'] else ''}"
    memory = tight.get("memory") or {}
    run, tried = memory.get("run_peak_bytes"), memory.get("trial_peak_bytes")
    ratio = f", {run / tried:.0%} of its trial" if run and tried else ""
    batch = str(tight["effective_batch"])
    return [known, f"{first}, then {turned}", batch, _proof(tight), _steps(row), _weights(row), f"{tight['status']}{ratio}", folder]


PARTS = ("gradient", "steps", "schedule", "samples")


def _proof(tight: Row) -> str:
    """The certificate of the rung that ran; nothing for a row of a time when there was none."""
    same = tight.get("same_training")
    if not same:
        return ""
    open_parts = list(dict.fromkeys(same[part] for part in PARTS if same[part] != "proven"))
    cured = " (put right)" if same["cure"] else ""
    apart = f", updates {same['apart']:.0e} apart" if same["apart"] is not None else ""
    return f"proven{apart}{cured}" if not open_parts else "; ".join(open_parts).replace("|", "/")


def _weights(row: Row) -> str:
    """Against those of the plain command; nothing where they weren't compared."""
    found = row.get("weights")
    if not found:
        return ""
    if "apart" not in found:
        return str(found["why"])
    apart = f"{found['apart']:.0e} from the plain run's"
    return f"the plain run's ({found['apart']:.0e} apart)" if found["apart"] <= ROUNDED else apart


def _steps(row: Row) -> str:
    """Made by the run, of those that the key says."""
    made, key = (row["tight"].get("steps") or {}).get("made"), (row.get("key") or {}).get("steps")
    return f"{made if made is not None else 'not seen'} of {key}" if key else str(made or "")


def write_table(path: Path = TABLE) -> None:
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{table(rows().values())}\n{END}{after}", encoding="utf-8")
