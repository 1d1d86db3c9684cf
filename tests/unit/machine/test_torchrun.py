"""How a command's ranks are started follows from devices and machines alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.machine.torchrun import Nodes, launched

PY = "/env/bin/python"
TWO = Nodes(hosts=("n1", "n2"), job="17", port=29400)
ONE = Nodes(hosts=("n1",), job="17", port=29400)
RUN = "-P -m torch.distributed.run --nproc_per_node"
SRUN = "srun --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1"
MEET = "--nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=n1:29400 --rdzv_id=17"


@pytest.mark.parametrize(
    ("command", "devices", "nodes", "words"),
    [
        (f"{PY} train.py --lr 1", 1, None, f"{PY} train.py --lr 1"),
        ("yolo train", 1, ONE, "yolo train"),
        (f"{PY} train.py --lr 1", 2, None, f"{PY} {RUN} 2 --local_addr=localhost train.py --lr 1"),
        (f"{PY} train.py", 4, ONE, f"{PY} {RUN} 4 --local_addr=localhost train.py"),
        (f"{PY} -m pkg.train -x", 2, None, f"{PY} {RUN} 2 --local_addr=localhost -m pkg.train -x"),
        (f"{PY} -P entry.py a", 2, None, f"{PY} {RUN} 2 --local_addr=localhost --no-python {PY} -P entry.py a"),
        ("yolo train", 2, None, f"{sys.executable} {RUN} 2 --local_addr=localhost --no-python yolo train"),
        (f"{PY} train.py", 1, TWO, f"{SRUN} {PY} {RUN} 1 {MEET} train.py"),
        (f"{PY} train.py", 4, TWO, f"{SRUN} {PY} {RUN} 4 {MEET} train.py"),
    ],
)
def test_words(command: str, devices: int, nodes: Nodes | None, words: str) -> None:
    assert launched(command.split(), devices=devices, nodes=nodes) == tuple(words.split())


def test_torchrun_takes_these_words(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the working folder')\n", encoding="utf-8")
    told = tmp_path / "sub" / "tell.py"
    told.parent.mkdir()
    told.write_text(
        "import os, sys\nopen(os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'] + ' '.join(sys.argv[1:]))\n", encoding="utf-8"
    )
    subprocess.run(launched((sys.executable, str(told), " a"), devices=2), cwd=tmp_path, check=True, timeout=120)
    assert [(tmp_path / rank).read_text(encoding="utf-8") for rank in ("0", "1")] == ["2 a", "2 a"]
