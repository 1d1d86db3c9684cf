"""A step traced without memory: what lives when, how it grows, and how a card would cast it."""

from __future__ import annotations

import gc

import pytest
import torch

from launcher.shared import trace as events
from launcher.shared.report import Phase
from launcher.shared.trace import ACCUMULATE, Convolved, Multiplied, Trace
from launcher.worker import tracing
from launcher.worker.tracing import Counts


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        found = self.conv(image).relu()
        dense = found[found > 0.5]  # how many, only data says
        out: torch.Tensor = self.head(found.mean((2, 3))).softmax(1).sum() + dense.sum()
        return out


def trace(images: int, side: int, *, dtype: torch.dtype | None = None) -> Trace:
    """One step of SGD with momentum, and one that finds gradients."""
    net = Net()
    sizes = tracing.primes({"images": images, "side": side}, beside=tracing.dimensions(net))
    with tracing.tracing(Counts(sizes=tuple(sizes.values()))) as (tracer, mode):
        tracer.begin(Phase.SETUP)
        tracing.without_memory(net, mode)
        tracer.adopt(list(net.parameters()))
        trained = list(net.parameters())
        optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9)
        tracing.state_there(optimizer, trained)
        for phase in (Phase.TRAIN, ACCUMULATE):
            tracer.begin(phase)
            if phase == ACCUMULATE:
                tracing.gradients_there(trained)
            with tracing.autocast(dtype):
                loss = net(torch.empty(sizes["images"], 3, sizes["side"], sizes["side"]))
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()
        found = tuple(tracer.events)
    gc.collect()
    return Trace(traced_at=sizes, events=found, versions={})


@pytest.fixture(scope="module")
def small() -> Trace:
    return trace(13, 17)


def test_a_trace_at_other_sizes_is_what_is_traced_at_those_sizes(small: Trace) -> None:
    other = trace(29, 11)
    assert other.traced_at != small.traced_at
    assert small.at(other.traced_at) == list(other.events)


def test_weights_their_state_and_activations_are_alive_at_the_peak(small: Trace) -> None:
    weights = sum(one.numel() for one in Net().parameters()) * 4
    peaks = events.live(small.events)
    outputs = 13 * 8 * 17 * 17 * 4  # of the convolution, and of relu
    assert peaks[Phase.SETUP] >= 3 * weights  # weights, momentum, and the gradients it was made from
    assert 2 * weights + 2 * outputs <= peaks[Phase.TRAIN] <= peaks[ACCUMULATE] <= 2 * weights + 6 * outputs


def test_no_memory_is_taken_for_a_batch_that_no_machine_holds() -> None:
    huge = trace(100_003, 1009)
    assert events.live(huge.events)[Phase.TRAIN] > 2**42


def test_convolutions_and_products_are_noted_with_their_direction(small: Trace) -> None:
    assert [event.backward for event in small.events if isinstance(event, Convolved)][:2] == [False, True]
    assert {event.backward for event in small.events if isinstance(event, Multiplied)} == {False, True}


def test_autocast_keeps_in_fp32_what_a_card_keeps() -> None:
    with tracing.autocast(torch.bfloat16):
        product = torch.ones(2, 3) @ torch.ones(3, 2)
        kinds = [product.dtype, product.softmax(1).dtype, product.sum().dtype, torch.nn.functional.layer_norm(product, (2,)).dtype]
    assert kinds == [torch.bfloat16, torch.float32, torch.float32, torch.float32]
    assert torch.ones(2, 2).bfloat16().softmax(1).dtype is torch.bfloat16  # outside, as ever


def test_what_autocast_adds_is_on_cudas_list_and_not_on_the_cpus() -> None:
    names = set(torch._C._dispatch_get_all_op_names())
    known = [f"aten::{name}" for name in tracing.CASTS if f"aten::{name}" in names]
    assert len(known) == len(tracing.CASTS)
    for name in known:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCUDA"), name
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU"), name


def test_sizes_are_primes_that_divide_nothing_else() -> None:
    found = tracing.primes({"images": 16, "side": 20, "val_side": 21}, beside={640, 80, 19 * 4, 300})
    assert len(set(found.values())) == 3 and 19 not in found.values()
    assert all(all(one % small for small in range(2, one)) and one >= 11 for one in found.values())
