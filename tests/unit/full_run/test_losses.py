"""A run's losses and its silence: a loss that stays not finite, nothing said and nothing computed. Nothing is run."""

from __future__ import annotations

import pytest

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.full_run.losses import Losses
from autofit_launcher.machine.stall import Silence


def saw(losses: Losses, line: str) -> str:
    return losses.saw(line, log_line.read(line, Progress()))


@pytest.mark.parametrize(("line", "report"), [
    ("\x1b[K        2/4         0G      4.874      4.003      2.501         24         96: 0%", ("2", True)),
    ("\x1b[K      134/200      26.5G        nan        nan      2.501         24       1280: 6%", ("134", False)),
    ("{'loss': 'nan', 'grad_norm': 'nan', 'learning_rate': '1e-05', 'epoch': '0.1'}", ("", False)),
    ("{'loss': 2.31, 'grad_norm': nan}", ("", True)), ("{'eval_loss': 'nan'}", None), ("epoch 3 | train loss: inf", ("", False)),
    ("step 100: loss=3.2e-01", ("", True)), ("step 100: loss 0.25", ("", True)), ("epoch 3 | val loss: nan", None),
    ("epoch 3 | val loss: nan | train loss 0.3", ("", True)), ("epoch 1 best_loss: inf", None),
    ("step 3 box_loss: nan loss: 0.4", ("", True)), ("step 3 box_loss: 0.4 loss: nan", ("", False)), ("loss: infinity", ("", False)),
    ("Computing: 45%|###| 45/100 [00:12<00:10, 3.0it/s, loss=nan]", ("", False)), ("lossless compression of nan", None), ("", None),
])  # fmt: skip
def test_a_loss_report_is_known_in_the_words_of_trainers(line: str, report: tuple[str, bool] | None) -> None:
    said = log_line.read(line, Progress())
    assert said.loss_finite is None if report is None else (said.loss_of, said.loss_finite) == report


def test_reports_in_a_row_count_and_a_finite_one_begins_anew() -> None:
    losses = Losses(3)
    said = [saw(losses, f"loss: {value}") for value in ("nan", "nan", "1.0", "nan", "nan", "nan", "nan")]
    assert said == ["first", "", "", "first", "", "enough", ""]


def test_the_rows_of_one_epoch_are_one_report() -> None:
    losses = Losses(2)
    row = "  {}/4  0G  nan  nan  nan  24  96: 50%"
    assert [saw(losses, row.format(epoch)) for epoch in (1, 1, 1, 2)] == ["first", "", "", "enough"]


def test_a_silent_run_that_computes_is_never_ended() -> None:
    silence = Silence(0.0, least_s=60)
    assert not any(silence.look(at, grew=False, busy_s=at) for at in (61.0, 62.0, 9000.0))


def test_work_before_says_nothing_of_a_run_that_stands_still_now() -> None:
    silence = Silence(0.0, least_s=60)
    assert not silence.look(10, grew=True, busy_s=5)
    assert not any(silence.look(at, grew=False, busy_s=16.0 * at) for at in range(11, 911, 10))
    quiet = {at: silence.look(float(at), grew=False, busy_s=16.0 * 901) for at in range(911, 1000)}
    assert min(at for at, stalled in quiet.items() if stalled) in range(961, 973), "and is noticed within stall_s, not in days"


def test_a_worker_that_is_gone_takes_its_seconds_with_it_and_hides_no_work() -> None:
    silence = Silence(0.0, least_s=60)
    silence.look(1, grew=False, busy_s=500.0)
    assert not any(silence.look(at, grew=False, busy_s=at / 2) for at in (2.0, 30.0, 63.0, 90.0))
