"""autofit logs: what trainers have said, from a run's folder; followed until the run ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autofit_launcher.cli import main
from autofit_launcher.history import owner
from autofit_launcher.history.run_folder import RunFolder


def launch(status: str = "done") -> RunFolder:
    """A launch that tried rungs 0 and 1 and has trained."""
    folder = RunFolder.create(Path("runs/autofit"), "demo")
    for rung in (0, 1):
        (folder.trial(rung) / "stdout.log").write_text(f"trial of rung {rung}\n")
        (folder.trial(rung) / "stderr.log").write_text(f"warning at rung {rung}\n")
    folder.attempt(1).stdout.write_bytes(b"epoch 1\repoch 2\n\xff no text\n")
    folder.attempt(1).stderr.write_text("a warning\n")
    with owner.owning(folder.path):
        tell(folder, status, attempts=1)
    return folder


def tell(folder: RunFolder, status: str, *, attempts: int) -> None:
    trials = [{"rung_index": rung, "verdict": "fits" if rung else "out_of_memory"} for rung in (0, 1)]
    record = {"status": status, "recipe": "demo", "trials": trials, "attempts": [{"rung_index": 1}] * attempts}
    folder.replace_json(folder.record, record)


def test_both_streams_of_the_newest_run_are_shown_byte_for_byte_under_their_names(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    launch()
    assert main.run(["logs"]) == 0
    assert capfdbinary.readouterr().out == (b"==> run: stdout <==\nepoch 1\repoch 2\n\xff no text\n\n==> run: stderr <==\na warning\n")


def test_a_trial_s_are_shown_by_its_number(capfd: pytest.CaptureFixture[str]) -> None:
    name = launch().path.name
    for words in (["--trial", "2"], [name, "--trial", "2"], ["--trial=2", name]):
        assert main.run(["logs", *words]) == 0
        out = capfd.readouterr().out
        assert out.startswith("==> trial 2 (rung 1): stdout <==\ntrial of rung 1\n") and "warning at rung 1" in out
    assert main.run(["logs", "--trial", "3"]) == 1
    assert "there is no trial 3. It has made 2;" in capfd.readouterr().err


def test_of_a_run_that_was_started_again_the_newest_attempt_is_shown_and_json_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    folder = launch()
    tell(folder, "done", attempts=2)
    (folder.path / "run.stdout.2.log").write_text("epoch 3\n")
    assert main.run(["logs", "--follow"]) == 0, "a run that is over is not followed"
    assert capfd.readouterr().out == "==> run (attempt 2): stdout <==\nepoch 3\n"
    assert main.run(["logs", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["stdout"] == str(folder.attempt(2).stdout) and "epoch 3" in err
