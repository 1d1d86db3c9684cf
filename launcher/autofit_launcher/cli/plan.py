"""The verb ``plan``: the trials of ``autofit fit`` on pretended cards, of a recipe or of a command of the person's after ``--``."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.cli.call import Answer, Call, Task
from autofit_launcher.cli.say import Terminal
from autofit_launcher.cli.train import each
from autofit_launcher.common import interpreter
from autofit_launcher.common.sizes import format_size
from autofit_launcher.config.hydra_overrides import quoted
from autofit_launcher.config.recipe import Draft
from autofit_launcher.errors import COMMAND_LINE, ExitCode, refusal
from autofit_launcher.ladder import rungs
from autofit_launcher.machine import process
from autofit_launcher.pretended import catalogue
from autofit_launcher.pretended.cards import Cards, played
from autofit_launcher.pretended.catalogue import GpuModel

GPU = "gpu="
EVIDENCE = "played on PyTorch's own CUDA allocator: what it holds is exact, context and workspaces are assumed; a trial on a card proves it"
_CARDS = 8
"""Cards of one kind that are pretended: as many as a machine mostly has at most."""
_RULES = ("launch.kind=here", "device.kind=cuda", "device.turns=false", "trial.fresh=true", "trial.resume=false", "trial.proof_timeout_s=0")


def plan(call: Call) -> Iterable[Task]:
    """Raises BadInput where no card is named, or one that isn't known."""
    names = [name for word in call.words if word.startswith(GPU) for name in word.removeprefix(GPU).split(",") if name]
    if not names:
        known = catalogue.known()
        cure = f"Name one or several: gpu={','.join(known[:2])}. There is: {', '.join(known)}. What is here, `autofit fit` really tries."
        raise refusal("no card is named", cure, where=COMMAND_LINE, key="gpu")
    models, words = catalogue.named(names), [word for word in call.words if not word.startswith(GPU)]
    if call.command:
        words, program = ["run", "--fit-only", *words], call.command[0]
        return [partial(_played, words, call.terminal, models=models, program=program, command=call.command)]
    return each(call, words, partial(_of_recipe, models=models))


def _of_recipe(draft: Draft, terminal: Terminal, *, models: Sequence[GpuModel]) -> Answer:
    """Plays a recipe, with small data where its own isn't here and such can be made."""
    recipe = draft.needed()
    command, words = recipe.trainer.args.get("command") or (), ["fit", *draft.provenance.overrides]
    program = next(iter(shlex.split(command) if isinstance(command, str) else command), "")
    is_here = recipe.prepare or os.path.exists(recipe.data or "") or draft.provenance.where("data") == COMMAND_LINE
    with tempfile.TemporaryDirectory(prefix="autofit-") as place:
        small = None if is_here else load_adapter(recipe.trainer.adapter)(recipe).stand_in(Path(place) / "data")
        if small is not None:
            maker = " ".join(os.path.basename(word) for word in (small.prepare or ())[1:] if place not in word)
            terminal.say(f"no data is here{f' ({recipe.data})' if recipe.data else ''}; in its place, what this makes: {maker}")
            words += [f"data={small.data}", f"prepare=[{','.join(map(quoted, small.prepare or ()))}]"]
        return _played(words, terminal, models=models, program=str(program))


def _played(words: Sequence[str], terminal: Terminal, *, models: Sequence[GpuModel], program: str, command: Sequence[str] = ()) -> Answer:
    """The answer for each card. Where the input can't work on one, it can't on another."""
    played, codes = list[dict[str, Any]](), list[ExitCode]()
    for model in models:
        terminal.say(f"{model.name}: {model.title}, {format_size(model.usable_bytes)} usable; no such card is here: it is pretended")
        code, record = _on_card(words, command, terminal, model=model, python=interpreter.of(program))
        codes.append(code)
        played.append({"gpu": model.name, "title": model.title, "usable_bytes": model.usable_bytes, **record})
        if code is ExitCode.BAD_INPUT:
            break
    for one in played:
        rung = rungs.words({**one["rung"], "accumulation": one["accumulation"]}) if one.get("rung_index") is not None else ""
        found = f"rung {one['rung_index']} (played, not proven): {rung}" if rung else str(one.get("status", "refused")).replace("_", " ")
        terminal.say(f"{one['gpu']}: {found}")
    terminal.say(EVIDENCE)
    code = ExitCode.DONE if ExitCode.DONE in codes else codes[0]
    status = "done" if code is ExitCode.DONE else played[0].get("status", "bad_input")
    return Answer(status=code, record={"status": status, "evidence": EVIDENCE, "cards": played})


def _on_card(
    said: Sequence[str], command: Sequence[str], terminal: Terminal, *, model: GpuModel, python: str
) -> tuple[ExitCode, Mapping[str, Any]]:
    """Plays the launch on a pretended card. Returns (its exit status, its record)."""
    with (
        tempfile.TemporaryDirectory(prefix="autofit-") as folder,
        played(Cards(model=model, count=_CARDS, computed="small"), python=python) as env,
    ):
        place, memory = Path(folder), [] if any("device.memory=" in word for word in said) else ["device.memory=null"]
        words = [*said, *_RULES, *memory, f"run.root={place / 'runs'}", *(("--", *command) if command else ())]
        argv = process.python_module("autofit_launcher", *words)
        child = process.start(argv, env=env, stdout=place / "stdout", stderr=place / "stderr", show=terminal.streams())
        with process.forward_signals(child):
            ended = process.wait(child)
        record: Mapping[str, Any] = next((json.loads(path.read_bytes()) for path in place.glob("runs/*/record.json")), {})
    code = ExitCode(ended.returncode) if ended.returncode in set(ExitCode) else ExitCode.BAD_INPUT
    return code, record
