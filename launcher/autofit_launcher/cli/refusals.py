"""Refuses words of a command line that a verb doesn't take."""

from __future__ import annotations

from autofit_launcher.cli.call import Call
from autofit_launcher.errors import COMMAND_LINE, BadInput, Fault


def refusal(found: str, cure: str, *, where: str = COMMAND_LINE) -> BadInput:
    """One fault of what was typed, or of a place."""
    return BadInput([Fault(key="", where=where, found=found, cure=cure)])


def words(call: Call, what: str, *, most: int = 1) -> tuple[str, ...]:
    """The words of a verb that takes no overrides. Raises BadInput for more of them, and for flags that it doesn't have."""
    if flag := next((word for word in call.words if word.startswith("-") and word != "-"), None):
        raise refusal(f"autofit {call.verb} doesn't know {flag}", f"See autofit {call.verb} --help.")
    if len(call.words) > most:
        raise refusal(f"autofit {call.verb} takes one {what}, and these are {len(call.words)}: {' '.join(call.words)}", "Name one.")
    return call.words


def word(call: Call, what: str) -> str:
    """The one word that a verb takes, or an empty one."""
    return next(iter(words(call, what)), "")
