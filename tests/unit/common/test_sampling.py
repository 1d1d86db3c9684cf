"""One thread that looks, for whoever has something to look at."""

from __future__ import annotations

import threading
import time

from autofit_launcher.common.procfs import Looks


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
