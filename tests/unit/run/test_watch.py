"""What a run's pace comes to: told once, or the end of an attempt. The card and the clock are stand-ins."""

from __future__ import annotations

from dataclasses import replace

from launcher.adapter.progress import TRAIN, Progress
from launcher.machine.devices import Budget
from launcher.run.cause import Ended
from launcher.run.health import Look, Pacing, Remark
from launcher.shared.sizes import GIB


def pace(**budget: object) -> Pacing:
    card = Budget(
        kind="cuda", index=0, name="a card", total_bytes=24 * GIB, free_bytes=24 * GIB, budget_bytes=24 * GIB, cap_bytes=19 * GIB,
        ceiling_bytes=19 * GIB, headroom=0.1, neighbours=(), emulated=False, notes=(),
    )  # fmt: skip
    return Pacing(replace(card, **budget), stall_s=600)  # type: ignore[arg-type]


def look(step: int, now: float, *, used: int = 22 * GIB) -> Look:
    return Look(now=now, progress=Progress(phase=TRAIN, step=step, steps=10**6), used_bytes=used, busy=0.9, grew=True)


def walked(pace: Pacing, *, slow_from: int, slow_s: float, steps: int, used: int = 22 * GIB) -> list[Remark]:
    found, now = [], 0.0
    for step in range(1, steps):
        now += slow_s if step >= slow_from else 1.0
        found += pace.look(look(step, now, used=used))
    return found


def test_a_cliff_over_the_cap_ends_an_attempt_where_the_driver_spills() -> None:
    (found,) = walked(pace(may_spill=True), slow_from=300, slow_s=10.0, steps=340)
    assert found.ends is Ended.SPILLED and "10.0 times" in found.what
    assert "with 22.0 GiB of 24.0 GiB in use, over the trials' cap of 19.0 GiB" in found.what
    (found,) = walked(pace(may_spill=True), slow_from=300, slow_s=10.0, steps=340, used=18 * GIB)
    assert found.ends is None, "something else slows it down"


def test_elsewhere_a_cliff_is_told_once_with_what_was_seen() -> None:
    (found,) = walked(pace(), slow_from=300, slow_s=10.0, steps=400)
    told = "has slowed down: a step takes 10.00 s, 10.0 times the 1.00 s that it took; 22.0 GiB of 24.0 GiB in use, the card 90% busy"
    assert found == Remark(told), "Linux gives no host memory for the card's"
