"""A late out-of-memory of transformers' ``Trainer`` costs no step: its training step and its prediction step are taken again in halves.

Loaded into full runs. Any version's ``Trainer`` is seen at work, not believed: what the loss of a part counts for is found when it first
matters, by asking for the loss of the whole and of its halves. Where they don't come to one another (rows that are compared with each
other, class weights), nothing is taken in parts.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....worker import saving, splitting
from ....worker.after_import import after_import
from ....worker.splitting import CannotSplit, Splitting

NEAR, NEAR_ON_A_CARD = 3e-6, 3e-5
"""Two losses in float32 are the same to this relative difference. On a CPU a row's loss hardly depends on its batch, in mixed precision
either (2e-7); a card's kernels differ with its size where numbers of half the length are computed with."""
ALIKE = 1e-9
FEWEST = 4
"""Rows of which half is still two that can be taken apart."""
_trainings: weakref.WeakKeyDictionary[Any, _Training] = weakref.WeakKeyDictionary()
_evaluations: weakref.WeakKeyDictionary[Any, _Evaluation] = weakref.WeakKeyDictionary()


def install() -> None:
    """In this process, as soon as ``Trainer`` is there."""
    saving.install()
    if splitting.alone():
        after_import({"transformers.trainer": _trainer, "transformers.trainer_seq2seq": _seq2seq})


def _trainer(module: Any) -> None:
    trainer = module.Trainer
    trainer.training_step = _training_step(trainer.training_step)
    trainer.prediction_step = _prediction_step(trainer.prediction_step)


def _seq2seq(module: Any) -> None:
    trainer = module.Seq2SeqTrainer
    trainer.prediction_step = _prediction_step(trainer.prediction_step)


def _training_step(plain: Callable[..., Any]) -> Callable[..., Any]:
    def training_step(self: Any, model: Any, inputs: Any, num_items_in_batch: Any = None, *more: Any, **named: Any) -> Any:
        if getattr(self, "is_deepspeed_enabled", False):  # its optimizer steps within a backward pass: each part would be a step
            return plain(self, model, inputs, num_items_in_batch, *more, **named)
        training = _trainings.get(self)
        if training is None:
            training = _trainings[self] = _Training(self, model)

        def step(given: Any) -> Any:
            return plain(self, model, given, num_items_in_batch, *more, **named)

        return training.step(inputs, num_items_in_batch, step)

    return training_step


class _Training:
    """The micro-batches of one trainer."""

    def __init__(self, trainer: Any, model: Any) -> None:
        self._trainer, self._model = weakref.proxy(trainer), weakref.proxy(model)
        self._took = Splitting("a training step", model=model)
        self._shares = _Shares(self._trainer, self._took.before)
        splitting.take_care("transformers")

    def step(self, inputs: Any, items: Any, plain: Callable[[Any], Any]) -> Any:
        """The loss of a micro-batch, which ``plain`` gives for all of it or a part; the gradients are its, too."""

        def one(first: int, last: int) -> Any:
            part = splitting.some_rows(inputs, first, last)
            weight = self._shares.of(self._model, inputs, part, items)
            with _weighted(self._trainer.accelerator, weight):
                return plain(part) * weight

        where = f" after {self._trainer.state.global_step} steps"
        return sum(self._took.take(splitting.rows_of(inputs), one, lambda: plain(inputs), where=where))


Share = Callable[[Any, Any], float]
"""(a micro-batch, a part of it) -> what the part's loss counts for in the micro-batch's."""


def _all(inputs: Any, part: Any) -> float:
    """Losses that are divided by all items of the optimizer step add up."""
    return 1.0


def _of_rows(inputs: Any, part: Any) -> float:
    return splitting.rows_of(part) / splitting.rows_of(inputs)


def _of_labels(inputs: Any, part: Any) -> float:
    return _labels(part) / max(_labels(inputs), 1)


def _of_labels_but_the_first(inputs: Any, part: Any) -> float:
    """As causal language models have it, whose first label is predicted by nothing."""
    return _labels(part, since=1) / max(_labels(inputs, since=1), 1)


SHARES = (_all, _of_rows, _of_labels, _of_labels_but_the_first)


def _labels(inputs: Any, *, since: int = 0) -> int:
    """Labels that aren't ignored; rows where there are none of tokens."""
    labels = inputs.get("labels")
    if labels is None or labels.dim() < 2 or labels.is_floating_point():
        return splitting.rows_of(inputs)
    return int((labels[:, since:] != splitting.IGNORED).sum())


