"""Passes over a ``torch.utils.data.DataLoader``: classified, cut, replayed, and begun with the worst batches there are."""

from __future__ import annotations

import dis
import functools
import sys
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..common.orders import LEAST_VALIDATION
from ..common.report import DRAWN_BATCH, LEFT_AFTER, PASS_SAMPLES, Phase
from . import worst
from .gathered import JOINED, LEAST_HELD, Gathered
from .part import world_size
from .stubs import observe_micro_batch

if TYPE_CHECKING:
    from .instrument import Instrument

SHORT_REST_S = 4.0
"""The rest of a validation that takes no longer is really run."""
LEAST_LIVE = 5
"""Looks at what is live that a growth is read from."""
ENDLESS = 1000
"""Batches of a fast-forwarded pass whose length nobody knows, and for which one is followed to where the script leaves it."""


class Passes:
    """The passes over data of one process."""

    def __init__(self) -> None:
        self.open: list[TrialPass] = []
        self.begun: Counter[str] = Counter()
        self.backwards = self.ended = 0
        """Backward passes, stubs among them; training passes that came to their end."""
        self._ran_at = -1
        self.again: weakref.WeakSet[Any] = weakref.WeakSet()
        """Loaders of which a validation pass was seen at the script's end, beside what the one before had left: one batch of theirs is
        enough from there on."""
        self.replay: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """Loader -> the training batch that fast-forward gives."""
        self.followed = False
        """True: a stubbed training pass was followed to where the script left it, or for long enough."""

    def seen_through(self) -> None:
        """The script went on without asking for more: the last batch that a validation was given is through."""
        for one in self.open:
            one.through()

    def all_train(self) -> None:
        """A backward pass came: what is open with gradients is training, whatever mode the model is in."""
        for one in self.open:
            one.kind = "train"

    def in_a_batch(self) -> bool:
        """Tells whether what runs without gradients now may belong to a training batch (a teacher, a model of reference, a generator whose
        critic is trained): one that waits for its backward pass, which must come before the next is asked for, or else the pass is a
        validation after all; without a loader, or later in a batch, the first that runs since a backward pass."""
        for one in reversed(self.open):
            if one.kind == "train" and one.waits():
                one.ran = True
                return True
        first, self._ran_at = self._ran_at != self.backwards, self.backwards
        return first


