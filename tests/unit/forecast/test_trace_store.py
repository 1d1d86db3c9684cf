"""Children that make traces: waited for, left alone, or given up. What they trace is stood in for; real traces are in tests/trainers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from launcher.adapter.tracing import Ask
from launcher.forecast import trace_store
from launcher.forecast.trace_store import Making
from launcher.shared import trace
from launcher.shared.trace import Began, Took, Trace

SLOW = """
import json, sys, time
from pathlib import Path
for one in json.loads(Path(sys.argv[1]).read_text()):
    time.sleep(one["payload"]["seconds"])
    print("no memory for this", file=sys.stderr)
"""


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, object]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "slowly_traced.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"slowly_traced": lambda folder: {"PYTHONPATH": str(tmp_path)}}


def ask(seconds: float) -> Ask:
    return Ask(module="slowly_traced", payload={"seconds": seconds}, packages=())


def test_what_nobody_waits_for_is_ended(environments: Mapping[str, object]) -> None:
    with Making([ask(60)], environments=environments) as making:
        (share,) = making._shares
        assert not making.over and psutil.pid_exists(share.child.pid)
    assert not psutil.pid_exists(share.child.pid) and not share.own.exists()


def test_what_is_kept_is_at_hand(environments: Mapping[str, object]) -> None:
    one = Trace(traced_at={"images": 11}, events=(Began("train"), Took(1, 11)), versions={})
    trace.write(trace_store._place(ask(60).key), one)
    with Making([ask(60)], environments=environments) as making:
        assert making.over and making.found() == {ask(60).key: one}


def test_a_trace_that_takes_too_long_is_none_and_one_that_fails_says_why(environments: Mapping[str, object]) -> None:
    began = time.monotonic()
    found = trace_store.traces([ask(600)], environments=environments, patience_s=0.5)
    assert time.monotonic() - began < 600 and "no end in the time it was given" in str(found[ask(600).key])
    assert trace_store.traces([ask(0)], environments=environments) == {ask(0).key: "no memory for this"}
