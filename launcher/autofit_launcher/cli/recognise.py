"""Asks the adapters which trainer a command belongs to and what its settings mean; writes a recipe of that, to be kept and edited."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.commands import script_among
from autofit_launcher.adapter.recognised import Understood, checkpointed, giving_up
from autofit_launcher.adapter.registry import adapters, load_adapter
from autofit_launcher.cli.call import Call
from autofit_launcher.common.activity import doing
from autofit_launcher.errors import PLACE, refusal

_refused = partial(refusal, key=PLACE)


def of_call(call: Call) -> Understood:
    """Finds what the command is taken for, and says so. Raises BadInput where it can't be told."""
    with doing("reading the command, and what it runs"):
        understood = understand(call.command, value=call.flags.get("--set", ""))
    if general := load_adapter(understood.adapter).general:
        refuse_program(understood)  # what is in doubt isn't turned
    else:
        refuse_doubts(understood, overrides=call.words)
    refuse_cards(understood, overrides=call.words)
    if any(map(_SAYS_CPU.fullmatch, call.words)):  # what it starts itself shares the CPU's budget; of another command one process trains
        understood = replace(understood, device={})
    what = "understood of the command:" if general else f"understood as a training by {understood.adapter}:"
    if understood.beliefs:
        call.terminal.say(what, *(f"  {one.wheel:<16} {as_text(one.value):<8} {one}" for one in understood.beliefs))
    understood = checkpointed(understood) if "--checkpointing" in call.flags else understood
    return giving_up(understood, [name for name in call.flags.get("--give-up", "").split(",") if name])


def understand(words: Sequence[str], *, value: str = "") -> Understood:
    """Tells what the command is: what the adapter that knows it makes of it, else what the general one does.

    ``value``: which value of its source a person says to be the batch size. Raises BadInput where it trains nothing that autofit could
    know, or where two adapters claim it.
    """
    if not words:
        raise _refused("there is no command", "For example: autofit run -- python train.py --batch-size 64.")
    plain = len(words) == 3 and Path(words[0]).name in _SHELLS and words[1] == "-c" and not _OF_A_SHELL.search(words[2])
    words = words[2].split() if plain else words  # bash -c "python train.py", for which no shell is needed
    _refuse(words)
    installed = list(adapters())
    for general in (False, True):  # one that takes any command is asked, and may refuse it, only where nobody knows it
        found = [seen for one in installed if one.general is general and (seen := one.recognise(words, value=value)) is not None]
        if found and value and not general:
            taken = f"--set {value}: this is a training by {found[0].adapter}, and what arrives there is its batch size"
            raise _refused(taken, "Leave --set out.")
        if len(found) > 1:
            names = ", ".join(understood.adapter for understood in found)
            raise _refused(f"{names} all take it for their own", "Uninstall all but one, or write a recipe.")
        if found:
            return found[0]
    raise _refused("no installed trainer knows this command", "Write a recipe for it.")


_SHELLS = ("bash", "sh", "dash", "zsh")
_OF_A_SHELL = re.compile(r"""[|&;<>()$`*?\[\]{}~#!'"\\\n]|^\s*\w+=""")


def _refuse(words: Sequence[str]) -> None:
    """Raises BadInput for autofit itself, containers, shell scripts and notebooks, and for words that are no text."""
    program = Path(words[0]).name
    if program == "autofit":
        raise _refused("it is autofit itself", "Name the command that trains: autofit run -- python train.py.")
    if program in ("docker", "podman"):
        found = "it trains in a container, which autofit can't look into"
        raise _refused(found, "Start autofit in it: docker run IMAGE autofit run -- ...")
    notebook = next((word for word in words if word.endswith(".ipynb")), "") if script_among(words) is None else ""
    if program in _SHELLS or program.endswith(".sh") or notebook:
        script = f"Make a script of it: jupyter nbconvert --to script {shlex.quote(notebook)}. " if notebook else ""
        found = f"{notebook or shlex.join(words[:2])} is a {'notebook' if notebook else 'shell script'}, which autofit doesn't read"
        raise _refused(found, f"{script}Give the command that trains: autofit run -- python train.py ....")
    if odd := next((word for word in words if any("\ud800" <= letter <= "\udfff" for letter in word)), ""):
        raise _refused(f"{odd!a} holds bytes that are no text here", "Name it otherwise, or set a locale of UTF-8 (LC_ALL=C.UTF-8).")


