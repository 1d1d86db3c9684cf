"""What people measured on cards of theirs: one file each, of five cases, with nothing in it that says who or where they are.

Rows of `make gpu-hour` -> a file to send; such a file -> a row of gpu-check.jsonl. What others have sent is read as text that lies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.rows import Rows

FORMAT = 1
CASES = {
    "fit": "what fits is found",
    "run": "the run after it ends within the cap",
    "above": "the rung above dies under the whole budget",
    "neighbour": "a run bears a late neighbour",
    "played": "played as measured",
}
WORDS = {None: "unseen", True: "holds", False: "FAILS"}
ABOUT = ("commit", "card", "driver", "python", "versions")
Row = Mapping[str, Any]


def write(rows: Rows, steps: Sequence[str], path: Path, *, who: str) -> None:
    """The file of what these steps have told so far."""
    told = [row for step in steps for row in rows.of("H", step)[-1:]]
    cases = {name: one for row in told for name, one in row["claims"].items()}
    launches = {row["step"]: row["launch"] for row in told if "launch" in row}
    about = {key: rows.common[key] for key in ABOUT}
    text = json.dumps({"format": FORMAT, "who": who, **about, "cases": cases, "launches": launches}, indent=1)
    path.write_text(re.sub(r'[^\s",]*[/\\][^\s",]*', "...", text) + "\n", encoding="utf-8")  # no path of anybody's travels


def taken(path: Path) -> dict[str, Any]:
    """The row of a file. Raises ValueError where it isn't one."""
    said = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(said, dict) or said.get("format") != FORMAT or not isinstance(said.get("cases"), dict):
        raise ValueError(f"{path} is no file of format {FORMAT} that `make gpu-hour` or the notebook has written")
    versions = {_plain(name): _plain(version) for name, version in dict(said["versions"]).items()}
    cases = {
        name: {"holds": one.get("holds") if isinstance(one.get("holds"), bool) else None, "figures": _plain(one.get("figures"))}
        for name, one in said["cases"].items()
        if name in CASES
    }
    about = {key: _plain(said.get(key)) for key in ABOUT if key != "versions"}
    return {"case": "P", "step": "sent", "kind": "sent", **about, "versions": versions, "who": _plain(said.get("who")), "cases": cases}


def _plain(said: Any) -> str:
    """One short line without what means something in a table."""
    return re.sub(r"[^\w .,:;%+()=-]+", " ", str(said or ""))[:200].strip()
