"""autofit runs --prune: what goes is listed and asked for; what is at work, or holds a checkpoint, stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autofit_launcher.cli import main
from autofit_launcher.cli.say import Terminal
from autofit_launcher.history import owner
from autofit_launcher.history.run_folder import RunFolder
from tests.helpers.run_folders import ended, tell

ROOT = Path("runs/autofit")


def answers(monkeypatch: pytest.MonkeyPatch, answer: str | None) -> None:
    monkeypatch.setattr(Terminal, "asked", lambda self, question: answer)


def with_weights(path: Path) -> Path:
    (path / "run" / "weights").mkdir(parents=True)
    (path / "run" / "weights" / "best.pt").write_bytes(b"x" * 1000)
    return path


def test_only_what_holds_no_checkpoint_goes_and_only_when_it_is_agreed_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, trained = ended(ROOT, "failed"), with_weights(ended(ROOT, "done"))
    answers(monkeypatch, "n\n")
    assert main.run(["runs", "--prune"]) == 0
    out = capsys.readouterr().out
    assert str(old) in out and str(trained) not in out and "kept: 1 run with checkpoints" in out and "nothing was removed" in out
    assert old.is_dir()
    answers(monkeypatch, "y\n")
    assert main.run(["runs", "--prune"]) == 0
    assert not old.exists() and trained.is_dir()
    assert main.run(["runs", "--prune", "--checkpoints"]) == 0
    assert not trained.exists()


def test_a_checkpoint_that_the_record_names_counts_whatever_it_is_called() -> None:
    path = ended(ROOT, "failed", attempts=[{"left": [{"path": "checkpoint-3"}]}])
    assert main.run(["runs", "--prune", "--yes"]) == 0
    assert path.is_dir()


def test_a_run_at_work_is_never_touched(capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder.create(ROOT, "demo")
    with owner.owning(folder.path):
        tell(folder, status="running")
        assert main.run(["runs", "--prune", "--checkpoints", "--yes"]) == 0
        assert "left alone: 1 run" in capsys.readouterr().out and folder.record.is_file()


def test_a_folder_that_is_only_linked_to_is_left_alone(tmp_path: Path) -> None:
    there = ended(tmp_path / "elsewhere", "done")
    ROOT.mkdir(parents=True)
    (ROOT / "linked").symlink_to(there)
    assert main.run(["runs", "--prune", "--checkpoints", "--yes"]) == 0
    assert (there / "record.json").is_file() and (ROOT / "linked").is_symlink()


@pytest.mark.parametrize("link", ["runs/autofit/latest", "runs/older", "again"], ids=["to a run", "to the runs' folder", "to runs/ itself"])
def test_a_run_that_several_links_lead_to_is_one_run(link: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = ended(ROOT, "failed")
    Path(link).symlink_to({"runs/autofit/latest": path.resolve(), "runs/older": ROOT.resolve(), "again": ROOT.parent.resolve()}[link])
    root = link if link == "again" else "runs"
    assert main.run(["runs", root, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
    assert main.run(["runs", root, "--prune", "--yes"]) == 0
    assert "removed: 1 run" in capsys.readouterr().out and not path.exists()


def test_without_a_terminal_it_must_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    path = ended(ROOT, "failed")
    assert main.run(["runs", "--prune"]) == 1
    assert "there is no terminal to ask on. --yes removes without asking." in capsys.readouterr().err and path.is_dir()
    assert main.run(["runs", "--prune", "--yes", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["removed"] == [str(path)] and said["bytes"] > 0 and not path.exists()
    assert main.run(["runs", "--yes"]) == 1 and "--yes goes with --prune" in capsys.readouterr().err
