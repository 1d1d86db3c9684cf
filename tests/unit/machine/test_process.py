"""Children are bounded, leave nothing behind, and look untouched from outside."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from autofit_launcher.common.orders import TEMPORARY
from autofit_launcher.errors import Interrupted
from autofit_launcher.inside import guardian
from autofit_launcher.machine import process
from autofit_launcher.machine.process import Child
from tests.helpers.places import ROOT


def started(tmp_path: Path, code: str, **env: str) -> Child:
    argv = (sys.executable, "-c", textwrap.dedent(code))
    return process.start(argv, env=env, stdout=tmp_path / "out.log", stderr=tmp_path / "err.log")


def wait_for(path: Path, *, seconds: float = 120.0) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.exists() and (text := path.read_text()).strip():
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} never came")


FAMILY = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ours = subprocess.Popen([sys.executable, "-c", "import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
    away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)  # as a daemon does
    open(sys.argv[1] if len(sys.argv) > 1 else os.environ["PIDS"], "w").write(f"{os.getpid()} {ours.pid} {away.pid}")
    time.sleep(600)
"""


def test_a_child_that_ignores_sigterm_is_killed_with_all_its_children_after_the_time_limit(tmp_path: Path) -> None:
    child = started(tmp_path, FAMILY, PIDS=str(tmp_path / "pids"))
    wait_for(tmp_path / "pids")
    ending = process.wait(child, timeout_s=0.1)
    assert ending.timed_out and ending.returncode == -signal.SIGKILL
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_reaches_the_child_and_becomes_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    code = """
        import os, signal, sys, time
        def said(n, f):
            open(os.environ["SAID"], "w").write(str(n)); sys.exit(0)
        signal.signal(signal.SIGINT, said); signal.signal(signal.SIGTERM, said)
        open(os.environ["READY"], "w").write("1")
        time.sleep(600)
    """
    child = started(tmp_path, code, SAID=str(tmp_path / "said"), READY=str(tmp_path / "ready"))
    wait_for(tmp_path / "ready")
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=number.name), process.forward_signals(child):
        os.kill(os.getpid(), number)
        process.wait(child)
    assert (tmp_path / "said").read_text() == str(int(number))
    assert signal.getsignal(number) is before


