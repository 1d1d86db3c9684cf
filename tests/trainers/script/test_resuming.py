"""Which of a script's checkpoints are gone on from: those whose files are whole and whose weights are finite."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from autofit_launcher.trainers.script import resuming
from autofit_launcher.trainers.script.inside import checkpoint
from tests.helpers.saved import spoiled, whole


def saved(path: Path, *, diverged: bool = False) -> Path:
    torch.save({"model": {"weight": torch.full((3, 4), float("nan") if diverged else 0.5)}}, path)
    return path


def test_those_that_are_torn_or_have_diverged_are_passed_over_and_behind_the_first_good_one_none_is_looked_at(tmp_path: Path) -> None:
    torn, diverged, good, older = (saved(tmp_path / f"{epoch}.pt", diverged=epoch in (1, 3)) for epoch in (4, 3, 2, 1))
    torn.write_bytes(torn.read_bytes()[:300])
    found = resuming.look([torn, diverged, good, older], program=sys.executable, saves=resuming.Saves())
    assert [one.path for one in whole(found)] == [good, older]
    told = spoiled(found)
    assert "zip" in told[torn] and told[diverged] == "its weights are not finite"


def test_where_the_weights_cant_be_looked_at_the_file_is_taken_to_be_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming.interpreter, "of", lambda program: "no-such-program")
    place = saved(tmp_path / "1.pt", diverged=True)
    assert [one.path for one in whole(resuming.look([place], program="python", saves=resuming.Saves()))] == [place]


def of_trainer(place: Path, number: int, *, without: str = "") -> Path:
    folder = place / f"checkpoint-{number}"
    folder.mkdir(parents=True)
    for name in ("trainer_state.json", "optimizer.pt", "scheduler.pt"):
        if name != without:
            (folder / name).touch()
    return folder


def test_of_hugging_faces_trainer_this_runs_whole_checkpoints_are_taken(tmp_path: Path) -> None:
    out, kept_in = tmp_path / "out", tmp_path / "kept_in"
    earlier, first, second, torn = of_trainer(out, 90), of_trainer(out, 2), of_trainer(out, 4), of_trainer(out, 6, without="scheduler.pt")
    kept_in.write_text(f"{out}\n")
    for at, path in enumerate((earlier, kept_in, first, second, torn)):
        os.utime(path, (1000 + at, 1000 + at))
    assert resuming.of_trainer(kept_in) == [second, first], "an earlier run's checkpoint-90 and one that was never finished are none of it"
    kept_in.write_text(f"{out}\n{tmp_path / 'another'}\n")
    assert resuming.of_trainer(kept_in) == [] and resuming.of_trainer(tmp_path / "nothing") == []


STATE = "accelerator.save_state(folder)\naccelerator.register_for_checkpointing(counter)\n"


def test_the_first_folder_of_a_save_that_was_killed_is_none_unless_others_may_have_been_removed(tmp_path: Path) -> None:
    script, folder = tmp_path / "train.py", tmp_path / "epoch_0"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    for source, left in ((STATE, []), (STATE + "shutil.rmtree(oldest)\n", [folder]), ("model.save_pretrained(folder)\n", [folder])):
        script.write_text(source)
        assert resuming.saves([script]).begun([folder]) == left
    script.write_text(STATE)
    assert "never written to its end" in str(resuming.look([folder], program=sys.executable, saves=resuming.saves([script]))[folder])
    assert resuming.saves([script]).begun([folder, folder]) == [folder, folder], "two are no first save"


def model(*, diverged: bool = False) -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    if diverged:
        made[1].running_mean[1] = float("nan")  # type: ignore[union-attr,index]
    return made


def put(path: Path, what: Any, **how: Any) -> Path:
    torch.save(what, path, **how)
    return path


def finite(*paths: Path) -> list[bool | None]:
    return [checkpoint.finite(path) for path in paths]


def test_weights_are_looked_at_in_every_form_that_scripts_save_them_in(tmp_path: Path) -> None:
    bad = model(diverged=True)
    beside = {"args": argparse.Namespace(lr=1.0), "rng": random.getstate(), "best": numpy.float64(0.5)}
    places = [
        put(tmp_path / "state.pt", bad.state_dict()),
        put(tmp_path / "nested.pth", {"epoch": 3, **beside, "model": bad.state_dict()}),
        put(tmp_path / "legacy.pt", bad.state_dict(), _use_new_zipfile_serialization=False),
        put(tmp_path / "half.bin", bad.bfloat16().state_dict()),
    ]
    assert finite(*places) == [False] * len(places)


def test_what_is_not_finite_and_no_weight_says_nothing(tmp_path: Path) -> None:
    good = {**model().state_dict(), "mask": torch.full((4, 4), float("-inf")).triu(1), "best": torch.tensor(float("inf"))}
    place = put(tmp_path / "a.pt", {"model": good, "history": {"loss": torch.tensor([1.0, float("nan")])}, "best": float("inf")})
    assert finite(place) == [True]


def test_nothing_that_a_file_names_is_called(tmp_path: Path) -> None:
    class Calls:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    place = put(tmp_path / "a.pt", {"calls": Calls(), "model": model(diverged=True).state_dict()})
    assert finite(place, put(tmp_path / "whole.ckpt", model())) == [None, None] and not (tmp_path / "made").exists()
