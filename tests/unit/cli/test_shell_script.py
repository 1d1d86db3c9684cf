"""The one command that a shell script starts is found by reading it; what takes a shell to tell is refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launcher.cli.shell_script import started
from launcher.errors import BadInput


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FROM_OUTSIDE", "7")


SCRIPT = """\
#!/bin/bash
# prepare: python data.py
set -euo pipefail
export OMP_NUM_THREADS=1 HF_HOME=cache PYTHONPATH=$NOT_SET_HERE:src
BS=${BS:-32}
NAME="my run"
mkdir -p .
cd .
echo "starting $(date)"
CUDA_VISIBLE_DEVICES=0 python train.py \\
  --batch-size $BS --name "$NAME" --seed ${FROM_OUTSIDE} "$@" 2>&1 | tee log.txt
"""


def test_variables_continued_lines_and_arguments_are_followed() -> None:
    Path("train.sh").write_text(SCRIPT)
    found = started(["bash", "-x", "train.sh", "--lr", "1e-3"])
    assert found is not None
    assert found.words == ("python", "train.py", "--batch-size", "32", "--name", "my run", "--seed", "7", "--lr", "1e-3")
    assert found.env == {"OMP_NUM_THREADS": "1", "HF_HOME": "cache", "PYTHONPATH": ":src", "CUDA_VISIBLE_DEVICES": "0"}
    assert found.told.startswith("train.sh line 10 starts: python train.py --batch-size 32")


def test_an_activated_environment_gives_its_own_program() -> None:
    Path("env/bin").mkdir(parents=True)
    Path("env/bin/python").touch()
    Path("t.sh").write_text("source env/bin/activate\nexec python train.py\n")
    found = started(["./t.sh"])
    assert found is None or found.words[1:] == ("train.py",)
    found = started(["sh", "t.sh"])
    assert found is not None and found.words == ("env/bin/python", "train.py")


def test_a_command_in_quotes_and_what_is_no_shell() -> None:
    found = started(["bash", "-c", "A=1 python t.py --b 4 > out.txt"])
    assert found is not None and found.words == ("python", "t.py", "--b", "4") and found.env == {"A": "1"}
    found = started(["bash", "-c", "python t.py --none '' --name 'a # b' exp#1 # --batch-size 4"])
    assert found is not None and found.words == ("python", "t.py", "--none", "", "--name", "a # b", "exp#1")
    assert started(["python", "t.py"]) is None and started(["bash", "nowhere.sh"]) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("python prepare.py\npython train.py\n", "starts python prepare.py (line 1) and python train.py (line 2)"),
        ("echo nothing\n", "starts no command that could train"),
        ("for b in 1 2\ndo\npython t.py\ndone\n", "line 1: 'for'"),
        ("N=$(nproc)\npython t.py --workers $N\n", "line 2: $N isn't known"),
        ("python t.py --b $((2*4))\n", "line 1: what it says only a shell works out"),
        ("python t.py --arrow '>' --b 8\n", "line 1: what it says only a shell works out"),
        ("python t.py --b $1\n", "line 1: $1 isn't known"),
        ("python a.py && python t.py\n", "line 1: a command with &&"),
        ("python t.py &\n", "line 1: a command with &"),
        ("python t.py | grep loss\n", "line 1: a command with |grep"),
        ("cd src\npython t.py\n", "line 1: it goes to src"),
        ("python t.py --data *.sh\n", "line 1: *.sh stands for several files"),
        ("mkdir -p out\npython t.py\n", "starts mkdir -p out (line 1) and python t.py (line 2)"),
        ("source setup.sh\npython t.py\n", "line 1: source setup.sh"),
    ],
)
def test_what_takes_a_shell_to_tell_is_refused_with_its_line(text: str, said: str) -> None:
    Path("t.sh").write_text(text)
    with pytest.raises(BadInput, match=re.escape(said)):
        started(["bash", "t.sh"])
    assert sorted(path.name for path in Path().iterdir()) == ["t.sh"], "nothing was run"
