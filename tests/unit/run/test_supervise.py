"""When a line of a run's was printed at the earliest: what a checkpoint is held against whose training then diverged."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.adapter import log_line
from launcher.adapter.log_line import LogLine
from launcher.adapter.progress import Progress
from launcher.run import watch


def read(line: str) -> LogLine:
    return log_line.read(line, Progress())


def test_a_line_was_printed_after_the_last_look_and_lines_that_were_held_back_after_the_last_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(watch.time, "time", lambda: clock[0])
    path = tmp_path / "run.stdout.log"
    path.touch()
    heard: list[tuple[str, float]] = []
    log = watch.Log(path, read, lambda line, said, at: heard.append((line, at)))

    def comes(words: str, *, at: float) -> list[float]:
        with path.open("a") as file:
            file.write(words)
        clock[0] = at
        before = len(heard)
        log.look()
        return [when for line, when in heard[before:] if line]

    assert comes("epoch 0 loss: 0.5\n", at=10.0) == [0.0]
    assert comes("", at=20.0) == []
    assert comes("epoch 1 loss: nan\n", at=21.0) == [20.0], "one report at a time: it is new since the last look"
    assert comes("", at=30.0) == []
    assert comes("epoch 2 loss: 0.5\nepoch 3 loss: nan\nepoch 4 loss: nan\n", at=31.0) == [21.0] * 3, "a pipe that was flushed at last"


def test_the_last_line_counts_though_nothing_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "run.stdout.log"
    path.write_text("epoch 1 loss: nan")
    heard: list[str] = []
    log = watch.Log(path, read, lambda line, said, at: heard.append(line))
    log.look()
    assert heard == []
    log.look(ended=True)
    assert heard == ["epoch 1 loss: nan"]
