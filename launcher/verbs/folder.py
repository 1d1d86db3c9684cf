"""Verbs that take the folder of a run: resume."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.errors import BadInput, ExitCode, Fault
from launcher.verbs.base import Answer, Call, Task


def resume(call: Call) -> Iterator[Task]:
    if not call.words:
        cure = "Give the folder of a run: autofit resume runs/autofit/NAME-DATE-TIME."
        raise BadInput([Fault(key="", where="autofit resume", found="no run is named", cure=cure)])
    yield lambda: _resume(call)


def _resume(call: Call) -> Answer:
    """Goes on with a run that was interrupted, or failed. One that is done stays as it is."""
    from launcher import resumption, story

    place, *words = call.words
    interrupted = resumption.read(place, words)
    if interrupted.done:
        call.terminal.say(f"{interrupted.folder.path} is done already; nothing was changed")
        return Answer(status=ExitCode.DONE, record=interrupted.record)
    result = story.go_on(interrupted, call.terminal.display(), show=call.terminal.streams())
    return Answer(status=result.exit_code, record=result.as_record())
