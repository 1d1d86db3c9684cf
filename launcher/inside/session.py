"""Takes what the hooks see in one process; decides phase, cut, fast-forward and end of the trial, and keeps its report.

The life of a trial in a script that nobody prepared for it:

  SETUP          from the first module that is built (the budget is taken then, after the imports)
  TRAIN          from the first training batch, for ``steps`` optimizer steps
  (forwarding)   where no validation has come by then: forward, backward and step of the model become stubs, weights, gradients and
                 optimizer states stay where they are, and the script is let run until it validates or ends
  VALIDATE       a pass without gradients, really run, cut after some batches
  TRAIN_AGAIN    real steps again
  FINISH         the script is let run to its own end, its training stubs again: the best checkpoint loaded, a test set, figures.
                 Where something new comes (an optimizer, larger inputs, thawed weights), real steps are taken again

A validation before the first ``steps`` steps is run, but counts for nothing: optimizer states are not there yet.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
import os
import statistics
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..shared.orders import Orders
from ..shared.report import CARD, HOST_BESIDE, HOST_GROWTH, OTHER_CARDS, OWN_ACCUMULATION, RANK, STEPPED_AT, WORLD_SIZE, Phase
from ..shared.sizes import format_size
from . import budget, by_hand, cards, kept_checkpoint
from .gathered import JOINED, Gathered, live_bytes
from .progress import StepsByOptimizer
from .ranks import NO, YES, Ranks
from .recorder import OverCap, Recorder
from .settings import LEAST_STEPS, ProbeSettings

SLACK_STEPS = 2
"""Real optimizer steps after the wanted ones before fast-forward begins: the usual validation comes by then."""
SLACK_PASSES = 3
LEAST_VALIDATION = 4
"""Validation batches that are let through where there are so many: growth from batch to batch shows from the third on."""
VARIETY = 16
"""Micro-batches of training, of differing lengths where there are such, that are let through where they come quickly (a peak that lasts
shorter than a look at the memory shows in one of several) ..."""
VARIETY_AGAIN = 8
"""... and after validation ..."""
VARIETY_S = 6.0
"""... which is within so many seconds, or where lengths differ ..."""
VARIETY_OF_LENGTHS = 48
VARIETY_LENGTHS_S = 25.0
COLLECT_S = 1.0
WHOLE_AGAIN_S = 20.0
"""A growing pass is followed to its end after validation, too, where that takes no longer."""


class Session:
    """One process's part in a trial. Hooks call its methods; it acts by ``forwarding``, ``want_end`` and by ending the process."""

    def __init__(self, settings: ProbeSettings) -> None:
        self.settings = settings
        self.orders = Orders(**settings.orders)
        self.recorder: Recorder | None = None
        self.phase = Phase.START
        self.steps = 0
        self.progress = StepsByOptimizer()
        self.validated = False
        """A validation after the wanted steps has been seen to its (cut) end."""
        self.eval_batches = 0
        self.eval_signs = False
        """Something looked like validation after the wanted steps, whether or not it was seen through."""
        self.forwarding = False
        self.trains_in_eval_mode = False
        """A backward pass came while the model stood in evaluation mode: only gradients tell training from validation then."""
        self.passes: Any = None
        """``passes.Passes``, which sets itself here."""
        self.passive = False
        """A trainer's own hooks (Hugging Face, Lightning) steer; the generic ones only count."""
        self.forward_began = 0.0
        self.passes_after = 0
        self.roots: list[Any] = []
        self._train_began = self._collected = 0.0
        self._train_batches = 0
        self._judged: float = math.inf
        """Losses of so many backward passes in all are judged."""
        self.drawn = self.forwards = self.backwards = 0
        """Real training batches, calls of the model and backward passes since the last optimizer step."""
        self.parted = False
        """A loader gives the whole batch of a step, which the script then takes in parts: the model's input is the micro-batch."""
        self.at_the_end = False
        """The last training batch that was drawn is its pass's last: by the loader's length, or since the pass has ended.
        A script may know it before it trains that batch: accelerate's loaders look one ahead, and force a step there."""
        self._in_steps: list[int] = []
        """Micro-batches of each optimizer step; those that were short where a pass ended are left out."""
        self._short = False
        """The last of them is short, and nothing came after it yet."""
        self._countable = True
        """Steps tell how many micro-batches make one: no closure called for more of them, and one optimizer alone steps."""
        self.varies = False
        """Batches of one number of samples came in several shapes."""
        self.grew = self.grows = False
        """Training left memory behind with every batch: so far, and in the pass that is open."""
        self.gathered = Gathered(self.orders.device)
        """By the open validation pass."""
        self.joins = 0.0
        """Batches of the whole validation (with the part that its last one is), where what is kept of them is joined anew at each."""
        self._held: list[Any] = []
        self._dead = False
        self.sampled: dict[int, list[int] | None] = {}
        """Data set, by identity -> its items as ``worst`` orders them; None: taken as drawn."""
        self.sizes: dict[int, dict[int, int]] = {}
        """Likewise -> the sizes of its sampled items."""
        self.turn = 0
        """Passes that were begun with lengths of our choice."""
        self.on_forwarding: list[Any] = []
        self.hand: by_hand.Hand | None = None
        """Stands for an optimizer of a script that uses none of torch's."""
        self.on_hand: list[Any] = []
        self._backwards_in_all = 0
        self._stepped_at: dict[int, int] = {}
        """Optimizer, by identity -> backward passes in all at its last step."""
        self._card: int | None = None
        """Number of this process's card, where the command has several."""
        self._ranks: Ranks | None = None
        self._places: Counter[str] = Counter()
        self._saw_validation = False
        """This rank has; ``validated`` comes with what all decide."""
        self._forward_now = False
        self._thread = 0  # that of the optimizer's steps, once there was one

    # -- budget and report

    @property
    def settled(self) -> bool:
        """The budget is taken, or never will be in this process."""
        return self.recorder is not None or self._dead

    @property
    def active(self) -> bool:
        return self.recorder is not None and not self._dead

    def open(self, card: int | None = None) -> None:
        """Takes the budget, once: everything that is made from here on is inside it. Of several cards its own, as soon as that is known.

        ``card``: number of the card on which this process is seen to train.
        """
        if self.settled or not self._knows_its_card(card):
            return
        if self.orders.device == "cuda" and _is_a_worker():
            self._dead = True  # a data loader's worker, started anew: a context of its own would be taken from the card
            return
        if self.orders.device == "cpu":
            import torch._dynamo  # noqa: F401  # every optimizer imports it: a library, so part of the base
        if self.settings.budget_only:
            self._dead = True
            self._take()
            return
        folder = os.path.join(self.settings.records, str(os.getpid()))
        os.makedirs(folder, exist_ok=True)
        self.recorder = Recorder(dataclasses.replace(self.orders, folder=folder))
        self.recorder.budget(self._take())
        for complaint in budget.complaints(self.orders.device):
            self.recorder.note(complaint)
        self._to(Phase.SETUP)

    def _knows_its_card(self, seen: int | None) -> bool:
        if self.orders.device == "cpu" or not self.orders.cards or self._card is not None or _is_a_worker():
            return True
        self._card = seen if seen is not None else cards.chosen()
        if self._card is not None:
            self.orders = cards.orders_on(self.orders, self._card)
        return self._card is not None

    def _take(self) -> budget.Taken:
        """The budget; the script's own choice of a current card stays as it is."""
        if self._card is None:
            return budget.take(self.orders)
        import torch

        with torch.cuda.device(self._card):
            return budget.take(self.orders)

    def forked(self) -> None:
        """In a forked child (a data loader's worker, say): it is no part of the trial."""
        self._dead = True
        self.forwarding = False

    def at_exit(self) -> None:
        """The script has ended by itself: by its end, by sys.exit or by an exception."""
        if self._dead:
            return
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if self.recorder is None and error is None:
            return
        with contextlib.suppress(Exception):
            budget.lift()
        if self.recorder is None:
            folder = os.path.join(self.settings.records, str(os.getpid()))
            os.makedirs(folder, exist_ok=True)
            self.recorder = Recorder(dataclasses.replace(self.orders, folder=folder))
        memory = isinstance(error, BaseException) and _is_memory(error)
        if not memory and (self.phase is Phase.FINISH or (self.phase is Phase.TRAIN_AGAIN and error is None and self._stepped_again)):
            self._ended_by_itself(error)
            return
        self._facts(ended="exit")
        if isinstance(error, BaseException) and not isinstance(error, SystemExit):
            if self.forwarding and not memory:
                self._facts(failed_forwarding=True)
            self.recorder.failed(error)
        else:
            self.recorder.ended()

    def _ended_by_itself(self, error: Any) -> None:
        """The script has come to its end (or broke on our stubs) after everything that is owed was seen."""
        assert self.recorder is not None
        if isinstance(error, BaseException) and not isinstance(error, SystemExit):
            said = (str(error).strip().splitlines() or [""])[0][:200]
            self.recorder.note(f"{UNSEEN_END}: in fast-forward it ended by {type(error).__name__}: {said}")
        self._facts(ended="done")
        self._to(Phase.DONE)
        self.recorder.write()

    def _facts(self, **more: Any) -> None:
        assert self.recorder is not None
        self._validation_over()  # the last thing it did
        for text in getattr(accumulation_from_outside(), "notes", ()):
            self.recorder.note(text)
        if (outside := getattr(sys.modules.get("_autofit_checkpointing"), "CHECKPOINTING", None)) is not None:
            self.recorder.observe(checkpointing=outside.seen)
            for text in outside.told():
                self.recorder.note(text)
        self._tell_its_place()
        validated, forwarded = self.validated or self._saw_validation, self.forward_began > 0
        self.recorder.fact(eval_signs=self.eval_signs, validated=validated, forwarded=forwarded, mode=self.settings.mode, **more)
        if self._backwards_in_all and not self.progress.known:
            self.recorder.fact(by_hand=self._backwards_in_all)

    def _to(self, phase: Phase) -> None:
        if self.recorder is not None and phase is not self.phase:
            self.phase = phase
            self._tell_its_place()
            try:
                self.recorder.phase(phase)
            except OverCap as over:
                self.recorder.failed(over)
                self._leave(1)

    def _tell_its_place(self) -> None:
        """Which of several processes it is, and what it has had of cards that aren't its own."""
        assert self.recorder is not None
        if (dist := _distributed()) is not None:
            self.recorder.fact(**{RANK: dist.get_rank(), WORLD_SIZE: dist.get_world_size()})
        if self._card is not None:
            with contextlib.suppress(Exception):  # a context that a failure broke
                self.recorder.fact(**{CARD: self.orders.device_uuid, OTHER_CARDS: cards.elsewhere(self._card)})

    # -- what the hooks see

    @property
    def wanted(self) -> int:
        return self.orders.payload.get("steps_in_all") or max(self.orders.steps, LEAST_STEPS)

    @property
    def wanted_validation(self) -> int:
        return max(self.orders.validation_batches, LEAST_VALIDATION)

    @property
    def proven(self) -> bool:
        """The wanted steps before validation are done."""
        return self.progress.least >= self.wanted

    def training(self) -> None:
        """A real micro-batch of training begins."""
        if not self.active:
            return
        self._validation_over()
        if self.phase is Phase.VALIDATE and (self.validated or self._saw_validation):
            if not self.validated:
                return  # all ranks go on alike, from the next place on
            if not self.orders.steps_after:
                self.finish()
            self.stop_forwarding()
            self._to(Phase.TRAIN_AGAIN)
            self.progress.mark()
            self._count_from_here()
            self.grows = self.grew
        elif self.phase in (Phase.SETUP, Phase.VALIDATE):
            self._to(Phase.TRAIN)
            self._count_from_here()

    def _validation_over(self) -> None:
        """The script does something else: a validation that it was in is over, to its end or not."""
        if self.phase is Phase.VALIDATE and self.passes is not None:
            self.passes.seen_through()
        if self.phase is Phase.VALIDATE and self.proven and self.eval_batches:
            self._validation_seen()

    def _validation_seen(self) -> None:
        ranks = self.ranks
        if ranks is None or self.passive:
            self.validated = True
        else:
            self._saw_validation = True
            ranks.say("validated", YES)

    def _count_from_here(self) -> None:
        self._train_began, self._train_batches = time.monotonic(), 0

    def varied(self, wanted: int) -> bool:
        """Enough micro-batches went through since this phase of training began, or they come slowly, or the trial is a short one."""
        lengths = any(self.sampled.values())
        wanted, longest = (VARIETY_OF_LENGTHS, VARIETY_LENGTHS_S) if lengths and wanted == VARIETY else (wanted, VARIETY_S)
        return not self.orders.steps_after or self._train_batches >= wanted or time.monotonic() - self._train_began > longest

    def judge_losses_of(self, batches: float) -> None:
        """Of so many micro-batches from here. What follows is of a few rows, which may hold nothing to learn from (no masked token, no
        box) and so have no finite loss: no fault of the script's."""
        self._judged = self._backwards_in_all + batches

    def loss(self, tensors: Any) -> None:
        """The root of a backward pass. Half precision is left out: a loss scaled for it may overflow."""
        if not self.active or self.recorder is None or self._backwards_in_all >= self._judged:
            return
        for tensor in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
            if getattr(tensor, "numel", lambda: 0)() == 1 and tensor.dtype.itemsize > 2:
                self.recorder.loss(finite=bool(tensor.detach().isfinite().item()))

    def backward_done(self) -> None:
        """A real backward pass is through."""
        if self.active and self.recorder is not None:
            if not self.trains_in_eval_mode and any(not root.training for root in self.roots):
                self.trains_in_eval_mode = True
                self.passes.all_train()
            self.training()
            self.backwards += 1
            self._train_batches += 1
            self._backwards_in_all += 1
            self._step_by_hand()
            self.recorder.batch()

    def _step_by_hand(self) -> None:
        """Takes a backward pass for a step where no optimizer was made by the time that there would be one."""
        if self.passive or self._backwards_in_all < by_hand.ENOUGH or (self.hand is None and self.progress.known):
            return
        if self.hand is None:
            self.hand = by_hand.Hand()
            assert self.recorder is not None
            if self.told > 1:
                self.recorder.failed(by_hand.NotExact(by_hand.UNSEEN))
                self._leave(1)
            self.recorder.note(by_hand.NOTE)
            for act in self.on_hand:
                act()
        self.drawn = self.forwards = self.backwards = 0
        self.progress.stepped(self.hand)
        self._came_further(self.hand)

    def made(self, optimizer: Any) -> None:
        """An optimizer was made: what it trains is to be seen."""
        self.hand = None  # there is one after all
        self.opened_by(optimizer)
        self.progress.made(optimizer)
        self.something_new()

    def opened_by(self, optimizer: Any) -> None:
        """The card of what an optimizer trains is this process's, where it hasn't shown another choice."""
        if self.settled or not self.orders.cards:
            return
        numbers = (one.device.index for group in optimizer.param_groups for one in group["params"] if one.device.type == "cuda")
        if (number := next(numbers, None)) is not None:
            self.open(number)

    def stepped(self, optimizer: Any, *, closure: bool = False) -> None:
        """An optimizer really stepped. With several, the one that stepped least often counts. ``closure``: it was given one, and called it
        as often as it liked."""
        if not self.active or self.recorder is None or ("deepspeed" in sys.modules and self._steps_on(optimizer)):
            return
        self.recorder.stepped(optimizer)
        self.progress.stepped(optimizer)
        self._count_micro_batches(closure=closure and not self.passive)
        self._came_further(optimizer)

    def _steps_on(self, optimizer: Any) -> bool:
        """Whether no backward pass came since the optimizer's last step. DeepSpeed's ZeRO calls it once for each of its groups, and before
        any training, to make its states."""
        before, self._stepped_at[id(optimizer)] = self._stepped_at.get(id(optimizer), 0), self._backwards_in_all
        return before == self._backwards_in_all

    def _came_further(self, optimizer: Any) -> None:
        assert self.recorder is not None
        while self.steps < self.progress.least:
            self.steps += 1
            self.recorder.optimizer_step()
            if self.steps == 1:
                self._thread = threading.get_ident()
                self.observe_device(optimizer)
                stack = [[frame.f_code.co_filename, line, frame.f_code.co_name] for frame, line in traceback.walk_stack(None)]
                self.recorder.fact(**{STEPPED_AT: stack[::-1]} if self.orders.payload.get("goes_on") else {})
        if not self.passive:
            self._after_step()

    def _count_micro_batches(self, *, closure: bool) -> None:
        """What the step was made of: as many batches as there were both data and backward passes for (a loss may have two of them)."""
        seen = self.forwards if self.parted else self.drawn or self.forwards
        count = self.backwards if self.passive or not seen else min(seen, self.backwards)
        if (outside := accumulation_from_outside()) is not None and outside.parts is not None:
            count = self.told  # it has seen to it that the step comes after a batch's last part
        self.drawn = self.forwards = self.backwards = 0
        self._short = count < self.told
        if self._short and (self.passive or self.at_the_end):
            self._short = self.at_the_end = False  # an end excuses one step
            return
        self._in_steps.append(count)
        self._countable = not closure and not self.progress.several
        self._observe_accumulation()

    def _observe_accumulation(self) -> None:
        if not self._countable or len(self._in_steps) < 2 or self.phase is not Phase.TRAIN:
            return
        usual = statistics.median_low(self._in_steps[1:])
        assert self.recorder is not None
        if usual and usual % self.told == 0:
            self.recorder.fact(**{OWN_ACCUMULATION: usual // self.told})
            usual = self.told
        if usual:
            self.recorder.observe(accumulation=usual)

    def ran_out(self) -> None:
        """A training pass came to its own end. The step directly before it may have been short for that reason."""
        if self.recorder is not None and self.phase is Phase.TRAIN and self._short and not self.drawn and not self.backwards:
            self._in_steps.pop()
            self._short = False
            self.recorder.observe(accumulation=None)
            self._observe_accumulation()

    @property
    def told(self) -> int:
        """Micro-batches per optimizer step that the script was told to take."""
        return max(int(self.orders.payload.get("accumulation", 1)), 1)

    def in_parts(self, size: int) -> bool:
        """Whether a batch of a loader's is a whole step's, of which the script was told to take parts."""
        self.parted = size == self.orders.payload.get("whole") != self.orders.payload.get("micro_batch")
        return self.parted

    def parts_of(self, loader: Any) -> int:
        """How many parts a loader's batches are taken in, where a sampler of the script's makes them and they are to be; else 0."""
        parts = self.orders.payload.get("parts")
        return int(parts) if parts and own_batches(loader) else 0

    def _after_step(self) -> None:
        if self.ranks is not None:
            self.place("step")
        elif self.phase is Phase.TRAIN_AGAIN:
            if self.trained_again:
                self.wind_up()
        elif self.phase is Phase.FINISH:
            if self.progress.since_mark >= self.wanted:
                self.start_forwarding()
        elif self._trained_enough:
            self.start_forwarding()

    @property
    def _trained_enough(self) -> bool:
        return self.progress.least >= self.wanted + SLACK_STEPS and self.varied(VARIETY)

    @property
    def _stepped_again(self) -> bool:
        return self.progress.since_mark >= max(self.orders.steps_after, 1)

    @property
    def trained_again(self) -> bool:
        """Training after validation has been seen; the whole of it where it leaves memory behind with every batch."""
        if not self._stepped_again:
            return False
        if self.grows and time.monotonic() - self._train_began < WHOLE_AGAIN_S:
            return False
        return self.passive or self.varied(VARIETY_AGAIN)

    def observe_device(self, optimizer: Any) -> None:
        assert self.recorder is not None
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.recorder.observe(device=parameter.device.type)
                if self.orders.device == parameter.device.type == "cuda":
                    budget.still_chosen(self.orders.device_uuid, several=self._card is not None)
                    cards.same(self.orders, self._card, parameter.device.index)
                return

    def validating(self) -> None:
        """A validation begins or goes on."""
        if self.active:
            self.eval_signs = self.eval_signs or self.proven
            if self.phase in (Phase.SETUP, Phase.TRAIN):
                self._to(Phase.VALIDATE)

    def validation_batch(self) -> None:
        """A validation batch is through."""
        if not self.active or self.recorder is None:
            return
        if not self.proven:
            self.recorder.sample()
            self.recorder.fact(validated_early=True)
            return
        self.eval_batches += 1
        self.recorder.batch()
        self.gathered.look()
        if len(self.gathered) == LEAST_VALIDATION:
            left = self.gathered.all()
            each = left[self.orders.device]
            self.recorder.measured(growth_bytes_per_batch=self._growth(each) if self.joins else JOINED * each)
            if self.orders.device == "cuda":  # transformers' Trainer moves all that it has kept to host memory at the end
                self.recorder.fact(**{HOST_GROWTH: max(each if self.joins else 0, JOINED * left["cpu"])})

    def _growth(self, each: int) -> float:
        """Bytes that the need grows by with each batch to come, where each leaves so many behind. What is joined anew at every batch is
        there twice at the last: all that was kept before it, beside all of it."""
        left = math.ceil(self.joins) - len(self.gathered)
        if not each or left <= 0:
            return float(each)
        assert self.recorder is not None
        live = live_bytes(self.orders.device, idle=True) - self.recorder.base_bytes
        peak, there = self.recorder.peak_so_far(), len(self.gathered)
        at_the_end = live + each * (self.joins - there) + each * (math.ceil(self.joins) - 1)
        return max(float(each), (at_the_end - peak) / left)

    def hold(self, sizes: Mapping[str, int]) -> None:
        """Keeps so many bytes of the device from here on, for what a whole pass would have kept; what it would have kept in host memory
        beside a card is told."""
        import torch

        assert self.recorder is not None
        self.recorder.note(f"training keeps {format_size(sum(sizes.values()))} more in all: that is counted")
        self._held.append(torch.ones(sizes[self.orders.device], dtype=torch.uint8, device=self.orders.device))
        if self.orders.device == "cuda":
            self.recorder.fact(**{HOST_BESIDE: sizes["cpu"]})

    def evaluated(self) -> None:
        """A trainer's own evaluation is over, metrics and all: a short trial with it."""
        self.validation_ended()
        if self.validated and not self.orders.steps_after:
            self.finish()

    def validation_ended(self) -> None:
        """A validation pass came to its end, the script's or ours."""
        if self.active and self.phase is Phase.VALIDATE and self.proven and self.eval_batches:
            self._validation_seen()
        self.gathered.clear()

    def pass_ended(self) -> None:
        """A training pass came to its end."""
        self.grows = False
        if self.active and self.phase is Phase.TRAIN_AGAIN and not self.passive and self.ranks is None and self.trained_again:
            self.wind_up()
        if self.active and self.proven and not self.validated:
            self.passes_after += 1
            if self.passes_after > SLACK_PASSES:
                self.start_forwarding()

    # -- fast-forward

    def start_forwarding(self) -> None:
        """Stubs from here on; of several ranks from where they all are at the same place."""
        if self.ranks is None:
            self._forward()
        self._forward_now = True

    def _forward(self) -> None:
        if not self.forwarding and (not self.validated or self.phase is Phase.FINISH) and self.active and not self.passive:
            self.forwarding = True
            self.forward_began = self.forward_began or time.monotonic()
            for act in self.on_forwarding:
                act(True)

    def stop_forwarding(self) -> None:
        if self.forwarding:
            self.forwarding = False
            for act in self.on_forwarding:
                act(False)

    def something_new(self) -> None:
        """What has not been trained yet is about to be: real steps, for a while."""
        if self.forwarding and (self.phase is Phase.FINISH or not self.validated) and _distributed() is None:
            self.progress.mark()
            self._count_from_here()
            self.stop_forwarding()

    def forwarded_step(self) -> None:
        """A stub step of fast-forward."""
        if self.recorder is not None:
            self.recorder.beat()
        if self.phase is Phase.FINISH:
            self.training_goes_on()
        elif self.ranks is not None:
            self.place("step")
        elif self._followed_long:
            self._give_up()

    @property
    def _followed_long(self) -> bool:
        return time.monotonic() - self.forward_began > self.settings.follow_s

    def _give_up(self) -> None:
        assert self.recorder is not None
        self._facts(ended="given_up")
        self.recorder.write()
        self._leave(0)

    # -- several ranks go alike

    @property
    def ranks(self) -> Ranks | None:
        """What the ranks of a distributed training say to each other; None in any other training."""
        dist = _distributed() if self.active else None
        if dist is not None and self._ranks is None:
            self._ranks = Ranks(Path(self.settings.records), dist.get_rank())
        return None if dist is None else self._ranks

    def agreed(self, what: str, place: str, wish: bool) -> bool:
        """``wish``; of several ranks, whether all that come to places of that kind wish it. What any does there, all do."""
        ranks = self.ranks
        return wish if ranks is None else ranks.agree(what, place, wish)

    def has_no_wish(self, what: str) -> None:
        """Where the others agree, this rank is not waited for."""
        if (ranks := self.ranks) is not None:
            ranks.say(what, YES)

    def place(self, kind: str) -> None:
        """A forward pass in training, or a step: all ranks come to it, and go on from it alike."""
        ranks = self.ranks
        if ranks is None or self.passive:
            return
        assert self.recorder is not None
        self._places[kind] += 1
        ranks.say(kind, str(self._places[kind]))
        if self.forwarding:
            ranks.keep_up(kind, self.recorder.beat)
        ranks.say("trained enough", YES if self._trained_enough else NO)
        ranks.say("stubs now", YES if self._forward_now else NO)
        ranks.say("trained again", YES if self.phase is Phase.TRAIN_AGAIN and self.trained_again else NO)
        self._go_on(ranks.decision(f"{kind} {self._places[kind]}", lambda: self._course(ranks)))

    def _course(self, ranks: Ranks) -> str:
        if YES in ranks.words("validated"):
            return "end" if self.validated and NO not in ranks.words("trained again") else "train again"
        if self.forwarding:
            return "give up" if self._followed_long else "go on"
        return "forward" if YES in ranks.words("stubs now") or NO not in ranks.words("trained enough") else "go on"

    def _go_on(self, course: str) -> None:
        if course == "train again" and not self.validated:
            self.validated = True
            if self.phase in (Phase.SETUP, Phase.TRAIN):
                self._to(Phase.VALIDATE)  # another rank's
            self.stop_forwarding()
        elif course == "forward":
            self._forward()
        elif course == "give up":
            self._give_up()
        elif course == "end":
            self.wind_up()

    # -- the end

    def wind_up(self) -> None:
        """What is owed was seen; the script is let run to its own end, for some seconds, with stubs in the place of its training."""
        if self.phase is Phase.FINISH:
            return
        self.keep_checkpoint()
        if _distributed() is not None:
            assert self.recorder is not None
            self.recorder.note(f"{UNSEEN_END}: several processes")
            self.finish()
        self._to(Phase.FINISH)
        self._facts(ended="done")
        gc.disable()  # what is garbage at the end may be there in the run, whose collector comes at other moments
        self._collected = time.monotonic()
        self.start_forwarding()
        usual = threading.stack_size(256 * 1024)  # a usual stack of 8 MiB would count as data, inside the budget
        timer = threading.Timer(self.settings.finish_s, self._out_of_time)
        timer.daemon = True
        timer.start()
        threading.stack_size(usual)

    def keep_checkpoint(self) -> None:
        """What the script has saved so far is of a training that isn't over: from there a second process may go on."""
        how, dist = self.orders.payload.get("goes_on"), _distributed()
        if how and not self.orders.resumes and (dist is None or dist.get_rank() == 0):
            kept_checkpoint.keep(Path(self.settings.overlay), how)

    def saves(self) -> bool:
        """Something is saved, in this thread; whether nothing is really trained now."""
        if self.active and self.validated and not self.orders.steps_after and _distributed() is None:
            self.finish()
        if self.recorder is not None and self._thread not in (0, threading.get_ident()):
            self.recorder.note(IN_A_THREAD)
        return self.forwarding

    def training_goes_on(self) -> None:
        """Stub training in FINISH: what it leaves is collected now and then, since the collector is off."""
        if self.phase is Phase.FINISH and time.monotonic() - self._collected > COLLECT_S:
            gc.collect()
            self._collected = time.monotonic()

    def _out_of_time(self) -> None:
        """Called from a thread of its own: the script's end is too far away."""
        if self.active and self.phase is Phase.FINISH and self.recorder is not None:
            self.recorder.note(f"{UNSEEN_END}: it was not reached in {self.settings.finish_s:g} s of fast-forward")
            self.finish()

    def finish(self) -> None:
        """Everything was seen: writes the report and ends the process. Doesn't return."""
        assert self.recorder is not None
        dist, ranks = _distributed(), self.ranks
        if dist is not None and ranks is not None and ranks.all_here(dist.get_world_size()):
            with contextlib.suppress(Exception):
                dist.barrier()  # nobody leaves while another still needs it
        self._facts(ended="done")
        self._to(Phase.DONE)
        self.recorder.write()
        self._leave(0)

    def _leave(self, status: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)

    def swallowed_perhaps(self, error: BaseException) -> None:
        """A memory failure passed through: the script may catch it and go on. Where it ends the script, that end counts."""
        if self.active and self.recorder is not None and _is_memory(error):
            with contextlib.suppress(Exception):
                self.recorder.swallowed(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}")


IN_A_THREAD = "it saves in a thread: while it saves, training goes on, so that in the run both may need most at once"
UNSEEN_END = "what the script does after its training (a test set, figures) is not proven"


def accumulation_from_outside() -> Any:
    """What holds this process's optimizer steps back (``native/accumulate.py``), or None."""
    return getattr(sys.modules.get("_autofit_accumulate"), "OUTSIDE", None)


def own_batches(loader: Any) -> bool:
    """Whether a batch sampler of the script's makes the loader's batches, so that the loader itself knows no batch size."""
    sampler = getattr(loader, "batch_sampler", None)
    return getattr(loader, "batch_size", None) is None and sampler is not None and type(sampler).__name__ != "BatchSampler"


def _is_a_worker() -> bool:
    """Whether this process was started anew to load data (such processes are daemons). A forked one is told by ``forked``."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(process.current_process().daemon)


def _distributed() -> Any:
    """torch.distributed where a group of several is up, else None."""
    import torch.distributed as dist

    return dist if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else None


def world_size() -> int:
    """Data-parallel processes, as far as can be told."""
    dist = _distributed()
    return int(dist.get_world_size()) if dist is not None else 1


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
