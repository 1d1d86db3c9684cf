"""Recognises what each setting of a command means: by its words, its configuration file, and the flags that its script declares.

Nothing is run. What the words don't tell, the first trial shows, which is the command as it stands (``arrived``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.python_source import files_of
from autofit_launcher.adapter.recognised import Belief, Understood
from autofit_launcher.common import interpreter
from autofit_launcher.errors import PLACE, refusal
from autofit_launcher.machine import devices
from autofit_launcher.trainers.script import candidates, configs, launchers
from autofit_launcher.trainers.script.candidates import LENGTHS, WHOLE, is_count
from autofit_launcher.trainers.script.spelling import ITSELF, OUTSIDE

ORDER = ("val_micro_batch", "micro_batch", "checkpointing", *LENGTHS, "model")
UNREAD = (
    "no word of the command says its batch (the first trial shows whether it arrives at one data loader, or at a known trainer; "
    "--set NAME names a value of its source)"
)


def understand(words: Sequence[str], *, value: str = "") -> Understood:
    """Finds what a command asks for, as far as its words, its configuration file and its script's flags tell. Raises BadInput without its
    script.

    ``value``: which value of its source a person says to be the batch size.
    """
    script, begin = script_of(words)
    if script is not None and not script.is_file():
        raise refusal(f"there is no script {script} in {Path.cwd()}", "Give its path.", key=PLACE)
    files = files_of(script) if script is not None else ()
    config = configs.named(words[begin:])  # not those of its launcher
    held, declared = configs.held_if(config), candidates.declared(script, words[begin:]) if script is not None else []
    found = [*candidates.on_the_line(words, begin, declared), *candidates.in_config(held, config), *candidates.defaults(declared)]
    beliefs, unclear = candidates.believed(candidates.in_parts(found))
    whole = beliefs.pop(WHOLE, None)
    beliefs = {wheel: one for wheel, one in beliefs.items() if _usable(one)}
    if value:
        beliefs |= candidates.pointed(words, script, value)
    if "micro_batch" in beliefs and "accumulation" not in (*beliefs, *unclear):
        beliefs["accumulation"] = _accumulation(files, whole)
    args: dict[str, Any] = {"config": config} if config else {}
    args |= {"whole": whole.value} if whole is not None and is_count(whole.value) else {}
    args |= {"lengths": lengths} if (lengths := candidates.counted_out(found)) else {}
    unturned = UNREAD if "micro_batch" not in beliefs else "" if "accumulation" in beliefs else "its accumulation is said in two places"
    return _recipe(words, beliefs, {**args, **({"unturned": unturned} if unturned else {})})


def _accumulation(files: Sequence[Path], whole: Belief | None) -> Belief:
    """Says how more accumulation is said where the command has no word for it."""
    if whole is not None or candidates.works_out_accumulation(files):
        said = f"{whole.spelling} {whole.value}" if whole is not None else "a whole batch"
        return Belief(wheel="accumulation", value=1, spelling=ITSELF, source=f"{said} in parts, as many as the first trial shows")
    return Belief(wheel="accumulation", value=1, spelling=OUTSIDE, source="no word for it was found")


def _recipe(words: Sequence[str], beliefs: Mapping[str, Belief], args: Mapping[str, Any]) -> Understood:
    """The recipe that the beliefs amount to. ``args``: more of ``trainer.args``."""
    order = _order(beliefs)
    says = {wheel: belief.value for wheel, belief in beliefs.items() if belief.spelling != ITSELF}
    spelled = {wheel: belief.spelling for wheel, belief in beliefs.items()}
    rules = _rules(beliefs, order)
    return Understood(
        adapter="script",
        words=tuple(words),
        beliefs=tuple(beliefs.values()),
        groups=("trainer: script", "ladder: script"),
        ask=says,
        args={"command": list(words), "spelled": spelled, "says": says, **args},
        device=cards(words),
        ladder={"order": order, **({"wheels": rules} if rules else {})},
    )


def _usable(belief: Belief) -> bool:
    """Tells whether the wheel can stand at the value; a script's ``--segment none`` is no length."""
    if belief.wheel == "checkpointing":
        return isinstance(belief.value, bool)
    if belief.wheel == "segment":
        return isinstance(belief.value, (int, float)) and not isinstance(belief.value, bool)
    return is_count(belief.value)


def _order(beliefs: Mapping[str, Belief]) -> list[str]:
    """The wheels that can turn: the micro-batch only with accumulation, checkpointing only where it is off."""
    fixed = set() if "accumulation" in beliefs else {"micro_batch"}
    if "checkpointing" in beliefs and beliefs["checkpointing"].value is not False:
        fixed.add("checkpointing")
    return [wheel for wheel in ORDER if wheel in beliefs and wheel not in fixed]


def _rules(beliefs: Mapping[str, Belief], order: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Says how far each wheel may turn; lengths in four steps down to a quarter."""
    rules: dict[str, dict[str, Any]] = {}
    for wheel in order:
        value, unit = beliefs[wheel].value, 32 if wheel == "image_size" else 8
        if wheel in LENGTHS:
            parts = [value * part for part in (0.75, 0.5, 0.375, 0.25)]
            steps = [round(one, 3) if isinstance(value, float) else int(one) // unit * unit for one in parts]
            rules[wheel] = {"values": [one for one in dict.fromkeys(steps) if one]}
        elif wheel == "val_micro_batch":
            rules[wheel] = {"values": [value >> shift for shift in (1, 2, 4, 6) if value >> shift]}
    return rules


def script_of(words: Sequence[str]) -> tuple[Path | None, int]:
    """The script among the words, or the file of the module that ``-m`` names; and where its own arguments begin."""
    begin = 1
    for at, word in enumerate(words):
        if word.endswith(".py") and not word.startswith("-"):
            return Path(word), at + 1
        if word == "-m" and at + 1 < len(words):
            path = Path(*words[at + 1].split("."))
            found = next((one for one in (path.with_suffix(".py"), path / "__main__.py") if one.is_file()), None)
            if found is not None:
                return found, at + 2
            begin = at + 2  # a module that is installed: a launcher of scripts (torch.distributed.run), or the trainer itself
    return None, begin


def python_of(words: Sequence[str]) -> str:
    """Returns the path of the interpreter that the words start a script with, as far as they tell; empty where only their program knows."""
    return interpreter.of(words[0]) if re.match(r"python|torchrun|accelerate|deepspeed", os.path.basename(words[0])) else ""


def launched(words: Sequence[str]) -> launchers.LauncherWords:
    """Reads what the command's launcher (torchrun, accelerate, deepspeed) starts."""
    return launchers.started(words, script_of(words)[1] - 1)


def cards(words: Sequence[str]) -> dict[str, Any]:
    """The section of a recipe by which each process has a card; empty for one process, and where this machine has no card."""
    by = launched(words)
    return {"cards": list(by.cards or ()) or by.here} if by.here > 1 and devices.chosen_kind("auto") == "cuda" else {}
