"""Plans a training that can't be traced for cards that aren't here: its whole search is played on each (``launcher.pretended``).

The search is this program's own (``autofit run --fit-only``, or ``fit``), in an environment that has such a card. So the person's code and
data go through trials as on a real card: PyTorch's own allocator says what they need. What is played is told as played, never as proven.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from launcher import paths
from launcher.cli.call import Answer, Call
from launcher.errors import ExitCode
from launcher.forecast import gpu_catalogue
from launcher.forecast.gpu_catalogue import GpuModel
from launcher.history.run_folder import RunFolder
from launcher.machine import process
from launcher.pretended.cards import Cards, played

EVIDENCE = (
    "played on PyTorch's own CUDA allocator, without a card: what it holds is exact, context and workspaces are assumed; "
    "a trial on the card proves it"
)


def plan(call: Call, gpus: Sequence[str]) -> Answer:
    """The rung that fits each card, as far as it can be played. Raises BadInput where no card can be pretended here."""
    cards = [_on(model, call) for model in gpu_catalogue.named(gpus)]
    call.terminal.played(cards, EVIDENCE)
    went = [card for card in cards if card["status"] == "done"]
    status = ExitCode.DONE if went else ExitCode(cards[0]["exit_status"])
    return Answer(status=status, record={"status": "done" if went else cards[0]["status"], "evidence": EVIDENCE, "cards": cards})


def _on(model: GpuModel, call: Call) -> dict[str, Any]:
    """What the search on one card comes to; its screen is shown as it goes."""
    call.terminal.say(f"{model.name}: a search on a pretended {model.title}")
    words = (*(word for word in call.words if not word.startswith(("gpu=", "device="))), "device=cuda", "trial.fresh=true")
    verb = ("run", "--fit-only", *words, "--", *call.command) if call.command else ("fit", *words)
    argv = process.python_module("launcher", *verb)
    with played(Cards(model=model, computed="small"), python=_python(call.command)) as environment, tempfile.TemporaryDirectory() as place:
        launched = Path(place, "launched")
        env = {**environment, paths.LAUNCHED: str(launched)}
        child = process.start(argv, env=env, stdout=Path(place, "out"), stderr=Path(place, "err"), show=call.terminal.streams())
        with process.forward_signals(child):
            ending = process.wait(child)
        record = _record(launched)
    kept = {key: record.get(key) for key in ("rung_index", "rung", "given_up", "trials", "run_dir")}
    cap = record.get("device", {}).get("cap_bytes")
    said = {"gpu": model.name, "title": model.title, "usable_bytes": model.usable_bytes, "cap_bytes": cap}
    return {**said, "status": record.get("status", "stopped"), "exit_status": ending.returncode, **kept}


def _python(command: Sequence[str]) -> str:
    """The Python whose PyTorch the command runs on, as far as its first word tells."""
    found = shutil.which(command[0]) if command else None
    return found if found and Path(found).name.startswith("python") else sys.executable


def _record(launched: Path) -> Mapping[str, Any]:
    """What the search has written down; nothing where it came to no run folder."""
    with suppress(OSError, ValueError):
        folder = RunFolder(Path(launched.read_text(encoding="utf-8").splitlines()[0]))
        found: dict[str, Any] = json.loads(folder.record.read_text(encoding="utf-8"))
        return found
    return {}
