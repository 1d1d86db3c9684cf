"""Says which verb was meant if the words fit only another one, as in ``autofit train -- python train.py``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from launcher.cli import verbs
from launcher.cli.call import Call, Takes
from launcher.errors import COMMAND_LINE, Fault

_PROGRAM = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|lightning|uv|bash|sh)|[^=]*\.(?:py|sh)")
_WITH_A_COMMAND = {"fit": "run --fit-only", "ladder": "init", "trial": "init"}
"""Verb that takes a recipe -> what does the same for a command, where that isn't ``run``."""


def fault(call: Call) -> Fault | None:
    """What is wrong with the words as a whole; None where the verb may look at them."""
    verb = verbs.find(call.verb)
    words = (call.verb, *call.words) if verb is None else call.words
    if (command := _command(words)) and not (verb is not None and verb.takes in (Takes.FOLDER, Takes.NAME, Takes.NOTHING)):
        return _meant(call.verb, command, takes_one=verb is not None and verb.takes in (Takes.COMMAND, Takes.EITHER))
    for flag in (word for word in call.words if word.startswith("--")):
        if verb is not None and flag in verb.flags:
            behind = " -- ..." if verb.takes in (Takes.COMMAND, Takes.EITHER) else ""
            return _fault(f"{flag} has no value", f"autofit {verb.name} {flag} NAME{behind}.")
        if takers := [one.name for one in verbs.VERBS if flag in one.flags]:
            return _fault(f"autofit {call.verb} has no {flag}", f"It is for {', '.join(takers)}.")
    if verb is not None and verb.takes is Takes.NOTHING and verb.flags == () and call.words:
        return _fault(f"autofit {verb.name} takes no {call.words[0]!r}", "Leave it out.")
    return None


def _fault(found: str, cure: str) -> Fault:
    return Fault(key="", where=COMMAND_LINE, found=found, cure=cure)


def _command(words: Sequence[str]) -> Sequence[str]:
    """The part of the words that looks like a command; empty where none does."""
    if "--" in words:
        return words[words.index("--") + 1 :] or ["..."]
    at = next((at for at, word in enumerate(words) if _PROGRAM.fullmatch(word)), None)
    return words[at:] if at is not None else ()


def _meant(verb: str, command: Sequence[str], *, takes_one: bool) -> Fault:
    said = shlex.join(command) if list(command) != ["..."] else "..."
    if takes_one:
        return _fault("the command stands behind --", f"autofit {verb} -- {said}")
    found = f"autofit {verb} takes a recipe, and this is a command" if verbs.find(verb) else "this is a command"
    return _fault(found, f"Did you mean autofit {_WITH_A_COMMAND.get(verb, 'run')} -- {said}?")
