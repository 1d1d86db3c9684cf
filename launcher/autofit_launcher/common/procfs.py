"""Reads a process's memory (bytes), start and children from Linux's /proc. Standard library only: both sides ask."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable


def status_bytes(key: str, pid: int | str = "self") -> int:
    """A size in /proc/PID/status, which the kernel gives in KiB. Raises OSError where there is none: a process that has ended, say."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no {key} line")


def data_bytes(pid: int | str = "self") -> int:
    """VmData: private writable memory without stacks, which is what RLIMIT_DATA counts since Linux 4.7 (getrlimit(2), proc(5))."""
    return status_bytes("VmData", pid)


def data_bytes_now(pid: int) -> int:
    """Returns the same for who looks often; 0 once the process has ended."""
    with contextlib.suppress(OSError):
        return data_bytes(pid)
    return 0


def has_open(pid: int, file: int | str) -> bool | None:
    """Tells whether a process has a file (a path, or what a descriptor of ours stands for) open; None where that may not be looked at."""
    try:
        places = os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return None
    except OSError:
        return False
    for place in places:
        with contextlib.suppress(OSError):
            if (pid, place) != (os.getpid(), str(file)) and os.path.samefile(file, f"/proc/{pid}/fd/{place}"):
                return True
    return False


ADOPTED: dict[int, int] = {}
"""Process -> another one that counts as its child, with what it forks."""


def children(pid: int) -> list[int]:
    """The living processes that ``pid`` itself started, by any of its threads, or has adopted; empty where the kernel doesn't tell.

    /proc/PID/task/TID/children (proc_tid_children(5)); some 20 microseconds a process.
    """
    found = [ADOPTED[pid]] if pid in ADOPTED else []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as told:
                found += map(int, told.read().split())
    return found


def descendants(pid: int) -> list[int]:
    """Finds all living processes that ``pid`` started, and those that these started."""
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


def _taken_seconds(path: str, end: int) -> float:
    with contextlib.suppress(OSError, IndexError, ValueError), open(path, encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:end])) / os.sysconf("SC_CLK_TCK")
    return 0.0


WATCHES = "autofit-"
"""The first letters in the names of threads that autofit itself runs in a trainer's process (``sampling``)."""


def name_thread(name: str) -> None:
    """Gives the calling thread a name that the kernel tells (proc_pid_comm(5)); nothing where it can't."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{threading.get_native_id()}/comm", "w", encoding="ascii") as comm:
        comm.write(name[:15])


def work_seconds(pid: int) -> float:
    """Processor seconds that a process and all below it have taken so far, with children they have waited for (proc_pid_stat(5))."""
    return sum(_taken_seconds(f"/proc/{one}/stat", 15) for one in family(pid))


def watching_seconds(pid: int) -> float:
    """Seconds of that which autofit's own threads have taken. Asks each thread for its name: for trials, not for each second of a run."""
    return sum(map(_watching_seconds, family(pid)))


def _watching_seconds(pid: int) -> float:
    seconds = 0.0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            place = f"/proc/{pid}/task/{thread}"
            with contextlib.suppress(OSError), open(f"{place}/comm", encoding="ascii", errors="replace") as comm:
                seconds += _taken_seconds(f"{place}/stat", 13) if comm.read().startswith(WATCHES) else 0.0
    return seconds


def with_variable(name: str, starts: tuple[str, ...]) -> list[int]:
    """Living processes that were started with a variable whose value begins with one of ``starts``, as far as this user may look."""
    marks = tuple(f"{name}={start}".encode() for start in starts)
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdecimal() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as environ:  # a zombie's is empty
                if any(word.startswith(marks) for word in environ.read().split(b"\0")):
                    found.append(int(entry))
    return found


def family(pid: int) -> list[int]:
    """Finds a process and all living ones below it."""
    return [pid, *descendants(pid)]


def leaves_room(pid: int, *, free: int) -> bool:
    """Tells whether host memory, of which so many bytes were ``free``, has room for another process like this one and all below it, as both
    grow, shared pages included. What has ended meanwhile takes none."""
    taken = 0
    for one in family(pid):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{one}/statm", "rb") as statm:
            taken += int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 3 * taken < free


def own_bytes(pid: int) -> tuple[int, int]:
    """Returns (private memory, shared memory) of a process that no file backs: its own, and its part of what it has together with others,
    so that forked workers don't count their parent's again (smaps_rollup, proc_pid_smaps(5)). Walks all its pages: some 10 ms for each GiB.
    If the kernel doesn't tell (before 5.4), all of what is resident. Raises OSError where it has ended.
    """
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as file:
        told = {key: int(size) * 1024 for key, size, *_ in (line.split() for line in file) if key in ("Pss_Anon:", "Pss_Shmem:")}
    if len(told) < 2:
        return status_bytes("RssAnon", pid), status_bytes("RssShmem", pid)
    return told["Pss_Anon:"], told["Pss_Shmem:"]


class Looks:
    """Looks at something again and again in a thread, from ``start`` to ``stop``."""

    def __init__(
        self, name: str, look: Callable[[], None], *, every_s: float, search: Callable[[], None] | None = None, search_every_s: float = 1.0
    ) -> None:
        """``name`` begins with ``procfs.WATCHES``: what looking costs is no work of the trainer's.

        ``search``: for what there is to look at, which is dearer and done less often; once before the first look."""
        self._look, self._every_s, self._search, self._search_every_s = look, every_s, search, search_every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        name_thread(self._thread.name)
        searched = float("-inf")
        while not self._stopped.is_set():
            (time.sleep if self._every_s < 0.1 else self._stopped.wait)(self._every_s)  # an Event's own wait costs twice as much
            if self._search is not None and time.monotonic() - searched > self._search_every_s:
                self._search()
                searched = time.monotonic()
            self._look()
