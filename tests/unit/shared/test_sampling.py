"""One thread that looks, for whoever has something to look at."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from launcher.shared.sampling import Looks, SegmentsByProcess


def test_it_looks_until_it_is_stopped_and_searches_before_the_first_look() -> None:
    done: list[str] = []
    enough = threading.Event()

    def look() -> None:
        done.append("look")
        if done.count("look") == 5:
            enough.set()

    looks = Looks("test", look, every_s=0.001, search=lambda: done.append("search"), search_every_s=3600.0)
    looks.start()
    assert enough.wait(120)
    looks.stop()
    seen = len(done)
    time.sleep(0.02)
    assert len(done) == seen and done[0] == "search" and done.count("search") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_has_ended_holds_nothing_and_its_number_is_not_asked_again() -> None:
    segments = SegmentsByProcess()
    with subprocess.Popen(["sleep", "3600"]) as child:
        until = time.monotonic() + 120
        while segments.now(child.pid) == 0 and time.monotonic() < until:  # it has none yet between its fork and its program
            time.sleep(0.01)
        assert segments.now(child.pid) > 0
        child.kill()
    assert segments.now(child.pid) == 0
    assert segments._open[child.pid] is None
