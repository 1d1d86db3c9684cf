"""What one process of a trial takes a step for: how many micro-batches are in it, whoever put them there, and where a pass ends."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from autofit_launcher.common.orders import Orders, ProbeSettings
from autofit_launcher.common.report import NOT_EXACT, Phase, TrialReport
from autofit_launcher.common.sizes import MIB
from autofit_launcher.inside import worst
from autofit_launcher.inside.counted import PATIENCE as ENOUGH
from autofit_launcher.inside.gathered import Gathered, steady_growth
from autofit_launcher.inside.instrument import Instrument
from autofit_launcher.inside.passes import TrialPass
from autofit_launcher.inside.stubs import Forward
from tests.helpers.places import ROOT


class Recorder:
    """What is said of a trial, kept."""

    def __init__(self) -> None:
        self.told = TrialReport()
        self.facts, self.observed = self.told.facts, self.told.observed

    def fact(self, **facts: Any) -> None:
        self.facts |= facts

    def observe(self, **wheels: Any) -> None:
        self.observed |= wheels

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Optimizer:
    param_groups = ()


def begun(told: int) -> tuple[Instrument, Recorder, Optimizer]:
    """A session that trains, with accumulation as the script was told it."""
    orders = Orders(module="", folder="", device="cpu", cap_bytes=1, accumulation=told, payload={"accumulation": told})
    Path("cut", "records").mkdir(parents=True, exist_ok=True)
    session = Instrument(ProbeSettings(records="cut/records", orders=dataclasses.asdict(orders)))
    recorder, optimizer = Recorder(), Optimizer()
    session.recorder, session.phase = recorder, Phase.TRAIN  # type: ignore[assignment]
    session.progress.made(optimizer)
    return session, recorder, optimizer


def trained(told: int, steps: list[tuple[int, int]], *, end_at: int = 0, closure: bool = False) -> Recorder:
    """A session in which each step came after so many (batches, backward passes); number ``end_at`` ended a pass over the data."""
    session, recorder, optimizer = begun(told)
    for number, (session.counts.drawn, session.counts.backwards) in enumerate(steps, start=1):
        session.counts.at_the_end = number == end_at
        session.stepped(optimizer, closure=closure)
    return recorder


@pytest.mark.parametrize(
    ("told", "steps", "observed", "own"),
    [
        (4, [(4, 4), (4, 4), (4, 4)], 4, 1),
        (4, [(1, 1), (1, 1), (1, 1)], 1, None),  # the flag does nothing
        (1, [(2, 2), (2, 2), (2, 2)], 1, 2),  # the script accumulates two by itself
        (1, [(1, 2), (1, 2), (1, 2)], 1, 1),  # two losses
        (1, [(2, 1), (2, 1), (2, 1)], 1, 1),  # two loaders
        (1, [(9, 1), (1, 1), (1, 1)], 1, 1),  # batches that were looked at first
    ],
)
def test_micro_batches_of_a_step_are_counted(told: int, steps: list[tuple[int, int]], observed: int, own: int | None) -> None:
    recorder = trained(told, steps)
    assert recorder.observed["accumulation"] == observed and recorder.facts.get("own_accumulation") == own


def test_a_pass_that_ends_within_a_step_says_nothing() -> None:
    assert "accumulation" not in trained(4, [(3, 3), (3, 3)], end_at=2).observed
    assert trained(4, [(4, 4), (4, 4), (1, 1), (4, 4)], end_at=3).observed["accumulation"] == 4


def test_what_a_closure_computes_is_no_accumulation() -> None:
    assert "accumulation" not in trained(1, [(20, 20), (20, 20)], closure=True).observed


def test_a_step_that_deepspeed_makes_group_by_group_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As seen of DeepSpeed 0.19.8 with ZeRO 1 and 2, accumulation 2 and two groups: a step to make the states, then two at a time."""
    monkeypatch.setitem(sys.modules, "deepspeed", SimpleNamespace())
    session, recorder, optimizer = begun(2)
    session.stepped(optimizer)
    for _ in range(4):
        for _ in range(2):
            session.counts.drawn += 1
            session.backwards += 1
            session.counts.backwards += 1
        session.stepped(optimizer)
        session.stepped(optimizer)
    assert (session.steps, recorder.observed["accumulation"]) == (4, 2)


class Loader:
    """So many batches, of a length that is told or not."""

    dataset = batch_sampler = None
    persistent_workers = False

    def __init__(self, batches: int, *, told: bool = True) -> None:
        self.batches, self._told = batches, told

    def __len__(self) -> int:
        if not self._told:
            raise TypeError("it has no length")
        return self.batches