class _Shares:
    """What the loss of a part counts for in its micro-batch's: found by asking for losses with no gradients where it first matters, and
    again where what was seen leaves more than one answer (rows had as many labels each, and now they have not)."""

    def __init__(self, trainer: Any, before: Callable[[], splitting.Before]) -> None:
        """``before``: what a pass changes, to be put back."""
        self._trainer, self._before = trainer, before
        self._possible: Sequence[Share] = SHARES

    def of(self, model: Any, inputs: Any, part: Any, items: Any = None) -> float:
        """What the part's loss counts for. Raises CannotSplit where it can't be told, or where the losses of parts come to no whole's."""
        left = [inputs]
        while self._apart(inputs, part):
            if not left:
                raise CannotSplit("its loss could be a mean of rows, or of their labels")
            rows = left.pop(0)
            if not self._looked(model, rows, items):
                splitting.give_back(young=True)
            left += [half for half in _halves(rows) if splitting.rows_of(half) > 1]
        return self._possible[0](inputs, part)

    def _apart(self, inputs: Any, part: Any) -> bool:
        """Whether what is possible still comes to different answers."""
        weights = [share(inputs, part) for share in self._possible]
        return max(weights) - min(weights) > ALIKE

    def _looked(self, model: Any, inputs: Any, items: Any) -> bool:
        """Leaves what fits these rows; False where they found no room for that. Raises the error of a pass where they are few."""
        try:
            self._look(model, inputs, items)
        except RuntimeError as error:
            if splitting.rows_of(inputs) < FEWEST or not splitting.of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)
            return False
        return True

    def _look(self, model: Any, inputs: Any, items: Any) -> None:
        """Leaves the shares by which the losses of two halves come to the loss of both, by asking for all three, with no gradients.

        Raises CannotSplit where there is none: rows that are compared with one another, say.
        """
        halves = _halves(inputs)
        whole, *losses = (self._loss(model, part, items) for part in (inputs, *halves))
        near = self._near(model, whole)
        weights = [[share(inputs, half) for half in halves] for share in self._possible]
        possible = [
            share for share, (first, second) in zip(self._possible, weights, strict=True)
            if abs((losses[0] * first + losses[1] * second) / whole - 1) < near
        ]  # fmt: skip
        if not possible:
            rows = splitting.rows_of(inputs)
            raise CannotSplit(f"the loss of {rows} rows is {float(whole):.6g}, and of their halves {losses[0]:.6g} and {losses[1]:.6g}")
        self._possible = possible

    def _near(self, model: Any, loss: Any) -> float:
        if loss.dtype.itemsize < 4:
            raise CannotSplit(f"its loss is a number of half the length ({loss.dtype})")
        halves = any(weight.is_floating_point() and weight.dtype.itemsize < 4 for weight in model.parameters())
        mixed = halves or self._trainer.accelerator.mixed_precision in ("fp16", "bf16")
        return NEAR_ON_A_CARD if mixed and loss.is_cuda else NEAR

    def _loss(self, model: Any, part: Any, items: Any) -> Any:
        import torch

        before, training = self._before(), model.training
        model.eval()  # parts draw other dropout
        try:
            with torch.no_grad(), self._trainer.compute_loss_context_manager():
                loss = self._trainer.compute_loss(model, self._trainer._prepare_inputs(part), num_items_in_batch=items)
        finally:
            model.train(training)
            before.put_back()
        return loss.detach().mean()


def _halves(inputs: Any) -> list[Any]:
    rows = splitting.rows_of(inputs)
    return [splitting.some_rows(inputs, 0, rows // 2), splitting.some_rows(inputs, rows // 2, rows)]


@contextlib.contextmanager
def _weighted(accelerator: Any, weight: float) -> Iterator[None]:
    """While open, a backward pass counts for so much."""
    if weight == 1.0:
        yield
        return
    plain = accelerator.backward
    accelerator.backward = lambda loss, **named: plain(loss * weight, **named)
    try:
        yield
    finally:
        del accelerator.backward


def _prediction_step(plain: Callable[..., Any]) -> Callable[..., Any]:
    def prediction_step(self: Any, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        evaluation = _evaluations.get(self)
        if evaluation is None:
            evaluation = _evaluations[self] = _Evaluation(self)
        return evaluation.step(model, inputs, lambda given: plain(self, model, given, *more, **named))

    return prediction_step


class _Evaluation:
    """The batches that one trainer evaluates or predicts."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = weakref.proxy(trainer)
        self._took = Splitting("an evaluation's batch")
        self._shares = _Shares(self._trainer, self._took.before)

    def step(self, model: Any, inputs: Any, plain: Callable[[Any], Any]) -> Any:
        """(loss, logits, labels) of a batch."""

        def one(first: int, last: int) -> Any:
            part = splitting.some_rows(inputs, first, last)
            found = plain(part)
            if found[0] is None:
                return 0.0, found
            return self._shares.of(model, inputs, part), found

        found = self._took.take(splitting.rows_of(inputs), one, lambda: (1.0, plain(inputs)))
        return found[0][1] if len(found) == 1 else _joined(found)


def _joined(found: Sequence[tuple[float, Any]]) -> tuple[Any, Any, Any]:
    """(loss, logits, labels) of the whole batch, of parts and what their losses count for."""
    weights, results = zip(*found, strict=True)
    losses, logits, labels = zip(*results, strict=True)
    loss = None if losses[0] is None else sum(one * weight for one, weight in zip(losses, weights, strict=True))
    return loss, _concatenated(logits), _concatenated(labels)


def _concatenated(kept: Sequence[Any]) -> Any:
    """Predictions of parts as one, with rows as long as the longest; None where there are none."""
    from transformers.trainer_pt_utils import find_batch_size, nested_concat

    if kept[0] is None:
        return None
    with contextlib.suppress(CannotSplit):  # all at once: one by one, those joined before would be there twice
        return splitting.joined([find_batch_size(one) or 0 for one in kept], kept)
    return functools.reduce(nested_concat, kept)
