"""The hour on a card goes on where it was cut off, and what is sent of it says nothing of who sends it."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu_check import play, sent, table
from benchmarks.gpu_check.rows import read
from benchmarks.gpu_hour import __main__ as gpu_hour
from benchmarks.gpu_hour import steps


def test_what_has_a_row_is_skipped_what_breaks_is_done_again_and_what_is_sent_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def step(name: str, seconds: int = 0) -> steps.Step:
        def act(_: steps.Bench) -> dict[str, Any]:
            done.append(name)
            if name == "played" and len(done) < 3:
                raise OSError("/home/anna/secret")
            return {"claims": {name: steps.claim(True, f"16 x 4 fits, {tmp_path}/x is | there")}, "launch": {"status": "done"}}

        return steps.Step(name=name, seconds=seconds, act=act, sent=True)

    monkeypatch.setattr(steps, "STEPS", (step("fit"), step("played"), step("long", 500)))
    monkeypatch.setattr(play, "card", lambda: (SimpleNamespace(name="Tesla T4", uuid="GPU-17"), "600.00"))
    monkeypatch.setenv(gpu_hour.SITE, str(tmp_path))
    asked = argparse.Namespace(out=tmp_path, step=[], sent=False, who="A")
    assert [gpu_hour.walked(asked, time.monotonic() + 100), gpu_hour.walked(asked, math.inf)] == [1, 0]
    assert done == ["fit", "played", "played", "long"]
    assert [row["kind"] for row in read(tmp_path / "gpu-hour.jsonl")] == ["step", "cut", "step", "step"]
    text = (tmp_path / "proof.json").read_text()
    assert not any(word in text for word in (str(tmp_path), "anna", "GPU-17")) and json.loads(text)["cases"]["fit"]["holds"]
    row = sent.taken(tmp_path / "proof.json")
    (line,) = (line for line in table.render([row]).splitlines() if line.startswith("| Tesla T4 | "))
    assert line.count("|") == 9 and "holds 16 x 4 fits" in line and "| A |" in line


@pytest.mark.parametrize(
    "said", ['{"format": 0}', "[]", '{"format": 1, "cases": {}}', '{"format": 1, "cases": {"fit": 3}, "versions": {}}']
)
def test_what_is_no_such_file_is_refused(said: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(said)
    with pytest.raises(ValueError, match=r"a\.json"):
        sent.taken(tmp_path / "a.json")
