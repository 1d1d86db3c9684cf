"""Accumulation from outside, in real scripts: the large batch's weights, or a refusal that says why."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from autofit_launcher.trainers.script import outside
from autofit_launcher.trainers.script.native.imported import after_import
from autofit_launcher.trainers.script.native.loaders import ToldLengths
from autofit_launcher.trainers.script.native.update import Update
from tests.helpers.places import SCRIPTS, lay

WAYS = {
    "no_loader": "don't come of a loop over a data loader",
    "cycled": "don't come of a loop over a data loader",
    "steps": "don't come of a loop over a data loader",
    "lbfgs": "is given a closure",
    "own": "the script accumulates itself",
    "in_turn": "throws gradients away",
}

ALL_WAYS = """
import runpy, sys
script, *ways = sys.argv[1:]
for way in ways:
    sys.argv = [script, "--batch-size", "16", "--way", way]
    try:
        runpy.run_path(script, run_name="__main__")
        print("went through")
    except RuntimeError as error:
        print(type(error).__name__, error)
    sys.modules["_autofit_accumulate"].OUTSIDE.__init__(4)
"""


def run(folder: Path, *words: str, micro_batches: int = 1, split: tuple[int, int, str] | None = None, ends: int = 0) -> str:
    """What a Python process printed, with its optimizer steps held back until so many micro-batches are in."""
    said = {outside.ACCUMULATE: str(micro_batches), **({outside.SPLIT: ":".join(map(str, split))} if split is not None else {})}
    env, files = outside.placed(said, place=folder, env={})
    lay(files)
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env={**os.environ, **(env if micro_batches > 1 else {})}, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == ends, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[object]], dict[str, list[object]]]:
    """Of models trained in every way: with batches of 64, and with 16 of which four make a step."""
    folder = tmp_path_factory.mktemp("weights")
    script = str(SCRIPTS / "no_word_for_accumulation.py")
    run(folder, script, "--batch-size", "64", "--out", "large.pt")
    said = run(folder, script, "--batch-size", "16", "--out", "small.pt", micro_batches=4)
    assert "4 micro-batches are in each optimizer step" in said and "optimizer steps (4 micro-batches in each)" in said
    return torch.load(folder / "large.pt"), torch.load(folder / "small.pt")


@pytest.mark.parametrize(
    "way",
    [
        "sgd", "adamw", "rmsprop", "zero_last", "drop_last", "stream", "clip", "clip_value", "amp", "amp_clip", "one_cycle",
        "cosine_adamw_clip", "every_epoch", "now_and_then", "two_optimizers", "amp_one_cycle_two", "recompute",
    ],
)  # fmt: skip
def test_the_weights_are_those_of_the_large_batch(way: str, weights: tuple[dict[str, list[object]], dict[str, list[object]]]) -> None:
    large, small = weights
    for one, other in zip(large[way], small[way], strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


def test_a_batch_that_arrives_at_a_loader_is_split_there_and_the_weights_are_the_same(tmp_path: Path) -> None:
    script = str(SCRIPTS / "batch_in_source.py")
    run(tmp_path, script, "--out", "large.pt")
    said = run(tmp_path, script, "--out", "small.pt", micro_batches=4, split=(64, 16, "batch_in_source.py:18"))
    assert "the loader's batches of 64 are split into micro-batches of 16" in said and "4 micro-batches are in each" in said
    large, small = (torch.load(tmp_path / name) for name in ("large.pt", "small.pt"))
    for name, weights in large.items():
        torch.testing.assert_close(small[name], weights, rtol=1e-4, atol=1e-5)


PERSISTENT = """
import torch
def main():
    data = torch.utils.data.TensorDataset(torch.rand(8, 2))
    loader, model = torch.utils.data.DataLoader(data, 2, num_workers=1, persistent_workers=True), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for (rows,) in loader:
        optimizer.zero_grad()
        model(rows).sum().backward()
        optimizer.step()
