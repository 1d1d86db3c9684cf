"""Reads traces from autofit's cache, or makes them in child processes, one per core at a time.

A trace's key is a digest of everything it depends on: the request, the versions of the trainer and torch, and the source of the code that
makes it. A torn file is made again.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher import paths
from launcher.adapter.tracing import Ask
from launcher.machine import process
from launcher.shared import files
from launcher.shared.trace import Trace, read_trace

LONGEST_S = 600.0
"""Limit for all traces of one child together; a trace takes 5 to 25 seconds of one core."""
POLL_S = 0.05
KEPT = 300
"""At most this many traces are kept, some 200 KB each; the oldest go first."""
WHY = ".why"


def folder() -> Path:
    return paths.cache_folder() / "traces"


def is_kept(ask: Ask) -> bool:
    return _place(ask.key).is_file()


def traces(asks: Iterable[Ask], *, environments: Mapping[str, Any], patience_s: float = LONGEST_S) -> dict[str, Trace | str]:
    """Key -> its trace, or why there is none. ``environments``: module -> what makes its children's environment in a folder."""
    with Making(asks, environments=environments, patience_s=patience_s) as making:
        return making.found()


class Making:
    """Reads kept traces and has children make the others meanwhile. A context manager: leaving it ends children still at work."""

    def __init__(self, asks: Iterable[Ask], *, environments: Mapping[str, Any], patience_s: float = LONGEST_S) -> None:
        self._patience_s = patience_s
        self._found: dict[str, Trace | str] = {}
        self._shares: list[_Share] = []
        self._open = ExitStack()
        missing: dict[str, Ask] = {}
        for ask in asks:
            trace = read_trace(_place(ask.key))
            if trace is not None:
                self._found[ask.key] = trace
            elif ask.key not in missing:
                missing[ask.key] = ask
        if missing:
            self._begin(list(missing.values()), environments)

    def __enter__(self) -> Making:
        return self

    def __exit__(self, *_: object) -> None:
        for share in self._shares:
            share.child.end(grace_s=0.0)
        self._shares = []
        self._open.close()

    @property
    def over(self) -> bool:
        """Whether all traces are there, or known to be impossible."""
        return all(share.child.process.poll() is not None for share in self._shares)

    def over_within(self, seconds: float) -> bool:
        """As ``over``, after waiting at most ``seconds``. Raises Interrupted on a signal."""
        until = time.monotonic() + seconds
        with self._signals_forwarded():
            while not self.over and time.monotonic() < until:
                time.sleep(POLL_S)
        return self.over

    @contextmanager
    def _signals_forwarded(self) -> Iterator[None]:
        with ExitStack() as until_the_end:
            for share in self._shares:
                until_the_end.enter_context(process.forward_signals(share.child))
            yield

    def found(self) -> dict[str, Trace | str]:
        """Waits for the children. Raises Interrupted on a signal."""
        if self._shares:
            with self._signals_forwarded():
                while self._shares:
                    share = self._shares.pop()
                    ended = process.wait(share.child, timeout_s=self._patience_s, stderr=share.own / "stderr")
                    self._found |= {ask.key: _outcome(ask, share.own, ended.stderr_tail, timed_out=ended.timed_out) for ask in share.asks}
            self._open.close()
            _forget_old()
        return self._found

    def _begin(self, asks: Sequence[Ask], environments: Mapping[str, Any]) -> None:
        """Starts the children, each with a share of one trainer's requests."""
        place = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="autofit-")))
        for module in dict.fromkeys(ask.module for ask in asks):
            for share in _dealt([ask for ask in asks if ask.module == module], max(1, os.cpu_count() or 1)):
                own = place / str(len(self._shares))
                self._shares.append(_Share(share, own, _started(module, share, own, environments[module])))


@dataclass(frozen=True, slots=True)
class _Share:
    """The requests of one child, with its own folder."""

    asks: Sequence[Ask]
    own: Path
    child: process.Child


def _place(key: str) -> Path:
    return folder() / f"{key}.trace"


def _dealt(asks: Sequence[Ask], hands: int) -> list[list[Ask]]:
    return [list(asks[number::hands]) for number in range(min(hands, len(asks)))]


def _started(module: str, share: Sequence[Ask], own: Path, prepare: Any) -> process.Child:
    own.mkdir()
    orders = own / "orders.json"
    files.replace_json(orders, [{"payload": ask.payload, "out": own / f"{ask.key}.trace"} for ask in share])
    env = {**prepare(own), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return process.start(process.python_module(module, str(orders)), env=env, cwd=own, stdout=own / "stdout", stderr=own / "stderr")


def _outcome(ask: Ask, own: Path, said: str, *, timed_out: bool) -> Trace | str:
    made = own / f"{ask.key}.trace"
    trace = read_trace(made)
    if trace is not None:
        with suppress(OSError):  # a home that can't be written: it is made again next time
            files.replace_bytes(_place(ask.key), made.read_bytes())
        return trace
    with suppress(OSError):
        return made.with_suffix(WHY).read_text(encoding="utf-8")
    if timed_out:
        return "its trace came to no end in the time it was given"
    return (said.strip().splitlines() or ["the child that traces it said nothing"])[-1]


def _forget_old() -> None:
    with suppress(OSError):
        there = sorted(folder().glob("*.trace"), key=lambda path: path.stat().st_mtime)
        for path in there[:-KEPT]:
            path.unlink(missing_ok=True)
