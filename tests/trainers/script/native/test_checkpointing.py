"""Repeated modules that are checkpointed from outside: the plain step's gradients and statistics, or a refusal that says why."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from autofit_launcher.trainers.script.native import checkpointing
from autofit_launcher.trainers.script.native.checkpointing import Checkpointing, NotExact


class Block(nn.Module):
    """As many scripts have one: dropout, a norm, a tensor and something else given, a tuple returned."""

    def __init__(self, width: int = 8, norm: Callable[[int], nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(width, 4 * width), norm(4 * width), nn.Dropout(0.3)
        self.last = nn.Linear(4 * width, width)

    def forward(self, x: Any, *, told: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return x + told["scale"] * self.last(self.drop(self.norm(self.first(x)).relu())), {"mean": x.mean()}


class ChecksItself(Block):
    """It checkpoints by itself."""

    def forward(self, x: Any, *, told: dict[str, Any]) -> Any:
        return torch.utils.checkpoint.checkpoint(super().forward, x, told=told, use_reentrant=False)


class Net(nn.Module):
    def __init__(self, blocks: int = 4, kind: Callable[[], nn.Module] = Block) -> None:
        super().__init__()
        self.enter = nn.Linear(5, 8)
        self.blocks = nn.ModuleList(kind() for _ in range(blocks))
        self.leave = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        x, told = self.enter(x), 0.0
        for block in self.blocks:
            x, beside = block(x, told={"scale": 0.5})
            told = told + beside["mean"]
        return self.leave(x) + told


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Checkpointing]:
    """Switches it on in this process, until the test is over."""
    monkeypatch.setattr(nn.Module, "__call__", nn.Module.__call__)

    def switch_on() -> Checkpointing:
        found = Checkpointing()
        found.install(torch)
        return found

    return switch_on


def trained(model: nn.Module, steps: int = 3, **shapes: int) -> list[Any]:
    """Its gradients, step by step, and its weights and statistics at the end."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
    found: list[Any] = []
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 5)).square().sum().backward()
        found += [None if one.grad is None else one.grad.clone() for one in model.parameters()]
        optimizer.step()
    return [*found, *(value.clone() for value in model.state_dict().values())]


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", [Block, ChecksItself])
def test_gradients_are_the_plain_steps_to_the_last_bit(kind: type[Block], outside: Any) -> None:
    torch.manual_seed(0)
    plain = Net(kind=kind)
    checkpointed = copy.deepcopy(plain)
    before = trained(plain)
    watch = outside()
    assert same(trained(checkpointed), before)
    assert watch.seen
    assert watch.told() == [f"checkpointing: 4 of 4 {kind.__name__} in blocks computed again, 3 times"]


def test_copies_pickles_and_states_of_a_model_are_what_they_are_without_it(outside: Any) -> None:
    model = Net()
    names = list(model.state_dict())
    outside()
    trained(model)
    assert list(model.state_dict()) == names
    assert b"autofit" not in pickle.dumps(model) and b"launcher" not in pickle.dumps(model)
    average, loaded = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    assert same(trained(average), trained(loaded)), "a copy is a model of its own"
    assert same(trained(copy.deepcopy(average)), trained(loaded)), "and goes on from where it was copied"


def test_nothing_is_computed_again_in_evaluation_or_without_gradients(outside: Any) -> None:
    model = Net()
    watch = outside()
    with torch.no_grad():
        model(torch.randn(6, 5))
    model.eval()(torch.randn(6, 5)).sum().backward()
    assert watch.seen is False


def test_several_ranks_data_parallel_wrapper_is_looked_into(outside: Any, tmp_path: Any) -> None:
    import torch.distributed as dist

    torch.manual_seed(0)
    plain = Net()
    model = copy.deepcopy(plain)
    before = trained(plain)
    watch = outside()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/ranks", rank=0, world_size=1)
    try:
        assert same(trained(nn.parallel.DistributedDataParallel(model)), before)
    finally:
        dist.destroy_process_group()
    assert watch.told() == ["checkpointing: 4 of 4 Block in module.blocks computed again, 3 times"]


# ----------------------------------------------------------------------------------------------------------------------
# What is refused


