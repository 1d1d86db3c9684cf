"""Forks a launch's trials off a process that has made the imports with which their command begins, so that they are made once.

The server is the person's own command, whose writes are redirected. It stops where its program would begin, makes those imports of the
program's first statements that are of installed libraries, and runs nothing of it. Whoever starts the same command has it forked; the child
takes its own settings, hooks, words, folders and output, and goes on as if it had just been started. Where a fork isn't safe (threads that
live, a card in use), or the command differs by more than its words, it is started anew.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import importlib.util
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common import files
from ..common.orders import CAME, FORKS, PRELOADED, VARIABLE
from . import reach
from .after_import import taken
from .gate import is_installed
from .lifeline import die_with_parent, kill

EXACT = {"PYTHONHASHSEED": "0", "TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0", "NVIDIA_TF32_OVERRIDE": "0"}
"""A twin's variables: sets in one order (a fork's is its server's), nothing compiled for a layout, no TorchScript, which can't compile what
stands in the place of a draw, no TF32, which a card's convolutions have unasked (7e-5 of YOLO11's gradients when it was emulated)."""
_OWN = {
    FORKS, VARIABLE, "AUTOFIT_CHILD", "TMPDIR", "HF_DATASETS_CACHE", "HF_METRICS_CACHE", "HF_EVALUATE_CACHE", "HF_MODULES_CACHE",
    *PRELOADED, *EXACT,
}  # fmt: skip
"""Variables that each process has for itself: no library's import depends on them but for where it writes, and what a twin still turns."""
_FORKED_WELL = {"jemalloc_bg_thd"}
"""Names of threads whose library has a child do without (Arrow's jemalloc, by its own ``pthread_atfork``)."""
_REFUSED, PATH = ".refused", "PYTHONPATH"
_THREADS = "/proc/self/task"
_STACKS_KEPT = 5
"""Stacks of ended threads that glibc keeps. A child's first threads would have them for nothing, and those of the run take 8 MiB of a CPU's
budget each: as many threads as have ended hold them."""
_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""This variable has PyTorch ask the driver's library whether there is a card, and not begin CUDA for that, which no fork survives."""


def bring(modules: Sequence[str]) -> None:
    """Imports modules, ours as parts of this package: an interpreter may know it by another name."""
    for name in modules:
        ours = name.removeprefix("autofit_launcher.")
        importlib.import_module(name if ours == name else f"..{ours}", __package__)


def serve(place: str, argv: Sequence[str], bases: Mapping[str, Sequence[str]], replaced: Sequence[str]) -> Callable[[], None]:
    """Makes the imports, then forks off a child for whoever asks at the socket ``place``. Returns in the children alone, with what puts
    functions of the modules ``replaced`` in the place of those that libraries have taken (``taken``).

    ``argv``: the command, of which this process is the first. ``bases``: libraries with whose import a CPU's budget is taken, and what
    comes with it (``Command.base``): none of the program's imports comes after theirs.
    """
    Path(f"{place}{CAME}").touch()
    before, refused, most = dict(os.environ), "", 0
    os.environ.setdefault(_CHECK, "1")
    try:
        if place.rpartition(".")[2] != str(os.getpid()):
            raise RuntimeError("the command starts another program")
        for name in ("sitecustomize", "usercustomize"):  # a person's, which runs when this returns
            if (own := importlib.machinery.PathFinder.find_spec(name)) and os.path.dirname(str(own.origin)) != os.path.dirname(os.__file__):
                raise RuntimeError(f"{own.origin} comes before its imports")
        for statement in _imports(sys.argv[0]):
            exec(compile(ast.Module([statement], []), sys.argv[0], "exec"), {"__name__": __name__})
            most = max(most, len(os.listdir(_THREADS)))
            if (refused := _unsafe()) or any(base in sys.modules for base in bases):
                break
        if "torch" in sys.modules and not refused:
            bring(["torch._dynamo"])  # as every optimizer does
            for library in sys.modules.keys() & bases.keys():
                bring(bases[library][:-1])
            most = max(most, len(os.listdir(_THREADS)))
            refused = _unsafe()
    except BaseException as error:
        refused = f"{type(error).__name__}: {error}"
    if refused:
        files.replace(Path(f"{place}{_REFUSED}"), refused)
        os._exit(0)
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"{place}.new")
    server.listen()
    os.rename(f"{place}.new", place)
    put = taken(replaced)
    _Server(server, before, argv[: len(argv) - len(sys.argv) + 1]).run()
    (held := allocate_lock()).acquire()
    for _ in range(min(most - len(os.listdir(_THREADS)), _STACKS_KEPT)):
        start_new_thread(held.acquire, ())
    return put


