"""How many processes a launcher starts, and on which cards, by its own words and accelerate's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofit_launcher.trainers.script import recognise
from autofit_launcher.trainers.script.launchers import LauncherWords

CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\ngpu_ids: 2,3\nnum_machines: 1\nnum_processes: 2\n"


def started(line: str) -> LauncherWords:
    return recognise.launched(line.split())


@pytest.mark.parametrize(
    ("line", "here", "machines"),
    [
        ("torchrun --nproc_per_node=2 train.py", 2, 1),
        ("torchrun --nproc-per-node 4 --nnodes 2 train.py --nproc_per_node 7", 4, 2),
        ("deepspeed --num_gpus=4 --num_nodes=2 train.py", 4, 2),
        ("torchrun train.py", 1, 1),
        ("accelerate launch --multi_gpu --num-processes 2 train.py", 2, 1),
        ("accelerate launch --use_fsdp --num_processes 8 --num_machines 2 train.py", 4, 2),
        ("accelerate launch --cpu --num_processes 2 train.py", 1, 1),  # there it starts one
        ("python train.py --nproc_per_node 2", 1, 1),
    ],
)
def test_a_launchers_own_words_count(line: str, here: int, machines: int) -> None:
    found = started(line)
    assert (found.here, found.machines, found.processes) == (here, machines, here * machines)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """accelerate's own file, as ``accelerate config`` writes it."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    path = tmp_path / "accelerate" / "default_config.yaml"
    path.parent.mkdir()
    path.write_text(CONFIG, encoding="utf-8")
    return path


def test_accelerates_own_file_says_how_many_and_which(settings: Path) -> None:
    found = started("accelerate launch train.py")
    assert (found.here, found.cards) == (2, (2, 3))


def test_a_file_for_one_process_or_a_cpu_starts_one(settings: Path) -> None:
    for kind in ("'NO'", "MULTI_CPU"):
        settings.write_text(CONFIG.replace("MULTI_GPU", kind), encoding="utf-8")
        assert started("accelerate launch --num_processes 2 train.py") == LauncherWords()
