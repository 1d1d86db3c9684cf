"""Several ranks on pretended cards, with NCCL between them: values as one process has them, and a rank that runs out of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import write_yolo_dataset
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card, played
from tests.helpers.pretended import two as two

SCRIPT = ROOT / "tests" / "data" / "pretended" / "ranks.py"
SHARED = Path("/dev/shm")


def launched(environment: Mapping[str, str], *, ranks: int) -> subprocess.CompletedProcess[str]:
    torchrun = ("-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--standalone", "--local_addr=localhost")
    argv = [sys.executable, *(torchrun if ranks > 1 else ()), str(SCRIPT)]
    return subprocess.run(argv, env=dict(environment), capture_output=True, text=True, timeout=280, check=False)


def said(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    return found


@needs_a_pretended_card
def test_ranks_exchange_what_they_should_and_train_as_one_process_does(two: dict[str, str]) -> None:
    together, alone = said(launched(two, ranks=2)), said(launched(two, ranks=1))
    assert together["losses"] == pytest.approx(alone["losses"], abs=1e-5)
    assert together["collectives"] == {
        "summed": [3.0] * 4, "most": [2.0] * 4, "mean": [1.5] * 4, "gathered": [[1.0] * 4, [2.0] * 4], "scattered": [0.0, 2.0],
        "got": [1.0] * 3, "objects": [{"rank": 0}, {"rank": 1}], "large": [2.0, 2.0],
    }  # fmt: skip
    assert not list(SHARED.glob("autofit-pretended-ranks-*")), "nothing is left behind"


@needs_a_pretended_card
def test_a_rank_that_runs_out_of_memory_names_its_card_and_ends_the_others(two: dict[str, str]) -> None:
    ended = launched({**two, "FILLS": "1"}, ranks=2)
    assert ended.returncode != 0
    assert "CUDA out of memory" in ended.stderr and "GPU 1 has a total capacity" in ended.stderr


SCRIPT_OF_TWO = """\
from ultralytics import YOLO
import os
model = YOLO("yolo11n.yaml")
place = dict(project=os.path.abspath("out"), name="mine")
model.train(data="data/data.yaml", epochs=1, imgsz=96, batch=8, device=[0, 1], workers=0, amp=False, plots=False, **place)
print("after", os.environ.get("WORLD_SIZE"), model.val(plots=False, batch=4, imgsz=96).box.map)
"""


@pytest.mark.slow
@needs_a_pretended_card
def test_a_script_for_two_cards_keeps_one_run_and_goes_on_in_one_process(tmp_path: Path) -> None:
    write_yolo_dataset(tmp_path / "data", train=24, val=12)
    (tmp_path / "train.py").write_text(SCRIPT_OF_TWO, encoding="utf-8")
    (tmp_path / "out" / "mine").mkdir(parents=True)
    words = ("run", "--json", "device.memory=4GiB", "--", sys.executable, "train.py")
    with played(count=2, computed="small") as environment:
        done = autofit(*words, cwd=tmp_path, timeout=900, **{**environment, "YOLO_CONFIG_DIR": str(tmp_path / "settings")})
    assert done.returncode == 0, done.stderr[-3000:]
    record = answer(done)
    assert (record["rung"]["micro_batch"], record["effective_batch"]) == (4, 64)
    kept = Path(record["results"]["save_dir"])
    assert kept.name == "mine-2" and (kept / "weights" / "best.pt").is_file(), "mine was there already"
    assert sorted(path.name for path in kept.parent.iterdir()) == ["mine", "mine-2"] and not any((kept.parent / "mine").iterdir())
    assert done.stderr.count("after None") == 1, "what comes after the training is done once, by one process"