def _imports(program: str) -> Iterator[ast.stmt]:
    """The statements with which a program begins, as long as they import installed libraries."""
    for statement in ast.parse(Path(program).read_bytes()).body:
        if isinstance(statement, ast.Import):
            names = [one.name for one in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            names = []
        else:
            return
        if not all(map(_is_installed, names)):
            return
        if names != ["__future__"]:
            yield statement


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name.partition(".")[0])
    origin = (spec.origin if spec is not None else None) or ""
    return origin in ("built-in", "frozen") or is_installed(origin)


def _unsafe() -> str:
    """Says why no child of this process would be as one that is started anew; empty where it would."""
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "recv_fds"):
        return "Python is older than 3.9"
    if len(os.listdir(_THREADS)) > 1:
        if not (child := os.fork()):
            os._exit(0)
        os.waitpid(child, 0)  # OpenBLAS ends its threads for that
    threads = {Path(_THREADS, one, "comm").read_text().strip() for one in os.listdir(_THREADS) if int(one) != os.getpid()}
    if strange := threads - _FORKED_WELL:
        return f"its libraries have started threads ({', '.join(sorted(strange))})"
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if (file := os.readlink(f"/proc/self/fd/{number}")).startswith(("/dev/nvidia", "socket:")):
                return f"its libraries hold {file}"
    return ""


