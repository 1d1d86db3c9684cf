"""A trainer of somebody else's: a wheel beside autofit's wheel, nothing of ours edited. Recipes, commands and the shipped suite find it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import failed_above
from tests.helpers.command_line import answer
from tests.helpers.places import ROOT

pytest.importorskip("sentence_transformers")
pytest.importorskip("datasets")

PACKAGE = ROOT / "examples" / "sentence_transformers_trainer"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both wheels; everything else is borrowed from this one. Returns its bin/."""
    place, wheels = tmp_path_factory.mktemp("clean") / "venv", tmp_path_factory.mktemp("dist")
    for source in (ROOT, PACKAGE):
        argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(source)]
        built = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
    venv.create(place, with_pip=False)
    own = Path(sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)}))
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # the .pth files there are not read: no checkout among it
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    pip = [sys.executable, "-m", "pip", "--python", str(place), "install"]
    installer = [uv, "pip", "install", "--python", str(place)] if uv else pip
    subprocess.run([*installer, "--quiet", "--no-deps", *map(str, wheels.glob("*.whl"))], check=True)
    return place / "bin"


def run(programs: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run([str(programs / words[0]), *words[1:]], cwd=cwd, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's folder, with pairs and a model in it."""
    place = tmp_path_factory.mktemp("person")
    made = run(programs, place, "python", "-m", "autofit_sentence_transformers.make_pairs", "pairs")
    assert made.returncode == 0, made.stderr
    return place


COMMAND = ("train-embeddings", "--model", "pairs/model", "--data", "pairs", "--output_dir", "out", "--batch_size", "64", "--max_steps", "2")
QUICK = ("--learning_rate=0.001", "--checkpointing", "false", "--eval_batch_size", "16", "--sequence_length", "96")


@pytest.mark.slow
def test_it_passes_the_shipped_suite(programs: Path, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "tests", tmp_path / "tests")
    done = run(programs, tmp_path, "python", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and "skipped" not in done.stdout


@pytest.mark.slow
def test_its_recipe_trains_to_the_end_after_a_real_failure(programs: Path, tmp_path: Path) -> None:
    done = run(programs, tmp_path, "autofit", "train", "--json", "recipe=embeddings_demo", "trainer.args.max_steps=3")
    record = answer(done)
    assert done.returncode == 0, done.stderr
    assert failed_above(record) == {"out_of_memory"}
    assert record["effective_batch"] == 64 and record["rung"]["micro_batch"] < 64
    assert "--batch_size 64" in record["command"] and f"--mini_batch_size {record['rung']['micro_batch']}" in record["command"]
    assert record["results"]["steps"] == 3 and "eval_cosine_ndcg@10" in record["results"]["metrics"]
    assert "autofit_launcher" not in record["command"] and (Path(record["run_dir"]) / "native" / "train_embeddings.py").is_file()


def test_a_command_of_its_own_is_fitted_without_a_recipe(programs: Path, folder: Path) -> None:
    done = run(programs, folder, "autofit", "run", "--fit-only", "--json", "device=cpu", "device.memory=4GiB", "--", *COMMAND, *QUICK)
    record = answer(done)
    assert done.returncode == 0, done.stderr
    assert "understood as a training by sentence-transformers" in done.stderr
    assert record["rung_index"] == 0 and record["rung"]["micro_batch"] == 64
    for words in ("--batch_size 64", "--max_steps 2", "--learning_rate 0.001", "--output_dir out"):
        assert words in record["command"]


@pytest.mark.parametrize(("words", "named"), [
    (("--batch_size", "many"), "many"), (("--batchsize", "3"), "--batchsize"), (("--mini_batch_size", "48"), "48"),
])  # fmt: skip
def test_a_command_of_its_own_that_cant_be_followed_is_refused_by_name(
    programs: Path, folder: Path, words: tuple[str, ...], named: str
) -> None:
    done = run(programs, folder, "autofit", "init", "--", *COMMAND, *words)
    assert done.returncode == 1 and named in done.stderr and "Traceback" not in done.stderr
