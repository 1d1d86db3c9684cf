"""The person's own command is told of a launch's end and of each recovery; whatever it does, the launch is what it is."""

from __future__ import annotations

import pytest

from launcher.engine import notify
from launcher.engine.state import Status
from tests.helpers.few import Launches

TELLS = 'echo "$AUTOFIT_EVENT $AUTOFIT_STATUS $AUTOFIT_RECIPE $AUTOFIT_SAYS" >> "$AUTOFIT_RUN_DIR/../../told"'


def test_the_end_of_a_launch_is_told(launches: Launches) -> None:
    launches.notify = TELLS
    assert launches.train().status is Status.DONE
    assert (launches.place / "told").read_text(encoding="utf-8") == "finished done few few: done\n"


def test_a_failed_run_is_told_with_what_is_done_about_it(launches: Launches) -> None:
    launches.notify, launches.fault = TELLS, "raise KeyError(1)"
    assert launches.train().status is Status.FAILED
    first, last = (launches.place / "told").read_text(encoding="utf-8").splitlines()
    assert first.startswith("recovering recovering few few: crashed") and last == "finished failed few few: failed"


@pytest.mark.parametrize("command", ["exit 3", "no-such-program", "sleep 60"])
def test_a_command_that_fails_or_hangs_changes_nothing(
    command: str, launches: Launches, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LIMIT_S", 0.5)
    launches.notify = command
    assert launches.train().status is Status.DONE
    assert "notify.command ended with" in caplog.text


def test_who_is_told_is_nothing_that_a_fit_hangs_on(launches: Launches) -> None:
    launches.train()
    launches.notify = TELLS
    again = launches.train()
    assert again.reuse.used and launches.tried == []
