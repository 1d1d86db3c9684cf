"""Commands that start a process for each of several cards themselves, on pretended cards with NCCL's stand-in between them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.pretended import catalogue
from tests.conftest import failed_above
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS
from tests.helpers.pretended import needs_a_pretended_card, played

pytestmark = [pytest.mark.slow, needs_a_pretended_card]
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
MIB = 2**20


def launched(folder: Path, *command: str, words: tuple[str, ...] = ("device.memory=4GiB",)) -> Any:
    """``autofit run`` of the command, ended."""
    shutil.copy(SCRIPTS / "on_cards.py", folder)
    with played(count=2) as environment:
        return autofit("run", "--json", *words, "--", *command, cwd=folder, timeout=600, **{**environment, "OMP_NUM_THREADS": "1"})


def by_torchrun(folder: Path, *words: str, **how: Any) -> Any:
    return launched(folder, TORCHRUN, "--nproc_per_node", "2", "on_cards.py", *words, **how)


def reports(done: subprocess.CompletedProcess[str], trial: int = 0) -> list[dict[str, Any]]:
    """Of each rank of a trial."""
    folder = Path(answer(done)["run_dir"]) / "trials" / f"{trial:03}" / "ranks"
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/report.json"))]


def test_each_process_has_a_card_and_a_cap_of_its_own_and_the_run_stays_within_its_trial(tmp_path: Path) -> None:
    done = by_torchrun(tmp_path, "--width", "8192", words=("device.memory=900MiB",))
    assert done.returncode == 0, done.stderr[-3000:]
    record = answer(done)
    assert failed_above(record) == {"out_of_memory"}
    assert record["effective_batch"] == 128 and record["rung"]["micro_batch"] * record["accumulation"] == 64
    seen = reports(done, record["rung_index"])
    told = [one["uuid"] for one in record["device"]["ranks"]]
    assert [one["facts"]["card"] for one in seen] == told and len(set(told)) == 2
    assert all(one["cap_bytes"] == record["device"]["cap_bytes"] and one["phase"] == "done" for one in seen)
    assert 0.9 < record["memory"]["run_peak_bytes"] / record["memory"]["trial_peak_bytes"] < 1.03
    assert "CUDA_VISIBLE_DEVICES=0,1" in record["command"] and "torch.distributed.run" not in record["command"]
    for rank in (0, 1):
        assert f"rank {rank}: ended" in done.stderr


def test_the_process_that_runs_out_is_named(tmp_path: Path) -> None:
    done = by_torchrun(tmp_path, "--greedy", words=("device.memory=2GiB", "ladder.wheels.micro_batch.floor=64"))
    (tried,) = answer(done)["trials"]
    assert tried["verdict"] == "out_of_memory" and tried["why"].startswith("rank 1 of 2: out of memory in phase train")


def test_what_other_processes_leave_on_a_card_counts_there(tmp_path: Path) -> None:
    done = by_torchrun(tmp_path, "--stray", "--finds", "named")
    first, second = reports(done)
    context = catalogue.named(["a100_40gb"])[0].context_mib * MIB
    more = max(use["outside_bytes"] for use in first["uses"]) - max(use["outside_bytes"] for use in second["uses"])
    assert context + 64 * MIB <= more < context + 96 * MIB, "the second's context and tensor"
    memory = answer(done)["memory"]
    assert 0.97 < memory["run_peak_bytes"] / memory["trial_peak_bytes"] < 1.03


@pytest.mark.parametrize("finds", ["set", "late"])
def test_processes_that_a_script_starts_itself_are_seen_and_counted(tmp_path: Path, finds: str) -> None:
    words = ("device=0,1", "device.memory=4GiB")
    done = launched(tmp_path, sys.executable, "on_cards.py", "--spawn", "2", "--finds", finds, words=words)
    assert done.returncode == 0, done.stderr[-3000:]
    record = answer(done)
    assert record["effective_batch"] == 128 and "ran world_size 2, and 1 had been read" in done.stderr
    assert len({one["facts"]["card"] for one in reports(done)}) == 2


def test_one_process_on_two_cards_proves_nothing(tmp_path: Path) -> None:
    done = launched(tmp_path, sys.executable, "on_cards.py", "--both", words=("device=0,1", "device.memory=4GiB"))
    assert answer(done)["status"] != "done"
    assert "one process used several cards" in answer(done)["trials"][0]["why"]
