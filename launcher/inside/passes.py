"""Passes over a ``torch.utils.data.DataLoader``: classified, cut, replayed, and begun with the worst batches there are."""

from __future__ import annotations

import dis
import functools
import sys
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..shared.report import PASS_SAMPLES, Phase
from . import worst
from .forward import observe_micro_batch
from .gathered import JOINED, LEAST_GROWTH, LEAST_HELD, Gathered
from .session import LEAST_VALIDATION, VARIETY, Session, world_size

WHOLE_PASS_S = 10.0
"""A pass in which every batch leaves memory behind goes on to its end where that takes no longer."""
SHORT_REST_S = 4.0
"""The rest of a validation that takes no longer is really run."""
LEAST_LIVE = 5
"""Looks at what is live that a growth is read from."""
ENDLESS = 1000
"""Batches of a fast-forwarded pass whose length nobody knows."""


class Passes:
    """All passes of one process."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.passes = self
        self.open: list[ProbedPass] = []
        self.begun: Counter[str] = Counter()
        self.evaluated: weakref.WeakSet[Any] = weakref.WeakSet()
        """Loaders of which a validation pass was seen."""
        self.again: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those of which one more was seen, beside what the first had left: at the script's end one batch of theirs is enough."""
        self.replay: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._endless: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self.original: Any = None
        self.told = False
        """How many samples a training pass has is said."""

    def endless(self, loader: Any, length: int) -> bool:
        """Whether a pass over the loader never ends, whatever length it says that it has."""
        if loader not in self._endless:
            self._endless[loader] = worst.endless(loader, self.session, length)
        return self._endless[loader]

    def seen_through(self) -> None:
        """The script went on without asking for more: the last batch that a validation was given is through."""
        for one in self.open:
            one.through()

    def install(self) -> None:
        from torch.utils.data import DataLoader

        self.original = DataLoader.__iter__

        @functools.wraps(self.original)
        def begun(loader: Any) -> Any:
            session = self.session
            if not session.active:
                return self.original(loader)
            if session.passive:
                with worst.first(loader, session, "eval" if session.phase in (Phase.VALIDATE, Phase.FINISH) else "train"):
                    return self.original(loader)
            return ProbedPass(self, loader)

        DataLoader.__iter__ = begun

    def evaluating(self) -> bool:
        """Whether a validation pass is open."""
        return any(one.kind == "eval" for one in self.open)

    def all_train(self) -> None:
        """A backward pass came: what is open with gradients is training, whatever mode the model is in."""
        for one in self.open:
            one.kind = "train"

    def not_training(self) -> None:
        """The model ran without gradients: an open pass that has trained nothing yet is a validation pass after all."""
        for one in reversed(self.open):
            if one.kind == "train" and not one.trained:
                one.kind = "eval"
                self.session.validating()
                return