def refuse_doubts(understood: Understood, *, overrides: Sequence[str]) -> None:
    """Raises BadInput where the batch is not known and ``overrides`` don't say it either: nothing could be tried."""
    if understood.doubt and not any(word.lstrip("+").startswith("ask.micro_batch=") for word in overrides):
        refuse_program(understood)
        raise _refused("it isn't clear what its settings mean", understood.doubt)


def refuse_program(understood: Understood) -> None:
    """Raises BadInput for a command that nothing could start."""
    program = understood.words[0]
    if shutil.which(program) is None:
        cure = "Begin with python, torchrun, or a program on PATH; variables (A=1) stand before autofit."
        raise _refused(f"there is no program {program!r} that can be started", cure)


_SAYS_CPU = re.compile(r"\+*device(\.kind)?=cpu")
_SAYS_CARDS = re.compile(rf"\+*device(\.cards|\.index)?=(.*\d.*|all)|{_SAYS_CPU.pattern}")


def refuse_cards(understood: Understood, *, overrides: Sequence[str]) -> None:
    """Raises BadInput where other cards are said beside a command than in it: its batch is that of all cards which it names itself."""
    said = next((word for word in overrides if _SAYS_CARDS.fullmatch(word)), None)
    named = understood.device.get("cards")
    told = any(word.lstrip("+").startswith("ask.micro_batch=") for word in overrides)
    if said is None or told or not load_adapter(understood.adapter).ranks:  # without ranks its batch is each process's own
        return
    if named or ("," in said or ".cards" in said):
        own = f"the command names cards {', '.join(map(str, named))}" if named else "the command names no cards"
        cure = "Name them in the command alone; or say each card's batch, too: ask.micro_batch=16."
        raise refusal(f"{said}, and {own}: what its batch is of each isn't clear", cure, key="device")


def name_of(understood: Understood) -> str:
    """A name for the run folder: the script's, else the program's; of 60 letters at most, since people read and type it."""
    words = understood.words
    script = script_among(words)
    module = next((word for before, word in itertools.pairwise(words) if before == "-m"), None)
    stem = Path(script).stem if script is not None else (module or Path(words[0]).name).replace(".", "_")
    return re.sub(r"[^\w.-]+", "_", stem if stem != "__main__" else os.path.basename(os.getcwd()))[:60]


def recipe(understood: Understood, *, name: str) -> str:
    """The recipe's text."""
    named = any(group.startswith("trainer:") for group in understood.groups)  # a package of somebody else's has no group of ours
    trainer = {"adapter": None if named else understood.adapter, "task": understood.task}
    sections = {
        "data": understood.data,
        "ask": understood.ask,
        "trainer": {**{key: value for key, value in trainer.items() if value}, "args": understood.args},
        "ladder": understood.ladder,
        "device": understood.device,
    }
    command = " ".join(understood.words)
    lines = ["# @package _global_", f"# What autofit understood of: {_on_one_line(command)}"]
    lines += [f"#   {belief.wheel:<16} {as_text(belief.value):<10} {_on_one_line(belief)}" for belief in understood.beliefs]
    lines += ["#", f"# Launch:   autofit train recipe={name}", "defaults:", *(f"  - override /{group}" for group in understood.groups)]
    lines += ["  - _self_", "", f"summary: {as_text(f'`{_on_one_line(command)[:100]}`')}"]
    for section, values in sections.items():
        lines += ["", *_section(section, values)] if values else []
    return "\n".join(lines) + "\n"


def _section(name: str, value: Any, depth: int = 0) -> Iterator[str]:
    """A key with its value as YAML, one level of nesting per two columns."""
    said = name if re.fullmatch(r"\w+", name) else as_text(name)
    if not isinstance(value, Mapping) or not value:
        yield f"{'':{depth}}{said}: {as_text(value)}"
        return
    yield f"{'':{depth}}{said}:"
    for inner, inside in value.items():
        yield from _section(inner, inside, depth + 2)


def _on_one_line(text: object) -> str:
    """Joins the lines of a text, for a comment: a word of a command may have line breaks."""
    return " ".join(str(text).splitlines())


def as_text(value: Any) -> str:
    """A value as YAML and Hydra both read it; a ``${`` of the person's own is text, not one of Hydra's interpolations."""
    return re.sub(r"(\\*)\$\{", lambda found: f"{2 * found[1]}\\\\${{", json.dumps(value, ensure_ascii=False))
