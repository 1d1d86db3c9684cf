"""A search on cards that aren't here, or that another training holds: it is played on each (``launcher.pretended``).

``autofit plan gpu=t4 -- python train.py``, and ``autofit fit device=pretended gpu=t4 recipe=...`` with any recipe or command.

The search is this program's own (``autofit run --fit-only``, or ``fit``), in an environment that has such a card. So the person's code and
data go through trials as on a real card: PyTorch's own allocator says what they need. What is played is told as played, never as proven.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher import paths
from launcher.cli.call import Answer, Call
from launcher.errors import COMMAND_LINE, BadInput, ExitCode, Fault
from launcher.forecast import gpu_catalogue
from launcher.forecast.gpu_catalogue import GpuModel
from launcher.history.records import Record
from launcher.history.run_folder import RunFolder
from launcher.machine import process
from launcher.pretended.cards import Cards, played

EVIDENCE = (
    "played on PyTorch's own CUDA allocator, without a card: what it holds is exact, context and workspaces are assumed; "
    "a trial on the card proves it"
)


GPU = "gpu="


def gpus_of(words: Sequence[str]) -> list[str]:
    """The cards that are named."""
    return [name for word in words if word.startswith(GPU) for name in word.removeprefix(GPU).split(",") if name]


def no_card() -> Fault:
    known = gpu_catalogue.known()
    cure = f"Name one or several: gpu={','.join(known[:2])}. There is: {', '.join(known)}. What is here, `autofit fit` really tries."
    return Fault(key="gpu", where=COMMAND_LINE, found="no card is named", cure=cure)


def fit(call: Call) -> Answer:
    """What ``device=pretended`` asks for."""
    gpus = gpus_of(call.words)
    if not gpus:
        raise BadInput([no_card()])
    return plan(call, gpus)


def plan(call: Call, gpus: Sequence[str]) -> Answer:
    """The rung that fits each card, as far as it can be played. Raises BadInput where no card can be pretended here."""
    cards = [_on(model, call) for model in gpu_catalogue.named(gpus)]
    call.terminal.played(cards, EVIDENCE)
    went = [card for card in cards if card["status"] == "done"]
    status = ExitCode.DONE if went else _exit_code(cards[0]["exit_status"])
    return Answer(status=status, record={"status": "done" if went else cards[0]["status"], "evidence": EVIDENCE, "cards": cards})


def _on(model: GpuModel, call: Call) -> dict[str, Any]:
    """What the search on one card comes to; its screen is shown as it goes."""
    call.terminal.say(f"{model.name}: a search on a pretended {model.title}")
    typed = [word for word in call.words if not word.startswith((GPU, "device="))]
    if not any(word.startswith("device.memory=") for word in typed):
        typed.append("device.memory=null")  # a recipe's is another device's
    words = (*typed, "device=cuda", "trial.fresh=true")
    verb = ("run", "--fit-only", *words, "--", *call.command) if call.command else ("fit", *words)
    argv = process.python_module("launcher", *verb)
    python = process.interpreter_of(call.command[0]) if call.command else sys.executable
    with played(Cards(model=model, computed="small"), python=python) as environment, tempfile.TemporaryDirectory() as place:
        launched = Path(place, "launched")
        env = {**environment, paths.LAUNCHED: str(launched), "CUDA_VISIBLE_DEVICES": "0"}  # not what the real cards are chosen by
        child = process.start(argv, env=env, stdout=Path(place, "out"), stderr=Path(place, "err"), show=call.terminal.streams())
        with process.forward_signals(child):
            ending = process.wait(child)
        folder = paths.launched(launched)
        record = (Record.read(RunFolder(folder).record) if folder is not None else None) or Record(status="stopped")
    cap = record.device.cap_bytes if record.device is not None else None
    said = {"gpu": model.name, "title": model.title, "usable_bytes": model.usable_bytes, "cap_bytes": cap, "exit_status": ending.returncode}
    return said | record.model_dump(include={"status", "rung_index", "rung", "given_up", "trials", "run_dir"})


def _exit_code(status: int) -> ExitCode:
    """A search's own, or that of a crash where a signal has ended it."""
    return ExitCode(status) if status in set(ExitCode) else ExitCode.TRIAL_CRASHED
