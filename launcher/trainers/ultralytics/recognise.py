"""Reads what a ``yolo`` command asks for, as Ultralytics itself reads it. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from launcher.adapter.recognised import Belief, Understood, typed
from launcher.errors import PLACE, BadInput, Fault
from launcher.trainers.ultralytics import arguments as yolo_arguments
from launcher.trainers.ultralytics import cards as yolo_cards
from launcher.trainers.ultralytics import in_script

PROGRAMS = ("yolo", "ultralytics")
_TASKS = ("detect", "segment", "classify", "pose", "obb", "semantic", "depth")
_MODES = ("train", "val", "predict", "export", "track", "benchmark")
_WHEELS = (("batch", "micro_batch"), ("imgsz", "image_size"), ("multi_scale", "multi_scale"))
_ORDER = ("micro_batch", "image_size", "checkpointing", "multi_scale", "model")


def understand(words: Sequence[str]) -> Understood | None:
    """What a yolo command trains, or a script that trains with Ultralytics; None for another program.

    Raises BadInput where it trains nothing, or guesses its batch.
    """
    if Path(words[0]).name not in PROGRAMS:
        return in_script.understand(words)
    pairs, task, mode = _read(words[1:])
    if mode != "train":
        raise BadInput([Fault(key=PLACE, found=f"yolo {mode} trains nothing", cure="autofit fits trainings: yolo detect train ...")])
    ask: dict[str, Any] = {"model": pairs.pop("model", "yolo26n.pt"), "micro_batch": 16, "image_size": 640, "checkpointing": False}
    whole, device = pairs.get("batch", 16), pairs.pop("device", None)
    cards = yolo_cards.asked(device)
    beliefs = [Belief(wheel="model", value=ask["model"], spelling="model=", source="yolo")]
    for key, wheel in _WHEELS:
        if key in pairs:
            ask[wheel] = yolo_arguments.multi_scale(pairs.pop(key)) if key == "multi_scale" else pairs.pop(key)
        if wheel in ask:
            if key == "batch":
                ask[wheel] = yolo_cards.batch_of_each(ask[wheel], cards)
            source = f"{yolo_cards.in_words(whole, cards) if key == 'batch' else ''}yolo"
            beliefs.append(Belief(wheel=wheel, value=ask[wheel], spelling=f"{key}=", source=source))
    if isinstance(ask["micro_batch"], float) or ask["micro_batch"] == -1:
        found = f"batch={ask['micro_batch']} is Ultralytics' own guess"
        raise BadInput([Fault(key=PLACE, found=found, cure="Say the batch you want: batch=64.")])
    data = pairs.pop("data", None)
    return Understood(
        adapter="ultralytics",
        words=tuple(words),
        beliefs=(*beliefs, *in_script.own_accumulation(whole, pairs)),
        groups=("trainer: ultralytics",),
        ask=ask,
        args=pairs,
        device=yolo_cards.section(device),
        data=data,
        task=task,
        ladder={"order": list(_ORDER)} if "multi_scale" in ask else {},
    )


def _read(words: Sequence[str]) -> tuple[dict[str, Any], str | None, str]:
    """(arguments, task, mode), as Ultralytics' own command line reads it.

    cfg/__init__.py: merge_equals_args, key=value, bare task and mode words.
    """
    pairs: dict[str, Any] = {}
    task, mode = None, None
    for word in _merged(words):
        key, equals, value = word.lstrip("-").rstrip(",").partition("=")
        if equals:
            pairs[key] = value if key in ("name", "project") else typed(value)
        elif key in _TASKS:
            task = key
        elif key in _MODES:
            mode = key
        elif re.fullmatch(r"[a-z_]+", key):
            pairs[key] = True
        else:
            cure = "Arguments are key=value, as in epochs=100."
            raise BadInput([Fault(key=PLACE, found=f"{word!r} is no argument of yolo", cure=cure)])
    return pairs, pairs.pop("task", task), pairs.pop("mode", mode) or "train"


def _merged(words: Sequence[str]) -> Iterator[str]:
    """``a = b``, ``a= b`` and ``a =b`` as one word."""
    text = "\0".join(words)
    yield from re.sub(r"\0?=\0?", "=", text).split("\0") if text else ()
