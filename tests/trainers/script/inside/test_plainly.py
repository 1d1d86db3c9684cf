"""The throw-away copy of a person's folder in which a crash is proven."""

from __future__ import annotations

from pathlib import Path

from launcher.trainers.script.inside import plainly


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
