"""A process that has made a command's imports forks the command, as if it had just been started."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autofit_launcher.common.orders import FORKS, TEMPORARY, Orders
from autofit_launcher.common.sizes import GIB
from autofit_launcher.inside import forks, plainly
from autofit_launcher.inside.forks import Forked
from autofit_launcher.machine import process
from autofit_launcher.machine.forks import Forks

PROGRAM = """
import json
import statistics, os, sys
import threading
import own
print(sys.argv[1:], sys.path[0], os.environ.get("MARK"), __name__, sys.stdin.read(), own.here, flush=True)
open("written", "w").write("x")
if "waits" in sys.argv:
    __import__("subprocess").Popen(["sleep", "60"])
    threading.Event().wait()
sys.exit(7)
"""
OWN = "import sys; here = 'statistics' in sys.modules"


@pytest.mark.parametrize(
    ("program", "made"),
    [
        ("'text'\nfrom __future__ import annotations\nimport json, os\nfrom email import message\nx = 1\nimport csv", ["json", "email"]),
        ("import json\nimport mine\nimport csv", ["json"]),
        ("import json\nimport beside\nimport csv", ["json"]),
        ("import json\nfrom . import mine\nimport csv", ["json"]),
        ("import os\nos.environ['A'] = '1'\nimport json", ["os"]),
        ("try:\n    import json\nexcept ImportError:\n    pass", []),
    ],
)
def test_only_the_imports_with_which_a_program_begins_are_made(
    program: str, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.py").write_text(program)
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "our-packages").mkdir()
    (tmp_path / "our-packages" / "beside.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "our-packages")
    found = [one for one in forks._imports(str(tmp_path / "t.py")) if not isinstance(one, ast.Expr)]
    assert [one.module if isinstance(one, ast.ImportFrom) else one.names[0].name for one in found] == made  # type: ignore[attr-defined]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the program, whose server is there by ``FORKS``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text(PROGRAM)
    (tmp_path / "own.py").write_text(OWN)
    with served(tmp_path, monkeypatch) as server:
        yield tmp_path
        server.sweep()
    assert not (tmp_path / "forks").exists()


@contextmanager
def served(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forks]:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    server = Forks()
    monkeypatch.setenv(FORKS, server.begin(orders(place), {}, place / "forks")[FORKS])
    monkeypatch.setenv(TEMPORARY, process.temporary())
    yield server
    server.end()


def orders(place: Path, *words: str) -> Orders:
    payload = {"argv": [sys.executable, "-u", "t.py", *words]}
    return Orders(module="", folder=str(place / "trial"), device="cpu", cap_bytes=GIB, accumulation=1, payload=payload, cache=str(place))


def started(place: Path, *words: str, same: object = None, **env: str) -> tuple[subprocess.Popen[bytes] | Forked, Path]:
    """The command as a trial starts it, or proofs start a twin, and its output."""
    mine = orders(place, *words)
    (mine.scratch / "t").mkdir(parents=True, exist_ok=True)
    log, around = place / "log", {**plainly.environment(mine, mine.scratch), **env}
    around.pop("PYTEST_CURRENT_TEST", "")
    with log.open("wb") as output:
        how = {"same": same, "budget_only": True} if same else {}
        return plainly.started(mine, mine.scratch, around, temporary=str(mine.scratch / "t"), log=output, **how), log


def beside(place: Path, monkeypatch: pytest.MonkeyPatch, library: str, text: str, program: str) -> None:
    """Puts a program into a working folder, and an installed library beside it."""
    (path := place / "site-packages" / library).parent.mkdir(parents=True)
    path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(place / "site-packages"))
    monkeypatch.chdir(place)
    Path("t.py").write_text(program)


def test_what_a_person_has_run_before_every_program_is_run_before_its_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    beside(tmp_path, monkeypatch, "sitecustomize.py", "import sys; print('colorsys' in sys.modules)", "import colorsys")
    with served(tmp_path, monkeypatch):
        child, log = started(tmp_path)
        assert isinstance(child, subprocess.Popen) and child.wait(20) == 0 and log.read_text() == "False\n"
    assert "sitecustomize.py comes before its imports" in capfd.readouterr().err


def test_a_forked_command_is_as_one_that_was_just_started(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["--a", "1"], []):
        child, log = started(place, *words)
        assert isinstance(child, Forked) and child.wait(20) == child.wait() == 7
        assert log.read_text() == f"{words} {place} None __main__  True\n"
        assert (place / "trial/scratch/overlay/files" / str(place)[1:] / "written").exists() and not (place / "written").exists()
    child, log = started(place, MARK="an import may depend on it")
    assert isinstance(child, subprocess.Popen) and child.wait(20) == 7 and "an import may" in log.read_text()
    assert "started anew: it differs in MARK" in capfd.readouterr().err


def test_nothing_of_a_forked_command_outlives_who_asked_for_it_or_its_server(place: Path) -> None:
    child, _ = started(place, "waits")
    assert isinstance(child, Forked)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    child._connection.close()
    process_is_gone(child.pid)
    child, _ = started(place, "waits")
    assert isinstance(child, Forked) and child.returncode is None
    os.kill(int(os.environ[FORKS].rpartition(".")[2]), signal.SIGKILL)
    assert child.wait(5) == -signal.SIGKILL
    process_is_gone(child.pid)
    assert isinstance(started(place)[0], subprocess.Popen), "the other way"


def process_is_gone(pid: int) -> None:
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}/exe"):
        assert time.monotonic() < until
        time.sleep(0.02)


LIVES, NONE = "threads (python", "ModuleNotFoundError"


@pytest.mark.parametrize(
    ("program", "why"),
    [("import threads\nimport own", LIVES), ("import threads\nimport json.no", LIVES), ("import json\nimport threads.no", NONE)],
)
def test_a_command_whose_libraries_bear_no_fork_is_started_anew(
    program: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    starts = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    beside(tmp_path, monkeypatch, "threads/__init__.py", starts, program)
    Path("own.py").write_text("")
    with served(tmp_path, monkeypatch):
        assert isinstance(started(tmp_path)[0], subprocess.Popen) and why in capfd.readouterr().err


def test_a_forked_command_has_variables_and_a_temporary_folder_as_if_it_had_made_its_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = "import os, tempfile\nthere = tempfile.gettempdir()\nos.environ['MADE'] = 'here'\ndel os.environ['GONE']"
    says = "import asks, os\nprint(asks.there, asks.tempfile.gettempdir(), os.environ['MADE'], 'GONE' in os.environ)"
    monkeypatch.setenv("GONE", "x")
    beside(tmp_path, monkeypatch, "asks.py", asks, says)
    with served(tmp_path, monkeypatch):
        child, log = started(tmp_path)
        assert isinstance(child, Forked) and child.wait(20) == 0
    assert log.read_text().split() == [str(tmp_path / "forks"), str(tmp_path / "trial/scratch/t"), "here", "False"]


POOL = """
import os, threading
over = threading.Event()
threads = [threading.Thread(target=over.wait) for _ in range(2)]
for one in threads: one.start()
os.register_at_fork(before=lambda: (over.set(), [one.join() for one in threads]))
"""
STARTS_A_THREAD = """
import pool, threading
from autofit_launcher.common.procfs import data_bytes
before = data_bytes()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(data_bytes() - before)
"""


def test_a_thread_takes_as_much_in_a_forked_command_as_in_one_that_was_just_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stacks of threads that had ended were there for it: a trial with transformers' Trainer took 48 MiB of a CPU's budget, its run 56."""
    beside(tmp_path, monkeypatch, "pool.py", POOL, STARTS_A_THREAD)
    with served(tmp_path, monkeypatch):
        child, log = started(tmp_path)
        assert isinstance(child, Forked) and child.wait(20) == 0
    assert int(log.read_text()) >= 8 * 2**20


