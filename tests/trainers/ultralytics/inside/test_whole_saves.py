"""What Ultralytics writes over its last checkpoint is whole, or the one before stays."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.trainers.ultralytics.inside import whole_saves


def test_a_checkpoint_that_finds_the_disk_full_leaves_the_one_before(tmp_path: Path) -> None:
    trainer = SimpleNamespace(last=tmp_path / "last.pt", best=tmp_path / "best.pt")
    whole_saves._train_starts(trainer)
    trainer.last.write_bytes(b"of the epoch before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            trainer.last.write_bytes(bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "last.pt").read_bytes() == b"of the epoch before" and [path.name for path in tmp_path.iterdir()] == ["last.pt"]
    trainer.best.write_bytes(bytes(100_000))
    assert (tmp_path / "best.pt").stat().st_size == 100_000
