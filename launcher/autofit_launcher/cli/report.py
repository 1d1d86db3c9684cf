"""The verb report: a run as one page of HTML, or several side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.cli.refusals import words
from autofit_launcher.cli.terminal import Terminal
from autofit_launcher.errors import ExitCode

if TYPE_CHECKING:
    from autofit_launcher.history.run_folder import RunFolder

OPEN = "--open"


def report(call: Call) -> Answer:
    """Writes the report of one run into its folder; of several into the folder where it is asked for."""
    from autofit_launcher.history.run_folder import RunFolder
    from autofit_launcher.history.runs import find, newest
    from autofit_launcher.page import page

    folders = list(dict.fromkeys(map(find, words(call, "run", most=sys.maxsize)))) or [newest()]
    where = RunFolder(folders[0]).report
    path = page.write(folders, where if len(folders) == 1 else Path(where.name).resolve())
    call.terminal.say(f"written: {path}")
    if OPEN in call.flags:
        _open(path, call)
    return Answer(status=ExitCode.DONE, record={"status": "done", "report": str(path), "runs": [str(folder) for folder in folders]})


def _open(path: Path, call: Call) -> None:
    import webbrowser

    if not webbrowser.open(path.as_uri()):
        call.terminal.complain(f"no browser is known here; open it yourself: {path.as_uri()}")


@contextmanager
def at_the_end(folder: RunFolder, terminal: Terminal) -> Iterator[None]:
    """Writes the page of a launch once it is over, however it ended, and says where."""
    try:
        yield
    finally:
        from autofit_launcher.page import page

        if (path := page.at_the_end(folder)) is not None:
            terminal.labelled("report", str(path), width=8)
