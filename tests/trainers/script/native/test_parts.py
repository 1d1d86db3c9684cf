"""Batches of a script's own sampler, taken in parts: the same rows in a step, and the same weights at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.trainers.script import outside
from launcher.trainers.script.native.parts import Parted, Parts, PassInParts
from launcher.trainers.script.native.steps import Outside
from tests.helpers.places import SCRIPTS


def run(folder: Path, *words: str, parts: int = 0, rows: str = "all", targets: bool = False) -> str:
    """What a script printed whose batches are taken in so many parts. ``targets``: they count by their targets."""
    env = dict(os.environ)
    if parts:
        more, files = outside.placed(parts, parts=rows, place=folder, env=env)
        env |= more
        if targets:
            env["ACCUMULATE_LOSS"] = "sum"
            more, update = outside.put_right("targets", times=parts, place=folder, env=env)
            env, files = env | more, {**files, **update}
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    argv = [sys.executable, *words]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=500)
    return f"{done.returncode} {done.stdout}{done.stderr[-3000:]}"


@pytest.mark.parametrize("size", [1, 3, 4, 5, 9, 64])
def test_every_row_comes_once_in_parts_of_like_size(size: int) -> None:
    parted = Parted([list(range(size))], 4)
    parts = list(parted)
    assert [row for part in parts for row in part] == list(range(size)) and len(parts) == min(size, 4)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [one.ends for one in parted.given] == [False] * (len(parts) - 1) + [True]
    assert sum(one.weight for one in parted.given) == pytest.approx(len(parts))


def test_for_a_comparison_only_batches_of_so_many_rows_are_taken() -> None:
    parted = Parted([[1, 2, 3], [4, 5, 6, 7, 8], *([9, 10, 11, 12] for _ in range(9))], 2, 4)
    assert list(parted)[:4] == [[4, 5], [6, 7], [9, 10], [11, 12]] and len(list(parted)) == 2 * 4


@pytest.mark.parametrize(("loss", "workers"), [("rows", 0), ("rows", 2), ("targets", 0)])
def test_a_training_in_parts_has_the_weights_of_the_plain_one(loss: str, workers: int, tmp_path: Path) -> None:
    import torch

    words = (str(SCRIPTS / "by_tokens.py"), "--loss", loss, "--workers", str(workers), "--epochs", "1", "--out")
    plain = run(tmp_path, *words, "plain.pt")
    said = run(tmp_path, *words, "parts.pt", parts=4, targets=loss == "targets")
    assert plain.startswith("0 epoch 1/1: 18 batches"), plain
    assert "epoch 1/1: 71 batches" in said and "71 micro-batches, 18 optimizer steps" in said, "one of them has three rows"
    one, other = torch.load(tmp_path / "plain.pt"), torch.load(tmp_path / "parts.pt")
    assert max(float((one[name] - other[name]).norm() / one[name].norm()) for name in one) < 1e-6


def test_a_loader_with_a_batch_size_of_its_own_is_not_parted(tmp_path: Path) -> None:
    said = run(tmp_path, str(SCRIPTS / "no_word_for_accumulation.py"), "--batch-size", "64", parts=4)
    assert said.startswith("1 ") and "no batch sampler of the script's own makes its batches" in said, said


class Loader:
    """Of whatever batches."""


def test_a_pass_in_parts_bears_an_end_and_a_schedule_stands_still_within_a_batch() -> None:
    """A trial ends passes early only where the code that asks for batches knows an end, and steps a schedule while training is stubbed."""
    outside = Outside(2, parts=Parts(2))
    one = outside.begun(Loader(), iter([[1], [2], [3], [4]]))
    assert isinstance(one, PassInParts) and "StopIteration" in PassInParts._draw.__code__.co_names
    outside.paused = True
    assert isinstance(outside.begun(Loader(), iter([])), PassInParts), "training may go on within it"
    next(one)
    assert outside.in_mid_batch
    next(one)
    assert not outside.in_mid_batch, "the second of two"