class TrialPass:
    """An iterator over one pass. The loader's own iterator is made when its first batch is really wanted."""

    def __init__(self, instrument: Instrument, loader: Any, plain: Callable[[Any], Any]) -> None:
        """``plain``: the loader's own ``__iter__``."""
        self._instrument, self._passes, self._loader, self._plain = instrument, instrument.passes, loader, plain
        self._real: Any = None
        self.kind = ""
        self._number = self._served = self._taken = 0
        """Number of this pass among those of its kind in the process; number of batches given, and of those with a backward pass."""
        self._trained = self.ran = False
        """A backward pass followed one of its batches; a model ran without gradients before that."""
        self._backwards = self._others = 0
        """Number of backward passes done, and of training passes ended, when it gave its last batch."""
        self._in_hand = False
        """A validation batch was given, and the script hasn't come back for another yet."""
        self._asked_at, self._first = 0.0, None
        """The time of the last call for a batch; the first batch of a later pass until it is trained: its size may be a validation's."""
        self._seconds: deque[float] = deque(maxlen=15)
        """The time that each of a validation's last batches took. Workers begin with the first, and one may wait for Python's collector."""
        self._gathered = Gathered(instrument.orders.device, LEAST_LIVE)
        self._bears_an_end = True
        self._whole = False
        """A training pass goes on to its length: it must, or it was asked to."""
        self._ended = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._iterator(), name)

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        if not self._instrument.active:
            return next(self._iterator())
        if not self.kind:
            self._classify()
            self._passes.open.append(self)
            self._bears_an_end = _bears_an_end(sys._getframe(1))
            self._whole = self._instrument.settings.mode == "full" or not self._bears_an_end
        self._trained = self._trained or not self.waits()
        self._taken += self._served > 0 and not self.waits()
        if self._first is not None and not self.waits():
            self._observe(self._first)
            self._first = None
        if self.ran and not self._trained:
            self.kind, self.ran, self._in_hand = "eval", False, True
        self._backwards, self._others = self._passes.backwards, self._passes.ended
        return self._next_eval() if self.kind == "eval" else self._next_train()

    def waits(self) -> bool:
        """Tells whether no backward pass came since its last batch."""
        return self._passes.backwards == self._backwards

    def _classify(self) -> None:
        import torch

        roots = [root for root in self._instrument.roots if self._instrument.trains(root)]
        largest = max(roots, key=lambda root: sum(p.numel() for p in root.parameters()), default=None)
        switched = largest is not None and not largest.training and not self._instrument.trains_in_eval_mode
        self.kind = "eval" if not torch.is_grad_enabled() or switched else "train"
        for one in [one for one in self._passes.open if one._loader is self._loader and one.kind == self.kind == "train"]:
            one._left()
        self._passes.begun[self.kind] += 1
        self._number = self._passes.begun[self.kind]
        if self.kind == "train" and self._instrument.phase is Phase.TRAIN_AGAIN:
            self._instrument.together.place("pass")

    def _agreed(self, enough: bool) -> bool:
        """Tells whether this pass is cut here, on all ranks alike."""
        return self._instrument.together.agreed(self.kind, f"{self._number} {self._served}", enough)

    # -- validation

    def _next_eval(self) -> Any:
        if not self._served and self._length() == 0:
            self._nothing()
        self._instrument.validating()
        if not self._served:
            self._instrument.keep_growth()
        self._seconds.extend([time.monotonic() - self._asked_at] if self._served else [])
        self.through()
        if self._agreed(self._served >= self._wanted_validation() and self._bears_an_end and not self._goes_on()):
            return self._end()
        self._asked_at, batch = time.monotonic(), self._draw()
        self._in_hand = True
        return batch

    def through(self) -> None:
        """The validation batch that the script was given last is through."""
        if self._in_hand:
            self._in_hand = False
            self._instrument.validation_batch()

    def _nothing(self) -> None:
        """A validation without a batch is none: the run's is as empty."""
        if self._instrument.recorder is not None:
            samples = worst.length(getattr(self._loader, "dataset", None))
            why = f": {samples} samples, and a last batch that isn't whole is dropped" if samples else ""
            self._instrument.recorder.note(f"the script's validation has no batch{why}")
        self._passes.open.remove(self)
        self._ended = True
        raise StopIteration

    def _goes_on(self) -> bool:
        """Tells whether a validation's rest is waited for, being short: metrics of the whole set may need more than any batch of it."""
        rest_s = (self._length() - self._served) * sorted(self._seconds)[(len(self._seconds) - 1) // 2]
        return not self.seen_enough() and 0 < rest_s < SHORT_REST_S

    def seen_enough(self) -> bool:
        """Tells whether this is one of the many validations of a training that is fast-forwarded. The second still counts: variables keep
        what the first one left (its scores, the order of them) until it has made its own."""
        return self._instrument.phase is Phase.FINISH and self._loader in self._passes.again

    def _wanted_validation(self) -> int:
        if self.seen_enough():
            return 1
        varied = self._instrument.sampled.get(id(getattr(self._loader, "dataset", None)))
        return self._instrument.wanted_validation + (worst.VARIETY_OF_VALIDATION if varied else 0)

    # -- training

    def _next_train(self) -> Any:
        instrument = self._instrument
        if self._done() and not self._endless():
            return self._end()
        instrument.training()
        if self._whole and instrument.proven and not instrument.validated:
            instrument.start_forwarding()
        drawn_anew = instrument.varies and instrument.phase is Phase.FINISH
        if instrument.forwarding and self._loader in self._passes.replay and not drawn_anew:
            self._served += 1
            return self._passes.replay[self._loader]
        batch = self._draw()
        if instrument.proven and instrument.phase in (Phase.TRAIN, Phase.FINISH):
            self._passes.replay[self._loader] = batch
        return batch

    def _endless(self) -> bool:
        """Tells whether this pass never ends by itself: it is only replayed, since whoever asks for its batches counts on more."""
        return not self._bears_an_end if self._length() == ENDLESS else worst.endless(self._loader, self._instrument)

    def _left(self) -> None:
        """The script has begun anew before this pass was over: it counts batches itself, unless it takes one at a time, or as many as
        another loader has."""
        self._passes.open.remove(self)
        if (taken := self._taken + (not self.waits())) > 1 and self._others == self._passes.ended:
            self._ended_after(taken)

    def _ended_after(self, batches: int) -> None:
        """Says after how many batches the script has left this pass; 0: after all of them."""
        assert self._instrument.recorder is not None
        self._instrument.recorder.fact(**{LEFT_AFTER: batches})
        self._passes.followed = self._passes.followed or self._instrument.forwarding

    def _follows(self) -> bool:
        """Tells whether this stubbed pass goes on to its length, or to where the script leaves it. Of stubs nothing is left behind."""
        instrument, passes = self._instrument, self._passes
        unknown = self._whole or instrument.varies or self._length() == ENDLESS or instrument.together.ranks is not None
        if passes.followed or unknown or not instrument.forwarding or self._loader not in passes.replay or self._left_behind():
            return False
        passes.followed = self._served >= min(self._length(), ENDLESS)
        return not passes.followed

    def _done(self) -> bool:
        """Tells whether all that is wanted of a training pass was given."""
        instrument = self._instrument
        if self._follows():
            return False
        if instrument.phase is Phase.FINISH and instrument.forwarding:
            return self._served >= (self._length() if self._whole or instrument.varies else 1)
        if instrument.phase is Phase.TRAIN_AGAIN or instrument.validated:
            return False
        if self._whole:
            return instrument.forwarding and self._served >= self._length()
        if self._served == 0:
            return False
        enough = instrument.proven and instrument.varied() and not self._endless()
        if (cut := self._agreed(enough)) and (sizes := self._left_behind()):
            instrument.hold(sizes)
        return cut

    def _left_behind(self) -> dict[str, int]:
        """Device -> bytes that batches still to come would leave behind, if every batch does so (outputs kept for a score, a cache)."""
        left = max(0, self._length() - self._served) if self._length() != ENDLESS else 0
        seen = len(self._gathered) >= LEAST_VALIDATION and self._gathered.most() * left >= LEAST_HELD
        return {device: JOINED * each * left for device, each in self._gathered.all().items()} if seen else {}

    # -- batches

    def _length(self) -> int:
        try:
            return len(self._loader)
        except TypeError:
            return ENDLESS

    def _iterator(self) -> Any:
        if self._real is None:
            self._real = self._begin()
        return self._real

    def _begin(self) -> Any:
        if not self._instrument.active or not self.kind:
            return self._plain(self._loader)
        self._tell()
        with worst.first(self._loader, self._instrument, self.kind):
            return self._plain(self._loader)

    def _tell(self) -> None:
        recorder = self._instrument.recorder
        assert recorder is not None
        samples, batches = worst.length(getattr(self._loader, "dataset", None)), worst.length(self._loader)
        if self.kind == "train" and samples and self._instrument.phase is Phase.TRAIN:
            recorder.measured(train_samples=samples)
            if (whole := worst.of_a_pass(self._loader)) and PASS_SAMPLES not in recorder.told.facts:
                recorder.fact(**{PASS_SAMPLES: whole * world_size()})  # a step takes as many of each process
        if self.kind == "eval" and batches and self._instrument.proven:
            recorder.measured(validation_batches_total=batches)

    def _draw(self) -> Any:
        instrument, trains = self._instrument, self.kind == "train"
        if trains and self._served:
            self._gathered.look()
        try:
            batch = next(self._iterator())
        except StopIteration:
            if trains:
                instrument.ran_out()
                self._ended_after(0)
            self._close()
            raise
        except Exception as error:
            instrument.swallowed_perhaps(error)
            raise
        self._served += 1
        if trains:
            instrument.counts.drawn += 1
            instrument.counts.at_the_end = self._served >= self._length()
        if self._served == 1 and instrument.micro_batches:
            self._first = batch
        elif self._served == 1:
            self._observe(batch)
        return batch

    def _observe(self, batch: Any) -> None:
        """Says how many samples a batch has, as the trial runs it."""
        instrument = self._instrument
        size = worst.batch_size(self._loader, batch, instrument)
        trains = self.kind == "train" and instrument.phase in (Phase.TRAIN, Phase.TRAIN_AGAIN, Phase.FINISH)
        if size is None or instrument.recorder is None or not trains or instrument.in_parts(size):
            return
        if (drawn := worst.drawn_batch(self._loader, batch, instrument)) is not None:
            least, most = instrument.recorder.told.facts.get(DRAWN_BATCH, drawn)
            instrument.recorder.fact(**{DRAWN_BATCH: [min(least, drawn[0]), max(most, drawn[1])]})
        observe_micro_batch(instrument, size)
        instrument.arrives.trains(self._loader)

    def _end(self) -> Any:
        """Ends the pass early, or where it would have ended."""
        if self.kind == "train" and ENDLESS != self._length() <= self._served:
            self._ended_after(0)
        if self._real is not None and hasattr(self._real, "_shutdown_workers") and not self._loader.persistent_workers:
            self._real._shutdown_workers()
        self._close()
        raise StopIteration

    def _close(self) -> None:
        self._ended = True
        self._real = None
        if self in self._passes.open:
            self._passes.open.remove(self)
        self._instrument.together.has_no_wish(self.kind)
        if self.kind == "train":
            self._passes.ended += 1
            self._instrument.pass_ended()
            return
        if self._instrument.phase is Phase.FINISH:
            self._passes.again.add(self._loader)
        self._instrument.validation_ended()


def probed(instrument: Instrument, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A loader's ``__iter__`` whose passes the instrument sees. ``plain``: its own."""

    @functools.wraps(plain)
    def begun(loader: Any) -> Any:
        instrument.takes_part()
        if not instrument.active:
            return plain(loader)
        if instrument.passive:
            with worst.first(loader, instrument, "eval" if instrument.phase in (Phase.VALIDATE, Phase.FINISH) else "train"):
                return plain(loader)
        return TrialPass(instrument, loader, plain)

    return begun


def _bears_an_end(frame: Any) -> bool:
    """Tells whether the code that asks for a batch goes on without one: a ``for`` loop, or one that knows StopIteration."""
    code = frame.f_code
    name = dis.opname[code.co_code[frame.f_lasti]] if 0 <= frame.f_lasti < len(code.co_code) else "FOR_ITER"
    return not name.startswith(("CALL", "PRECALL")) or "StopIteration" in code.co_names
