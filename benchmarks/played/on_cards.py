"""Runs a command on pretended cards: ``python -m benchmarks.played.on_cards gpu=a100_80gb cards=4 -- autofit train recipe=...``.

The command finds cards that aren't there; nothing else is changed for it. ``gpu`` is a name of conf/gpu. ``memory=16GiB``: what a program
finds on each. ``computed=small``: only small operators are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autofit_launcher.common import interpreter
from autofit_launcher.common.sizes import parse_size
from autofit_launcher.errors import BadInput, refusal
from autofit_launcher.pretended import catalogue
from autofit_launcher.pretended.cards import Cards, of_this_process

SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "cards": ("count", int), "computed": ("computed", {"all": "all", "small": "small"}.__getitem__), "memory": ("usable_bytes", parse_size),
}  # fmt: skip
"""Word -> (field of ``Cards``, what reads its value)."""


def main(argv: Sequence[str]) -> int:
    """Becomes the command; returns 1 where that can't be."""
    try:
        cards, command = asked(argv)
        environment = of_this_process(cards, python=interpreter.of(command[0]))
        try:
            os.execvpe(command[0], command, environment)
        except OSError as error:
            raise refusal(f"{command[0]} can't be started: {error.strerror}", "Name a program that is installed.") from None
    except BadInput as error:
        print(f"pretended: {error}", file=sys.stderr)
        return int(error.exit_code)


def asked(argv: Sequence[str]) -> tuple[Cards, list[str]]:
    if "--" not in argv or argv[-1] == "--":
        raise refusal("no command", f"Write it behind --: {__doc__.split('``')[1]}")
    at = list(argv).index("--")
    words = dict(word.partition("=")[::2] for word in argv[:at])
    (model,) = catalogue.named([words.pop("gpu", "h100_80gb")])
    try:
        how = {SETTINGS[name][0]: SETTINGS[name][1](value) for name, value in words.items()}
    except (KeyError, ValueError) as error:
        cure = f"There are gpu, {', '.join(SETTINGS)}; sizes are written as 16GiB, computed is all or small, others are numbers."
        raise refusal(f"no such setting, or value: {error}", cure) from None
    return Cards(model=model, **how), list(argv[at + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