main()
"""


def test_workers_that_persist_end_with_their_loader_and_leave_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    assert "4 micro-batches, 2 optimizer steps" in run(tmp_path, "-c", PERSISTENT, micro_batches=2)
    assert not list((tmp_path / "t").glob("pymp-*"))


def test_batches_whose_size_was_not_turned_stay_as_the_script_makes_them(tmp_path: Path) -> None:
    """A later stage with a batch of its own: 3 steps of 32 and 4 of 24, and not 3 and 1."""
    script = str(SCRIPTS / "late_loader.py")
    run(tmp_path, script, "--batch-size", "32", "--out", "large.pt")
    said = run(tmp_path, script, "--batch-size", "8", "--out", "small.pt", micro_batches=4)
    assert "batches of 24 aren't those that were turned (8): each is a step, as the script makes them" in said, said
    large, small = (torch.load(tmp_path / name) for name in ("large.pt", "small.pt"))
    assert large["steps"] == small["steps"] == 7
    torch.testing.assert_close(small["weight"], large["weight"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("whole", "line"), [(64, 1), (64, 19), (32, 18)])  # no loader is made there, the validation's, another batch
def test_a_loader_that_is_no_longer_where_it_was_is_refused(whole: int, line: int, tmp_path: Path) -> None:
    script, place = str(SCRIPTS / "batch_in_source.py"), f"batch_in_source.py:{line}"
    said = run(tmp_path, script, micro_batches=4, split=(whole, 16, place), ends=1)
    assert f"no loader with batches of {whole} that trains is made in {place}" in said, said


class RandomSampler:
    """By its name, one that shuffles."""


class Loader:
    def __init__(self, *, drop_last: bool = False, shuffles: bool = True) -> None:
        self.drop_last, self.sampler = drop_last, RandomSampler() if shuffles else None


def test_a_shuffled_loader_tells_its_length_in_optimizer_steps_until_its_first_pass() -> None:
    one, frame = ToldLengths(4, str), sys._getframe()
    assert one.told(Loader(), 13, frame) == 4 and one.told(Loader(drop_last=True), 13, frame) == 3
    assert one.told(Loader(shuffles=False), 13, frame) == 13, "a validation's"
    begun = Loader()
    one.begins(begun)
    assert one.told(begun, 13, frame) == 13


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "all.py").write_text(ALL_WAYS)
    said = run(folder, "all.py", str(SCRIPTS / "can_not_be_accumulated.py"), *WAYS, micro_batches=4)
    parts = said.split("== ")[1:]
    return {part.split()[0]: part for part in parts}


@pytest.mark.parametrize("way", WAYS)
def test_what_can_not_be_exact_is_refused_with_its_reason(way: str, refusals: dict[str, str]) -> None:
    assert "NotExact accumulation from outside can't be exact here" in refusals[way] and WAYS[way] in refusals[way]


Loss = Callable[..., torch.Tensor]


def in_chunks(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """As LitGPT has it."""
    every = [nn.functional.cross_entropy(*chunk, reduction="none") for chunk in zip(logits.split(3), targets.split(3), strict=True)]
    return torch.cat(every).sum() / (targets != -100).sum().clamp(min=1)


def of_classes(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    weights = torch.arange(1.0, 6.0)
    of_each = nn.functional.cross_entropy(logits, targets, weight=weights, reduction="none")
    return of_each.sum() / weights[targets.clamp(min=0)][targets != -100].sum().clamp(min=1)


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, in_chunks, of_classes])
def test_gradients_of_two_micro_batches_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    torch.manual_seed(0)
    rows, targets, model = torch.randn(16, 4), torch.randint(0, 5, (16,)), nn.Linear(4, 5)
    targets[2:9] = -100
    loss(model(rows), targets).backward()
    asked = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    Update("targets", 1.0, 2).install(torch)
    optimizer = torch.optim.SGD(model.parameters())
    optimizer.zero_grad()
    for part, own in zip(rows.split(8), targets.split(8), strict=True):
        loss(model(part), own).backward()
    for wanted, parameter in zip(asked, model.parameters(), strict=True):
        assert parameter.grad is not None and torch.allclose(parameter.grad, wanted, atol=1e-6)


@pytest.mark.parametrize("last", [16, 8, 4], ids=["whole", "half of a mean", "less than a micro-batch"])
def test_a_step_that_comes_before_its_last_mean_is_whole_has_those_before(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Two means of sixteen rows are a step, each of two micro-batches; the last step of a pass has fewer rows."""
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    torch.manual_seed(0)
    rows, targets, model, early = torch.randn(16 + last, 4), torch.randint(0, 5, (16 + last,)), nn.Linear(4, 5), nn.Parameter(torch.ones(5))
    targets[2:9] = -100

    def backward(part: slice) -> None:
        logits = model(rows[part]) * early if part.start < 16 else model(rows[part])  # a weight without a gradient in the last mean
        nn.functional.cross_entropy(logits, targets[part]).backward()

    backward(slice(0, 16))
    backward(slice(16, 16 + last))
    weights = [*model.parameters(), early]
    asked = [one.grad for one in weights]
    Update("targets", 1.0, 2).install(torch)
    optimizer = torch.optim.SGD(weights)
    optimizer.zero_grad()
    for start in range(0, 16 + last, 8):
        backward(slice(start, min(start + 8, 16 + last)))
    for wanted, weight in zip(asked, weights, strict=True):
        assert wanted is not None and weight.grad is not None and torch.allclose(weight.grad, wanted, atol=1e-6)


def test_a_module_that_is_only_looked_for_is_still_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waited_for.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    acted = []
    after_import({"waited_for": lambda module: acted.append(module.VALUE)})
    assert importlib.util.find_spec("waited_for") is not None and acted == []
    assert importlib.import_module("waited_for").VALUE == 1 and acted == [1]


def test_deepspeeds_steps_are_never_held_back_from_outside(tmp_path: Path) -> None:
    engine = tmp_path / "deepspeed" / "runtime" / "engine.py"
    engine.parent.mkdir(parents=True)
    engine.write_text("class DeepSpeedEngine:\n    pass\n")
    (tmp_path / "steps.py").write_text("from deepspeed.runtime.engine import DeepSpeedEngine\nDeepSpeedEngine(model=None)\n")
    said = run(tmp_path, "steps.py", micro_batches=2, ends=1)
    assert "NotExact: accumulation from outside can't be exact here: DeepSpeed makes the steps" in said
