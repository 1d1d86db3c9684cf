"""Finds the intact checkpoints of a script's run: checks the files' checksums here, and their weights in a child process.

How far a checkpoint has come only the script knows, and what it keeps in one as well: what can't be looked at is taken to be whole.
"""

from __future__ import annotations

import glob
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from autofit_launcher.adapter.commands import Checkpoint
from autofit_launcher.adapter.protocol import NOT_FINITE, Weights
from autofit_launcher.adapter.python_source import parsed
from autofit_launcher.common import checkpoint_files, interpreter
from autofit_launcher.machine import process

log = logging.getLogger(__name__)

_INSIDE = Path(__file__).parent / "inside" / "checkpoint.py"
LOOK_S = 300.0
"""A look at weights that takes longer is given up: a run waits for it."""
MOST_TOLD = 5
OF_TRAINER = ("trainer_state.json", "optimizer.pt", "scheduler.pt")
"""Files of a checkpoint of transformers' Trainer without which another training would begin."""


class Saves(NamedTuple):
    """The way in which a script saves, by its source: whether folders named as by Hugging Face's Trainer are its, globs of what comes last
    into the folders of accelerate's ``save_state``, whether it may remove checkpoints, so that one that is alone needn't be the first."""

    of_trainer: bool = False
    ends_with: Sequence[str] = ()
    removes: bool = False

    def unfinished(self, path: Path) -> str:
        return checkpoint_files.unfinished(path, of_trainer=self.of_trainer, ends_with=self.ends_with)

    def begun(self, saved: Sequence[Path]) -> list[Path]:
        """Returns ``saved`` without what a kill has left of the very first: nothing had been saved then."""
        first = len(saved) == 1 and (self.of_trainer or not self.removes)
        return [] if first and self.unfinished(saved[0]) else list(saved)


_CLASS = re.compile(r"\b(\w*(?<!Data)TrainingArguments|(SFT|DPO|ORPO|KTO|CPO|GRPO|RLOO|Reward|PRM|GKD)Config)\b")
_PROGRAMS = ("trl", "axolotl", "llamafactory-cli", "lmf")


def named(files: Iterable[Path]) -> bool:
    """Tells whether a file names a class of the arguments of Hugging Face's Trainer."""
    return any(_CLASS.search(parsed(file)[0]) for file in files)


def trains(words: Sequence[str]) -> bool:
    """Tells whether the program that a command starts is known to train by Hugging Face's Trainer."""
    return Path(words[0]).name in _PROGRAMS


_SAVES_STATE, _REMOVES = re.compile(r"accelerator\w*\.save_state\("), re.compile(r"rmtree|total_limit|unlink|rmdir|os\.remove")


def saves(files: Iterable[Path]) -> Saves:
    """Reads how a script with these files saves. The states of random numbers come last, but for objects of its own (accelerate 1.15)."""
    files = list(files)
    source = "\n".join(parsed(file)[0] for file in files)
    own = ["custom_checkpoint_*.pkl"] if ".register_for_checkpointing(" in source else []
    last = [*own, "random_states_*.pkl"] if _SAVES_STATE.search(source) else []
    return Saves(named(files), last, _REMOVES.search(source) is not None)


def found(pattern: str) -> list[Path]:
    """Returns the paths that a glob finds, newest first."""
    return sorted(map(Path, glob.glob(pattern, recursive=True)), key=lambda path: path.stat().st_mtime, reverse=True)


def look(saved: Sequence[Path], *, program: str, saves: Saves) -> Mapping[Path, Checkpoint | str]:
    """See ``Saved.look``. ``program``: the first word of the script's command."""
    faults = {path: saves.unfinished(path) or checkpoint_files.lacking(path, saved) or checkpoint_files.fault(path) for path in saved}
    torn = {path: fault for path, fault in faults.items() if fault}
    untorn = [path for path in saved if path not in torn]
    spoiled = torn | {path: NOT_FINITE for path, finite in _finite(untorn, program).items() if finite is False}
    whole = {path: Checkpoint(path=path, done=path.stat().st_mtime, unit="seconds") for path in untorn if path not in spoiled}
    return {**whole, **{path: spoiled[path] for path in saved if path in spoiled}}


def last_weights(saved: Sequence[Path], *, program: str) -> Weights | None:
    """The newest of what was saved in which weights are found."""
    small = [path for path in saved if path.is_dir() or path.stat().st_size < psutil.virtual_memory().available // 2]
    finite = _finite([path for path in small if not checkpoint_files.fault(path)][:MOST_TOLD], program)
    return next((Weights(path=path, finite=one) for path, one in finite.items() if one is not None), None)


def of_trainer(kept_in: Path) -> list[Path]:
    """Checkpoints of Hugging Face's Trainer, newest first: those of this run that hold all of a training's state, and none where the script
    has trained several times.

    ``kept_in``: the file that got the folder of each training as it began.
    """
    try:
        (place,), began = kept_in.read_text(encoding="utf-8").splitlines(), kept_in.stat().st_mtime
    except (OSError, ValueError):
        return []
    whole = [path for path in Path(place).glob("checkpoint-*") if all((path / name).is_file() for name in OF_TRAINER)]
    found = [(path.stat().st_mtime, path) for path in whole]
    return [path for saved, path in sorted(found, reverse=True) if saved >= began]


def _finite(paths: Sequence[Path], program: str) -> Mapping[Path, bool | None]:
    """Tells of each checkpoint whether its weights are finite; None, or nothing at all, where that can't be seen."""
    if not paths:
        return {}
    status, said = process.output_of((interpreter.of(program), str(_INSIDE), *map(str, paths)), timeout_s=LOOK_S)
    if status != 0:
        log.info("no look at the weights of %s: %s", paths[0], said.strip()[-500:])
        return {}
    return dict(zip(paths, json.loads(said.splitlines()[-1]), strict=True))
