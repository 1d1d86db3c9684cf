"""Weights are looked at in whatever form a script saves them, and nothing else of a file is believed or called."""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn

from autofit_launcher.trainers.script.inside import checkpoint


def model(*, diverged: bool = False) -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    if diverged:
        made[1].running_mean[1] = float("nan")  # type: ignore[union-attr,index]
    return made


def saved(path: Path, what: Any, **how: Any) -> Path:
    torch.save(what, path, **how)
    return path


def finite(*paths: Path) -> list[bool | None]:
    return [checkpoint.finite(path) for path in paths]


def test_weights_are_looked_at_in_every_form_that_scripts_save_them_in(tmp_path: Path) -> None:
    bad = model(diverged=True)
    beside = {"args": argparse.Namespace(lr=1.0), "rng": random.getstate(), "best": numpy.float64(0.5)}
    places = [
        saved(tmp_path / "state.pt", bad.state_dict()),
        saved(tmp_path / "nested.pth", {"epoch": 3, **beside, "model": bad.state_dict()}),
        saved(tmp_path / "legacy.pt", bad.state_dict(), _use_new_zipfile_serialization=False),
        saved(tmp_path / "half.bin", bad.bfloat16().state_dict()),
    ]
    assert finite(*places) == [False] * len(places)


def test_what_is_not_finite_and_no_weight_says_nothing(tmp_path: Path) -> None:
    good = {**model().state_dict(), "mask": torch.full((4, 4), float("-inf")).triu(1), "best": torch.tensor(float("inf"))}
    place = saved(tmp_path / "a.pt", {"model": good, "history": {"loss": torch.tensor([1.0, float("nan")])}, "best": float("inf")})
    assert finite(place) == [True]


def test_what_cant_be_read_is_not_known(tmp_path: Path) -> None:
    pickled = tmp_path / "weights.pkl"
    pickled.write_bytes(b"words of another program")
    assert finite(pickled) == [None]


def test_nothing_that_a_file_names_is_called(tmp_path: Path) -> None:
    class Calls:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    place = saved(tmp_path / "a.pt", {"calls": Calls(), "model": model(diverged=True).state_dict()})
    assert finite(place, saved(tmp_path / "whole.ckpt", model())) == [None, None] and not (tmp_path / "made").exists()
