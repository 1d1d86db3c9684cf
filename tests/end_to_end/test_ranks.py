"""A script of two processes (torchrun) whose first rung does not fit: launched at a lower one, to its end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import failed_above
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS

TORCHRUN = Path(sys.executable).with_name("torchrun")


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "of_both"), [("--batch-size", 1), ("--global-batch-size", 2)])
def test_two_ranks_are_launched_at_the_rung_that_fits_both_and_need_what_their_trial_showed(
    flag: str, of_both: int, tmp_path: Path
) -> None:
    source = (SCRIPTS / "data_parallel.py").read_text(encoding="utf-8")
    if of_both > 1:
        source = source.replace("--batch-size", flag).replace("args.batch_size", "args.global_batch_size // world")
    (tmp_path / "data_parallel.py").write_text(source, encoding="utf-8")
    asked = (flag, str(320 * of_both), "--epochs", "120", "--every", "40", "--validates", "all")
    command = (str(TORCHRUN), "--nproc_per_node", "2", "data_parallel.py", *asked)
    done = autofit("run", "--json", "device=cpu", "device.memory=120MiB", "--", *command, cwd=tmp_path, timeout=500)
    assert done.returncode == 0, done.stderr
    said = answer(done)
    assert (said["rung"]["micro_batch"], said["accumulation"], said["effective_batch"]) == (160 * of_both, 2, 640)
    assert failed_above(said) == {"out_of_memory"}
    assert f"{flag} {160 * of_both}" in said["command"] and "--accum 2" in said["command"]
    record = json.loads((Path(said["run_dir"]) / "record.json").read_text(encoding="utf-8"))
    assert record["attempts"][-1]["ended"] == "done" and len(record["attempts"]) == 1
    memory = record["memory"]
    assert 0.8 < memory["run_peak_bytes"] / memory["trial_peak_bytes"] < 1.2, "both ranks are added up, in the run as in its trial"
    for rank in (0, 1):
        assert f"rank {rank}: ended" in done.stderr
    assert "the same training: its updates are" in done.stderr
