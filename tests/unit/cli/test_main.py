"""What a person types and what comes back, in processes of their own: words, exit status, and that nothing was launched."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autofit_launcher.cli import main
from tests.conftest import write_yolo_dataset
from tests.helpers.command_line import answer
from tests.helpers.places import ROOT


def told(done: subprocess.CompletedProcess[str]) -> str:
    """What was said on standard error, less the lines of what took a while, which hang on the machine."""
    return "\n".join(line for line in done.stderr.splitlines() if not line.endswith(" ..."))


Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def autofit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typed:
    """What comes of words that are typed in ``tmp_path``, in this process."""

    def typed(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        try:
            status = int(main.run(list(words)))
        except SystemExit as ended:  # Hydra's own errors
            status = int(ended.code or 0)
        return subprocess.CompletedProcess(words, status, *capfd.readouterr())

    return typed


def test_help_answers_without_hydra_torch_or_a_trainer_and_is_one_page(autofit: Typed) -> None:
    code = (
        "import sys; from autofit_launcher.cli import main as cli; code = cli.run(['--help']);"
        "heavy = {'hydra', 'torch', 'pydantic', 'rich', 'ultralytics'} & set(sys.modules); sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "autofit train" in done.stdout and "Exit status" in done.stdout, done.stderr
    assert autofit().stdout == autofit("help").stdout == done.stdout


def test_no_verb_ever_imports_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from autofit_launcher.cli import main as cli, launch_view; from autofit_launcher.engine import launch;"
        "from autofit_launcher.config import recipe; from autofit_launcher.trial import trial; "
        "from autofit_launcher.full_run import run\n"
        "cli.run(['ladder', 'recipe=yolo_demo']); sys.exit('torch' in sys.modules or 'ultralytics' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_recipes_lists_the_built_in_and_the_persons_own(tmp_path: Path, autofit: Typed) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text("# @package _global_\nsummary: my own job\n")
    (tmp_path / "recipes" / "broken.yaml").write_text("a: [")
    done = autofit("recipes")
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert list(lines).index("yolo_demo") < list(lines).index("Five") < list(lines).index("yolov8x_a100"), "five jobs' stand apart"
    assert {"yolov8x_a100", "yolo11l_rtx4080s_component", "yolo11l_rtx4080s_solder", "yolo_demo", "mine"} <= set(lines)
    assert lines["mine"].endswith("my own job") and "can't be read" in lines["broken"]
    mine = {"name": "mine", "summary": "my own job", "file": str(tmp_path / "recipes" / "mine.yaml")}
    assert mine in answer(autofit("recipes", "--json"))["recipes"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [("autofit tr", "train"), ("autofit train recipe=yolov", "recipe=yolov8x_a100"), ("autofit fit ladder=", "ladder=keep_quality")],
)
def test_tab_completion_offers_verbs_recipes_and_groups(tmp_path: Path, autofit: Typed, line: str, offered: str) -> None:
    done = autofit("-sc", "query=bash", COMP_LINE=line)
    assert offered in done.stdout.split()


def test_multirun_launches_every_combination_and_ends_with_the_worst_status(tmp_path: Path, autofit: Typed) -> None:
    done = autofit("ladder", "-m", "recipe=yolo_demo", "ask.micro_batch=4,-1")
    assert done.returncode == 1
    assert "accum" in done.stdout and "-1 is not a whole number of at least 1" in done.stderr
    assert done.stdout.startswith("recipe=yolo_demo ask.micro_batch=4\n"), "each says first which it is"
    assert list(tmp_path.iterdir()) == [], "nothing of Hydra's is left behind"


def test_a_shell_in_a_folder_that_is_gone_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main.run(["runs"]) == main.run(["run", "--", "python", "train.py"]) == 1
    assert "this folder: No such file or directory." in capfd.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (("traim", "recipe=yolo_demo"), "Did you mean 'train'?"), (("train",), "You must specify 'recipe'"),
    (("train", "recipe=yolo_demo", "ask.micro_batch=many"), "command line: ask.micro_batch: 'many' is not a whole number"),
    (("train", "recipe=yolo_demo", "device.memory=900TiB"), "is available"),
    (("train", "recipe=yolo_demo", "data=nowhere/data.yaml", "prepare=[ls,nowhere]"), "did not make nowhere/data.yaml"),
    (("trial", "recipe=yolo_demo", "rung=999"), "there is no rung 999"), (("trial", "recipe=yolo_demo"), "no rung is named"),
    (("fit", "recipe=yolo_demo", "rung=1"), "`autofit trial ... rung=1` tries that one"),
    (("fit", "recipe=yolov8x_a100"), "no data set is named"),
    (("fit", "recipe=yolo_demo", "ladder.wheels.micro_batch.floor=99"), "floor 99"),
    (("fit", "recipe=yolo_demo", "ask.model=best.pt"), "no weights of that name"),
    (("fit", "recipe=yolo_demo", "run.root=/proc/nowhere"), "run.root"),
])  # fmt: skip
def test_bad_input_is_one_clear_message_status_1_and_nothing_launched(
    tmp_path: Path, autofit: Typed, words: tuple[str, ...], said: str
) -> None:
    data = write_yolo_dataset(tmp_path / "dataset")
    named = any(word.startswith("data=") for word in words) or words[-1] == "recipe=yolov8x_a100" or len(words) == 1
    done = autofit(*words, *([] if named else [f"data={data}"]))
    assert done.returncode == 1 and said in done.stderr + done.stdout and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


def rootless(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What comes of words in a process of its own in which root, too, is refused where the modes say so."""

    def without_its_powers() -> None:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    argv, env = [sys.executable, "-m", "autofit_launcher", *words], {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, preexec_fn=without_its_powers)


