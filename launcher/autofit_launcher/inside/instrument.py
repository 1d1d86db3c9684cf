"""The instrument of a trial, in one process of somebody's training: what is seen there moves the trial from phase to phase.

  SETUP          from the first module that is built: the budget is taken then, after the imports
  TRAIN          from the first training batch, for ``steps`` optimizer steps and some variety of batches; then the pass is cut
  (forwarding)   where no validation has come by then: forward, backward and step of the model become stubs, weights, gradients and
                 optimizer states stay where they are, and the script is let run until it validates or ends
  VALIDATE       a pass without gradients, really run, cut after some batches
  TRAIN_AGAIN    real steps again
  FINISH         the script is let run to its own end, its training stubs again: the best checkpoint loaded, a test set, figures.
                 Where something new comes (an optimizer, larger inputs, thawed weights), real steps are taken again
  DONE           the report is whole; the process ends

A validation before the first ``steps`` steps is run, but counts for nothing: optimizer states are not there yet.

``patches`` calls what is seen (a module built, a batch drawn, a backward pass, a step); ``passes`` and ``stubs`` ask what comes next; a
trainer's hooks (``trainers/NAME/inside/hooks``) steer by the same methods. What a trial does itself (stubs, batches that it leaves out)
comes to none of them.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..common.orders import LEAST_STEPS, LEAST_VALIDATION, VARIETY, VARIETY_LENGTHS_S, VARIETY_OF_LENGTHS, VARIETY_S, Orders, ProbeSettings
from ..common.report import HOST_BESIDE, HOST_GROWTH, OWN_ACCUMULATION, Phase
from ..common.sizes import format_size
from . import budget, counted, kept_checkpoint
from .agreement import YES, Together
from .arrives import Arrives
from .counted import Hand, MicroBatches, StepsByOptimizer
from .gathered import JOINED, Gathered
from .part import TakingPart, distributed, end_soon, is_a_child, is_memory
from .passes import Passes

FOLLOW_S, FINISH_S = 120.0, 30.0
"""Seconds of fast-forward after which the search for a validation pass ends; seconds that the script then gets to its own end."""
SLACK_STEPS = 2
"""Real optimizer steps after the wanted ones, or as many passes, before fast-forward begins: the usual validation comes by then."""
UNSEEN_END = "what the script does after its training (a test set, figures) is not proven"


class Instrument(TakingPart):
    """The part of one process in a trial."""

    def __init__(self, settings: ProbeSettings) -> None:
        super().__init__(settings)
        self.together = Together(self)
        self.arrives = Arrives(self)
        self.forwarding = False
        self.validated = False
        """A validation after the wanted steps has been seen to its (cut) end; of several ranks, all go on from there."""
        self.passive = False
        """A trainer's own hooks (Hugging Face, Lightning, Ultralytics) steer; the generic ones only count."""
        self.micro_batches: list[int] = []
        """Samples of its batches, in the order in which they first came."""
        self.progress = StepsByOptimizer()
        self.counts = MicroBatches(self.told)
        self.steps = self.eval_batches = self.backwards = 0
        self.roots: list[Any] = []
        """The outermost modules that are trained or switched to evaluation."""
        self.trains_in_eval_mode = False
        """A backward pass came while the model stood in evaluation mode: only gradients tell training from validation then."""
        self.passes = Passes()
        self.on_forwarding: list[Any] = []
        self.on_hand: list[Any] = []
        self.hand: Hand | None = None
        """Stands for an optimizer of a script that uses none of torch's."""
        self.varies = False
        """Batches of one number of samples came in several shapes."""
        self.gathered = Gathered(self.orders.device)
        """Memory that the batches of the open validation pass leave behind."""
        self._grown = self._host_grown = 0
        self._kept = (0, 0)
        """The figures (as of ``_keeps``) of the earlier pass that keeps most."""
        self.knows_the_worst = False
        """A trainer's own hooks choose what comes first: no loader is looked at."""
        self.sampled: dict[int, bool] = {}
        """Data set, by identity -> whether sizes differ in what its loaders give."""
        self.looks: dict[Any, Any] = {}
        """Loaders' looks by ``worst``."""
        self._forward_began = self._train_began = 0.0
        self._train_batches = 0
        self._held: list[Any] = []
        self._stepped_at: dict[int, int] = {}
        """Optimizer, by identity -> backward passes in all at its last step."""
        self._eval_signs = self._saw_validation = False

    def forked(self) -> None:
        """Starts afresh in a forked child, which may load data, or train on its own part: what was seen is its parent's."""
        if self._taken is not None and self.orders.device == "cpu":
            sys.modules["torch"].set_num_threads(1)  # the budget has started the others (``budget``), and no child has them
        self.stop_forwarding()
        fresh = vars(type(self)(self.settings))
        kept = {name: getattr(self, name) for name in ("on_forwarding", "on_hand", "arrives", "_taken", "_card", "orders", "_closed")}
        self.__dict__.update({**fresh, **kept, "_closed": self.settings.budget_only and self._closed})
        self.together = Together(self)

    def takes(self, settings: ProbeSettings) -> None:
        """Takes the settings of a process that was forked off before its program began: it is another trial's."""
        self.settings, self.orders = settings, Orders(**settings.orders)
        self.forked()
        self._closed = False

    # -- how much is wanted

    @property
    def told(self) -> int:
        """Micro-batches per optimizer step that the script was told to take."""
        return max(int(self.orders.payload.get("accumulation", 1)), 1)

    @property
    def wanted(self) -> int:
        """Optimizer steps before validation."""
        return max(self.orders.steps, LEAST_STEPS)

    @property
    def wanted_validation(self) -> int:
        return max(self.orders.validation_batches, LEAST_VALIDATION)

    @property
    def proven(self) -> bool:
        """True once the wanted steps before validation are done."""
        return self.progress.least >= self.wanted

    def varied(self) -> bool:
        """Tells whether enough micro-batches went through in this phase of training, or they come slowly, or the trial is short."""
        least = 1 if self.phase is Phase.TRAIN_AGAIN else LEAST_VALIDATION  # by more it is seen what each leaves behind (``Gathered``)
        lengths = least > 1 and any(self.sampled.values())
        wanted, longest = (VARIETY_OF_LENGTHS, VARIETY_LENGTHS_S) if lengths else (VARIETY, VARIETY_S)
        slowly = self._train_batches > least and time.monotonic() - self._train_began > longest
        return not self.orders.steps_after or self._train_batches >= wanted or slowly

    @property
    def trained_enough(self) -> bool:
        return self.progress.least >= self.wanted + SLACK_STEPS and self.varied()

    @property
    def _stepped_again(self) -> bool:
        return self.progress.since_mark >= max(self.orders.steps_after, 1)

    @property
    def trained_again(self) -> bool:
        """True once training after validation has been seen."""
        return self._stepped_again and (self.passive or self.varied())

    # -- training

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
            self.to(Phase.TRAIN_AGAIN)
            self._count_from_here()
        elif self.phase in (Phase.SETUP, Phase.VALIDATE):
            self.to(Phase.TRAIN)
            self._train_batches = 0

    def _count_from_here(self) -> None:
        self.progress.mark()
        self._train_batches = 0

    def loss(self, tensors: Any) -> None:
        """The root of a backward pass. Half precision is left out: a loss scaled for it may overflow."""
        if not self.active or self.recorder is None:
            return
        for tensor in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
            if getattr(tensor, "numel", lambda: 0)() == 1 and tensor.dtype.itemsize > 2:
                self.recorder.loss(finite=bool(tensor.detach().isfinite().item()))

    def backward_done(self) -> None:
        """A real backward pass is through."""
        self.takes_part()
        if self.active and self.recorder is not None:
            if not self.trains_in_eval_mode and any(not root.training and self.trains(root) for root in self.roots):
                self.trains_in_eval_mode = True
                self.passes.all_train()
            self.training()
            self.counts.backwards += 1
            self._train_began = self._train_began if self._train_batches else time.monotonic()  # what came before was a look at the data
            self._train_batches += 1
            self.backwards += 1
            self._step_by_hand()
            self.recorder.batch()
            if self.orders.device == "cpu" and self.phase is Phase.TRAIN and self.proven and self.recorder.is_over():
                self.to(Phase.VALIDATE)  # and fails; a card's allocator keeps within the cap by itself

    def _step_by_hand(self) -> None:
        """Takes a backward pass for a step where no optimizer was made by the time that there would be one."""
        if self.passive or self.backwards < counted.PATIENCE or (self.hand is None and self.progress.known):
            return
        if self.hand is None:
            self.hand = Hand()
            assert self.recorder is not None
            if self.told > 1:
                self.fail(counted.NotExact(counted.UNSEEN))
            self.recorder.note(counted.BY_HAND)
            for act in self.on_hand:
                act()
        self.counts.drawn = self.counts.forwards = self.counts.backwards = 0
        self.progress.stepped(self.hand)
        self._came_further(self.hand)

    def made(self, optimizer: Any) -> None:
        """An optimizer was made: what it trains is to be seen, on a card that is this process's."""
        self.hand = None  # there is one after all
        self.opened_by(optimizer)
        self.weighs(optimizer)
        self.progress.made(optimizer)
        self.something_new()

    def stepped(self, optimizer: Any, *, closure: bool = False) -> None:
        """An optimizer really stepped. With several, the one that stepped least often counts. ``closure``: it was given one, and called it
        as often as it liked."""
        if not self.active or self.recorder is None or ("deepspeed" in sys.modules and self._steps_on(optimizer)):
            return
        self.progress.stepped(optimizer)
        self.counts.step(by_trainer=self.passive)
        if not (closure and not self.passive) and not self.progress.several:
            self._observe_accumulation()
        self._came_further(optimizer)

    def trains(self, root: Any) -> bool:
        """Tells whether an optimizer holds some of a module's weights, or they have gradients; a teacher's, or an average's, don't."""
        weights = list(root.parameters())
        return not self.progress.known or any(one.grad is not None for one in weights) or self.progress.hold(weights)

    def _steps_on(self, optimizer: Any) -> bool:
        """Tells whether no backward pass came since the optimizer's last step. DeepSpeed's ZeRO calls it once for each of its groups, and
        before any training, to make its states."""
        before, self._stepped_at[id(optimizer)] = self._stepped_at.get(id(optimizer), 0), self.backwards
        return before == self.backwards

    def _came_further(self, optimizer: Any) -> None:
        assert self.recorder is not None
        while self.steps < self.progress.least:
            self.steps += 1
            self.recorder.optimizer_step()
            if self.steps == 1:
                self.observe_device(optimizer)
        if self.passive:
            return
        if self.together.ranks is not None:
            self.together.place("step")
        elif self.phase is Phase.TRAIN_AGAIN:
            if self.trained_again:
                self.wind_up()
        elif self.trained_enough if self.phase is not Phase.FINISH else self.progress.since_mark >= self.wanted:
            self.start_forwarding()

    def _observe_accumulation(self) -> None:
        if self._forward_began or self.phase is not Phase.TRAIN:
            return  # what is trained after a fast-forward may begin within a step, by our doing
        usual = self.counts.usual()
        if usual is not None and self.recorder is not None:
            accumulation, own = usual
            self.recorder.observe(accumulation=accumulation)
            self.recorder.fact(**{OWN_ACCUMULATION: own} if own else {})

    def ran_out(self) -> None:
        """A training pass came to its own end. The step directly before it may have been short for that reason."""
        if self.recorder is not None and self.phase is Phase.TRAIN and self.counts.ran_out():
            self.recorder.observe(accumulation=None)
            if not self.progress.several:
                self._observe_accumulation()

    def in_parts(self, size: int) -> bool:
        """Tells whether a loader's batch is that of a whole step, of which the script was told to take parts."""
        self.counts.parted = size == self.orders.payload.get("whole") != self.orders.payload.get("micro_batch")
        return self.counts.parted

    def pass_ended(self) -> None:
        """A training pass came to its end."""
        self.counts.at_the_end = True
        if self.active and self.phase is Phase.TRAIN_AGAIN and not self.passive and self.together.ranks is None and self.trained_again:
            self.wind_up()
        many = self.passes.begun["train"] > self.wanted + SLACK_STEPS
        if many and self.active and self.phase is Phase.TRAIN and self.proven and self.varied():
            self.start_forwarding()  # a script that counts micro-batches anew in each pass makes no step where we cut it

    def hold(self, sizes: Mapping[str, int]) -> None:
        """Keeps so many bytes of the device from here on, for what a whole pass would have kept; what it would have kept in host memory
        beside a card is told."""
        import torch

        assert self.recorder is not None
        self.recorder.note(f"training keeps {format_size(sum(sizes.values()))} more in all: that is counted")
        self._held.append(torch.ones(sizes[self.orders.device], dtype=torch.uint8, device=self.orders.device))
        if self.orders.device == "cuda":
            self.recorder.fact(**{HOST_BESIDE: sizes["cpu"]})

    # -- validation

    def validating(self) -> None:
        """A validation begins or goes on."""
        if self.active:
            self._eval_signs = self._eval_signs or self.proven
            if self.phase in (Phase.SETUP, Phase.TRAIN):
                self.to(Phase.VALIDATE)

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
            grown = self.gathered.all()
            self._grown = JOINED * grown[self.orders.device]
            if self.orders.device == "cuda":  # some trainers move all that they have kept to host memory at the end
                self._host_grown = max(self._host_grown, JOINED * max(grown.values()))
                self.recorder.fact(**{HOST_GROWTH: self._host_grown})
        if len(self.gathered) >= LEAST_VALIDATION:
            growth, left = max(self._kept, self._keeps(), key=_in_all)
            self.recorder.measured(growth_bytes_per_batch=growth, validation_batches_left=left)

    def _keeps(self) -> tuple[int, int]:
        """Returns the bytes that each batch of the open validation pass leaves behind, as they count, and the batches to come."""
        assert self.recorder is not None
        return self._grown, max(0, self.recorder.told.validation_batches_total - len(self.gathered))

    def validation_ended(self) -> None:
        """A validation pass came to its end, the script's or ours."""
        if self.active and self.phase is Phase.VALIDATE and self.proven and self.eval_batches:
            self._validation_seen()
        self.keep_growth()

    def keep_growth(self) -> None:
        """Remembers what a validation pass keeps, as another begins or this one has ended."""
        if len(self.gathered) >= LEAST_VALIDATION:
            self._kept = max(self._kept, self._keeps(), key=_in_all)
        self.gathered.clear()

    def evaluated(self) -> None:
        """A trainer's own evaluation is over, metrics and all: a short trial with it."""
        self.validation_ended()
        if self.validated and not self.orders.steps_after:
            self.finish()

    def _validation_over(self) -> None:
        """The script does something else: a validation that it was in is over, to its end or not."""
        if self.phase is Phase.VALIDATE and self.passes is not None:
            self.passes.seen_through()
        if self.phase is Phase.VALIDATE and self.proven and self.eval_batches:
            self._validation_seen()

    def _validation_seen(self) -> None:
        if (ranks := self.together.ranks) is None or self.passive:
            self.validated = True
        else:
            self._saw_validation = True
            ranks.say("validated", YES)

    # -- fast-forward

    def start_forwarding(self) -> None:
        """Stubs from here on; of several ranks from where they all are at the same place."""
        if self.together.ranks is None:
            self.forward()
        self.together.forward_now = True

    def forward(self) -> None:
        if not self.forwarding and (not self.validated or self.phase is Phase.FINISH) and self.active and not self.passive:
            self.forwarding = True
            self._forward_began = self._forward_began or time.monotonic()
            for act in self.on_forwarding:
                act(True)

    def stop_forwarding(self) -> None:
        if self.forwarding:
            self.forwarding = False
            self.counts.drawn = self.counts.forwards = self.counts.backwards = 0
            for act in self.on_forwarding:
                act(False)

    def something_new(self) -> None:
        """Ends fast-forward for a while of real steps: something is about to be trained that has not been yet."""
        if self.forwarding and (self.phase is Phase.FINISH or not self.validated) and distributed() is None:
            self._count_from_here()
            self.stop_forwarding()

    def forwarded_step(self) -> None:
        """A stub step of fast-forward."""
        if self.recorder is not None:
            self.recorder.beat()
        if self.together.ranks is not None:
            self.together.place("step")
        elif self.followed_long and self.phase is not Phase.FINISH:
            self.give_up()

    @property
    def followed_long(self) -> bool:
        return time.monotonic() - self._forward_began > FOLLOW_S

    def give_up(self) -> None:
        assert self.recorder is not None
        self._facts(ended="given_up")
        self.recorder.write()
        self.end(0)

    def other_rank_validated(self) -> None:
        """Notes that another rank has validated, and goes on with real steps: all ranks train again."""
        self.validated = True
        if self.phase in (Phase.SETUP, Phase.TRAIN):
            self.to(Phase.VALIDATE)
        self.stop_forwarding()

    # -- the end

    def ends_training(self) -> bool:
        """Tells a trainer's hooks whether its training is to stop: once training after validation has been seen."""
        if self.phase is Phase.TRAIN_AGAIN and self.trained_again:
            self.wind_up()
        return self.phase is Phase.FINISH

    def wind_up(self) -> None:
        """Lets the script run to its own end for some seconds, with stubs in the place of its training: what is owed was seen."""
        if self.phase is Phase.FINISH:
            return
        self.keep_checkpoint()
        if distributed() is not None:
            assert self.recorder is not None
            self.recorder.note(f"{UNSEEN_END}: several processes")
            self.finish()
        self.to(Phase.FINISH)
        self._facts(ended="done")
        self.start_forwarding()
        self.ends_soon()

    def ends_soon(self) -> None:
        """Gives the script some seconds for what it does after its training."""
        usual = threading.stack_size(256 * 1024)  # a usual stack of 8 MiB would count as data, inside the budget
        timer = threading.Timer(FINISH_S, self._out_of_time)
        timer.daemon = True
        timer.start()
        threading.stack_size(usual)

    def _out_of_time(self) -> None:
        """Ends the trial, from a thread of its own, if the script's end is too far away."""
        if self.active and self.phase is Phase.FINISH and self.recorder is not None:
            self.recorder.note(f"{UNSEEN_END}: it was not reached in {FINISH_S:g} s")
            self.finish()

    def keep_checkpoint(self) -> None:
        """Keeps what the script has saved so far, in a training that isn't over: a second process may go on from there."""
        how, dist = self.orders.payload.get("goes_on"), distributed()
        if how and not self.orders.resumes and (dist is None or dist.get_rank() == 0):
            kept_checkpoint.keep(Path(self.settings.overlay), how)

    def saves(self) -> bool:
        """Ends a trial that has no steps after its validation, as something is saved; tells whether nothing is really trained now."""
        if self.active and self.validated and not self.orders.steps_after and distributed() is None:
            self.finish()
        return self.forwarding

    def at_exit(self) -> None:
        """The script has ended by itself: by its end, by sys.exit or by an exception."""
        error = sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if self.settings.same:  # a twin that was forked
            end_soon(last=True)
        if self._closed or self.settings.budget_only or (self.recorder is None and error is None):
            return
        with contextlib.suppress(Exception):
            budget.lift()
        self.recorder = self.recorder or self._report()
        self._validation_over()  # the last thing it did
        crashed = isinstance(error, BaseException) and not isinstance(error, SystemExit)
        memory = isinstance(error, BaseException) and is_memory(error)
        of_a_score = isinstance(error, AssertionError) and self.forwarding and self.validated  # in which nothing was learnt
        over = self.phase is Phase.FINISH or (self.phase is Phase.TRAIN_AGAIN and error is None and self._stepped_again)
        if crashed and not memory and (over or of_a_score):  # on our stubs perhaps: all that is owed was seen
            said, crashed = (str(error).strip().splitlines() or [""])[0][:200], False
            self.recorder.note(f"{UNSEEN_END}: in fast-forward it ended by {type(error).__name__}: {said}")
        if over and not memory:
            self._done()
            if not is_a_child():  # whose parent may wait for what it has put into a queue
                self.end(0)
        else:
            self._facts(ended="exit", **({"failed_forwarding": True} if crashed and self.forwarding and not memory else {}))
            self.recorder.failed(error) if error is not None and crashed else self.recorder.ended()
        self.leave()
        end_soon()

    def _done(self) -> None:
        assert self.recorder is not None
        self._facts(ended="done")
        self.to(Phase.DONE)

    def _facts(self, **more: Any) -> None:
        self._validation_over()
        validated, forwarded = self.validated or self._saw_validation, self._forward_began > 0
        self.tell(eval_signs=self._eval_signs, validated=validated, forwarded=forwarded, **more)

    def finish(self) -> None:
        """Everything was seen: writes the report and ends the process. Doesn't return."""
        self.together.end()
        self._done()
        self.end(0)


def _in_all(kept: tuple[int, int]) -> tuple[int, int, int]:
    """Orders what passes keep (``Instrument._keeps``): by the bytes that are still to come, by those of a batch, and by batches, since
    where a card keeps nothing the host may."""
    growth, left = kept
    return growth * left, growth, left