class KeepsAList(Block):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def forward(self, x: Any, *, told: dict[str, Any]) -> Any:
        self.seen.append(1.0)
        return super().forward(x, told=told)


class Counts(Block):
    calls = 0

    def forward(self, x: Any, *, told: dict[str, Any]) -> Any:
        self.calls += 1
        return super().forward(x, told=told)


class HasStatistics(Block):
    def __init__(self) -> None:
        super().__init__(norm=nn.BatchNorm1d)


class DrawsByPython(Block):
    def forward(self, x: Any, *, told: dict[str, Any]) -> Any:
        return super().forward(x * random.random(), told=told)


class ChangesItsInput(Block):
    def forward(self, x: Any, *, told: dict[str, Any]) -> Any:
        return super().forward(x.mul_(1.5), told=told)


class HasAHook(Block):
    def __init__(self) -> None:
        super().__init__()
        self.norm.register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (KeepsAList, r"blocks\.0 keeps something of each call \(KeepsAList\.seen\)"),
        (Counts, r"keeps something of each call \(Counts\.calls\)"),
        (HasStatistics, r"keeps something of each call \(BatchNorm1d\.(running_mean|running_var|num_batches_tracked)\)"),
        (DrawsByPython, r"gives something else when it is computed again"),
        (ChangesItsInput, r"gives something else when it is computed again"),
        (HasAHook, r"has hooks \(LayerNorm_forward_hooks\)"),
    ],
)
def test_what_would_not_be_the_same_training_is_refused_by_name(kind: Callable[[], nn.Module], why: str, outside: Any) -> None:
    model = Net(kind=kind)
    outside()
    with pytest.raises(NotExact, match=why):
        trained(model)


def test_a_model_that_is_compiled_is_refused_and_one_of_single_layers_told(outside: Any) -> None:
    watch = outside()
    trained(nn.Sequential(*(nn.Linear(5, 5) for _ in range(9))))
    assert watch.seen is False and watch.told()[0].startswith("checkpointing: no modules repeat")
    with pytest.raises(NotExact, match="activation_memory_budget"):
        trained(torch.compile(Net(), backend="eager"))


# ----------------------------------------------------------------------------------------------------------------------
# Which modules repeat


def found(model: nn.Module) -> dict[str, list[str]]:
    return {f"{one.where}: {one.kind}": [name for name, _ in one.blocks] for one in checkpointing.stacks(model)}


def test_stacks_are_modules_of_one_class_under_one_parent_and_no_single_layers() -> None:
    layer = nn.TransformerDecoderLayer(8, 2, 16)
    assert found(nn.Transformer(8, 2, 3, 4, 16)) == {
        "encoder.layers: TransformerEncoderLayer": [f"encoder.layers.{at}" for at in range(3)],
        "decoder.layers: TransformerDecoderLayer": [f"decoder.layers.{at}" for at in range(4)],
    }
    assert found(nn.TransformerDecoder(layer, 2)) == {}
    assert found(nn.Sequential(*[nn.Conv2d(3, 3, 3)] * 9)) == {}


def test_of_stacks_within_each_other_the_inner_one_counts_where_it_holds_most() -> None:
    def stage(blocks: int) -> nn.Module:
        return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(blocks)))

    model = nn.Module()
    model.one, model.two, model.three, model.four = stage(2), stage(2), stage(6), stage(2)
    assert found(model) == {": Sequential": ["one", "two", "four"], "three: Sequential": [f"three.{at}" for at in range(6)]}


def test_a_layer_of_transformers_leaves_its_cache_out_as_its_own_switch_would(outside: Any) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "vocab_size": 50}
    torch.manual_seed(0)
    plain = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, attention_dropout=0.1)).train()
    model, tokens = copy.deepcopy(plain), torch.randint(0, 50, (3, 9))

    def gradients(model: Any) -> list[Any]:
        torch.manual_seed(2)
        for _ in range(3):
            model(input_ids=tokens, labels=tokens).loss.backward()
        return [one.grad for one in model.parameters()]

    before = gradients(plain)
    watch = outside()
    for one, other in zip(gradients(model), before, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    assert watch.told() == ["checkpointing: 4 of 4 LlamaDecoderLayer in model.layers computed again, 3 times"]
