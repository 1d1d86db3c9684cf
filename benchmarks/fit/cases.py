"""The asks, the budgets at which each is played, and the searches that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.rows import Row

SEARCHES: Mapping[str, Sequence[str]] = {
    "walk": ("ladder.search=walk", "trial.fresh=true"),
    "predicted": ("ladder.search=predicted", "trial.fresh=true"),
    "again": ("ladder.search=predicted",),
}
"""Name -> autofit's words for it, in the order in which they are played."""
REFERENCE: Mapping[str, Sequence[str]] = {"exhaustive": ("ladder.search=exhaustive", "trial.fresh=true")}
"""What rules out nothing untried: played where it is asked for."""
PARTS = (1.05, 0.85, 0.7, 0.55, 0.42)
"""Of what rung 0 needs: the first lets it fit, the others leave more and more of the ladder behind."""

_WIDE = ["ladder.wheels.micro_batch.floor=1"]
_YOLO = ["recipe=yolo_demo", *_WIDE, "ask.image_size=224", "ladder.wheels.image_size.values=[160,96]", "ask.micro_batch=16"]
_SPEECH = ["recipe=whisper_demo", *_WIDE]
_TEXT = ["recipe=llm_sft_demo", *_WIDE]
_SONGS = ["recipe=separator_demo", *_WIDE]
ASKS: Mapping[str, Sequence[str]] = {
    "yolo-16": [*_YOLO],
    "yolo-32": [*_YOLO, "ask.image_size=160", "ladder.wheels.image_size.values=[96]", "ask.micro_batch=32"],
    "yolo-v8n": [*_YOLO, "ask.model=yolov8n.yaml", "ask.micro_batch=12"],
    "yolo-11s": [*_YOLO, "ask.model=yolo11s.yaml", "ask.image_size=160", "ladder.wheels.image_size.values=[96]", "ask.micro_batch=24"],
    "yolo-checkpointing": [*_YOLO, "ladder.order=[checkpointing,micro_batch,image_size]"],
    "speech": [*_SPEECH],
    "speech-32": [*_SPEECH, "ask.micro_batch=32", "ask.val_micro_batch=64"],
    "text": [*_TEXT],
    "text-64": [*_TEXT, "ask.micro_batch=64", "ask.val_micro_batch=64"],
    "text-tokens": [*_TEXT, "ask.micro_batch=48", "ask.val_keeps=tokens", "ladder.wheels.val_keeps.values=[]"],
    "songs": [*_SONGS],
    "songs-64": [*_SONGS, "ask.micro_batch=64", "ask.segment=12032", "ladder.wheels.segment.values=[8064]"],
}
"""Name -> autofit's words. Twelve asks, each at all of ``PARTS``."""
_FAR = ["ask.micro_batch=64", "ladder.wheels.micro_batch.floor=16"]
DEEP: Mapping[str, Sequence[str]] = {
    "yolo-far": [*_YOLO, *_FAR, "ladder.wheels.image_size.values=[192,160,128,96]"],
    "speech-far": [*_SPEECH, *_FAR, "ladder.wheels.micro_batch.floor=8"],
    "text-far": [*_TEXT, *_FAR],
    "songs-far": [*_SONGS, *_FAR],
}
"""Asks that are far too large, where a micro-batch below the floor is none that the person wants: each at all of ``DEEP_PARTS``."""
DEEP_PARTS = (0.25, 0.17)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One ask at one budget."""

    ask: str
    part: float

    @property
    def name(self) -> str:
        return f"{self.ask} x {self.part:g}"


def cases() -> Iterator[Case]:
    """Every case: all asks at one budget before the next budget, so that a slice has something of each; what is far too large last."""
    yield from (Case(ask=ask, part=part) for part in (PARTS[1], PARTS[3], PARTS[0], PARTS[2], PARTS[4]) for ask in ASKS)
    yield from (Case(ask=ask, part=part) for part in DEEP_PARTS for ask in DEEP)


def left(rows: Iterable[Row], *, only: str | None = None, searches: Iterable[str] = SEARCHES) -> Iterator[Case]:
    """The cases that not every one of ``searches`` has played yet."""
    played = {(row["ask"], row["part"], row["search"]) for row in rows if row["what"] == "searched"}
    for case in cases():
        if case.ask.startswith(only or "") and any((case.ask, case.part, search) not in played for search in searches):
            yield case
