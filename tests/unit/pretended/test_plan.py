"""From what rungs were played to need to the first that fits each card. Pure: nothing is played here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.ladder import rungs
from launcher.ladder.rungs import Ladder, Rung, Wheel
from launcher.ladder.verdict import Kind, Verdict
from launcher.pretended import catalogue
from launcher.pretended.catalogue import GpuModel
from launcher.pretended.plan import first_that_fits, on_card
from launcher.shared.report import Phase, PhaseUse, TrialReport
from launcher.shared.sizes import GIB
from launcher.trial.trial import Trial

WHEELS = (Wheel(name="micro_batch", values=(32, 16, 8, 4)), Wheel(name="image_size", values=(1280, 640)))
LADDER: Ladder = rungs.build(WHEELS, effective_batch=32)
SMALL, LARGE = catalogue.named(["rtx_3060", "a100_80gb"])
AMPLE = 2 * LARGE.usable_bytes


def need_of(rung: Rung) -> int:
    """2 GiB of weights, and 2.5 GiB an image of 1280 px: 82, 42, 22, 12, then 22, 12, 7, 4.5 GiB."""
    size = rung.values["image_size"]
    assert isinstance(size, int)
    return 2 * GIB + int(2.5 * GIB * rung.micro_batch * (size / 1280) ** 2)


def played(rung: Rung, *, train: int, validate: int, kind: Kind = Kind.FITS) -> Trial:
    uses = (
        PhaseUse(phase=Phase.TRAIN, seconds=1.0, reserved_bytes=train),
        PhaseUse(phase=Phase.VALIDATE, seconds=1.0, reserved_bytes=validate),
    )
    verdict = Verdict(kind=kind, phase=Phase.DONE, why=kind.value, peak_bytes=max(train, validate))
    return Trial(rung=rung, verdict=verdict, report=TrialReport(uses=uses, cap_bytes=AMPLE), seconds=2.0, folder=Path())


def player(needs: dict[int, Trial]) -> Callable[[Rung], Trial]:
    def play(rung: Rung) -> Trial:
        assert rung.index not in needs, "what was played once serves every card"
        size = need_of(rung)
        fits = size <= AMPLE
        return played(rung, train=min(size, AMPLE), validate=GIB, kind=Kind.FITS if fits else Kind.OUT_OF_MEMORY)

    return play


def found(card: GpuModel, needs: dict[int, Trial], cap_bytes: int) -> int | None:
    rung = first_that_fits(LADDER, needs=needs, play=player(needs), card=card, cap=cap_bytes)
    return None if rung is None else rung.index


@pytest.mark.parametrize("cap", [4, 6, 8, 13, 23, 43, 71, 83, 100])
def test_the_first_rung_that_fits_is_that_of_a_walk(cap: int) -> None:
    room = cap * GIB - LARGE.context_bytes
    walked = next((rung.index for rung in LADDER.rungs if need_of(rung) <= room), None)
    needs: dict[int, Trial] = {}
    assert found(LARGE, needs, cap * GIB) == walked
    assert len(needs) <= 5, "two that were measured give the line"


def test_what_was_played_for_one_card_serves_the_next() -> None:
    needs: dict[int, Trial] = {}
    first = found(LARGE, needs, 71 * GIB)
    before = len(needs)
    assert (first, found(LARGE, needs, 71 * GIB), len(needs)) == (1, 1, before), "the same card again plays nothing"
    assert found(SMALL, needs, 10 * GIB) == 6 and len(needs) - before <= 3


def test_what_is_too_large_in_validation_alone_is_told_so() -> None:
    verdict = on_card(played(LADDER.asked, train=4 * GIB, validate=9 * GIB), SMALL, 8 * GIB).verdict
    assert (verdict.kind, verdict.phase) == (Kind.OUT_OF_MEMORY, Phase.VALIDATE), "turning what acts in validation may cure it"


def test_a_crash_beyond_a_card_is_out_of_memory_there() -> None:
    """Some operators refuse tensors that no card has room for; on the card memory would have run out before."""
    crashed = played(LADDER.asked, train=30 * GIB, validate=0, kind=Kind.CRASHED)
    assert on_card(crashed, SMALL, 10 * GIB).verdict.kind is Kind.OUT_OF_MEMORY
    assert on_card(crashed, LARGE, 71 * GIB).verdict.kind is Kind.CRASHED
