"""Bars drawn for a wide terminal, on a narrower screen: one row each, drawn in place, with what matters; and nothing else is touched."""

from __future__ import annotations

import pytest

from autofit_launcher.machine.bars import Redrawing
from tests.helpers.screens import screen_of

YOLO = "       1/10         0G      6.728      4.506      2.301         45        160: {percent}% {bar} {step}/30 10.2it/s {step}.5s<3.0s"
TQDM = "Epoch 1: {percent:3}%|{bar}| {step}/30 [00:0{step}<00:20, 10.2it/s, loss=0.512]"


def yolo(step: int) -> str:
    return YOLO.format(percent=step * 100 // 30, bar="━" * (step * 12 // 30) + "─" * (12 - step * 12 // 30), step=step)


def tqdm(step: int) -> str:
    return TQDM.format(percent=step * 100 // 30, bar=("█" * (step * 140 // 30)).ljust(140), step=step)


def seen(*said: str, columns: int, piece: int = 10**6) -> list[str]:
    """The screen after a trainer has said all of that, which came in pieces of so many bytes."""
    redrawing, raw = Redrawing(), "".join(said).encode()
    out = b"".join(redrawing.shown(raw[at : at + piece], columns=columns) for at in range(0, len(raw), piece))
    return screen_of(out, columns=columns)


@pytest.mark.parametrize("piece", [10**6, 64, 7, 1])
@pytest.mark.parametrize("columns", [80, 120])
def test_a_bar_drawn_again_and_again_stays_on_one_row_and_tells_its_step(columns: int, piece: int) -> None:
    for bar, start in ((yolo, "\r\x1b[K"), (tqdm, "\r")):
        rows = seen(*(start + bar(step) for step in range(8)), "\nnext line\n", columns=columns, piece=piece)
        assert len(rows) == 2 and rows[1] == "next line", rows
        told = "7/30 10.2it/s 7.5s<3.0s" if bar is yolo else "7/30 [00:07<00:20, 10.2it/s,"
        assert told in rows[0], rows
        assert len(rows[0]) < columns


def test_lines_that_end_are_not_touched_however_long_and_whatever_their_bytes() -> None:
    said = b"x" * 500 + b"\n\xff\xfe\r\nshort\n" + "\x1b[31mred\x1b[0m é\n".encode()
    assert Redrawing().shown(said, columns=40) == said
