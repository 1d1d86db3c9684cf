"""A checkpoint that finds no room in memory says so; one that fails for another reason says that."""

from __future__ import annotations

import io
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from launcher.worker import saving


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    plain = torch.save
    yield
    torch.save = plain


class Full(io.BytesIO):
    """Where nothing finds room."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def write(self, _: Any) -> int:
        raise self._error


def test_no_room_in_memory_is_a_memory_error() -> None:
    saving.install()
    with pytest.raises(MemoryError, match="a checkpoint found no room: MemoryError"):
        torch.save({"a": torch.zeros(1000)}, Full(MemoryError()))


def test_too_many_open_files_are_none(tmp_path: Path) -> None:
    saving.install()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    torch.save({}, tmp_path / "before.pt")  # what torch opens once
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(RuntimeError, match="Too many open files"):
            torch.save({}, tmp_path / "last.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_full_disk_is_none() -> None:
    saving.install()
    with pytest.raises(Exception) as raised:
        torch.save({"a": torch.zeros(1000)}, Full(OSError(28, "No space left on device")))
    assert not isinstance(raised.value, MemoryError)


def test_it_is_put_there_once_and_saves(tmp_path: Path) -> None:
    saving.install()
    once = torch.save
    saving.install()
    assert torch.save is once
    torch.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    assert torch.equal(torch.load(tmp_path / "a.pt")["a"], torch.ones(3))
