"""autofit runs (--prune keeps checkpoints), watch and stop: from a run's folder alone, whoever runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.cli import main
from autofit_launcher.cli import runs as verbs
from autofit_launcher.errors import BadInput, Interrupted
from autofit_launcher.history import owner, runs
from autofit_launcher.history.run_folder import RunFolder
from tests.helpers.children import child
from tests.helpers.run_folders import MIB, ended, tell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LAUNCHER = """
import signal, sys, time
from pathlib import Path
from autofit_launcher.history import owner
from autofit_launcher.history.run_folder import RunFolder
from tests.helpers.run_folders import tell
folder = RunFolder(Path(sys.argv[1]))
stopped = []
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[3:] else lambda number, frame: stopped.append(number))
with owner.owning(folder.path):
    tell(folder, status="running")
    print(flush=True)
    until = time.monotonic() + float(sys.argv[2])
    while not stopped and time.monotonic() < until:
        time.sleep(0.02)
    tell(folder, status="interrupted" if stopped else "done")
"""


@contextmanager
def running(root: Path, seconds: float = 3600.0, *, deaf: bool = False) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A launch that another process is at; ``deaf``: SIGTERM does not end it."""
    folder = RunFolder.create(root, "demo")
    with child(LAUNCHER, str(folder.path), str(seconds), *(["deaf"] if deaf else [])) as other:
        yield folder.path, other


def without_an_owner(path: Path) -> Path:
    (path / owner.NAME).unlink()
    return path


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_what_is_waited_for_and_what_a_run_does_otherwise_is_told_while_it_is_so(tmp_path: Path) -> None:
    with running(tmp_path) as (path, _):
        folder = RunFolder(path)
        tell(folder, status="running", attempts=[{"remarks": ["halves its own batch"]}])
        assert "the run halves its own batch" in verbs.line(runs.run_in(path))
        tell(folder, status="running", waits_for="python (pid 7)")
        assert "waiting: the card is taken: python (pid 7)" in verbs.line(runs.run_in(path))


def test_states_of_runs_that_are_over(tmp_path: Path) -> None:
    assert runs.run_in(ended(tmp_path, "failed")).state == "failed"
    assert runs.run_in(ended(tmp_path, "running")).state == "stopped", "its process ended without a last word"
    assert runs.run_in(without_an_owner(ended(tmp_path, "running"))).state == "unknown"
    assert runs.run_in(without_an_owner(ended(tmp_path, "done"))).state == "done", "an older record that says its end is believed"
    fitted = RunFolder.create(tmp_path, "demo")
    with owner.owning(fitted.path):
        tell(fitted, status="trying")
        assert runs.run_in(fitted.path).state == "trying" and runs.run_in(fitted.path).phase == "start"
        (fitted.trial(1) / "report.json").write_text('{"phase": "validate"}')
        assert runs.run_in(fitted.path).phase == "validate"
        tell(fitted, status="done", attempts=[])
    assert runs.run_in(fitted.path).state == "fitted"


def test_what_is_no_run_is_refused_in_words(tmp_path: Path) -> None:
    path = ended(Path("runs/autofit"), "done")
    assert runs.find(path.name) == runs.find(str(path)) == path == runs.newest()
    (tmp_path / "notes.txt").write_text("")
    Path("runs/autofit/other").mkdir()
    for said in ("nowhere", "notes.txt", "other", str(tmp_path), "runs/autofit"):
        with pytest.raises(BadInput, match="it is no run of autofit's"):
            runs.find(said)
    with pytest.raises(BadInput, match=f"Did you mean '{path.name}'"):
        runs.find(path.name[:-1] + "x")


def test_of_a_long_series_the_end_is_enough_and_a_line_that_is_not_whole_yet_waits(tmp_path: Path) -> None:
    path = ended(tmp_path, "failed")
    with (path / "series.jsonl").open("w") as file:
        for at in range(5000):
            file.write(json.dumps({"at": float(at), "peak_bytes": 5, "highest_bytes": 700 * MIB, "step": at}) + "\n")
        file.write('{"at": 6000.0, "pea')
    run = runs.run_in(path)
    assert run.last["step"] == 4999 and len(run.lines) < 2500 and run.peak_bytes == 700 * MIB


