"""Runs a command on pretended cards: ``python -m autofit_launcher.pretended gpu=a100_80gb cards=4 -- autofit train recipe=...``.

The command finds cards that aren't there; nothing else is changed for it. ``gpu`` is a name of conf/gpu. ``memory=16GiB``: what a program
finds on each. ``computed=small``: only small operators are. ``cudnn=0.5``: cuDNN's workspace, as a part of the tensors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import cast, get_args

from autofit_launcher.common import interpreter
from autofit_launcher.common.sizes import parse_size
from autofit_launcher.errors import COMMAND_LINE, BadInput, refusal
from autofit_launcher.pretended import catalogue
from autofit_launcher.pretended.cards import Cards, Computed, of_this_process

WORDS = ("gpu", "cards", "computed", "memory", "cudnn")


def main(argv: Sequence[str]) -> int:
    """Becomes the command; returns 1 where that can't be."""
    try:
        cards, command = _asked(argv)
        environment = of_this_process(cards, python=interpreter.of(command[0]))
        try:
            os.execvpe(command[0], command, environment)
        except OSError as error:
            raise refusal(f"{command[0]} can't be started: {error.strerror}", "Name a program that is installed.") from None
    except BadInput as error:
        print(f"pretended: {error}", file=sys.stderr)
        return int(error.exit_code)


def _asked(argv: Sequence[str]) -> tuple[Cards, list[str]]:
    if "--" not in argv or argv[-1] == "--":
        raise refusal("no command", f"Write it behind --: {__doc__.split('``')[1]}")
    at = list(argv).index("--")
    words = dict(word.partition("=")[::2] for word in argv[:at])
    for name in set(words) - set(WORDS):
        raise refusal("no such setting", f"There are {', '.join(WORDS)}.", key=name, where=COMMAND_LINE)
    (model,) = catalogue.named([words.get("gpu", "h100_80gb")])
    if words.get("computed", "all") not in get_args(Computed):
        raise refusal(repr(words["computed"]), f"It is one of {', '.join(get_args(Computed))}.", key="computed", where=COMMAND_LINE)
    try:
        cards = Cards(
            model=model,
            count=int(words.get("cards", 1)),
            computed=cast("Computed", words.get("computed", "all")),
            usable_bytes=parse_size(words["memory"]) if "memory" in words else 0,
            cudnn_share=float(words.get("cudnn", 0)),
        )
    except ValueError as error:
        raise refusal(str(error), "Sizes are written as 16GiB, other settings as numbers.") from None
    return cards, list(argv[at + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
