"""What is told while a launch goes on: once, to every reader."""

from __future__ import annotations

import json
from pathlib import Path

from launcher.cli.launch_view import Display
from launcher.engine import events as of_a_launch
from launcher.engine import launch as engine
from launcher.history.events import Event
from launcher.run import events as of_a_run
from launcher.trial import events as of_a_trial
from tests.helpers.few import Launches

KINDS = [
    kind
    for module in (of_a_trial, of_a_run, of_a_launch)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__module__ == module.__name__
]
ONLY_WRITTEN = {of_a_launch.Prepared, of_a_launch.StepsCounted, of_a_run.LossNotFinite}
"""Shown by other words: the plan, the summary, the line in which the loss was not finite."""


class Seen(Event, name="seen"):
    what: str


def test_every_happening_is_drawn_or_is_known_to_be_drawn_otherwise() -> None:
    drawn = set(Display.__dict__["hear"].dispatcher.registry) - {object}
    assert len(KINDS) > 20 and set(KINDS) - drawn == ONLY_WRITTEN


def test_no_two_kinds_share_a_name() -> None:
    names = [kind.name for kind in KINDS if kind.name]
    assert len(names) == len(set(names))


def test_one_telling_reaches_the_file_the_record_and_who_listens(launches: Launches) -> None:
    fit = launches.fit()
    lines = [json.loads(line)["event"] for line in fit.job.folder.events.read_text(encoding="utf-8").splitlines()]
    assert lines == [event.name for event in launches.heard if event.name and event.line() is not None]
    assert lines.count("trial_ended") == len(launches.tried) and lines[-2:] == ["fitted", "finished"]
    assert json.loads(fit.job.folder.record.read_text(encoding="utf-8")) == fit.as_record()


def test_a_file_that_can_not_be_written_keeps_an_event_from_nobody(launches: Launches, tmp_path: Path) -> None:
    job, heard = launches.job(), launches.heard
    job.folder.events.mkdir()
    job.tell(Seen(what="a"))
    assert heard == [Seen(what="a")]


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
