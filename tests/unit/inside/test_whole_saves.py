"""A checkpoint that is written over the one before: killed, failed or out of room in between, one of them is whole."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autofit_launcher.inside import whole_saves

KILLED = """
import os, signal, sys, torch
from autofit_launcher.inside import whole_saves

if sys.argv[2] == "whole":
    whole_saves.install()

class Ends:
    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGKILL)

torch.save({"weights": torch.ones(200_000), "then": [Ends()]}, sys.argv[1])
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.save({"epoch": 1}, tmp_path / "last.pt")
    return tmp_path / "last.pt"


@pytest.mark.parametrize("how", ["whole", "plain"])
def test_a_run_killed_while_it_saves_has_the_checkpoint_before(checkpoint: Path, how: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(checkpoint), how], env=env, check=False)
    assert ended.returncode == -signal.SIGKILL
    if how == "plain":  # what it is for
        with pytest.raises((RuntimeError, EOFError)):
            torch.load(checkpoint)
        return
    assert torch.load(checkpoint) == {"epoch": 1}
    whole_saves.whole(torch.save)({"epoch": 2}, checkpoint)
    assert os.listdir(checkpoint.parent) == ["last.pt"], "what the killed one left is gone"


def test_a_link_still_leads_to_the_file_which_is_what_torch_would_have_written(checkpoint: Path) -> None:
    link = checkpoint.with_name("newest.pt")
    link.symlink_to("last.pt")
    checkpoint.chmod(0o640)
    whole_saves.whole(torch.save)({"epoch": 2}, f=str(link))
    got = checkpoint.read_bytes()
    torch.save({"epoch": 2}, checkpoint)
    assert link.is_symlink() and checkpoint.read_bytes() == got and stat.S_IMODE(checkpoint.stat().st_mode) == 0o640


def test_a_save_that_fails_leaves_the_one_before_or_none(checkpoint: Path) -> None:
    first = checkpoint.with_name("first.pt")
    for path in (first, checkpoint):
        with pytest.raises(ZeroDivisionError):
            whole_saves.replaced(path, lambda place: Path(place).write_bytes(b"torn") / 0)
    assert os.listdir(checkpoint.parent) == ["last.pt"] and torch.load(checkpoint) == {"epoch": 1}
    whole_saves.whole(torch.save)({"epoch": 1}, first)
    assert torch.load(first) == {"epoch": 1} and first.stat().st_mode == checkpoint.stat().st_mode


def test_where_there_is_no_room_for_both_it_is_written_over_the_one_before(checkpoint: Path) -> None:
    tried: list[Any] = []

    def write(place: Any) -> None:
        tried.append(place)
        if len(tried) == 1:
            raise RuntimeError("unexpected pos 64 vs 0")  # as torch says it of a full disk

    whole_saves.replaced(checkpoint, write)
    assert tried[1] == checkpoint and os.listdir(checkpoint.parent) == ["last.pt"]


def test_checkpoints_that_are_written_by_their_paths_are_replaced_in_one_move(checkpoint: Path, tmp_path: Path) -> None:
    write, inode = whole_saves.whole_bytes(Path.write_bytes), checkpoint.stat().st_ino
    assert write(checkpoint, b"new") == 3 and checkpoint.read_bytes() == b"new" and checkpoint.stat().st_ino != inode
    text = tmp_path / "log.txt"
    text.write_bytes(b"one")
    inode = text.stat().st_ino
    assert write(text, b"two") == 3 and text.stat().st_ino == inode


def test_a_folder_that_is_killed_between_two_files_is_still_one_save(tmp_path: Path) -> None:
    """accelerate's: new weights beside an old optimizer load without a word."""

    class Killed(BaseException):
        pass

    def save_state(self: Any, output_dir: str) -> None:
        for name, text in (("weights", self.step), ("optimizer", self.step)):
            Path(output_dir).mkdir(exist_ok=True)
            Path(output_dir, name).write_text(text)
            if self.dies:
                raise Killed

    save, place = whole_saves.whole_folder(save_state), tmp_path / "last"
    one = SimpleNamespace(num_processes=1, project_configuration=SimpleNamespace(automatic_checkpoint_naming=False), step="1", dies=False)
    save(one, str(place))
    (place / "events.log").write_text("theirs")
    one.step, one.dies = "2", True
    with pytest.raises(Killed):
        save(one, str(place))
    assert {path.name: path.read_text() for path in place.iterdir()} == {"weights": "1", "optimizer": "1", "events.log": "theirs"}
    one.dies = False
    assert save(one, str(place)) == place
    assert {path.name: path.read_text() for path in place.iterdir()} == {"weights": "2", "optimizer": "2", "events.log": "theirs"}
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
