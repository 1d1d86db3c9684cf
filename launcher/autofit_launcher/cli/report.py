"""The verb report: a run as one page of HTML, or several side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from autofit_launcher.cli.call import Answer, Call, Takes, verb
from autofit_launcher.cli.say import Terminal
from autofit_launcher.errors import ExitCode

if TYPE_CHECKING:
    from autofit_launcher.history.run_folder import RunFolder


@verb(
    "[--open] [RUN ...]",
    "a run as one page to look at; several side by side",
    Takes.NAME,
    flags={"--open": "show it in a browser"},
    more="One file of HTML that needs no network: the ladder, peaks, the run over time, the native command. Every train writes one. "
    "Without RUN, the newest.",
    examples=("autofit report --open", "autofit report yolo_demo-20261122-101500 yolo_demo-20261123-090000"),
)
def report(call: Call) -> Answer:
    from autofit_launcher.history.run_folder import RunFolder
    from autofit_launcher.history.runs import find, newest
    from autofit_launcher.page import page

    folders = list(dict.fromkeys(map(find, call.named("run", most=sys.maxsize)))) or [newest()]
    where = RunFolder(folders[0]).report
    path = page.write(folders, where if len(folders) == 1 else Path(where.name).resolve())
    call.terminal.say(f"written: {path}")
    if "--open" in call.flags:
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
            terminal.say(f"report  {path}")
