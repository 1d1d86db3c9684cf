"""What an installed program or module declares is read in its environment's packages; nothing is run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from launcher.trainers.script import programs, recognise

MAIN = "from lib.params import parse\n\ndef main():\n    args = parse()\n"
PARAMS = "def parse():\n    parser.add_argument('--batch-size', default=64)\n    parser.add_argument('--accum-freq', default=2)\n"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with a package ``lib`` and its program ``lib-train``, and a folder beside it that a ``.pth`` file names."""
    monkeypatch.chdir(tmp_path)
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    files = {
        packages / "lib" / "train" / "main.py": MAIN,
        packages / "lib" / "params.py": PARAMS,
        packages / "mine.pth": f"{tmp_path / 'beside'}\nimport sys\n",
        tmp_path / "beside" / "near" / "__main__.py": PARAMS,
        tmp_path / "env" / "bin" / "lib-train": f"#!{sys.executable}\nimport sys\nfrom lib.train.main import main\nsys.exit(main())\n",
        tmp_path / "env" / "bin" / "tune": "#!/bin/sh\n",
        tmp_path / "env" / "bin" / "python": "",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in (tmp_path / "env" / "bin").iterdir():
        path.chmod(0o755)
    return tmp_path / "env" / "bin"


@pytest.mark.parametrize("words", [["lib-train"], ["python", "-m", "lib.train.main"], ["python", "-m", "near"]])
def test_flags_of_an_installed_program_are_found(words: list[str], environment: Path) -> None:
    understood = recognise.understand([str(environment / words[0]), *words[1:]])
    assert {one.wheel: (one.value, one.spelling) for one in understood.beliefs} == {
        "micro_batch": (64, "--batch-size"), "accumulation": (2, "--accum-freq"),
    }  # fmt: skip


def test_a_program_of_another_kind_and_a_module_that_is_not_there_are_nothing(environment: Path) -> None:
    assert programs.installed([str(environment / "tune"), "run"]) is None
    assert programs.installed([str(environment / "python"), "-m", "nowhere.train"]) is None
