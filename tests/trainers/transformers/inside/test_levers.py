"""What a trial sees of levers: by tensors and calls, whatever the arguments say. The loss in parts, and frozen layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch

from launcher.trainers.transformers.inside import levers
from launcher.trainers.transformers.native import hf_run
from launcher.worker.memory_parts import bytes_of
from tests.helpers.hf_data import sums as sums


def model(data: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(data / "model").train()


def rows() -> dict[str, Any]:
    torch.manual_seed(0)
    tokens = torch.randint(3, 20, (2, 40))
    labels = tokens.clone()
    labels[0, :9] = hf_run.IGNORED
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def gradients(trained: Any, counted: Any = None) -> tuple[float, torch.Tensor]:
    loss = trained(**rows(), num_items_in_batch=counted).loss
    loss.backward()
    return loss.item(), torch.cat([one.grad.flatten() for one in trained.parameters()])


@pytest.mark.parametrize("counted", [None, torch.tensor(61)])
@pytest.mark.parametrize("parts", [2, 7, 200])
def test_a_loss_in_parts_has_the_loss_and_the_gradients_of_the_whole_one(sums: Path, parts: int, counted: Any) -> None:
    whole, seen = model(sums), model(sums)
    hf_run.loss_in_chunks(seen, parts, {"input_ids": rows()["input_ids"][0].tolist()})
    calls = levers.calls_of(seen.get_output_embeddings())
    asked, got = gradients(whole, counted), gradients(seen, counted)
    assert got[0] == pytest.approx(asked[0], rel=1e-6) and float((got[1] - asked[1]).norm() / asked[1].norm()) < 1e-5
    assert len(calls) == 2 * parts
    with torch.no_grad():
        assert seen.eval()(**rows()).logits.shape[:2] == (2, 40), "an evaluation has its logits"


def test_a_model_whose_own_loss_is_another_has_none_in_parts(sums: Path) -> None:
    adds = model(sums).eval()
    plain = type(adds).forward

    class More(type(adds)):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            outputs = plain(self, *args, **kwargs)
            outputs.loss = outputs.loss + 0.01  # of its routers, say
            return outputs

    adds.__class__ = More
    with pytest.raises(hf_run.Refused, match="it does more than its output layer"):
        hf_run.loss_in_chunks(adds, 4, {"input_ids": [5, 6, 7, 8]})


def test_frozen_layers_are_seen_and_one_is_left_to_train(sums: Path) -> None:
    trained = model(sums)
    layers = len(trained.get_decoder().layers)
    assert levers.frozen(trained) == 0
    hf_run.freeze_first(trained, layers - 1)
    assert levers.frozen(trained) == layers - 1
    with pytest.raises(hf_run.Refused, match=f"--freeze {layers} layers, of {layers}"):
        hf_run.freeze_first(trained, layers)


def stepped(kind: Any, **settings: Any) -> Any:
    weight = torch.nn.Parameter(torch.ones(256, 512))
    weight.grad = torch.ones_like(weight)
    optimizer = kind([weight], lr=0.1, **settings)
    optimizer.step()
    return optimizer


def test_an_optimizer_is_the_asked_one_by_its_class_and_the_size_of_its_states() -> None:
    from torch.optim import SGD, AdamW

    assert levers.optimizer_seen(stepped(AdamW), "adamw_torch", AdamW) == "adamw_torch"
    assert levers.optimizer_seen(stepped(SGD), "adamw_torch", AdamW) == "SGD"
    assert levers.optimizer_seen(stepped(AdamW), "adamw_8bit", AdamW) == "AdamW with states of single precision"
    words, each = levers.optimizer_told(stepped(AdamW))
    assert each == 8.0 and "8.00 bytes of states for each of 131,072 trained weights (states float32, weights float32" in words


@pytest.mark.parametrize(
    ("weights", "states", "said"),
    [("cpu", "cpu", "none"), ("meta", "meta", "none"), ("meta", "cpu", "optimizer"), ("meta", "cpu meta", "in part"), ("meta", "", "none")],
)
def test_where_states_lie_is_seen_by_the_tensors(weights: str, states: str, said: str) -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(4, device=weights)) for _ in range(2)])
    for one, place in zip(optimizer.param_groups[0]["params"], 2 * states.split() if states else (), strict=False):
        optimizer.state[one] = {"step": torch.tensor(1.0), "exp_avg": torch.ones(4, device=place)}
    assert levers.offload_seen(optimizer) == said and ("in the host's memory" in levers.optimizer_told(optimizer)[0]) == (
        said == "optimizer"
    )


def test_states_of_8_bits_are_seen_as_such() -> None:
    library = pytest.importorskip("bitsandbytes")
    optimizer = stepped(library.optim.AdamW8bit)
    assert levers.optimizer_seen(optimizer, "adamw_8bit", type(optimizer)) == "adamw_8bit"
    assert 2.0 <= levers.optimizer_told(optimizer)[1] < 2.2


class Small(torch.Tensor):
    """As torchao's states of 8 bits: says float32, and keeps bytes and their scale."""

    codes: torch.Tensor

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes"], None


def test_a_tensor_that_keeps_others_within_it_takes_what_those_take() -> None:
    small = torch.zeros(1000).as_subclass(Small)
    small.codes = torch.zeros(1000, dtype=torch.uint8)
    assert (bytes_of(small), bytes_of(torch.zeros(1000))) == (1000, 4000)


@pytest.mark.parametrize(("dtype", "said"), [(torch.bfloat16, "bf16"), (None, "fp32")])
def test_a_precision_is_the_one_that_a_layer_computes_in(sums: Path, dtype: torch.dtype | None, said: str) -> None:
    trained, seen = model(sums), list[str]()
    levers.watch_precision(trained, "cpu", seen.append)
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        trained(**rows())
        trained(**rows())
    assert seen == [said]