@pytest.mark.parametrize(("word", "said"), [
    ("run.root=closed/runs", "command line: run.root: can't make a run folder in closed/runs: Permission denied"),
    ("run.root=file/runs", "command line: run.root: can't make a run folder in file/runs: Not a directory"),
    ("data=closed/data.yaml", "closed/data.yaml: data: [Errno 13] Permission denied"),
])  # fmt: skip
def test_a_folder_that_one_may_not_enter_is_a_fault(tmp_path: Path, word: str, said: str) -> None:
    data = write_yolo_dataset(tmp_path / "dataset")
    (tmp_path / "closed").mkdir(mode=0o000)
    (tmp_path / "file").touch()
    done = rootless(tmp_path, "fit", "recipe=yolo_demo", f"data={data}", "prepare=null", word)
    assert done.returncode == 1 and told(done).startswith(said), done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("words", "said"), [
    (("yolo", "train", "model=yolo11n.yaml", "data=no.yaml", "epochs=0"), "your command: trainer.args.epochs: 'epochs=0' is"),
    (("ask.micro_batch=-1", "--", "python", "t.py", "--batch-size", "8"), "command line: ask.micro_batch: -1 is not"),
    (("batch=3", "--", "python", "t.py", "--batch-size", "8"), "command line: batch: autofit has no key of that name"),
    (("ladder=nonsense", "--", "python", "t.py", "--batch-size", "8"), "command line: ladder: there is no ladder 'nonsense'"),
    (("--nonsense", "--", "python", "t.py", "--batch-size", "8"), "command line: there is no flag --nonsense"),
    ((), "your command: there is no command. For example: autofit run -- python train.py"),
])  # fmt: skip
def test_a_fault_of_run_is_the_command_line_s_and_never_a_file_s_that_is_gone(
    tmp_path: Path, autofit: Typed, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "t.py").write_text("import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\n")
    done = autofit("run", *(words if "--" in words else ("--", *words)))
    assert done.returncode == 1 and told(done).startswith(said), done.stderr
    assert "Traceback" not in done.stderr and "/tmp" not in done.stderr.replace(str(tmp_path), "")
    assert [path.name for path in tmp_path.iterdir()] == ["t.py"]


def test_init_writes_a_recipe_that_composes_and_never_overwrites(tmp_path: Path, autofit: Typed) -> None:
    (tmp_path / "c.yaml").write_text("train: {batch_size: 8, accum: 2}\ndata: {segment: 441000}\n")
    (tmp_path / "t.py").write_text("")
    command = ("init", "--", "python", "t.py", "--config", "c.yaml", "--json", "--help")
    done = autofit(*command)
    assert done.returncode == 0 and "written: recipes/t.yaml" in done.stdout
    said = answer(autofit("ladder", "recipe=t", "--json"))
    assert said["effective_batch"] == 16 and list(said["rungs"][0]["rung"]) == ["micro_batch", "segment"]
    assert autofit(*command).returncode == 1


def test_a_recipe_that_can_not_be_written_is_refused_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    (tmp_path / "t.py").write_text("import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=4)\n")
    done = rootless(tmp_path / "closed", "init", "--", "python", str(tmp_path / "t.py"))
    assert done.returncode == 1 and told(done).startswith("recipes: Permission denied."), done.stderr


def test_a_recipe_is_copied_and_never_over_one_that_is_there(tmp_path: Path, autofit: Typed) -> None:
    done = autofit("recipes", "copy", "yolo_demo", "mine")
    assert done.returncode == 0 and "written: recipes/mine.yaml" in done.stdout
    mine = tmp_path / "recipes" / "mine.yaml"
    assert "YOLO11n finds handwritten digits" in mine.read_text(encoding="utf-8")
    mine.write_text("mine", encoding="utf-8")
    again = autofit("recipes", "copy", "yolo_demo", "mine")
    assert again.returncode == 1 and "is there already" in again.stderr and mine.read_text(encoding="utf-8") == "mine"
    unknown = autofit("recipes", "copy", "yolo_dem")
    assert unknown.returncode == 1 and "Did you mean 'yolo_demo'?" in unknown.stderr
    assert autofit("recipes", "cpy", "yolo_demo").returncode == 1
    outside = autofit("recipes", "copy", "yolo_demo", "../out")
    assert outside.returncode == 0 and (tmp_path / "recipes" / "out.yaml").exists() and not (tmp_path / "out.yaml").exists()
