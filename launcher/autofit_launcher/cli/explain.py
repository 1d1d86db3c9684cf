"""The verb explain: what a log's failure means, and what to change in its trainer's own words. Launches nothing."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from autofit_launcher.cli import logs
from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.common import files
from autofit_launcher.errors import ExitCode, refusal
from autofit_launcher.explain import explanation, known
from autofit_launcher.history.runs import find, newest, run_in

MOST_BYTES = 8 << 20
"""Bytes that are read of a log, from its end: that is where it tells of its failure."""


def explain(call: Call) -> Answer:
    name, text, run = _read(call)
    said = explanation.explain(text)
    command = "" if not said.may_fit else f"autofit resume {shlex.quote(run)}" if run else "autofit run -- YOUR COMMAND"
    failed = said.memory is not False
    rows = [
        ("what", said.headline),
        ("it says", f"{said.line}{f' (line {said.number} of {name})' if said.number else ''}" if said.line else ""),
        ("where", known.table().parts[said.phase].words if failed else ""),
        ("likely" if failed else "it means", said.likely),
        ("trainer", said.trainer),
        *(("change", f"{number}. {change}") for number, change in enumerate(said.changes, start=1)),
        ("autofit", command),
        *(("unknown", sentence) for sentence in said.unknown),
    ]
    call.terminal.say(*(f"{label:<11}{words}" for label, words in rows if words))
    return Answer(status=ExitCode.DONE, record={**asdict(said), "source": name, "command": command})


def _read(call: Call) -> tuple[str, str, str]:
    """Returns (name of what was read, its text, the run's folder if it is one). Raises BadInput for what can't be read."""
    said = call.word("log")
    if said == "-":
        return "standard input", sys.stdin.buffer.read()[-MOST_BYTES:].decode("utf-8", "replace"), ""
    if Path(said).is_file():
        files.opened(Path(said)).close()  # what can't be read is told
        return said, files.tail(Path(said), most_bytes=MOST_BYTES), ""
    folder = find(said) if said else newest()
    if (log := logs.latest(run_in(folder))) is None:
        raise refusal("its trainer has said nothing yet", "Name a log file, or another run.", where=str(folder))
    text = "\n".join(files.tail(path, most_bytes=MOST_BYTES) for path in (log.stdout, log.stderr) if path.is_file())
    return f"{log.name} of {folder}", text, str(folder)
