"""A pass that runs out of memory is taken again in halves: the gradients, statistics and draws are those of one that didn't."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.utils.checkpoint

from launcher.adapter import registry
from launcher.shared import orders
from launcher.worker import splitting
from launcher.worker.splitting import CannotSplit, Splitting
from tests.helpers.places import ROOT

ROWS = 8
WORDS = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."


class Fails(torch.autograd.Function):
    """Lets a pass through, forward and backward; a test says which call finds no room."""

    places: ClassVar[list[str]] = []
    fails_at: ClassVar[dict[str, int]] = {}

    @classmethod
    def at(cls, place: str) -> None:
        cls.places.append(place)
        if cls.fails_at.get(place, 0) >= cls.places.count(place):
            raise RuntimeError(WORDS)

    @staticmethod
    def forward(ctx: Any, value: Any, place: int) -> Any:
        ctx.place = place
        Fails.at(f"forward {place}")
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        Fails.at(f"backward {ctx.place}")
        return gradient, None


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        self.tied = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        for number, layer in enumerate(self.layers):
            x = Fails.apply(torch.tanh(self.tied(layer(x))), number)
        return self.head(x)


@pytest.fixture(autouse=True)
def _nothing_fails() -> None:
    Fails.places, Fails.fails_at = [], {}


def passes(model: Any, took: Splitting, batches: int = 2) -> list[float]:
    """Micro-batches that are accumulated; the loss of each, which is divided by all rows."""
    data = torch.linspace(-1, 1, batches * ROWS * 4, dtype=torch.float32).view(batches, ROWS, 4)
    losses = []
    for rows in data:

        def one(first: int, last: int, rows: Any = rows) -> float:
            loss = model(rows[first:last]).square().sum() / (batches * ROWS)
            loss.backward()
            return loss.item()

        losses.append(sum(took.take(ROWS, one, lambda one=one: one(0, ROWS))))  # type: ignore[misc]
    return losses


def gradients(model: Any) -> dict[str, Any]:
    return {name: weight.grad for name, weight in model.named_parameters()}


PLACES = [f"{way} {layer}" for way in ("forward", "backward") for layer in range(3)]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_wherever_memory_runs_out_the_gradients_are_those_of_the_whole(place: str, times: int) -> None:
    plain = Model()
    expected = passes(plain, Splitting("a step", model=plain))
    model = Model()
    Fails.places, Fails.fails_at = [], {place: times}
    took = Splitting("a step", model=model)
    assert passes(model, took) == pytest.approx(expected, rel=1e-6)
    assert took.most == ROWS >> times
    for name, gradient in gradients(plain).items():
        assert torch.allclose(gradients(model)[name], gradient, rtol=1e-5, atol=1e-7), name


def test_a_pass_later_in_the_step_keeps_the_gradients_so_far() -> None:
    plain, model = Model(), Model()
    passes(plain, Splitting("a step", model=plain), batches=4)
    Fails.places, Fails.fails_at = [], {}
    took = Splitting("a step", model=model)
    failed = []

    original = took._try  # type: ignore[attr-defined]

    def third(*args: Any) -> Any:
        failed.append(1)
        if len(failed) == 3:
            Fails.places, Fails.fails_at = [], {"backward 1": 1}
        return original(*args)

    took._try = third  # type: ignore[method-assign]
    passes(model, took, batches=4)
    assert took.most == ROWS // 2
    for name, gradient in gradients(plain).items():
        assert torch.allclose(gradients(model)[name], gradient, rtol=1e-5, atol=1e-7), name


class Reentrant(Model):
    """Each layer's part has a backward pass of its own: the tied weights get their gradient in three pieces."""

    def forward(self, x: Any) -> Any:
        x = x.clone().requires_grad_()
        for number, layer in enumerate(self.layers):
            x = torch.utils.checkpoint.checkpoint(self.part, x, layer, number, use_reentrant=True)
        return self.head(x)

    def part(self, x: Any, layer: Any, number: int) -> Any:
        return Fails.apply(torch.tanh(self.tied(layer(x))), number)


