"""A late out-of-memory of transformers' Trainer: the same training as one that found room, or none at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from launcher.trainers.transformers.inside import splitting

ROWS, WORDS, LENGTH = 8, 32, 12
FULL = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."


class Room(torch.autograd.Function):
    """Lets a value through while it has at most so many rows."""

    most = 1000
    fails: tuple[str, ...] = ("forward", "backward")

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        if len(value) > Room.most and "forward" in Room.fails:
            raise RuntimeError(FULL)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if len(gradient) > Room.most and "backward" in Room.fails:
            raise RuntimeError(FULL)
        return gradient


class Model(torch.nn.Module):
    """``loss``: of a micro-batch's logits and labels."""

    def __init__(self, loss: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(WORDS, 16)
        self.middle = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, WORDS)
        self.loss = loss

    def forward(self, input_ids: Any, labels: Any) -> Any:
        room = Room.apply(self.embed(input_ids)) if torch.is_grad_enabled() else self.embed(input_ids)
        logits = self.head(torch.tanh(self.middle(room)))
        return {"loss": self.loss(logits, labels), "logits": logits}


class TakesItems(Model):
    def forward(self, input_ids: Any, labels: Any, **kwargs: Any) -> Any:
        found = super().forward(input_ids, labels)
        counted = kwargs.get("num_items_in_batch")
        summed = torch.nn.functional.cross_entropy(found["logits"].flatten(0, 1), labels.flatten(), reduction="sum")
        return {**found, "loss": summed / (counted if counted is not None else (labels != -100).sum())}


