"""Holds back optimizer steps until all micro-batches of a large batch are in, and weights their gradients. Beside ``accumulate``."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .loaders import Pass, ToldLengths, samples

LOSS = "ACCUMULATE_LOSS"
STRICT_STEPS = 2
"""Optimizer steps in which whatever can't be exact ends the process; afterwards it is told."""


class NotExact(RuntimeError):
    """The update would not be the large batch's. The message says why, and what would work."""

    def __init__(self, why: str) -> None:
        super().__init__(f"accumulation from outside can't be exact here: {why}")


def refuse_trainers(frame: object) -> None:
    """Raises NotExact where a trainer asks that counts its steps itself."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")  # type: ignore[attr-defined]
        if name in ("transformers.trainer", "lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"):
            raise NotExact(f"{name.split('.')[0]} counts the steps and accumulates by itself")
        frame = frame.f_back  # type: ignore[attr-defined]


def refuse_deepspeed(engine: Any) -> None:
    """Patches ``deepspeed.runtime.engine``, which makes the steps itself: one that is made raises NotExact."""

    def refused(*_: object, **__: object) -> None:
        raise NotExact("DeepSpeed makes the steps and accumulates by itself (gradient_accumulation_steps in its file)")

    engine.DeepSpeedEngine.__init__ = refused


class HeldSteps:
    """The state of one optimizer."""

    def __init__(self) -> None:
        self.pending = 0
        """Steps held back since the last real one."""
        self.backwards = 0
        """Backward passes since the last call of ``step``."""
        self.inside = False
        self.batch = -1
        """Number of the batch after which it stepped last."""


class Outside:
    """The accumulation of one process."""

    def __init__(self, every: int, loss: str = "", split: tuple[int, int, str] | None = None) -> None:
        """``split``: batch size of the script's own loader, the micro-batch that it shall have, and where it is made (``train.py:31``)."""
        self.notes: list[str] = []
        self.steps = self.micro_batches = 0
        self.every, self.loss_is, self.split = every, loss, split
        self.paused = False
        """Set while somebody else stands in for training: nothing is held, counted or checked."""
        self.lengths = ToldLengths(every, self.note)
        self.in_backward = self.scaler_held = self.has_split = False
        self.optimizers: weakref.WeakKeyDictionary[Any, HeldSteps] = weakref.WeakKeyDictionary()
        self.deferred: weakref.WeakKeyDictionary[Any, Callable[[], Any]] = weakref.WeakKeyDictionary()
        """Scheduler -> its last step in the middle of a group: done after it, where none came with the group's own step."""
        self.turned: int | None = None
        """Samples of a batch of the loader that trained first: the one whose size was turned."""
        self._drawn: Pass | None = None
        """The pass of which a batch was drawn last."""
        self._pass: Pass | None = None
        """The pass of which a batch was trained last."""
        self._batch = 0
        """Batches that were trained."""
        self._weight = 0.0
        """Micro-batches of this group before the one that is under way, the last of a pass by its samples."""
        self._counted = -1
        """The last batch that was counted as one of its group."""

    def ended(self) -> None:
        """The process ends, and with it a loader that it has let go."""
        self._drawn = self._pass = None
        if self.micro_batches:
            self.note(f"{self.micro_batches} micro-batches, {self.steps} optimizer steps ({self.every} micro-batches in each)")

    def note(self, text: str) -> None:
        """Tells it, once."""
        if text in self.notes:
            return
        self.notes.append(text)
        if os.environ.get("RANK", "0") == "0":
            print(f"accumulate: {text}", file=sys.stderr, flush=True)

    def trouble(self, text: str) -> None:
        """Tells something that can't be exact: ends the process in the first steps, leaves a word later on."""
        if self.steps < STRICT_STEPS:
            self.micro_batches = 0
            raise NotExact(text)
        self.note(f"from here on not the large batch's update: {text}")

    def resumes(self, on: bool) -> None:
        """Sets ``paused`` from outside, or trains for real again."""
        self.paused, self._weight = on, 0.0
        for held in self.optimizers.values():
            held.batch, held.backwards, held.pending = -1, 0, 0

    # -- batches

    def begun(self, loader: Any, batches: Any) -> Any:
        """A pass over a loader has begun."""
        self.lengths.begins(loader)
        if isinstance(batches, Pass):
            return batches
        return Pass(loader, batches, every=1 if self.is_another(loader) else self.every, count=self.lengths.of(loader), drawn=self._draws)

    def is_another(self, loader: Any) -> bool:
        """Tells whether a loader's batches aren't those whose size was turned: what trains on them steps as the script has it."""
        return None not in (self.turned, size := samples(loader)) and size != self.turned

    def _draws(self, one: Pass) -> None:
        self._drawn = one
        if self.paused:  # somebody else trains it
            one.trained = one.position

    @property
    def due(self) -> bool:
        """True if the batch that is trained completes a group."""
        return self._pass is None or self._pass.completes_a_step

    @property
    def skips(self) -> bool:
        """True if a scheduler's step in the middle of a group is left out, since nothing is held meanwhile."""
        return self.paused and self._drawn is not None and not (self._drawn.ended or self._drawn.completes_a_step)

    @property
    def pending(self) -> bool:
        """True if an optimizer's step is held back."""
        return any(held.pending for held in self.optimizers.values())

    # -- backward passes

    def backward_begins(self) -> float:
        """Returns the factor by which the gradients of this backward pass are multiplied."""
        one = self._drawn
        if one is None or (self.steps < STRICT_STEPS and not one.in_a_loop):
            self.trouble(
                "the batches don't come of a loop over a data loader, so the script counts its steps itself and would take "
                f"{self.every} times too few"
            )
            return 1.0 / self.every
        if one.position != one.trained:
            self._next(one)
            if self.due and self.loss_is != "sum":
                self._weigh(one)
        return self._scale(one)

    def _next(self, one: Pass) -> None:
        """The first backward pass of a batch begins."""
        left = self._pass
        if one.position > one.trained + 1:
            self.trouble("batches are fetched ahead of their training, or skipped")
        if left is not None and left is not one and not left.ended and not left.last and self.pending:
            self.trouble("a pass over the data is left before its end, in the middle of an optimizer step")
        if not self.pending:
            deferred, self.deferred = list(self.deferred.values()), weakref.WeakKeyDictionary()
            for step in deferred:
                step()
        one.trained = one.position
        self._pass = one
        self._batch += 1
        self.micro_batches += 1
        self.turned = self.turned or one.size
        if self.is_another(one.loader):
            self.note(f"batches of {one.size} aren't those that were turned ({self.turned}): each is a step, as the script makes them")
        self.refuse_unsplit(one.loader)

    def refuse_unsplit(self, loader: Any) -> None:
        """The loader that trains isn't the one that was to get smaller batches: its script was edited, or the line isn't its own."""
        if self.split is None or (self.has_split and (loader is None or samples(loader) != self.split[0])):
            return
        self.trouble(f"no loader with batches of {self.split[0]} that trains is made in {self.split[2]}: the script may have been edited")

    def _weigh(self, one: Pass) -> None:
        """Gives the gradients that are there the weight they have in this group, which may be smaller than the others."""
        factor = self.every / (self._weight + one.weight)
        if abs(factor - 1) < 1e-9:
            return
        for optimizer, held in self.optimizers.items():
            for parameter in _parameters(optimizer) if held.pending else ():
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    def _scale(self, one: Pass) -> float:
        if self.loss_is == "sum":
            return 1.0
        if self.due:
            return one.weight / (self._weight + one.weight)
        return one.weight / self.every

    def backward_done(self) -> None:
        for held in self.optimizers.values():
            held.backwards += 1

    # -- optimizers

    def step(self, optimizer: Any, really: Callable[[], Any], closure: Any) -> Any:
        """Steps, or holds the step back."""
        held = self.optimizers.get(optimizer)
        if self.paused or held is None or held.inside:
            return really()
        if closure is not None:
            raise NotExact(
                "the optimizer is given a closure, which computes the gradients anew in each step (LBFGS), or belongs to a trainer "
                "(Lightning) that accumulates itself: use its own word for it"
            )
        self._check(held)
        held.batch, held.backwards = self._batch, 0
        if not self.due:
            self._hold(held)
            return None
        return self._steps(held, really)

    def _steps(self, held: HeldSteps, really: Callable[[], Any]) -> Any:
        held.inside = True
        try:
            return really()
        finally:
            held.inside = False
            held.pending = 0
            if self._counted != self._batch:
                self._counted = self._batch
                self._weight = 0.0
                self.steps += 1

    def _check(self, held: HeldSteps) -> None:
        if not held.backwards:
            self.trouble("a step came without a backward pass before it")
        if held.batch >= 0 and self._batch - held.batch != 1:
            self.trouble(
                "an optimizer doesn't step after every batch: the script accumulates itself, or trains with several optimizers in turn"
            )
        if self.steps == 0 and not held.pending:
            refuse_trainers(sys._getframe(1))

    def _hold(self, held: HeldSteps) -> None:
        if self.steps == 0 and not held.pending:
            each = f"{self.every} micro-batches are in each optimizer step"
            self.note(f"{each}; what the script does at every batch itself it does at each of them")
        held.pending += 1
        if self._counted != self._batch and self._pass is not None:  # once, however many optimizers step after this batch
            self._counted = self._batch
            self._weight += self._pass.weight

    def cleared(self, held: HeldSteps | None) -> bool:
        """Tells whether a ``zero_grad`` may be done: not while micro-batches are held."""
        if held is None or self.paused or not held.pending:
            return True
        if held.backwards:
            self.trouble("the script throws gradients away after a backward pass (several losses or models in turn)")
            held.pending, self._weight = 0, 0.0
            return True
        return False

    def owner(self, parameters: Any) -> HeldSteps | None:
        """The first optimizer with pending micro-batches that trains one of the parameters."""
        wanted = {id(one) for one in parameters}
        pending = ((optimizer, held) for optimizer, held in self.optimizers.items() if held.pending)
        return next((held for optimizer, held in pending if any(id(one) in wanted for one in _parameters(optimizer))), None)


def _parameters(optimizer: Any) -> Iterator[Any]:
    return (one for group in optimizer.param_groups for one in group["params"])