@pytest.mark.parametrize("place", ["forward 1", "backward 1", "backward 0"])
def test_with_backward_passes_within_another_no_weight_has_a_part_of_its_gradient(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain, model = Reentrant(), Reentrant()
    passes(plain, Splitting("a step", model=plain))
    Fails.places, Fails.fails_at = [], {place: 1}
    if place.startswith("backward"):
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            passes(model, Splitting("a step", model=model))
        assert "use_reentrant=False" in capsys.readouterr().err
        return
    passes(model, Splitting("a step", model=model))
    for name, gradient in gradients(plain).items():
        assert torch.allclose(gradients(model)[name], gradient, rtol=1e-5, atol=1e-7), name


def test_one_row_that_finds_no_room_ends_the_run_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    Fails.fails_at = {"forward 0": 100}
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        passes(model, Splitting("a step", model=model))
    assert "taken again" not in capsys.readouterr().err


def test_another_error_is_not_touched() -> None:
    model = Model()

    def one(first: int, last: int) -> None:
        raise ValueError("a size mismatch")

    took = Splitting("a step", model=model)
    with pytest.raises(ValueError, match="a size mismatch"):
        took.take(ROWS, one, lambda: one(0, ROWS))
    assert took.most is None


def test_what_cannot_be_split_ends_with_the_first_error_and_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    def whole() -> None:
        raise RuntimeError(WORDS)

    def one(first: int, last: int) -> None:
        raise CannotSplit("rows are compared with one another")

    with pytest.raises(RuntimeError, match="can't allocate memory"):
        Splitting("a step").take(ROWS, one, whole)
    assert "rows are compared with one another" in capsys.readouterr().err


def draws() -> tuple[float, float, float]:
    return random.random(), float(torch.rand(())), float(np.random.random())


def test_random_states_and_statistics_are_those_before_the_failed_pass() -> None:
    norm = torch.nn.BatchNorm1d(4)
    model = torch.nn.Sequential(norm)
    seen: list[Any] = []

    def one(first: int, last: int) -> None:
        seen.append((draws(), norm.running_mean.clone(), int(norm.num_batches_tracked)))  # type: ignore[union-attr,arg-type]
        model(torch.rand(ROWS, 4))
        if len(seen) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    Splitting("a step", model=model).take(ROWS, one, lambda: one(0, ROWS))
    assert len(seen) == 3
    assert seen[1][0] == seen[0][0]
    assert torch.equal(seen[1][1], seen[0][1])
    assert seen[1][2] == seen[0][2] == 0
    assert int(norm.num_batches_tracked) == 2  # type: ignore[arg-type]


class Counts(torch.nn.Module):
    """Keeps something of its own in each pass, as spectral norm and code books do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Any, *, fails: bool = False, late: bool = False) -> Any:
        if fails and late:
            raise RuntimeError(WORDS)
        self.seen += 1
        if fails:
            raise RuntimeError(WORDS)
        return self.layer(x)


@pytest.mark.parametrize("late", [False, True])
def test_a_pass_that_changes_what_is_not_kept_ends_the_run(late: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """In the failed pass, or only in its halves: a restart makes the right update."""
    model = Counts()

    def one(first: int, last: int) -> None:
        model(torch.ones(last - first, 4), fails=last - first == ROWS, late=late).sum().backward()

    with pytest.raises(RuntimeError, match="can't allocate memory"):
        Splitting("a step", model=model).take(ROWS, one, lambda: one(0, ROWS))
    assert "each pass changes seen" in capsys.readouterr().err


def test_a_model_that_has_got_other_weights_is_not_taken_again(capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    took = Splitting("a step", model=model)
    passes(model, took)
    model.head = torch.nn.Linear(4, 1)
    Fails.places, Fails.fails_at = [], {"backward 1": 1}
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        passes(model, took)
    assert "other weights" in capsys.readouterr().err


def test_what_the_failed_pass_held_is_let_go_before_the_halves() -> None:
    held: list[Callable[[], Any]] = []
    alive: list[bool] = []

    def one(first: int, last: int) -> None:
        alive.append(any(one() is not None for one in held))
        activation = torch.zeros(1000)
        held.append(weakref.ref(activation))
        if len(held) == 1:
            raise MemoryError

    Splitting("a step").take(ROWS, one, lambda: one(0, ROWS))
    assert alive == [False, False, False]


class Keeps(torch.autograd.Function):
    """Saves what it gets; a test sees whether that is still there."""

    kept: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        saved = value * 2
        Keeps.kept.append(weakref.ref(saved))
        ctx.saved = saved
        return value * 3

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 3


@pytest.mark.parametrize("inside", [False, True])
def test_branches_that_a_failed_backward_pass_had_not_come_to_are_let_go(inside: bool) -> None:
    """PyTorch's engine keeps them in its queue, with all that they hold. ``inside``: of another backward pass, as with Ultralytics."""
    Keeps.kept.clear()
    Fails.fails_at = {"backward 0": 1}
    weight = torch.nn.Parameter(torch.ones(4))
    model = torch.nn.ParameterList([weight])
    took = Splitting("a step", model=model)
    alive: list[int] = []

    @torch.enable_grad()
    def one(first: int, last: int) -> None:
        alive.append(sum(kept() is not None for kept in Keeps.kept))
        deep = Keeps.apply(weight * torch.ones(last - first, 1))
        branches = [Keeps.apply(deep) for _ in range(3)]
        loss = sum(branch.sum() for branch in branches) + Fails.apply(deep, 0).sum()
        loss.backward()

    def step(*_: Any) -> None:
        took.take(ROWS, one, lambda: one(0, ROWS))

    if inside:
        outer = torch.ones((), requires_grad=True)
        outer.register_post_accumulate_grad_hook(step)
        outer.backward()
    else:
        step()
    assert alive == [0, 0, 0]
    assert torch.allclose(weight.grad, torch.full((4,), ROWS * 30.0))  # type: ignore[arg-type]


def test_rows_of_a_batch() -> None:
    batch = {"ids": torch.zeros(8, 3), "names": list("abcdefgh"), "scale": torch.tensor(2.0), "training": True}
    assert splitting.rows_of(batch) == 8
    part = splitting.some_rows(batch, 2, 5)
    assert part["ids"].shape == (3, 3)
    assert part["names"] == list("cde")
    assert part["training"] is True
    assert splitting.rows_of({"a": torch.zeros(8), "b": torch.zeros(7)}) == 0
    assert splitting.rows_of([torch.zeros(8)]) == 0


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (RuntimeError(WORDS), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_which_errors_are_memory(error: BaseException, memory: bool) -> None:
    assert splitting.of_memory(error) is memory


def test_every_trainers_module_loads_beside_a_program_that_has_no_autofit(tmp_path: Path) -> None:
    """By its private name, in a process that finds no ``launcher``; and brings no torch."""
    names = [name for adapter in registry.adapters() for name in adapter.splits]
    assert len(names) == 3
    program = (
        "import sys; assert 'torch' not in sys.modules and 'launcher' not in sys.modules; print([m for m in sys.modules if 'inside' in m])"
    )
    env = {"PYTHONPATH": str(ROOT / "launcher" / "worker" / "shim"), orders.SPLIT: ",".join(names), "PATH": os.environ["PATH"]}
    found = subprocess.run([sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stderr == ""
    assert all(f"_autofit.{name}" in found.stdout for name in names)


def test_outputs_of_parts_are_joined() -> None:
    """Tensors by their rows, in whatever they stand; a single number only where it is known what it counts for."""
    parts = [(torch.full((size, 2), size), {"feats": [torch.full((size, 1), size)]}, None) for size in (3, 1)]
    boxes, more, nothing = splitting.joined((3, 1), parts)
    assert boxes[:, 0].tolist() == [3, 3, 3, 1] and more["feats"][0].shape == (4, 1) and nothing is None
    losses = [(torch.tensor(1.0), "mean"), (torch.tensor(5.0), "mean")]
    assert splitting.joined((3, 1), losses, (0.75, 0.25)) == (2.0, "mean")
    for odd in (losses, [torch.zeros(5, 2)] * 2, [{1}, {2}]):
        with pytest.raises(splitting.CannotSplit):
            splitting.joined((3, 1), odd)
    with pytest.raises(MemoryError, match="there is no set"):
        len(splitting.joined((3, 1), [{1}, {2}], (0.75, 0.25)))


def test_parts_that_fail_with_words_of_two_meanings_leave_the_error_that_has_one() -> None:
    """The launcher takes those for memory only where memory stands at its limit, and what the failed pass held has been let go by then."""

    def part(first: int, last: int) -> None:
        raise RuntimeError("could not create a primitive")

    def whole() -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(RuntimeError, match="can't allocate memory"):
        splitting.Splitting("a step").take(4, part, whole)
    with pytest.raises(RuntimeError, match="could not create"):
        splitting.Splitting("a step").take(4, part, lambda: part(0, 4))
