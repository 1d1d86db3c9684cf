"""A late out-of-memory in the backward pass of a script's own loop: the same training as one that found room, or none at all."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.checkpoint import checkpoint

from launcher.trainers.script.inside import replay, splitting
from launcher.worker import splitting as of_worker
from tests.helpers.places import ROOT

ROWS, WIDTH, DEPTH, CLASSES = 8, 12, 4, 5
FULL = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."
HELD: list[Any] = []
cross_entropy = nn.functional.cross_entropy


class Room(torch.autograd.Function):
    """Lets a gradient through while it has at most so many rows."""

    most = 1000

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if len(gradient) > Room.most:
            raise RuntimeError(FULL)
        return gradient


class Net(nn.Module):
    """``within``: what it does beyond a pass over each row, in its middle. ``at``: behind which layer its backward pass finds no room."""

    def __init__(self, within: Callable[[Any, Any], Any] = lambda model, rows: rows, *, at: int = 2, into: int = WIDTH) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(into if not layer else WIDTH, WIDTH) for layer in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.within, self.at = within, at

    def forward(self, rows: Any, another: Any = None) -> Any:
        for number, layer in enumerate(self.layers):
            rows = torch.tanh(layer(rows))
            rows = Room.apply(rows) if number == self.at else rows
            rows = self.within(self, rows) if number == 1 else rows
        return self.head(rows)


@pytest.fixture(autouse=True)
def as_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(of_worker, "_others", [])
    monkeypatch.setattr(Room, "most", 1000)
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    for name in ("_models", "_optimizers", "_kept"):
        monkeypatch.setattr(replay, name, weakref.WeakSet())
    hook = register_optimizer_step_pre_hook(splitting._Models().step_comes)
    yield
    hook.remove()


def batches() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(ROWS, WIDTH, generator=generator), torch.randint(0, CLASSES, (ROWS,), generator=generator)) for _ in range(5)]


Loss = Callable[[Any, Any, Any], Any]


def trained(make: Callable[[], Any], loss: Loss, *, most: int = 1000, since: int = 2, every: int = 1) -> dict[str, Any]:
    """The weights after five micro-batches, of which each has so much room from one on."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    optimizer.step()
    for step, (rows, labels) in enumerate(batches()):
        Room.most = most if step >= since else 1000
        (found.backward() if (found := loss(model, rows, labels)) is not None else None)
        if (step + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
    Room.most = 1000
    return {name: value.clone() for name, value in model.state_dict().items()}


def far(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


def mean(model: Any, rows: Any, labels: Any) -> Any:
    return cross_entropy(model(rows), labels)


def rows_compared(model: Any, rows: Any, labels: Any) -> Any:
    """Parts of it would be another; the gradient of what the model gives is all that parts need."""
    found = nn.functional.normalize(model(rows))
    return cross_entropy(found @ found.T * 5, torch.arange(len(found)))


def called_twice(model: Any, rows: Any, labels: Any) -> Any:
    """The pass that was made last, and is gone back first, has few rows."""
    HELD[:] = [rows[2:6] * 2]
    one, other = model(rows), model(*HELD)
    return cross_entropy(one, labels) + other.square().mean()


def one_after_another(model: Any, rows: Any, labels: Any) -> Any:
    return cross_entropy(model(rows), labels) + model(rows.flip(0) * 2).square().mean()


def views(model: Any, rows: Any, labels: Any) -> Any:
    logits = model(rows).unsqueeze(1).squeeze(1)
    return cross_entropy(logits.view(-1, CLASSES)[:], labels)


def hooked(model: Any, rows: Any, labels: Any) -> Any:
    logits = model(rows)
    logits.register_hook(lambda gradient: gradient * 3)
    return cross_entropy(logits, labels)


def two_losses(model: Any, rows: Any, labels: Any) -> None:
    """Each with its backward pass, of its own forward pass."""
    cross_entropy(model(rows), labels).backward()
    model(rows * 0.5).square().mean().backward()


def of_several(model: Any, rows: Any, labels: Any) -> None:
    logits = model(rows)
    torch.autograd.backward([logits, logits.mean()], [torch.ones_like(logits) / 9, None])


def scaled(model: Any, rows: Any, labels: Any) -> Any:
    """As a scaler does, whose result nobody holds."""
    loss = cross_entropy(model(rows), labels)
    (loss * 64).backward()
    for weight in model.parameters():
        weight.grad /= 64


def frozen(model: Any, rows: Any, labels: Any) -> Any:
    model.layers[3].requires_grad_(False)
    return mean(model, rows, labels)


EXACT = [mean, rows_compared, views, hooked, two_losses, of_several, scaled, frozen]


@pytest.mark.parametrize("at", range(DEPTH))
@pytest.mark.parametrize("loss", EXACT, ids=lambda loss: loss.__name__)
def test_the_weights_are_those_of_a_run_that_found_room(loss: Loss, at: int, capfd: pytest.CaptureFixture[str]) -> None:
    make = functools.partial(Net, at=at)
    alone = trained(make, loss)
    assert "autofit" not in capfd.readouterr().err
    split = trained(make, loss, most=2)
    assert far(alone, split) < 1e-5 < far(alone, make().state_dict())
    told = "a training pass found no room in its backward pass; its 8 rows were taken again, 2 at once, and so are all to come"
    assert told in capfd.readouterr().err


def test_two_passes_of_one_loss_are_both_made_again(capfd: pytest.CaptureFixture[str]) -> None:
    alone, split = (trained(Net, called_twice, most=most) for most in (1000, 4))
    assert far(alone, split) < 1e-5 and "its 8 rows were taken again, 2 at once" in capfd.readouterr().err


def test_micro_batches_of_one_step_are_added_once_each(capfd: pytest.CaptureFixture[str]) -> None:
    alone, split = (trained(Net, mean, most=most, since=3, every=5) for most in (1000, 4))
    assert far(alone, split) < 1e-6 and "2 at once" in capfd.readouterr().err


@pytest.mark.parametrize("at", range(DEPTH))
def test_a_row_alone_is_looked_at_for_functions_of_ones_own(at: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Whether gradients of its rows add up can't be seen there."""
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(functools.partial(Net, at=at), mean, most=1)
    assert "can't be taken in parts: it can't be seen that gradients of rows add up" in capfd.readouterr().err


def test_what_is_large_is_not_kept(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """It would be there in a run, and not in its trial."""
    monkeypatch.setattr(replay, "LEAST_KEPT", ROWS * CLASSES * 4 - 1)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(Net, mean, most=2)
    assert "can't be taken in parts: what its model gives is too large to be kept (0.0 MiB)" in capfd.readouterr().err


class WithLoss(Net):
    def forward(self, rows: Any, labels: Any = None) -> Any:
        logits = super().forward(rows)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def its_own(model: Any, rows: Any, labels: Any) -> Any:
    return model(rows, labels)["loss"]


def its_own_and_more(model: Any, rows: Any, labels: Any) -> Any:
    found = model(rows, labels)
    return found["loss"] + found["logits"].square().mean()


def test_a_model_that_gives_its_own_loss_is_the_same_training(capfd: pytest.CaptureFixture[str]) -> None:
    alone, split = (trained(WithLoss, its_own, most=most) for most in (1000, 4))
    assert far(alone, split) < 1e-5 and "2 at once" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(WithLoss, its_own_and_more, most=4)
    assert "computed of another thing that it gives" in capfd.readouterr().err


class Adversaries(nn.Module):
    """One that makes, and one that judges what it makes."""

    def __init__(self, at: int, *, of_judge: bool) -> None:
        super().__init__()
        self.makes, self.judges = Net(at=-1 if of_judge else at), Net(at=at if of_judge else -1, into=CLASSES)

    def loss(self, rows: Any, labels: Any) -> Any:
        made = self.makes(rows)
        judge = cross_entropy(self.judges(made.detach()), labels)
        return judge, lambda: -self.judges(made).mean()


@pytest.mark.parametrize("of_judge", [True, False])
def test_of_two_models_each_is_the_same_or_none(of_judge: bool, capfd: pytest.CaptureFixture[str]) -> None:
    def trained_both(most: int) -> dict[str, Any]:
        torch.manual_seed(0)
        pair = Adversaries(1, of_judge=of_judge)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (pair.makes, pair.judges)]
        for step, (rows, labels) in enumerate(batches()):
            judge, makes = pair.loss(rows, labels)
            Room.most = most if step > 1 and of_judge else 1000
            judge.backward()
            optimizers[1].step()
            Room.most = most if step > 1 and not of_judge else 1000
            makes().backward()
            optimizers[0].step()
            for optimizer in optimizers:
                optimizer.zero_grad()
        return dict(pair.state_dict())

    alone = trained_both(1000)
    assert far(alone, trained_both(4)) < 1e-5 and "2 at once" in capfd.readouterr().err


def test_what_is_behind_a_model_that_failed_in_another_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    """The one that made its rows has no gradient yet."""
    torch.manual_seed(0)
    pair = Adversaries(1, of_judge=True)
    torch.optim.SGD(pair.parameters(), lr=0.1).step()
    torch.optim.SGD(pair.makes.parameters(), lr=0.1).step()
    torch.optim.SGD(pair.judges.parameters(), lr=0.1).step()
    _, makes = pair.loss(*batches()[0])
    Room.most = 4
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        makes().backward()
    assert "can't be taken in parts" in capfd.readouterr().err


def test_a_loss_may_have_weights_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    def trained_apart(most: int) -> dict[str, Any]:
        torch.manual_seed(0)
        net, by = Net(), nn.Parameter(torch.tensor(0.5))
        optimizer = torch.optim.SGD([*net.parameters(), by], lr=0.1)
        optimizer.step()
        for step, (rows, labels) in enumerate(batches()):
            Room.most = most if step > 1 else 1000
            cross_entropy(net(rows) * by.exp(), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        return {**net.state_dict(), "by": by.detach()}

    assert far(trained_apart(1000), trained_apart(2)) < 1e-5 and "2 at once" in capfd.readouterr().err


def checkpointed(model: Any, rows: Any) -> Any:
    return checkpoint(lambda rows: torch.tanh(rows * 2) * rows, rows, use_reentrant=False)


def test_a_model_that_is_checkpointed_is_the_same_training(capfd: pytest.CaptureFixture[str]) -> None:
    alone, split = (trained(functools.partial(Net, checkpointed, at=0), mean, most=most) for most in (1000, 4))
    assert far(alone, split) < 1e-5 and "2 at once" in capfd.readouterr().err


def test_numbers_of_half_the_length_are_the_same_to_their_rounding(capfd: pytest.CaptureFixture[str]) -> None:
    def mixed(model: Any, rows: Any, labels: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return cross_entropy(model(rows), labels)

    alone, split = (trained(Net, mixed, most=most) for most in (1000, 4))
    assert far(alone, split) < 1e-2 and "2 at once" in capfd.readouterr().err


def penalty(model: Any, rows: Any, labels: Any) -> Any:
    return mean(model, rows, labels) + 0.1 * sum(weight.square().sum() for weight in model.parameters())


def penalty_of_before(model: Any, rows: Any, labels: Any) -> Any:
    """Made before the model was called, so that its own part of the backward pass comes last."""
    before = 0.1 * sum(weight.square().sum() for weight in model.parameters())
    return mean(model, rows, labels) + before


def gradient_penalty(model: Any, rows: Any, labels: Any) -> Any:
    loss = mean(model, rows, labels)
    (gradient,) = torch.autograd.grad(loss, [model.head.weight], create_graph=True)
    return loss + 0.1 * gradient.square().sum()


def called_with_another(model: Any, rows: Any, labels: Any) -> Any:
    return cross_entropy(model(rows, another=object()), labels)


def retained(model: Any, rows: Any, labels: Any) -> Any:
    loss = mean(model, rows, labels)
    loss.backward(retain_graph=True)
    return loss


def created(model: Any, rows: Any, labels: Any) -> None:
    mean(model, rows, labels).backward(create_graph=True)


def to_some(model: Any, rows: Any, labels: Any) -> None:
    mean(model, rows, labels).backward(inputs=list(model.parameters())[1:])


def of_the_rows(model: Any, rows: Any, labels: Any) -> Any:
    return mean(model, rows.requires_grad_(), labels)


def changed_rows(model: Any, rows: Any, labels: Any) -> Any:
    model.layers[0].requires_grad_(False)  # which would hold its rows to be what they were
    loss = mean(model, rows, labels)
    rows.mul_(1)
    return loss


def changed_result(model: Any, rows: Any, labels: Any) -> Any:
    return cross_entropy(model(rows).mul_(2), labels)


def lost_rows(model: Any, rows: Any, labels: Any) -> Any:
    model.layers[0].requires_grad_(False)
    return cross_entropy(model(rows * 1), labels)


def stepped_between(model: Any, rows: Any, labels: Any) -> Any:
    loss = mean(model, rows, labels)
    with torch.no_grad():
        model.head.bias.add_(1e-7)
    return loss


def mixing_hook(model: Any, rows: Any) -> Any:
    if rows.requires_grad:
        rows.register_hook(lambda gradient: gradient / gradient.norm())
    return rows


def by_rows_hook(model: Any, rows: Any) -> Any:
    if rows.requires_grad:
        rows.register_hook(lambda gradient: gradient * len(gradient))
    return rows


class Steep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * gradient.abs().mean()


def drops(model: Any, rows: Any) -> Any:
    return nn.functional.dropout(rows, 0.01, training=model.training)


def draws_nothing_that_matters(model: Any, rows: Any) -> Any:
    torch.rand(1)
    return rows


def mixes(model: Any, rows: Any) -> Any:
    return rows - rows.mean(0, keepdim=True)


def inner_pass(model: Any, rows: Any) -> Any:
    return checkpoint(lambda rows: torch.tanh(model.layers[0](rows)), rows, use_reentrant=True)


def named(make: Callable[[Any], None]) -> Callable[[], Any]:
    def made() -> Any:
        model = Net()
        make(model)
        return model

    return made


def norm(model: Any) -> None:
    model.norm = nn.BatchNorm1d(WIDTH)
    model.within = lambda model, rows: model.norm(rows)


def spectral(model: Any) -> None:
    model.layers[3] = nn.utils.spectral_norm(model.layers[3])


def counted(model: Any) -> None:
    model.register_buffer("count", torch.zeros(1))
    model.within = lambda model, rows: (model.count.add_(1), rows)[1]


def weight_hook(model: Any) -> None:
    model.layers[0].weight.register_hook(lambda gradient: gradient / gradient.norm())


def late_hook(model: Any) -> None:
    model.layers[0].weight.register_post_accumulate_grad_hook(lambda weight: setattr(weight, "grad", weight.grad * 0.5))


def module_hook(model: Any) -> None:
    model.layers[1].register_full_backward_hook(lambda *_: None)


RESTARTED: list[tuple[Any, Any, str]] = [
    (Net, one_after_another, "before the gradient of what its model gave"),
    (Net, changed_rows, "the batch is gone, or was changed"),
    (Net, lost_rows, "the batch is gone, or was changed"),
    (Net, penalty, "weights beside what"),
    (Net, penalty_of_before, "weights beside what"),
    (Net, gradient_penalty, "weights beside what"),
    (Net, called_with_another, "its model is called with a object"),
    (Net, retained, "kept for another backward pass"),
    (Net, created, "kept for another backward pass"),
    (Net, to_some, "to some weights alone"),
    (Net, of_the_rows, "weights beside what"),
    (Net, changed_result, "changed in place"),
    (Net, stepped_between, "not what it was in the forward pass"),
    (functools.partial(Net, mixing_hook, at=0), mean, "not the sum of theirs"),
    (functools.partial(Net, by_rows_hook, at=0), mean, "not the sum of theirs"),
    (functools.partial(Net, lambda model, rows: Steep.apply(rows), at=0), mean, "not the sum of theirs"),
    (functools.partial(Net, drops), mean, "another result|draws at random"),
    (functools.partial(Net, draws_nothing_that_matters), mean, "draws at random"),
    (functools.partial(Net, mixes), mean, "another result now"),
    (functools.partial(Net, inner_pass, at=0), mean, "another backward pass within it"),
    (named(norm), mean, "another result|changes"),
    (named(spectral), mean, ""),
    (named(counted), mean, "changes count"),
    (named(weight_hook), mean, "its weights have hooks"),
    (named(late_hook), mean, "its weights have hooks"),
    (named(module_hook), mean, ""),
]


@pytest.mark.parametrize(("make", "loss", "why"), RESTARTED, ids=range(len(RESTARTED)))
def test_another_training_is_not_made_of_it(make: Any, loss: Loss, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    trained(make, loss)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(make, loss, most=4)
    assert "taken again" not in (said := capfd.readouterr().err)
    assert any(f"{one}" in said for one in why.split("|")), said


REAL = """
import resource, sys
import torch
from torch import nn
from launcher.trainers.script.inside import splitting
from launcher.worker import spare

splitting.install()
spare.stacks(2)
torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[part for layer in range(6) for part in (nn.Linear(256 if layer else 64, 256), nn.Tanh())])
        self.head = nn.Linear(256, 10)

    def forward(self, rows):
        return self.head(self.body(rows).mean(1))


def data():
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
floor = top = 0
for step in range(6):
    generator = torch.Generator().manual_seed(step)
    rows, labels = torch.randn(16, 512, 64, generator=generator), torch.randint(0, 10, (16,), generator=generator)
    loss = nn.functional.cross_entropy(model(rows).unsqueeze(1).squeeze(1), labels)
    top = max(top, data())
    if step == 3 and sys.argv[1] != "alone":
        resource.setrlimit(resource.RLIMIT_DATA, (int(floor + float(sys.argv[1]) * (top - floor)), resource.RLIM_INFINITY))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    floor = data()
torch.save(model.state_dict(), sys.argv[2])
"""


@pytest.mark.slow
def test_where_memory_really_runs_out_a_little_of_it_is_enough(tmp_path: Path) -> None:
    """Half of what the pass held where it failed: all of that must be gone before parts find room. A fiftieth: less than one row needs, but
    for the stacks that stand ready."""
    script, env = tmp_path / "train.py", {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    script.write_text(REAL)
    for how in ("alone", "0.5", "0.02"):
        ran = subprocess.run(
            [sys.executable, script, how, tmp_path / how], env={**env, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        assert ("in its backward pass; its 16 rows were taken again" in ran.stderr) == (how != "alone"), ran.stderr
        assert far(*(torch.load(tmp_path / one) for one in ("alone", how))) < 1e-6