class ProbedPass:
    """An iterator over one pass. The loader's own iterator is made when its first batch is really wanted."""

    def __init__(self, passes: Passes, loader: Any) -> None:
        self._passes, self._session, self._loader = passes, passes.session, loader
        self._real: Any = None
        self.kind = ""
        self._number = 0
        """Which of its kind it is in this process."""
        self.trained = False
        """A backward pass followed one of its batches."""
        self._served = 0
        self._in_hand = False
        """A validation batch was given, and the script hasn't come back for another yet."""
        self._began = 0.0
        self._gathered = Gathered(self._session.orders.device, LEAST_LIVE)
        self._steps_before = self._session.steps
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
        if self._real is None:
            self._real = self._begin()
        return getattr(self._real, name)

    def __next__(self) -> Any:
        session = self._session
        if self._ended:
            raise StopIteration
        if not session.active:
            return next(self._iterator())
        if not self.kind:
            self._classify()
            self._passes.open.append(self)
            self._bears_an_end = _bears_an_end(sys._getframe(1))
            self._whole = session.settings.mode == "full" or not self._bears_an_end
        if self.kind == "eval":
            return self._next_eval()
        return self._next_train()

    # -- the two kinds

    def _classify(self) -> None:
        import torch

        roots = list(self._session.roots)
        largest = max(roots, key=lambda root: sum(p.numel() for p in root.parameters()), default=None)
        switched = largest is not None and not largest.training and not self._session.trains_in_eval_mode
        evaluates = not torch.is_grad_enabled() or switched
        self.kind = "eval" if evaluates else "train"
        self._passes.begun[self.kind] += 1
        self._number = self._passes.begun[self.kind]

    def _next_eval(self) -> Any:
        session = self._session
        if not self._served and self._length() == 0:
            self._nothing()
        session.validating()
        self.through()
        enough = self._served >= self._wanted_validation() and self._bears_an_end and not self._goes_on()
        if self._agreed(enough):
            return self._end()
        if not self._began:
            self._began = time.monotonic()
        batch = self._draw()
        self._in_hand = True
        return batch

    def _agreed(self, enough: bool) -> bool:
        """Whether this pass is cut here, on all ranks alike."""
        return self._session.agreed(self.kind, f"{self._number} {self._served}", enough)

    def through(self) -> None:
        """The validation batch that the script was given last is through."""
        if self._in_hand:
            self._in_hand = False
            self._session.validation_batch()

    def _nothing(self) -> None:
        """A validation without a batch is none: the run's is as empty."""
        if self._session.recorder is not None:
            samples = worst.length(getattr(self._loader, "dataset", None))
            why = f": {samples} samples, and a last batch that isn't whole is dropped" if samples else ""
            self._session.recorder.note(f"the script's validation has no batch{why}")
        self._passes.open.remove(self)
        self._ended = True
        raise StopIteration

    def _goes_on(self) -> bool:
        """Whether the rest of a validation is waited for: where it is short (metrics of the whole set may need more than any batch of it),
        or where every batch leaves memory behind."""
        each = (time.monotonic() - self._began) / self._served
        soon = not self._seen_enough() and 0 < (self._length() - self._served) * each < SHORT_REST_S
        return soon or self._keeps(self._session.gathered, LEAST_VALIDATION)

    def _seen_enough(self) -> bool:
        """Whether this is one of the many validations of a training that is fast-forwarded. The second still counts: variables keep what
        the first one left (its scores, the order of them) until it has made its own."""
        return self._session.phase is Phase.FINISH and self._loader in self._passes.again

    def _wanted_validation(self) -> int:
        if self._seen_enough():
            return 1
        more = worst.VARIETY_OF_VALIDATION if self._session.sampled.get(id(getattr(self._loader, "dataset", None))) else 0
        return self._session.wanted_validation + more

    def _keeps(self, gathered: Gathered, looks: int) -> bool:
        """Whether every batch leaves memory behind, so that only the whole pass shows the need, and the rest of it can be waited for."""
        if len(gathered) < looks or gathered.most() < LEAST_GROWTH:
            return False
        each = (time.monotonic() - self._began) / self._served
        return 0 < (self._length() - self._served) * each < WHOLE_PASS_S

    def _next_train(self) -> Any:
        session = self._session
        if self._served and session.steps > self._steps_before:
            self.trained = True
        if self._due():
            return self._end()
        session.training()
        if session.forwarding or (self._whole and session.proven and not session.validated):
            if self._whole:
                session.start_forwarding()
            drawn_anew = session.varies and session.phase is Phase.FINISH
            if session.forwarding and self._loader in self._passes.replay and not drawn_anew:
                self._served += 1
                return self._passes.replay[self._loader]
        batch = self._draw()
        if self._served == 1:
            self._began = time.monotonic()
        if session.proven and session.phase in (Phase.TRAIN, Phase.FINISH):
            self._passes.replay[self._loader] = batch
        return batch

    def _due(self) -> bool:
        """Whether this training pass ends here. One that has no end is only replayed: whoever asks for its batches counts on more."""
        return self._done() and not self._endless()

    def _endless(self) -> bool:
        length = self._length()
        return not self._bears_an_end if length == ENDLESS else self._passes.endless(self._loader, length)

    def _done(self) -> bool:
        """Whether all that is wanted of it was given."""
        session = self._session
        if session.phase is Phase.FINISH and session.forwarding:
            return self._served >= (self._length() if self._whole or session.varies else 1)
        if session.phase is Phase.TRAIN_AGAIN or session.validated:
            return False
        if self._whole:
            return session.forwarding and self._served >= self._length()
        if self._served == 0:
            return False
        enough = session.proven and session.varied(VARIETY) and not self._grows() and not self._endless()
        if cut := self._agreed(enough):
            self._hold_the_rest()
        return cut

    def _grows(self) -> bool:
        """Whether training leaves memory behind with every batch (outputs kept for a score, a data set that caches), and goes on
        for that reason."""
        if self._keeps(self._gathered, LEAST_LIVE):
            self._session.grew = True
            return True
        return False

    def _hold_the_rest(self) -> None:
        """Where it leaves memory behind and would take too long, what is still to come is held by us."""
        left = max(0, self._length() - self._served) if self._length() != ENDLESS else 0
        if len(self._gathered) >= LEAST_VALIDATION and self._gathered.most() * left >= LEAST_HELD:
            self._session.hold({device: JOINED * each * left for device, each in self._gathered.all().items()})

    def _length(self) -> int:
        try:
            parts = self._session.parts_of(self._loader) if self.kind == "train" else 1
            return len(self._loader) * (parts or 1)
        except TypeError:
            return ENDLESS

    # -- batches

    def _iterator(self) -> Any:
        if self._real is None:
            self._real = self._begin()
        return self._real

    def _begin(self) -> Any:
        session = self._session
        if session.active and session.recorder is not None and self.kind:
            self._tell()
            with worst.first(self._loader, session, self.kind):
                return self._passes.original(self._loader)
        return self._passes.original(self._loader)

    def _tell(self) -> None:
        recorder = self._session.recorder
        assert recorder is not None
        samples = worst.length(getattr(self._loader, "dataset", None))
        batches = worst.length(self._loader)
        if self.kind == "train" and samples and self._session.phase is Phase.TRAIN:
            recorder.measured(train_samples=samples)
            if (whole := self._of_a_pass(batches)) and not self._passes.told:
                self._passes.told = True
                recorder.fact(**{PASS_SAMPLES: whole * world_size()})  # a step takes as many of each process
        if self.kind == "eval" and batches and self._session.proven:
            recorder.measured(validation_batches_total=batches, **({"validation_samples": samples} if samples else {}))

    def _of_a_pass(self, batches: int) -> int:
        """Samples of a pass; where its sampler makes batches of so many tokens, as many of these as its batches may hold."""
        session = self._session
        parts = session.parts_of(self._loader)
        return batches * parts * session.orders.payload["micro_batch"] if parts else worst.of_a_pass(self._loader)

    def _draw(self) -> Any:
        if self.kind == "train" and self._served:
            self._gathered.look()
        try:
            batch = next(self._iterator())
        except StopIteration:
            if self.kind == "train":
                self._session.ran_out()
            self._close()
            raise
        except Exception as error:
            self._session.swallowed_perhaps(error)
            raise
        self._served += 1
        if self.kind == "train":
            self._session.drawn += 1
            self._session.at_the_end = self._served >= self._length()
        if self._served == 1:
            self._observe(batch)
        return batch

    def _observe(self, batch: Any) -> None:
        recorder = self._session.recorder
        if recorder is None:
            return
        size = worst.batch_size(self._loader, batch)
        if size is None:
            return
        if self.kind == "train":
            if self._session.phase is Phase.TRAIN and self._session.parts_of(self._loader):
                observe_micro_batch(self._session, self._session.orders.payload["micro_batch"])
            elif self._session.phase is Phase.TRAIN and not self._session.in_parts(size):
                observe_micro_batch(self._session, size)
        elif self._session.proven:
            recorder.fact(validation_batch=size)

    def _end(self) -> Any:
        """Ends the pass early."""
        if self._real is not None and hasattr(self._real, "_shutdown_workers") and not self._loader.persistent_workers:
            self._real._shutdown_workers()
        self._close()
        raise StopIteration

    def _close(self) -> None:
        self._ended = True
        self._real = None
        if self in self._passes.open:
            self._passes.open.remove(self)
        self._session.has_no_wish(self.kind)
        if self.kind == "eval":
            if self._loader in self._passes.evaluated:
                self._passes.again.add(self._loader)
            self._passes.evaluated.add(self._loader)
            self._session.validation_ended()
        else:
            self._session.at_the_end = True
            self._session.pass_ended()


def _bears_an_end(frame: Any) -> bool:
    """Whether the code that asks for a batch goes on when there is none: a ``for`` loop, or one that knows StopIteration."""
    code = frame.f_code
    name = dis.opname[code.co_code[frame.f_lasti]] if 0 <= frame.f_lasti < len(code.co_code) else "FOR_ITER"
    return not name.startswith(("CALL", "PRECALL")) or "StopIteration" in code.co_names