def looking_ahead(batches: Iterator[object]) -> Iterator[bool]:
    """As accelerate's loader: whether each batch is the last, which shows in the next."""
    for _ in batches:
        break
    while True:
        try:
            next(batches)
        except StopIteration:
            yield True
            return
        yield False


def plain(batches: Iterable[object]) -> Iterator[bool]:
    for _ in batches:
        yield False


def looped(loader: Loader, told: int, done: int, *, passes: int, ahead: bool = True, flushes: bool = False, slow: bool = False) -> Any:
    """The accumulation that is seen of a script that was told ``told`` micro-batches and makes steps of ``done``.

    ``ahead``: it looks a batch ahead, and steps at the last one of a pass whatever is due. ``flushes``: it steps after a pass with what is
    left over. ``slow``: batches take so long that no more of them are waited for than the wanted steps need.
    """
    session, recorder, optimizer = begun(told)
    session._train_batches = int(slow)  # the first came long ago
    for _ in range(passes):
        held = 0
        for last in (looking_ahead if ahead else plain)(TrialPass(session, loader, lambda _: iter(range(loader.batches)))):
            session.counts.forwards += 1
            session.backward_done()
            held += 1
            if held == done or last:
                session.stepped(optimizer)
                held = 0
        if held and flushes:
            session.stepped(optimizer)
    return recorder.observed["accumulation"]


@pytest.mark.parametrize("known", [True, False])
def test_a_step_that_is_short_because_a_pass_ends_is_no_measure(known: bool) -> None:
    """Where we end it, or where the data do; a script that steps too often is seen all the same."""
    for told, slow in ((2, False), (4, True), (16, False)):
        assert looped(Loader(400), told, told, passes=3, slow=slow) == told
    assert looped(Loader(5, told=known), 2, 2, passes=1) == 2
    assert looped(Loader(17, told=known), 8, 8, passes=1) == 8
    assert looped(Loader(20, told=known), 8, 8, passes=1, ahead=False, flushes=True) == 8
    for ahead in (True, False):
        assert looped(Loader(400, told=known), 4, 1, passes=3, ahead=ahead, slow=True) == 1
        assert looped(Loader(8, told=known), 4, 2, passes=3, ahead=ahead) == 2


def test_each_pass_of_a_validation_is_cut_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes of 4 of 6 batches, which keep 3 MiB each time, and one of 4 of 50 that keeps nothing, leave out 2. Where none keeps
    anything on a card, it is the longest's whose batches are still to come: the host may keep something of each."""
    measured: dict[str, int] = {}
    monkeypatch.setattr(Recorder, "measured", lambda _, **sizes: measured.update(sizes), raising=False)
    session, recorder, optimizer = begun(1)
    for _ in range(session.wanted):
        session.stepped(optimizer)
    for total, each in ((6, 3 * MIB), (6, 3 * MIB), (50, 0)):
        recorder.told.validation_batches_total = total
        session.gathered.all = lambda each=each: {"cpu": each}  # type: ignore[method-assign,misc]
        session.validating()
        for _ in range(4):
            session.validation_batch()
        session.validation_ended()
        assert (measured["growth_bytes_per_batch"], measured["validation_batches_left"]) == (2 * 3 * MIB, 2)
    session._kept = (0, 0)
    session.gathered.all = lambda: {"cpu": 0}  # type: ignore[method-assign,misc]
    for _ in range(4):
        session.validation_batch()
    assert (measured["growth_bytes_per_batch"], measured["validation_batches_left"]) == (0, 46)


class Lengthy:
    """A sampler that begins anew by itself, and tells the length of a single round, as YOLOX's. ``times``: None is for ever."""

    def __init__(self, sampler: Any, times: int | None = None) -> None:
        self.sampler, self.times = sampler, times

    def __iter__(self) -> Iterator[Any]:
        done = 0
        while self.times is None or done < self.times:
            yield from self.sampler
            done += 1

    def __len__(self) -> int:
        return len(self.sampler)


DATA: Any = list(range(640))


@pytest.mark.parametrize(
    ("sampler", "endless"),
    [
        (BatchSampler(RandomSampler(DATA), 8, drop_last=False), False),
        (BatchSampler(Lengthy(RandomSampler(DATA)), 8, drop_last=False), True),  # type: ignore[arg-type]
        (Lengthy([[1, 2], [3]] * 100, times=2), False),  # its length was only estimated
        (BatchSampler(RandomSampler(DATA, replacement=True, num_samples=10**10), 8, drop_last=False), True),  # karpathy/makemore's
        (BatchSampler(RandomSampler(DATA, replacement=True, num_samples=2560), 8, drop_last=False), False),
    ],
)
def test_a_sampler_that_begins_anew_or_draws_over_and_over_has_no_end(sampler: Any, endless: bool) -> None:
    session, _, _ = begun(1)
    assert worst.endless(DataLoader(DATA, batch_sampler=sampler), session) is endless