def test_a_child_shown_on_a_terminal_has_a_terminal_and_its_bytes_are_unchanged_and_logged(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb", buffering=0) as stream:
        code = "import sys, os; sys.stdout.write(f'{sys.stdout.isatty()} {os.get_terminal_size().columns > 0}\\r\\x1b[K0%\\nnext')"
        child = process.start((sys.executable, "-c", code), env={}, stdout=tmp_path / "o", stderr=tmp_path / "e", show=(stream, stream))
        assert process.wait(child).returncode == 0
    os.close(ours)
    assert (tmp_path / "o").read_bytes() == b"True True\r\x1b[K0%\nnext"


def test_a_launcher_whose_own_reader_is_gone_still_finishes_and_logs(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as broken:
        argv = (sys.executable, "-c", "print('x' * 100000)")
        ending = process.wait(process.start(argv, env={}, stdout=tmp_path / "o", stderr=tmp_path / "e", show=(broken, broken)))
    assert ending.returncode == 0
    assert (tmp_path / "o").stat().st_size == 100001


def test_a_child_of_a_launcher_inside_a_child_is_found_from_outside(tmp_path: Path) -> None:
    inner = f"""
        import sys, os
        sys.path.insert(0, {str(ROOT)!r})
        from pathlib import Path
        from autofit_launcher.machine import process
        argv = (sys.executable, "-c", "import time; time.sleep(600)")
        child = process.start(argv, env={{}}, stdout=Path(os.environ["D"]) / "a", stderr=Path(os.environ["D"]) / "b")
        open(os.environ["PIDS"], "w").write(str(child.pid))
        os._exit(0)
    """
    process.wait(started(tmp_path, inner, PIDS=str(tmp_path / "pids"), D=str(tmp_path)))
    pid = int(wait_for(tmp_path / "pids"))
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_disk_that_fills_takes_the_log_and_nothing_else(tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with shown.open("wb") as out, (tmp_path / "err").open("wb") as err:
        child = process.start(
            (sys.executable, "-c", "for i in range(20000): print('a line of the trainer', i)"),
            env={}, stdout=Path("/dev/full"), stderr=tmp_path / "stderr", show=(out, err),
        )  # fmt: skip
        ending = process.wait(child)
    assert ending.returncode == 0 and shown.read_text().splitlines()[-1] == "a line of the trainer 19999"
    assert child.tail(Path("/dev/full")).splitlines()[-1] == "a line of the trainer 19999", (
        "its last words are kept where no disk keeps them"
    )


LAUNCHER = """
    import os, sys
    from pathlib import Path
    from autofit_launcher.machine import process
    place = Path(os.environ["PLACE"])
    child = process.start([sys.executable, "-c", os.environ["FAMILY"], str(place / "pids")], env={}, stdout=place / "o", stderr=place / "e")
    process.wait(child)
"""
WITHOUT_ITS_GUARDIAN = """
    first = process.start([sys.executable, "-c", ""], env={}, stdout=place / "o", stderr=place / "e")
    process.wait(first)
    process._guardian.kill()
    process._guardian.wait()
    child = process"""


@pytest.mark.parametrize("before", ["", WITHOUT_ITS_GUARDIAN])
def test_a_launcher_that_is_killed_leaves_nothing_behind(tmp_path: Path, before: str) -> None:
    launcher = LAUNCHER.replace("\n    child = process", before, 1) if before else LAUNCHER
    polite = textwrap.dedent(FAMILY).replace("signal.SIG_IGN", "signal.SIG_DFL")
    env = {**os.environ, "PLACE": str(tmp_path), "FAMILY": polite, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(launcher)], env=env) as running:
        pids = list(map(int, wait_for(tmp_path / "pids").split()))
        temporary = Path(psutil.Process(pids[0]).environ()[TEMPORARY])
        assert temporary.is_dir()
        running.kill()
    until = time.monotonic() + 60
    for pid in pids:
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, f"{pid} outlives its launcher"
            time.sleep(0.1)
    while temporary.exists():
        assert time.monotonic() < until, "nor a folder"
        time.sleep(0.1)


LISTENS = """
    import os, tempfile
    from multiprocessing import connection
    tempfile.tempdir = tempfile.mkdtemp(dir=os.environ["AUTOFIT_TEMPORARY"])
    connection.Listener(family="AF_UNIX")
"""


@pytest.mark.parametrize("length", [46, 47, 76])
def test_loader_workers_have_their_sockets_in_a_trial_wherever_they_have_them_plainly(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        place = Path(short, "x" * (length - len(short) - 1))
        place.mkdir()
        for name, value in {"_temporary": "", "_guardian": None}.items():
            monkeypatch.setattr(process, name, value)
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        ending = process.wait(started(place, LISTENS), stderr=place / "err.log")
        assert ending.returncode == 0 and len(str(place)) == length, ending.stderr_tail


def test_what_ignores_sigterm_is_killed_by_the_guardian(tmp_path: Path) -> None:
    child = started(tmp_path, FAMILY, PIDS=str(tmp_path / "pids"))
    pids = list(map(int, wait_for(tmp_path / "pids").split()))
    guardian.end(process.TOKEN, [child.token], grace_s=0.3)
    child.process.wait(timeout=120)
    assert not [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def test_a_second_signal_ends_a_child_at_once(tmp_path: Path) -> None:
    child = started(tmp_path, FAMILY, PIDS=str(tmp_path / "pids"))
    wait_for(tmp_path / "pids")
    heard: list[str] = []

    def twice() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)
        assert child.process.poll() is None, "the first one leaves it its time"
        os.kill(os.getpid(), signal.SIGTERM)

    began = time.monotonic()
    with pytest.raises(Interrupted) as stopped, process.forward_signals(child, grace_s=600, told=heard.append):
        threading.Thread(target=twice).start()
        process.wait(child)
    assert time.monotonic() - began < 600 and stopped.value.exit_code == 75 and heard == ["SIGTERM"]


def test_a_launcher_that_ends_well_leaves_nothing_for_python_to_warn_of(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from autofit_launcher.machine import process
        here = Path(sys.argv[1])
        process.wait(process.start([sys.executable, "-c", ""], env={}, stdout=here / "out", stderr=here / "err"))
    """
    argv = (sys.executable, "-W", "always", "-c", textwrap.dedent(code), str(tmp_path))
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""


def test_a_pause_does_not_count() -> None:
    awake = process.AwakeTime(100.0)
    assert (awake.look(100.5), awake.look(101.0)) == (0.5, 1.0)
    assert awake.look(101.0 + 3600) == 1.0 + awake.MOST_S and awake.look(3701.5) == 1.5 + awake.MOST_S
