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
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["format"] != FORMAT:
            raise ValueError(f"format {said['format']}")
        versions = {_plain(name): _plain(version) for name, version in said["versions"].items()}
        cases = {
            name: {"holds": _truth(one["holds"]), "figures": _plain(one["figures"])} for name, one in said["cases"].items() if name in CASES
        }
        about = {key: _plain(said[key]) for key in (*ABOUT, "who") if key != "versions"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no file of `make gpu-hour` or its notebook ({type(error).__name__}: {error})") from error
    return {"case": "P", "step": "sent", "kind": "sent", **about, "versions": versions, "cases": cases}


def _truth(said: Any) -> bool | None:
    return said if isinstance(said, bool) else None


def _plain(said: Any) -> str:
    """One short line without what means something in a table."""
    return re.sub(r"[^\w .,:;%+()=-]+", " ", str(said or ""))[:200].strip()
