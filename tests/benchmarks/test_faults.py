"""Cases of `make faults` from their seeds. No training is run."""

from __future__ import annotations

from benchmarks.faults import cases


def test_a_round_of_seeds_holds_every_fault_with_every_trainer_once() -> None:
    played = [(one.fault, one.trainer) for one in map(cases.make, range(len(cases.PAIRS)))]
    assert sorted(played) == sorted(cases.PAIRS) and cases.make(7) == cases.make(7)