@pytest.mark.parametrize("words", [("-m", "t"), ("-I", "t.py")])
def test_a_command_that_gets_no_server_is_told_why(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = replace(orders(tmp_path), payload={"argv": [sys.executable, *words]})
    server = Forks()
    monkeypatch.setenv(FORKS, server.begin(asked, {}, tmp_path / "forks")[FORKS])
    assert not server.told and forks.forked(asked.payload["argv"], {}, (1, 2)) is None
    assert "started anew: its program is none of Python's" in capfd.readouterr().err


LIBRARY = """
import torch
from random import random
from torch.nn.functional import dropout as drops
compiled = torch.compile(lambda x: x + torch.compiler.is_compiling(), fullgraph=True)
"""
TAKES = """
import library, random, torch
torch.set_float32_matmul_precision("high")
F, made, taken = torch.nn.functional, library.compiled(torch.ones(1)).item(), random.random
same = [library.drops is F.dropout, library.random is taken, torch.jit.script(taken) is taken]
print(*same, library.drops(torch.ones(2)).tolist(), made, torch.get_float32_matmul_precision())
left = open("left", "w")
left.write("when its interpreter ends")
raise SystemExit(7)
"""
TWIN = {"samples": 4, "accumulation": 1, "whole_batch": 4, "part": 4}


@pytest.mark.parametrize("more", ["", "made = torch.jit.script(torch.nn.Identity())", "made = __import__('numpy').random.default_rng()"])
def test_a_forked_twin_has_at_rest_what_libraries_took_by_name(more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(tmp_path, monkeypatch, "library.py", LIBRARY + more, TAKES)
    with served(tmp_path, monkeypatch):
        child, log = started(tmp_path, same=TWIN, **forks.EXACT)
        assert isinstance(child, subprocess.Popen if more else Forked) and child.wait(30) == 7, log.read_text()
    assert "True True True [1.0, 1.0] 1.0 highest\n" in log.read_text()
    assert (tmp_path / "trial/scratch/overlay/files" / str(tmp_path)[1:] / "left").read_text().startswith("when")


REPLACES = """
import sys, torch, numpy
from dataclasses import asdict
from autofit_launcher.common.orders import Orders, ProbeSettings
from autofit_launcher.inside.start import _PATCHED, Instrument, _torch
there = [(name, module, dict(vars(module))) for name, module in list(sys.modules.items()) if type(module) is type(sys)]
for device, twin in (("cpu", {}), ("cuda", TWIN)):
    orders = asdict(Orders(module="", folder="", device=device, cap_bytes=1, accumulation=1, payload={}))
    _torch(Instrument(ProbeSettings(records="", orders=orders, budget_only=bool(twin), same=twin)))
own = {name for name, module, were in there for key, one in were.items() if callable(one) and vars(module).get(key) is not one}
print(sorted(own - {*_PATCHED, "torch._C", "torch.nn.utils.clip_grad"}), "torch.nn.functional" in own)
"""


def test_all_that_trials_and_twins_replace_is_looked_for_in_libraries() -> None:
    said = subprocess.run([sys.executable, "-c", f"{TWIN=}{REPLACES}"], capture_output=True, text=True, check=True)
    assert said.stdout == "[] True\n"
