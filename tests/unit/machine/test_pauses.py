"""A pause (Ctrl-Z, `fg`) is one of the launcher and of all that its child has started, and nobody's silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from launcher.machine import process
from launcher.machine.pauses import MOST_S, AwakeTime
from tests.helpers.places import ROOT

LAUNCHER = """
    import os, sys
    from pathlib import Path
    from launcher.machine import process
    here = Path(sys.argv[1])
    child = process.start([sys.executable, "-c", sys.argv[2]], env={"HERE": str(here)}, stdout=here / "out", stderr=here / "err")
    with process.forward_signals(child):
        sys.exit(process.wait(child).returncode)
"""
TRAINER = """
    import os, pathlib, subprocess, sys, time
    here = pathlib.Path(os.environ["HERE"])
    rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)  # as torchrun starts its ranks
    (here / "pids.part").write_text(f"{os.getpid()} {rank.pid}")
    (here / "pids.part").rename(here / "pids")
    while not (here / "enough").exists():
        time.sleep(0.02)
    rank.kill()
    sys.exit(rank.wait() and 7)
"""


def until(seen: Callable[[], bool], *, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.02)


def launcher(place: Path) -> subprocess.Popen[bytes]:
    """As a shell starts a job: in a process group of its own, in the shell's session."""
    argv = [sys.executable, "-c", textwrap.dedent(LAUNCHER), str(place), textwrap.dedent(TRAINER)]
    return subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, process_group=0)


def test_ctrl_z_stops_the_launcher_and_all_that_its_child_started_and_they_go_on_together(tmp_path: Path) -> None:
    job = launcher(tmp_path)
    until((tmp_path / "pids").exists)
    family = [psutil.Process(pid) for pid in (job.pid, *map(int, (tmp_path / "pids").read_text().split()))]
    for _ in range(2):
        job.send_signal(signal.SIGTSTP)
        until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in family))
        job.send_signal(signal.SIGCONT)
        until(lambda: not any(one.status() == psutil.STATUS_STOPPED for one in family))
    (tmp_path / "enough").touch()
    assert job.wait(timeout=120) == 7


def test_a_launcher_that_is_stopped_hears_that_it_is_asked_to_end(tmp_path: Path) -> None:
    job = launcher(tmp_path)
    until((tmp_path / "pids").exists)
    trainer = psutil.Process(int((tmp_path / "pids").read_text().split()[0]))
    job.send_signal(signal.SIGTSTP)
    until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in (trainer, psutil.Process(job.pid))))
    assert process.ask_to_end(job.pid, started=process.procfs.started(job.pid))
    assert job.wait(timeout=120) != 0 and not trainer.is_running()


def test_where_nobody_could_let_it_go_on_a_pause_is_none(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", textwrap.dedent(LAUNCHER), str(tmp_path), textwrap.dedent(TRAINER)]
    job = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True)  # --detach, setsid, a container
    until((tmp_path / "pids").exists)
    job.send_signal(signal.SIGTSTP)
    (tmp_path / "enough").touch()
    assert job.wait(timeout=120) == 7


def test_a_pause_does_not_count() -> None:
    awake = AwakeTime(100.0)
    assert (awake.look(100.5), awake.look(101.0)) == (0.5, 1.0)
    assert awake.look(101.0 + 3600) == 1.0 + MOST_S and awake.look(3701.5) == 1.5 + MOST_S
