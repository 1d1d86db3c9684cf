"""Rows of `make cost`: a launch's seconds fall into parts that make them up, and each row has its lines in the table."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.cost.first_step import PARTS, parts


def test_the_parts_of_a_launch_make_up_its_seconds(tmp_path: Path) -> None:
    trial = tmp_path / "trials" / "000"
    (trial / "resumed").mkdir(parents=True)
    (trial / "resumed" / "verdict.json").write_text('{"seconds": 2.5}')
    uses = [{"phase": "train", "seconds": 3.0}, {"phase": "finish", "seconds": 1.0}, {"phase": "resume", "seconds": 0.5}]
    (trial / "report.json").write_text(json.dumps({"uses": uses}))
    told = {"rung_index": 0, "verdict": "fits", "peak_bytes": 9, "seconds": 9.5, "folder": str(trial)}
    (tmp_path / "record.json").write_text(json.dumps({"trials": [told]}))
    for name, at in (("orders.json", 101), ("verdict.json", 111)):
        (trial / name).touch()
        os.utime(trial / name, (at, at))
    marks = [{"what": what, "at": at, "pid": 7, "run": True} for what, at in (("began", 112.0), ("step", 115.0))]
    found = parts(100.0, marks, tmp_path)
    assert {name: found[name] for name in PARTS} == {"launcher": 1.0, "trials": 10.0, "between": 1.0, "run": 3.0}
    assert found["each"][0]["seconds"] == {"train": 3.0, "finish": 1.0, "goes on": 2.5, "rest": 3.0}
