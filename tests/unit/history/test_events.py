"""What is told while a launch goes on: once, to every reader."""

from __future__ import annotations

import json

from autofit_launcher.cli.launch_view import Display
from autofit_launcher.engine import events as of_a_launch
from autofit_launcher.engine import launch as engine
from autofit_launcher.full_run import events as of_a_run
from autofit_launcher.history.events import Event
from autofit_launcher.trial import events as of_a_trial
from tests.helpers.few import Launches

KINDS = [
    kind
    for module in (of_a_trial, of_a_run, of_a_launch)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
]


def test_every_happening_is_drawn() -> None:
    drawn = set(Display.__dict__["hear"].dispatcher.registry) - {object}
    assert len(KINDS) > 15 and not set(KINDS) - drawn


def test_one_telling_reaches_the_record_and_who_listens(launches: Launches) -> None:
    fit = launches.fit()
    told = [type(event) for event in launches.heard]
    assert told.count(of_a_trial.TrialEnded) == len(launches.tried) and told[-2:] == [of_a_launch.Fitted, of_a_launch.Finished]
    assert json.loads(fit.job.folder.record.read_text(encoding="utf-8")) == fit.as_record()


def test_what_is_shown_has_been_written_down(launches: Launches) -> None:
    job, shown, written = launches.job(), list[int](), list[int]()

    def screen(event: Event) -> None:
        if isinstance(event, of_a_trial.TrialEnded):
            shown.append(event.trial.rung.index)
            written[:] = [one["rung_index"] for one in json.loads(job.folder.record.read_text(encoding="utf-8"))["trials"]]
            assert written == shown

    job.listeners.append(screen)
    engine.fit(job)
    assert shown == [0, 1]
