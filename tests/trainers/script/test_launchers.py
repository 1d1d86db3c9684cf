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
        ("python -m torch.distributed.run --nproc_per_node 3 --nnodes=1:2 train.py", 3, 1),
        ("/opt/env/bin/torchrun --nproc_per_node 2 -m package.train", 2, 1),
        ("deepspeed --num_gpus 2 train.py --deepspeed_config ds.json", 2, 1),
        ("deepspeed --num_gpus=4 --num_nodes=2 train.py", 4, 2),
        ("torchrun train.py", 1, 1),
        ("accelerate launch --multi_gpu --num-processes 2 train.py", 2, 1),
        ("accelerate launch --use_fsdp --num_processes 8 --num_machines 2 train.py", 4, 2),
        ("python -m accelerate.commands.launch --multi_gpu --num_processes=2 train.py --num_processes 9", 2, 1),
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


def test_words_of_the_command_come_before_the_file(settings: Path) -> None:
    found = started("accelerate launch --num_processes 4 --gpu_ids 0,1,4,5 train.py")
    assert (found.here, found.cards) == (4, (0, 1, 4, 5))
    assert started("accelerate launch --cpu train.py") == LauncherWords(), "accelerate doesn't read it then"


def test_a_file_that_is_named_is_the_one_that_counts(settings: Path, tmp_path: Path) -> None:
    named = tmp_path / "four.yaml"
    named.write_text(CONFIG.replace("num_processes: 2", "num_processes: 4").replace("2,3", "all"), encoding="utf-8")
    found = started(f"accelerate launch --config_file {named} train.py")
    assert (found.here, found.cards) == (4, None)
    assert started(f"accelerate launch --config_file {tmp_path / 'gone.yaml'} train.py") == LauncherWords(), "accelerate says so itself"


def test_a_file_for_one_process_or_a_cpu_starts_one(settings: Path) -> None:
    for kind in ("'NO'", "MULTI_CPU"):
        settings.write_text(CONFIG.replace("MULTI_GPU", kind), encoding="utf-8")
        assert started("accelerate launch --num_processes 2 train.py") == LauncherWords()


def test_as_many_as_there_are_without_a_card_is_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    monkeypatch.setattr("autofit_launcher.machine.devices.chosen_kind", lambda kind: "cpu")
    assert started("torchrun --nproc_per_node=auto train.py").here == 6


def test_a_batch_of_all_processes_together_is_the_scripts_to_divide(tmp_path: Path) -> None:
    """Its trial sees by how many (``DIVIDED_BY``)."""
    source = "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--global-batch-size', type=int, default=256)\n"
    Path("train.py").write_text(source)
    found = recognise.understand(["torchrun", "--nproc_per_node=2", "train.py"])
    assert found.ask["micro_batch"] == 256 and found.args["spelled"]["micro_batch"] == "--global-batch-size"
