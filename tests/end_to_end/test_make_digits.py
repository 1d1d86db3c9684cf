"""examples/digits/make_digits.py touches no folder of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.hf_data import maker

make_digits = maker("digits")


def test_a_folder_of_someone_else_is_never_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    assert make_digits.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == (f"make_digits: {tmp_path} holds something that was not made here; name another place\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert make_digits.main([str(tmp_path / "link")]) == 1
    assert capsys.readouterr().err.endswith("link is not a folder; name another place\n")