@pytest.mark.parametrize("forwarding", [False, True])
def test_a_pass_without_an_end_is_never_ended_by_us(forwarding: bool) -> None:
    session, _, optimizer = begun(1)
    session._train_batches = 1  # which came long ago
    loader = DataLoader(DATA, 8, sampler=RandomSampler(DATA, replacement=True, num_samples=10**10))
    batches = TrialPass(session, loader, DataLoader.__iter__)
    for number in range(300):
        next(batches)
        if not session.forwarding:
            session.counts.forwards += 1
            session.backward_done()
            session.stepped(optimizer)
        if forwarding and number == 5:
            session.start_forwarding()


LATE = """
import json, sys
told, sys.argv[1:] = json.loads(sys.argv[1]), []
from autofit_launcher.inside import start
from autofit_launcher.common.orders import ProbeSettings
from tests.data.scripts.usual import Usual
usual = Usual()
start.begin(ProbeSettings(**told))
usual.train_for(3)
"""


def test_it_is_installed_in_a_process_that_has_its_model_already(tmp_path: Path) -> None:
    orders = Orders(module="", folder="", device="cpu", cap_bytes=2**30, accumulation=1, payload={"micro_batch": 64})
    told = dataclasses.asdict(ProbeSettings(records=str(tmp_path), orders=dataclasses.asdict(orders)))
    subprocess.run([sys.executable, "-c", LATE, json.dumps(told)], check=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)})
    report = TrialReport.read(next(tmp_path.glob("*/report.json")))
    assert report is not None and report.phase == Phase.DONE and report.observed == {"micro_batch": 64, "accumulation": 1, "device": "cpu"}
    assert {use.phase for use in report.uses} >= {Phase.SETUP, Phase.TRAIN, Phase.VALIDATE, Phase.TRAIN_AGAIN, Phase.FINISH}


@pytest.mark.parametrize(("passes", "forwards"), [(4, False), (5, True)])
def test_passes_without_a_step_are_fast_forwarded_after_some(passes: int, forwards: bool) -> None:
    """Cut after a micro-batch each, a script that counts them anew in each pass never makes a step again."""
    session, _, optimizer = begun(4)
    session.stepped(optimizer)
    session.stepped(optimizer)
    session.passes.begun["train"], session._train_batches = passes, 100
    session.pass_ended()
    assert session.proven and not session.trained_enough and session.forwarding is forwards


def test_a_validation_that_was_seen_at_the_end_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session, _, _ = begun(1)
    called: list[int] = []

    class Model(torch.nn.Linear):
        def forward(self, x: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
            called.append(len(x))
            return super().forward(x)

    session.phase, model = Phase.FINISH, Model(2, 2).eval()
    Forward.put(model, session)
    session.passes.open.append(SimpleNamespace(kind="eval", seen_enough=lambda: len(called) > 0))  # type: ignore[arg-type]
    with torch.no_grad():
        first, again, larger, otherwise = (
            model(torch.ones(3, 2)),
            model(torch.ones(3, 2)),
            model(torch.ones(4, 2)),
            model(torch.ones(3, 2), whole=True),
        )
    assert called == [3, 4, 3] and torch.equal(first, again) and len(larger) == 4 and len(otherwise) == 3


def test_accumulation_without_an_optimizer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[BaseException] = []
    monkeypatch.setattr(Recorder, "failed", lambda _, error: failed.append(error), raising=False)
    monkeypatch.setattr(Instrument, "end", lambda *_: sys.exit(1))
    session, _, optimizer = begun(2)
    del optimizer
    with pytest.raises(SystemExit):
        for _ in range(ENOUGH):
            session.backward_done()
    assert type(failed[0]).__name__ == NOT_EXACT and "torch.optim" in str(failed[0])


def test_host_memory_that_the_allocator_reuses_shows_as_growth() -> None:
    """Where it has free blocks, what a process has of the machine doesn't grow."""
    free = [torch.ones(3000) for _ in range(4000)]
    del free[::2]
    seen, kept = Gathered("cpu"), list[torch.Tensor]()
    for _ in range(5):
        kept += [torch.ones(3000) for _ in range(40)]
        seen.look()
    assert 40 * 12000 <= seen.all()["cpu"] <= 41 * 12288


def test_only_growth_that_goes_on_counts() -> None:
    assert steady_growth([0, 50, 60, 70]) == 10
    assert steady_growth([0, 50, 60, 60]) == 0
    assert steady_growth([0, 50, 60, 400]) == 0
