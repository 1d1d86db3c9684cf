"""Says which verb was meant if the words fit only another one, as in ``autofit train -- python train.py``."""

from __future__ import annotations

import shlex

from launcher.cli import verbs
from launcher.cli.call import Call, Takes
from launcher.errors import COMMAND_LINE, Fault

_WITH_A_COMMAND = {"fit": "run --fit-only", "ladder": "init", "trial": "init"}
"""Verb that takes a recipe -> what does the same for a command, where that isn't ``run``."""


def fault(call: Call) -> Fault | None:
    """What is wrong with the words as a whole; None where the verb may look at them."""
    verb = verbs.named(call.verb)
    if "--" in call.words:
        command = shlex.join(call.words[call.words.index("--") + 1 :]) or "..."
        meant = f"Did you mean autofit {_WITH_A_COMMAND.get(verb.name, 'run')} -- {command}?"
        return _fault(f"autofit {verb.name} takes no command", meant)
    for flag in (word for word in call.words if word.startswith("--")):
        if flag in verb.flags:
            return _fault(f"{flag} has no value", f"See autofit {verb.name} --help.")
        if takers := [one.name for one in verbs.VERBS if flag in one.flags]:
            return _fault(f"autofit {verb.name} has no {flag}", f"It is for {', '.join(takers)}.")
    if verb.takes is Takes.NOTHING and verb.flags == () and call.words:
        return _fault(f"autofit {verb.name} takes no {call.words[0]!r}", "Leave it out.")
    return None


def _fault(found: str, cure: str) -> Fault:
    return Fault(key="", where=COMMAND_LINE, found=found, cure=cure)
