"""Micro-batches per optimizer step -> the environment and the file by which a script accumulates without hearing of it.

The file is ``native/accumulate.py``, loaded by every Python process of the command as its ``sitecustomize``; it needs nothing of autofit,
so that command.sh carries it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_UPDATE = Path(__file__).parent / "native" / "update.py"
_NATIVE = Path(__file__).parent / "native" / "accumulate.py"
VARIABLE = "ACCUMULATE"
LOSS = "ACCUMULATE_LOSS"
SPLIT = "ACCUMULATE_SPLIT"


def placed(
    micro_batches: int, *, split: tuple[int, int] | None = None, place: Path, env: Mapping[str, str]
) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) of a command that steps once in so many micro-batches; ``env``: what the command is given already.

    ``split``: batch size in the script's source, and the micro-batch that its loader shall have.
    """
    folder = place / "accumulate"
    before = env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    path = os.pathsep.join(filter(None, [str(folder.absolute()), before]))
    variables = {"PYTHONPATH": path, VARIABLE: str(micro_batches), **({SPLIT: f"{split[0]}:{split[1]}"} if split else {})}
    return variables, {folder / "sitecustomize.py": _NATIVE.read_text(encoding="utf-8")}


def put_right(update: str, *, times: float, place: Path, env: Mapping[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """(variables, files) by which the update of ``times`` as many micro-batches is the asked one; ``update``: ``trainer.args.update``."""
    ways = {"average": f"times:{1 / times!r}", "add": f"times:{times!r}", "targets": "targets:1", "targets_divided": f"targets:{times!r}"}
    folder = place / "update"
    before = env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder.absolute()), before])), "UPDATE": ways[update]}
    if update in ("average", "targets"):
        variables["UPDATE_LOGGED"] = str(round(times))
    return variables, {folder / "sitecustomize.py": _UPDATE.read_text(encoding="utf-8")}