class _Server:
    def __init__(self, server: socket.socket, environ: dict[str, str], head: Sequence[str]) -> None:
        """``environ``: the variables before the imports; ``head``: the words of the command up to its program."""
        self._server, self._environ, self._head, self._pid = server, environ, list(head), os.getpid()
        now = {name: os.environ.get(name) for name in {*environ, *os.environ} - {_CHECK, *_OWN}}
        self._imported = {name: value for name, value in now.items() if value != environ.get(name)}
        """Variables that an import has set, or taken away (None)."""
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """Descriptor that can be read once a child has ended -> that child, and the connection of who asked for it."""

    def run(self) -> None:
        """Serves until this process is ended. Returns in a child."""
        while True:
            waits: list[Any] = [self._server, *self._children, *(connection for _, connection in self._children.values())]
            ready, _, _ = select.select(waits, [], [])
            if self._server in ready and self._forks(self._server.accept()[0]):
                return
            for end in [end for end in self._children if end in ready]:
                self._ended(end)
            for child in [child for child, connection in self._children.values() if connection in ready]:
                kill(child)  # who asked for it is gone

    def _forks(self, connection: socket.socket) -> bool:
        """Forks a child; True in the child."""
        said, streams, _, _ = socket.recv_fds(connection, 1 << 20, 2)
        while said and not said.endswith(b"\n"):
            said += connection.recv(1 << 20)
        asked = json.loads(said or b"{}")
        apart = self._apart(**asked) if asked else ["who asked"]
        child = 0 if apart else os.fork()
        if not apart and not child:
            self._begins(asked, streams)
            return True
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps({"pid": child, "apart": apart}).encode() + b"\n")
        if apart:
            connection.close()
        else:
            self._children[os.pidfd_open(child)] = child, connection
        return False

    def _apart(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> list[str]:
        """Tells what differs from this process of what an import may depend on: variables, the program."""
        own, asked = self._environ, {**env, PATH: os.pathsep.join(one for one in _path(env) if one not in self._preloads(env))}
        apart = sorted(name for name in {*own, *asked} - _OWN if own.get(name) != asked.get(name))
        if EXACT.items() <= asked.items() and not EXACT.items() <= own.items() and _made():
            apart.append("what its libraries have made (TorchScript, a NumPy generator)")
        return apart if list(argv[: len(self._head)]) == self._head else [*apart, "another program"]

    def _preloads(self, env: Mapping[str, str]) -> list[str]:
        """The folders of native code that the probe's is followed by (``adapter.commands.preloaded``)."""
        return [one for one in _path(env) if one not in _path(self._environ)]

    def _begins(self, asked: Mapping[str, Any], streams: Sequence[int]) -> None:
        """Gives this child what a process has for itself."""
        os.setsid()
        die_with_parent()
        if os.getppid() != self._pid:  # it had ended before
            os._exit(1)
        self._server.close()
        for end, (_, other) in self._children.items():
            os.close(end)
            other.close()
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(asked["cwd"])
        at = 0 if getattr(sys.flags, "safe_path", False) else 1  # behind the program's folder
        sys.path[at:at] = self._preloads(asked["env"])
        if tempfile.tempdir == os.environ.get("TMPDIR"):  # an import has asked for it
            tempfile.tempdir = None
        env = {**asked["env"], **self._imported}
        os.environ.clear()
        os.environ.update({name: value for name, value in env.items() if value is not None})
        words, before = asked["argv"][len(self._head) :], len(sys.argv) - 1
        sys.argv[1:] = words
        if (whole := getattr(sys, "orig_argv", None)) is not None:
            whole[len(whole) - before :] = words
        random.seed()
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed()

    def _ended(self, end: int) -> None:
        child, connection = self._children.pop(end)
        os.close(end)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with connection, contextlib.suppress(OSError):
            connection.sendall(json.dumps({"status": status}).encode() + b"\n")


@functools.cache
def _made() -> bool:
    """Tells whether libraries have made TorchScript, or a NumPy generator, as they were imported: no twin can turn these any more."""
    script: Any = sys.modules.get("torch.jit._state")
    draws = getattr(sys.modules.get("numpy.random"), "Generator", None)
    return bool(script and script._python_cu.get_functions()) or any(type(one) is draws for one in gc.get_objects())


def _path(env: Mapping[str, str]) -> list[str]:
    return env.get(PATH, "").split(os.pathsep)


class Forked:
    """A forked child, as ``subprocess.Popen`` has one that it has started."""

    def __init__(self, connection: socket.socket, argv: Sequence[str]) -> None:
        self._connection, self._argv = connection, argv
        self.pid, self.apart = 0, ["the server has ended"]
        self.returncode: int | None = None
        if said := self._line():
            self.pid, self.apart = said["pid"], said["apart"]

    def _line(self) -> dict[str, Any]:
        said = b""
        with contextlib.suppress(OSError):
            while not said.endswith(b"\n") and (more := self._connection.recv(4096)):
                said += more
        return dict(json.loads(said)) if said else {}

    def wait(self, timeout: float | None = None) -> int:
        """Returns its exit status; raises ``subprocess.TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self._argv), timeout or 0.0)
            self.returncode = self._line().get("status", -signal.SIGKILL)
            self._connection.close()
        return self.returncode


def forked(argv: Sequence[str], env: Mapping[str, str], streams: Sequence[int]) -> Forked | None:
    """Has the launch's server, once it serves, fork a process of that command; None where there is none for it, or it can't be, which is
    said in the trial's log. ``streams``: descriptors of its output and of its errors."""
    if (place := os.environ.get(FORKS)) is None:
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        _serves(place)
        connection.connect(place)
        said = json.dumps({"argv": list(argv), "env": dict(env), "cwd": os.getcwd()}).encode() + b"\n"
        if rest := said[socket.send_fds(connection, [said], list(streams)) :]:
            connection.sendall(rest)
        child = Forked(connection, argv)
        if child.apart:
            raise RuntimeError(f"it differs in {', '.join(child.apart)}")
    except (OSError, RuntimeError) as why:
        connection.close()
        print(f"autofit: the command is started anew: {why}", file=sys.stderr, flush=True)
        return None
    return child


def _serves(place: str) -> None:
    """Returns once the server serves. Raises RuntimeError where it won't."""
    if not place:
        raise RuntimeError("its program is none of Python's, or Python's own words (-m, -c) say it")
    while not os.path.exists(place):
        lives = os.path.exists(f"/proc/{(pid := int(place.rpartition('.')[2]))}/exe")
        with contextlib.suppress(FileNotFoundError):
            raise RuntimeError(Path(f"{place}{_REFUSED}").read_text(encoding="utf-8"))
        if not lives:
            raise RuntimeError("the process that was to fork it has ended")
        if not os.path.exists(f"{place}{CAME}") and reach.out_of(pid):
            kill(pid)
        time.sleep(0.03)
