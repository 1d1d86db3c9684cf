"""A run that is begun ahead does what a program does, up to the first thing that others can see; then it waits for its turn."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from autofit_launcher.adapter import commands
from autofit_launcher.adapter.commands import Command
from autofit_launcher.common.orders import CAME, GONE
from autofit_launcher.trainers.suite import cpu_budget

BEFORE = """
import json, os, pathlib, socket, sqlite3, subprocess, sys, tempfile, threading, torch, mine
assert pathlib.Path("data").read_text() == "rows" and os.listdir(".") and os.path.exists("there")
os.makedirs("there", exist_ok=True)
"""
CHANGES = {
    "a file": "open('new', 'w').write('x')",
    "a file of another's": "torch.save({}, 'new')",
    "a folder": "os.mkdir('new')",
    "removed": "os.remove('data'); open('new', 'w')",
    "a process": "subprocess.run(['touch', 'new'], check=True)",
    "a child": "os.fork() or (open('new', 'w'), os._exit(0)); os.wait()",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as made; made(create=True, size=1).unlink(); open('new', 'w')",
    "a named lock": "import multiprocessing; multiprocessing.get_context('spawn').Lock(); open('new', 'w')",
    "a data base": "sqlite3.connect('new').execute('create table a (b)')",
    "a module's own": "import writes",
    "a lock": "import fcntl; fcntl.flock(open('log'), fcntl.LOCK_EX); open('new', 'w')",
    "a model": "torch.nn.Linear(1, 1); open('new', 'w')",
}


def begun(*words: str, place: Path, **env: str) -> tuple[subprocess.Popen[str], Path]:
    """A program in that folder, begun ahead; and the file that is its turn."""
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    turn, settings = (place.with_name(f"{place.name}-{name}") for name in ("turn", "settings"))
    asked = Command(argv=(sys.executable, *words), env={**plain, **env})
    command = commands.under_budget(asked, cpu_budget(), settings=settings, turn=str(turn))
    return subprocess.Popen(command.argv, env=command.env, cwd=place, stdout=subprocess.PIPE, text=True), turn


def waits(child: subprocess.Popen[str], turn: Path) -> bool:
    """Tells whether it has come to the gate, and stays there."""
    until = time.monotonic() + 60
    while not Path(f"{turn}{CAME}").exists() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    return child.poll() is None


def files(place: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in place.iterdir() if path.name != "__pycache__"}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_is_changed_before_its_turn(change: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    texts = {"data": "rows", "log": "", "mine.py": "", "writes.py": "open('new', 'w')", "train.py": f"{BEFORE}{change}\nprint('ends')\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    before, (child, turn) = files(tmp_path), begun("train.py", place=tmp_path)
    with child:
        assert waits(child, turn) and files(tmp_path) == before
        turn.touch()
        assert child.communicate(timeout=60)[0] == "ends\n" and child.returncode == 0
    assert files(tmp_path) != before


@pytest.mark.parametrize("late", [
    "one = threading.Thread(target=lambda: open('new', 'w')); one.start(); one.join()",
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); open('new', 'w')",
    "signal.alarm(60); open('new', 'w')",
])  # fmt: skip
def test_it_ends_where_somebody_would_wait_in_vain(late: str, tmp_path: Path) -> None:
    """A tracker was given up after its two seconds, by a run that was to be the plain one: it had waited for its turn."""
    child, turn = begun("-c", f"import signal, threading, time\n{late}\nprint('ends')", place=tmp_path)
    with child:
        assert child.communicate(timeout=60)[0] == "" and child.returncode == GONE and not Path(f"{turn}{CAME}").exists()
    assert not (tmp_path / "new").exists()


def test_a_program_in_a_folder_of_packages_is_no_library(tmp_path: Path) -> None:
    (place := tmp_path / "ml-packages" / "site-packages" / "mine").mkdir(parents=True)
    (place / "train.py").write_text("open('new', 'w')")
    (place.parents[1] / "train.py").write_text("open('new', 'w')")
    for words in (["-m", "mine.train"], [str(place.parents[1] / "train.py")]):
        child, turn = begun(*words, place=tmp_path, PYTHONPATH=str(place.parent))
        with child:
            assert waits(child, turn) and not (tmp_path / "new").exists()
            child.kill()


def test_what_a_library_does_as_it_is_imported_is_done(tmp_path: Path) -> None:
    """A library may look for a shared one by a process, or try where temporary files may stand; no run would come far before its turn."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "looks.py").write_text("import subprocess, tempfile\nsubprocess.run(['true'])\ntempfile.gettempdir()\n")
    code = "import looks\nprint('imported', flush=True)\nopen('new', 'w')\n"
    child, turn = begun("-c", code, place=tmp_path, PYTHONPATH=str(library))
    with child:
        assert child.stdout is not None and child.stdout.readline() == "imported\n" and not (tmp_path / "new").exists()
        turn.touch()
        assert child.wait(timeout=60) == 0 and (tmp_path / "new").exists()


def test_the_port_of_a_process_group_is_the_trials_until_then(tmp_path: Path) -> None:
    code = "import torch\nstore = torch.distributed.TCPStore('127.0.0.1', 0, 1, True)\nprint(store.port)\n"
    child, turn = begun("-c", code, place=tmp_path)
    with child:
        assert waits(child, turn) and psutil.Process(child.pid).net_connections() == []
        turn.touch()
        assert int(child.communicate(timeout=60)[0]) > 0
