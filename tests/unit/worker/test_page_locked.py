"""Which memory of a process is counted from outside, and which only the process itself knows of."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from launcher.shared import procfs
from launcher.shared.report import PAGE_LOCKED
from launcher.worker import page_locked

SIZE = 32 * 2**20


@pytest.fixture(params=["anonymous", "memory file", "device"])
def mapped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[mmap.mmap, bool]]:
    """Memory of each kind, and whether it is counted from outside. A driver's file is played by one of a file system."""
    if request.param == "anonymous":
        file = -1
    elif request.param == "memory file":
        file = os.memfd_create("locked")
    else:
        file = os.open(tmp_path / "nvidiactl", os.O_RDWR | os.O_CREAT)
    if file >= 0:
        os.ftruncate(file, SIZE)
    yield mmap.mmap(file, SIZE), request.param != "device"
    if file >= 0:
        os.close(file)


def address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def test_the_name_of_a_mapping_tells_whether_the_kernel_counts_it_as_the_processs_own(mapped: tuple[mmap.mmap, bool]) -> None:
    memory, counted = mapped
    before = sum(procfs.own_bytes(os.getpid()))
    memory.write(b"x" * SIZE)
    assert (sum(procfs.own_bytes(os.getpid())) - before > SIZE // 2) is counted, "what the host meter sees"
    assert page_locked.seen_from_outside(address(memory) + SIZE // 2) is counted


def test_what_is_locked_and_not_seen_is_told(mapped: tuple[mmap.mmap, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's allocator for it needs a card: its figures and its block are played."""
    memory, counted = mapped
    assert page_locked.fact() == {}, "no card is in use"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "host_memory_stats", lambda: {"allocated_bytes.peak": 5 * SIZE}, raising=False)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: SimpleNamespace(data_ptr=lambda: address(memory)))
    assert page_locked.fact() == ({} if counted else {PAGE_LOCKED: 5 * SIZE})
