"""The verb report: a run as one page of HTML, or several side by side."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.cli.say import Terminal
from autofit_launcher.common import files
from autofit_launcher.errors import BadInput, ExitCode, refusal
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.runs import find, newest
from autofit_launcher.page import page


def report(call: Call) -> Answer:
    folders = list(dict.fromkeys(map(find, call.named("run", most=sys.maxsize)))) or [newest()]
    where = RunFolder(folders[0]).report
    if len(folders) > 1 and (where := Path(where.name).absolute()).exists() and b"<title>autofit: " not in files.read(where):
        raise refusal("it is there, and no page of autofit's", "Move it away, or go to another folder.", where=str(where))
    path = page.write(folders, where)
    call.terminal.say(f"written: {path}")
    if "--open" in call.flags and not webbrowser.open(path.as_uri()):
        call.terminal.complain(f"no browser is known here; open it yourself: {path.as_uri()}")
    return Answer(status=ExitCode.DONE, record={"status": "done", "report": str(path), "runs": [str(folder) for folder in folders]})


@contextmanager
def at_the_end(folder: RunFolder, terminal: Terminal) -> Iterator[None]:
    """Writes the page of a launch once it is over, however it ended, and says where. A page that fails changes nothing of it."""
    try:
        yield
    finally:
        try:
            terminal.say(f"report  {page.write([folder.path], folder.report)}")
        except (OSError, BadInput) as error:  # a picture must never fail a run
            terminal.complain(f"no report was written: {type(error).__name__}: {error}")
