"""Lets the ranks of a distributed training decide alike: when a pass is cut, when fast-forward begins and ends, when the trial does.

One rank that cuts a pass, or leaves fast-forward, alone would leave the others in a collective that it never comes to. No collective of
ours is added, either: a rank that validates alone is in none. Each rank counts its places by itself (its 12th forward pass in training).
The first that comes to a place decides it for all, by what every rank has said so far; the others find the decision there. What is said
and decided are lines of one file among the trial's records.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.report import Phase
from .part import distributed

if TYPE_CHECKING:
    from .instrument import Instrument

PATIENCE_S = 20.0
"""A rank that doesn't come further for so long is waited for no more."""
LOOK_S = 0.001
YES, NO = "yes", "no"


class Ranks:
    """A rank's view of what all of a group say and decide."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._rank = rank
        self._file = os.open(folder / "ranks", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._seen = 0
        self._said: dict[str, dict[int, str]] = {}
        """Subject -> rank -> word; and decisions of others, of places that this rank has still to come to."""
        self._waits = True

    def say(self, subject: str, word: str) -> None:
        """Says what this rank wants or has seen, until it says otherwise."""
        if self._said.setdefault(subject, {}).get(self._rank) != word:
            self._said[subject][self._rank] = word
            with self._alone():
                self._write(subject, word)

    def words(self, subject: str) -> list[str]:
        """Returns what the ranks that have said anything of it say, as far as was read."""
        return list(self._said.get(subject, {}).values())

    def decision(self, place: str, decide: Callable[[], str]) -> str:
        """Returns what was decided at a place; ``decide`` decides if this rank is the first that comes there. Each rank asks once."""
        with self._alone():
            if (found := self._said.pop(place, None)) is not None:
                return next(iter(found.values()))
            self._write(place, word := decide())
            return word

    def agree(self, what: str, place: str, wish: bool) -> bool:
        """Tells whether all who have come to places of that kind want it, asked at this one."""
        self.say(what, YES if wish else NO)
        return self.decision(f"{what} {place}", lambda: NO if NO in self.words(what) else YES) == YES

    def keep_up(self, subject: str, beat: Callable[[], None]) -> None:
        """Waits while another rank's number of that kind is more than one behind this one's: as their own collectives would have it, which
        stubs leave out. One that comes no further (it has ended) isn't waited for long, and never again."""
        own, began = int(self._said[subject][self._rank]), time.monotonic()
        while self._waits and (behind := min(map(int, self.words(subject)))) < own - 1:
            beat()
            time.sleep(LOOK_S)
            with self._alone():
                further = min(map(int, self.words(subject))) > behind
            began = time.monotonic() if further else began
            self._waits = time.monotonic() - began < PATIENCE_S

    def all_here(self, size: int) -> bool:
        """Waits for all ranks of a group of ``size`` to come to its end, and tells whether they did."""
        self.say("end", YES)
        until = time.monotonic() + PATIENCE_S
        while len(self.words("end")) < size and time.monotonic() < until:
            time.sleep(LOOK_S)
            with self._alone():
                pass
        return len(self.words("end")) >= size

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other ranks from reading and writing while open; first reads all that they have written."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._read()
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read(self) -> None:
        text = os.pread(self._file, max(os.fstat(self._file).st_size - self._seen, 0), self._seen)
        self._seen += len(text)
        for line in text.decode().splitlines():
            rank, subject, word = line.split("\t")
            if int(rank) != self._rank:
                self._said.setdefault(subject, {})[int(rank)] = word

    def _write(self, subject: str, word: str) -> None:
        os.write(self._file, f"{self._rank}\t{subject}\t{word}\n".encode())


class Together:
    """Does with the other ranks' instruments what all must do alike; nothing in a training of one process."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self._ranks: Ranks | None = None
        self._places: Counter[str] = Counter()
        self.forward_now = False
        """True: this rank wants stubs from the next place on."""

    @property
    def ranks(self) -> Ranks | None:
        """The words of the ranks of a distributed training to each other; None in any other training."""
        dist = distributed() if self._instrument.active else None
        if dist is not None and self._ranks is None:
            self._ranks = Ranks(Path(self._instrument.settings.records), dist.get_rank())
        return None if dist is None else self._ranks

    def agreed(self, what: str, place: str, wish: bool) -> bool:
        """Returns ``wish``; of several ranks, whether all that come to places of that kind wish it."""
        ranks = self.ranks
        return wish if ranks is None else ranks.agree(what, place, wish)

    def has_no_wish(self, what: str) -> None:
        """Has the others' agreement not wait for this rank."""
        if (ranks := self.ranks) is not None:
            ranks.say(what, YES)

    def place(self, kind: str) -> None:
        """Lets all ranks that come to this forward pass, step, or pass over the data go on from it alike."""
        ranks, own = self.ranks, self._instrument
        if ranks is None or own.recorder is None:
            return
        self._places[kind] += 1
        ranks.say(kind, str(self._places[kind]))
        if own.forwarding:
            ranks.keep_up(kind, own.recorder.beat)
        ranks.say("trained enough", YES if own.trained_enough else NO)
        ranks.say("stubs now", YES if self.forward_now else NO)
        ranks.say("trained again", YES if own.phase is Phase.TRAIN_AGAIN and own.trained_again else NO)
        self._go_on(ranks.decision(f"{kind} {self._places[kind]}", lambda: self._course(ranks, kind)))

    def _course(self, ranks: Ranks, kind: str) -> str:
        own = self._instrument
        if YES in ranks.words("validated"):
            numbers = sorted(map(int, ranks.words(kind)))
            abreast = numbers[-1] <= numbers[0] + 1  # else (DDP's ``join``) not all come to this place: all do to the next pass
            return "end" if own.validated and abreast and NO not in ranks.words("trained again") else "train again"
        if own.forwarding:
            return "give up" if own.followed_long else "go on"
        return "forward" if YES in ranks.words("stubs now") or NO not in ranks.words("trained enough") else "go on"

    def _go_on(self, course: str) -> None:
        own = self._instrument
        if course == "train again" and not own.validated:
            own.other_rank_validated()
        elif course == "forward":
            own.forward()
        elif course == "give up":
            own.give_up()
        elif course == "end":
            own.wind_up()

    def end(self) -> None:
        """Waits for the other ranks: nobody leaves while another still needs it."""
        dist, ranks = distributed(), self.ranks
        if dist is not None and ranks is not None and ranks.all_here(dist.get_world_size()):
            with contextlib.suppress(Exception):
                dist.barrier()