def mean(logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def compared(logits: Any, labels: Any) -> Any:
    rows = torch.nn.functional.normalize(logits.mean(1))
    return torch.nn.functional.cross_entropy(rows @ rows.T, torch.arange(len(rows)))


def weighted(logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=torch.linspace(0.5, 2, WORDS))


def data(*, ragged: bool) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    rows = []
    for number in range(ROWS * 4):
        ids = torch.randint(0, WORDS, (LENGTH,), generator=generator)
        labels = ids.clone()
        labels[: number % 5 if ragged else 0] = -100
        rows.append({"input_ids": ids, "labels": labels})
    return rows


class FromThirdStep(TrainerCallback):  # type: ignore[misc]
    """From there on there is room for fewer rows."""

    def __init__(self, most: int) -> None:
        self.most = most

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        Room.most = self.most if state.global_step >= 2 else 1000


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``install`` leaves it, for one test."""
    monkeypatch.setattr(Trainer, "training_step", splitting._training_step(Trainer.training_step))
    monkeypatch.setattr(Trainer, "prediction_step", splitting._prediction_step(Trainer.prediction_step))


def trained(model: Model, folder: Path, *, most: int = 1000, ragged: bool = False, bf16: bool = False) -> tuple[Model, list[float]]:
    Room.most = 1000
    args = TrainingArguments(
        str(folder), per_device_train_batch_size=ROWS, gradient_accumulation_steps=2, max_steps=5, learning_rate=1e-2, logging_steps=1,
        report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, bf16=bf16,
    )  # fmt: skip
    trainer = Trainer(model, args, train_dataset=data(ragged=ragged), callbacks=[FromThirdStep(most)])
    trainer.train()
    return model, [line["loss"] for line in trainer.state.log_history if "loss" in line]


@pytest.mark.parametrize("fails", [("forward",), ("backward",)])
@pytest.mark.parametrize(("model", "loss", "ragged"), [(Model, mean, False), (TakesItems, mean, True), (TakesItems, mean, False)])
def test_the_weights_are_those_of_a_run_that_found_room(
    model: type[Model], loss: Any, ragged: bool, fails: tuple[str, ...], hooked: None, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Room, "fails", fails)
    plain, losses = trained(model(loss), tmp_path, ragged=ragged)
    split, others = trained(model(loss), tmp_path, most=2, ragged=ragged)
    assert others == pytest.approx(losses, rel=1e-5)
    for name, weight in plain.state_dict().items():
        assert torch.allclose(split.state_dict()[name], weight, rtol=1e-5, atol=1e-6), name
    said = capfd.readouterr().err
    assert "autofit: taken again: a training step found no room after 2 steps; its 8 rows were taken again, 2 at once" in said
    assert said.count("taken again: ") == 1


@pytest.mark.parametrize(
    ("loss", "ragged", "why"),
    [(compared, False, "the loss of 8 rows is"), (weighted, False, "the loss of 8 rows is"), (mean, True, "")],
    ids=["rows are compared", "class weights", "rows of different lengths"],
)
def test_another_training_is_not_made_of_it(
    loss: Any, ragged: bool, why: str, hooked: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A mean over labels of rows that have different numbers of them is found to be one; all else is left to a restart."""
    if not why:
        plain, _ = trained(Model(loss), tmp_path, ragged=True)
        split, _ = trained(Model(loss), tmp_path, most=4, ragged=True)
        assert all(torch.allclose(split.state_dict()[name], weight, atol=1e-6) for name, weight in plain.state_dict().items())
        return
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(Model(loss), tmp_path, most=4, ragged=ragged)
    assert f"can't be taken in parts: {why}" in capfd.readouterr().err


def slightly_weighted(logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=torch.linspace(0.9, 1.1, WORDS).to(logits))


def test_in_half_precision_a_mean_is_told_from_what_is_nearly_one(hooked: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain, losses = trained(Model(mean), tmp_path, bf16=True)
    split, others = trained(Model(mean), tmp_path, most=2, bf16=True)
    assert others == pytest.approx(losses, rel=1e-2)
    assert all(torch.allclose(split.state_dict()[name], weight, atol=1e-2) for name, weight in plain.state_dict().items())
    assert "taken again" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trained(Model(slightly_weighted), tmp_path, most=4, bf16=True)
    assert "can't be taken in parts: the loss of 8 rows is" in capfd.readouterr().err


class Tight(Model):
    """Whose loss without gradients finds no more room than training does."""

    def forward(self, input_ids: Any, labels: Any) -> Any:
        if len(input_ids) > Room.most:
            raise RuntimeError(FULL)
        return super().forward(input_ids, labels)


def test_what_parts_count_for_is_seen_on_as_many_rows_as_find_room(hooked: None, tmp_path: Path) -> None:
    plain, _ = trained(Tight(mean), tmp_path)
    split, _ = trained(Tight(mean), tmp_path, most=2)
    assert all(torch.allclose(split.state_dict()[name], weight, atol=1e-6) for name, weight in plain.state_dict().items())


class InOrder(Trainer):  # type: ignore[misc]
    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(range(ROWS * 4))


def later() -> list[dict[str, Any]]:
    """Rows of as many labels each at first, and then not."""
    rows = data(ragged=False)
    for number, row in enumerate(rows[ROWS * 2 :]):
        row["labels"][: number % 8] = -100
    return rows


def twice() -> list[dict[str, Any]]:
    """The halves of each micro-batch are the same rows, which have different numbers of labels."""
    rows = data(ragged=False)[: ROWS // 2]
    for number, row in enumerate(rows):
        row["labels"][: 2 * number] = -100
    return rows * 8


@pytest.mark.parametrize(("rows", "most"), [(later, 4), (twice, 2)])
def test_a_mean_of_labels_is_told_from_one_of_rows_where_they_were_the_same_at_first(
    rows: Callable[[], Any], most: int, hooked: None, tmp_path: Path
) -> None:
    found = []
    for room in (1000, most):
        Room.most = 1000
        args = TrainingArguments(
            str(tmp_path), per_device_train_batch_size=ROWS, gradient_accumulation_steps=2, max_steps=5, learning_rate=1e-2, report_to=[],
            save_strategy="no", use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        model = Model(mean)
        InOrder(model, args, train_dataset=rows(), callbacks=[FromThirdStep(room)]).train()
        found.append(model.state_dict())
    assert all(torch.allclose(found[1][name], weight, atol=1e-6) for name, weight in found[0].items())


class Crowded(Model):
    """Whose evaluation has room for few rows."""

    def forward(self, input_ids: Any, labels: Any) -> Any:
        if not torch.is_grad_enabled() and len(input_ids) > Room.most:
            raise RuntimeError(FULL)
        return super().forward(input_ids, labels)


def causal(logits: Any, labels: Any) -> Any:
    """Nothing predicts a row's first label."""
    return mean(logits[:, :-1], labels[:, 1:])


def evaluating(folder: Path) -> TrainingArguments:
    return TrainingArguments(str(folder), per_device_eval_batch_size=ROWS, report_to=[], use_cpu=True, disable_tqdm=True)


@pytest.mark.parametrize("loss", [mean, causal])
def test_an_evaluation_is_the_same(loss: Any, hooked: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found, rows = [], data(ragged=True)
    for number, row in enumerate(rows):
        row["labels"][LENGTH - number % 7 :] = -100
        row["labels"][0] = 1
    for most in (1000, 3):
        Room.most = most
        kept = Trainer(Crowded(loss), evaluating(tmp_path)).predict(rows)
        found.append((kept.metrics["test_loss"], torch.tensor(kept.predictions), torch.tensor(kept.label_ids)))
    (loss, logits, labels), (other_loss, other_logits, other_labels) = found
    assert other_loss == pytest.approx(loss, rel=1e-5)
    assert torch.allclose(other_logits, logits, atol=1e-6)
    assert torch.equal(other_labels, labels)
    assert "an evaluation's batch found no room" in capfd.readouterr().err


def test_an_evaluation_whose_rows_are_compared_is_left_to_a_restart(
    hooked: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Room.most = 5
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        Trainer(Crowded(compared), evaluating(tmp_path)).predict(data(ragged=False))
    assert "an evaluation's batch found no room and can't be taken in parts" in capfd.readouterr().err


def test_deepspeed_whose_optimizer_steps_within_a_backward_pass_is_left_alone(hooked: None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(splitting, "_Training", None)
    trainer = Trainer(Model(mean), TrainingArguments(str(tmp_path), use_cpu=True, report_to=[]), train_dataset=data(ragged=False))
    trainer.is_deepspeed_enabled = True
    Room.most, rows = 2, torch.stack([row["input_ids"] for row in data(ragged=False)[:ROWS]])
    trainer.create_optimizer()
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trainer.training_step(trainer.model, {"input_ids": rows, "labels": rows})
