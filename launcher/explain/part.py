"""Tells by a traceback, and by what was printed before, in which part of a training it ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from launcher.adapter import progress
from launcher.adapter.progress import Progress
from launcher.explain.known import table
from launcher.run.cause import FRAME, phase_of
from launcher.shared.report import Phase

Part = Literal["setup", "data", "forward", "backward", "optimizer", "training", "validation", "checkpoint", ""]
"""Part of a training, as people call it; "training": which part of a step isn't told; empty: nothing tells it."""

_PLACES: tuple[tuple[Part, re.Pattern[str]], ...] = tuple(
    (part, re.compile(expression))  # type: ignore[misc]
    for part, expression in (
        ("data", r"utils[/\\]data[/\\]|in (preprocess_batch|transfer_batch_to_device|send_to_device|_prepare_inputs?|collate\w*)$"),
        ("checkpoint", r"torch[/\\]serialization|in (_?save(_\w*)?checkpoint\w*|save_model|_save|load_checkpoint|strip_optimizer)$"),
        ("optimizer", r"[/\\]optim(izer)?s?[/\\.]|in (_?optimizer_step|_maybe_opt_step|init_state|initialize_optimizer_states)$"),
        ("optimizer", r": (self\.)?(opt|optimizer|scaler)\w*\.step\("),
        ("backward", r"autograd[/\\](?:__init__|graph|function)|in (_run_|run_|training_step_|_)?backward$|: .*backward\("),
        ("forward", r"in (\w*forward|_call_impl|_wrapped_call_impl|compute_loss|training_step|closure|loss|criterion)$"),
        ("forward", r": .*= ?(self\.)?(model|net|criterion|loss_fn)\w*\("),
        ("setup", r"in (_apply|cuda|to|from_pretrained|initialize|prepare|init_process_group|_setup_for_real_optimizer|_configure_\w+)$"),
        ("setup", r"in (\w*prepare_model|_wrap_model|\w*model_to_device|_load_pretrained_model|place_model_on_device)$|: .*\.(to|cuda)\("),
    )
)
"""Places of a frame, "PATH in FUNCTION" or ": SOURCE"; the first that matches a frame counts for it."""
_VALIDATOR = re.compile(r"[/\\](validator|evaluator|evaluation_loop)\w*\.py in |in (test|non_max_suppression)$")
_WITHIN_BACKWARD = ("forward", "setup", "data")
LAST_LINES = 200
"""Of what was printed before a failure: the rest is long past."""


def find(chain: str, before: Sequence[str]) -> Part:
    """``chain``: the traceback; ``before``: the lines of the log up to the failure."""
    if phase_of(chain) in (Phase.VALIDATE, Phase.FINISH) or any(_VALIDATOR.search(place) for place in _places(chain)):
        return "validation"
    part: Part = ""
    for place in _places(chain):
        now = next((name for name, pattern in _PLACES if pattern.search(place)), None)
        if now is None or (part == "backward" and now in _WITHIN_BACKWARD):  # what is computed again for checkpointing
            continue
        if now == "setup" and part in ("forward", "optimizer"):
            continue
        part = now
    if part in ("", "forward"):  # a validation's, too
        printed = _by_progress(before)
        return printed if printed == "validation" else part or printed
    return part


def _places(chain: str) -> Iterator[str]:
    """Of a traceback that was cut to its last source line, that line."""
    lines = chain.splitlines()
    cut = FRAME.search(chain) is None
    for number, line in enumerate(lines):
        if match := FRAME.search(line):
            yield f"{match[1]} in {match[2]}"
            if number + 1 < len(lines) and not FRAME.search(lines[number + 1]):
                yield f": {lines[number + 1].strip()}"
        elif cut and line[:1].isspace():
            yield f": {line.strip()}"


def _by_progress(before: Sequence[str]) -> Part:
    part: Part = ""
    known = Progress()
    for line in before[-LAST_LINES:]:
        if re.search(table().parts["validation"].signs, line):
            part = "training" if "100%" in line else "validation"
        elif (said := progress.read(line)) is not None:
            known = known.then(said)
            trains = known.step is not None or known.loss is not None
            part = "validation" if known.phase == progress.VALIDATE else "training" if trains else part
    return part
