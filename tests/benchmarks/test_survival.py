"""The pure parts of `make survival`: cases from seeds, outcomes from answers. No training is run."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.survival import play


def ended(returncode: int | None = 0, **answer: Any) -> play.Ended:
    return play.Ended(returncode=returncode, answer=answer, out="", err="Traceback: of autofit", seconds=1.0)


@pytest.mark.parametrize(("exit_status", "run", "said", "peak", "status"), [
    (0, {"returncode": 0}, [], 10, "done"), (0, {"returncode": 0}, ["Unable to allocate 18.6 MiB"], 10, "done"),
    (5, {"returncode": 1}, ["Unable to allocate 18.6 MiB"], 10, "died"), (5, {"returncode": -11}, [], 10, "died"),
    (5, {"returncode": 1}, [], 99, "died"), (5, {"returncode": 1}, [], 10, "failed"), (None, {"returncode": 0}, [], 10, "timeout"),
])  # fmt: skip
def test_a_death_is_told_by_its_words_its_signal_or_its_cap(
    exit_status: int | None, run: dict[str, Any], said: list[str], peak: int, status: str
) -> None:
    assert play.outcome(ended(exit_status, status="failed"), run, peak=peak, budget=100, said=said) == status