def test_runs_lists_the_newest_first_and_passes_over_what_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ended(tmp_path, "done"), ended(tmp_path, "failed")
    (tmp_path / "notes").mkdir()
    (tmp_path / "torn").mkdir()
    assert main.run(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.index(second.name) < out.index(first.name) or first.name in second.name
    assert "failed" in out and "epoch 2/6  step 10/30  22%" in out and "410 MiB" in out and "1: micro_batch 4, image_size 160" in out
    assert main.run(["runs", "--json", str(tmp_path)]) == 0
    assert [run["state"] for run in told(capsys)["runs"]] == ["failed", "done"]


def test_watch_without_a_terminal_says_lines_until_the_run_ends_and_exits_as_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "LOOK_S", 0.05)
    with running(tmp_path, seconds=1.0) as (path, _):
        assert main.run(["watch", str(path)]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    for part in ("running", "rung 1", "epoch 2/6  step 10/30  22%", "loss -0.5", "300 MiB of 900 MiB (peak 410 MiB)"):
        assert part in first, first
    assert last.strip() == str(path)
    path = ended(tmp_path, "failed")
    assert main.run(["watch", str(path)]) == 5
    out = capsys.readouterr().out
    assert "failed" in out and f"`autofit resume {path}` goes on with it" in out


@pytest.mark.parametrize("verb", ["watch", "stop"])
def test_no_resume_is_promised_where_the_record_is_torn(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    path = ended(tmp_path, "running")
    (path / "recipe.yaml").write_text("{}")
    (path / "record.json").write_bytes(b'{"format": 2, "sta')
    main.run([verb, str(path)])
    said = " ".join("".join(capsys.readouterr()).split())
    assert "goes on with" not in said, said
    assert main.run(["resume", str(path)]) == 1
    said = " ".join("".join(capsys.readouterr()).split())
    assert "torn" in said and "command.sh" in said


def test_a_signal_ends_the_watching_and_says_nothing_untrue_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended_by_a_scheduler(seconds: float) -> None:
        raise Interrupted("SIGTERM")

    with running(tmp_path, deaf=True) as (path, child):  # else it may have ended, as it is asked to, before anybody waits for that
        monkeypatch.setattr(verbs.time, "sleep", ended_by_a_scheduler)
        for verb, status in (("watch", 75), ("stop", 75)):
            assert main.run([verb, str(path)]) == status
            said = capsys.readouterr()
            assert "no process is left behind" not in said.out + said.err
            if verb == "watch":
                assert "the run goes on" in said.out and child.poll() is None


def test_stop_ends_the_run_by_its_own_process_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path) as (path, child):
        assert main.run(["stop", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"asked process {child.pid} to stop" in out and "interrupted" in out and f"`autofit resume {path}`" in out
    assert main.run(["stop", str(path)]) == 0 and "nothing to stop" in capsys.readouterr().out


def test_stop_needs_a_run_and_leaves_another_machines_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["stop"]) == 1 and "no run is named" in capsys.readouterr().err
    path = ended(tmp_path, "running")
    file = path / owner.NAME
    file.write_text(json.dumps({**json.loads(file.read_text()), "host": "node7", "boot": "another", "ended": ""}) + "\n")
    assert runs.run_in(path).state == "elsewhere"
    assert main.run(["stop", str(path)]) == 1 and "See to it on node7" in capsys.readouterr().err


def test_resume_without_a_name_takes_the_newest_run_and_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["resume"]) == 1
    assert "there is no run here" in capsys.readouterr().err
    ended(tmp_path / "runs/autofit", "failed")
    newest = ended(tmp_path / "runs/autofit", "failed")
    os.utime(newest / "record.json", (time.time() + 60, time.time() + 60))
    older = next(path for path in newest.parent.iterdir() if path != newest)
    (older / "report.html").write_text("looked at later", encoding="utf-8")
    os.utime(older, (time.time() + 99, time.time() + 99))
    assert main.run(["resume", "recover.restarts=1"]) == 1, "its recipe is not there"
    assert f"the newest run: {newest}" in capsys.readouterr().out
    assert main.run(["resume", ""]) == 1 and "no run is named" in capsys.readouterr().err


RUNS = Path("runs/autofit")


def test_only_what_holds_no_checkpoint_goes_and_only_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    old, trained = ended(RUNS, "failed"), ended(RUNS, "done")
    (trained / "run" / "weights").mkdir(parents=True)
    (trained / "run" / "weights" / "best.pt").write_bytes(b"x" * 1000)
    assert main.run(["runs", "--prune"]) == 0
    out = capsys.readouterr().out
    assert str(old) in out and str(trained) not in out and "removes those, too): 1" in out and "--yes removes" in out and old.is_dir()
    assert main.run(["runs", "--prune", "--yes", "--json"]) == 0
    said = told(capsys)
    assert said["removed"] == [str(old)] and said["bytes"] > 0 and not old.exists() and trained.is_dir()
    assert main.run(["runs", "--prune", "--checkpoints", "--yes"]) == 0
    assert not trained.exists()


def test_of_launches_that_nobody_can_read_of_only_one_that_never_began_goes() -> None:
    begun, never = ended(RUNS, "failed"), ended(RUNS, "failed")  # a job that was taken back while it waited
    named = ended(RUNS, "failed", attempts=[{"left": [{"path": "checkpoint-3"}]}])
    (begun / "record.json").write_text("{")
    (never / "record.json").rename(never / "recipe.yaml")
    assert main.run(["runs", "--prune", "--yes"]) == 0
    assert begun.is_dir() and not never.exists() and named.is_dir()


def test_a_run_at_work_and_a_folder_that_is_only_linked_to_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, folder = ended(tmp_path / "elsewhere", "done"), RunFolder.create(RUNS, "demo")
    (RUNS / "linked").symlink_to(there)
    with owner.owning(folder.path):
        tell(folder, status="running")
        assert main.run(["runs", "--prune", "--checkpoints", "--yes"]) == 0
        assert "can say that it is over: 2" in capsys.readouterr().out and folder.record.is_file()
    assert (there / "record.json").is_file() and (RUNS / "linked").is_symlink()


@pytest.mark.parametrize("link", ["runs/autofit/latest", "runs/older", "again"])
def test_a_run_that_several_links_lead_to_is_one_run(link: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = ended(RUNS, "failed")
    Path(link).symlink_to({"runs/autofit/latest": path.resolve(), "runs/older": RUNS.resolve(), "again": RUNS.parent.resolve()}[link])
    root = link if link == "again" else "runs"
    assert main.run(["runs", root, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1
    assert main.run(["runs", root, "--prune", "--yes"]) == 0
    assert "removed: 1" in capsys.readouterr().out and not path.exists()
