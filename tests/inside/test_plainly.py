"""The throw-away copy of a person's folder in which a crash is proven."""

from __future__ import annotations

from pathlib import Path

from launcher.inside import plainly


def test_the_copy_of_a_folder_that_holds_the_runs_holds_everything_but_itself(tmp_path: Path) -> None:
    scratch = tmp_path / "runs" / "trials" / "000" / "scratch"
    for path in (tmp_path / "train.py", tmp_path / "runs" / "best.pt", tmp_path / "scratch" / "mine", scratch / "cut" / "records"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    copy = plainly._copied(tmp_path, scratch / "plain" / "folder", without=scratch)
    assert copy is not None
    held = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert held == {"train.py", "runs/best.pt", "scratch/mine"}


def test_a_folder_that_is_too_large_is_not_copied_and_the_trials_own_files_do_not_count(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with (scratch / "large").open("wb") as file:
        file.truncate(plainly.LARGEST_FOLDER + 1)
    assert plainly._copied(tmp_path, scratch / "plain" / "folder", without=scratch) is not None
    (scratch / "large").rename(tmp_path / "large")
    assert plainly._copied(tmp_path, scratch / "again", without=scratch) is None


def test_a_virtual_environment_is_linked_however_large_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "pyvenv.cfg").touch()
    with (folder / ".venv" / "torch").open("wb") as file:
        file.truncate(plainly.LARGEST_FOLDER + 1)
    copy = plainly._copied(folder, tmp_path / "copy", without=tmp_path / "scratch")
    assert copy is not None
    assert (copy / ".venv").readlink() == folder / ".venv"


def test_words_that_lead_out_of_the_folder_lead_there_from_its_copy(tmp_path: Path) -> None:
    own, copy = tmp_path / "project", tmp_path / "copy"
    for path in (tmp_path / "venv" / "bin", own / "venv" / "bin"):
        path.mkdir(parents=True)
    words = ["../venv/bin", "venv/bin", str(own / "venv"), "../not/there", "--lr=1/2", "python"]
    assert [plainly._in_copy(word, own, copy) for word in words] == [
        str(tmp_path / "venv" / "bin"), "venv/bin", str(copy / "venv"), "../not/there", "--lr=1/2", "python"
    ]  # fmt: skip
