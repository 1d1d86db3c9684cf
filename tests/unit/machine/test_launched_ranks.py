"""How a command's ranks are started follows from its devices alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher.machine.ranks import launched

PY = "/env/bin/python"
RUN = "-P -m torch.distributed.run --nproc_per_node"


@pytest.mark.parametrize(("command", "devices", "words"), [
    (f"{PY} train.py --lr 1", 1, f"{PY} train.py --lr 1"), ("yolo train", 1, "yolo train"),
    (f"{PY} train.py --lr 1", 2, f"{PY} {RUN} 2 --local_addr=localhost train.py --lr 1"),
    (f"{PY} train.py", 4, f"{PY} {RUN} 4 --local_addr=localhost train.py"),
    (f"{PY} -m pkg.train -x", 2, f"{PY} {RUN} 2 --local_addr=localhost -m pkg.train -x"),
    (f"{PY} -P entry.py a", 2, f"{PY} {RUN} 2 --local_addr=localhost --no-python {PY} -P entry.py a"),
    ("yolo train", 2, f"{sys.executable} {RUN} 2 --local_addr=localhost --no-python yolo train"),
])  # fmt: skip
def test_words(command: str, devices: int, words: str) -> None:
    assert launched(command.split(), devices=devices) == tuple(words.split())


def test_torchrun_takes_these_words(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the working folder')\n", encoding="utf-8")
    told = tmp_path / "sub" / "tell.py"
    told.parent.mkdir()
    told.write_text(
        "import os, sys\nopen(os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'] + ' '.join(sys.argv[1:]))\n", encoding="utf-8"
    )
    subprocess.run(launched((sys.executable, str(told), " a"), devices=2), cwd=tmp_path, check=True, timeout=120)
    assert [(tmp_path / rank).read_text(encoding="utf-8") for rank in ("0", "1")] == ["2 a", "2 a"]
