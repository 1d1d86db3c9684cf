"""Memory is taken from a full run midway: the micro-batch is taken again in halves, and the run ends as one that was left alone."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from benchmarks.faults import places
from benchmarks.faults.cases import Case
from benchmarks.faults.play import Play

pytestmark = pytest.mark.slow
LARGE: dict[str, tuple[str, ...]] = {"text": (), "yolo": ("ask.image_size=256",), "script": ()}
"""A step needs more than a checkpoint, which is written in memory first."""
LEFT = {"text": 0.8, "yolo": 0.8, "script": 0.5}
"""Of what the trial needed above its base: half of the rows find room there, and not all of them."""


def lower(play: Play, left: float) -> None:
    """Takes memory from the run, above the base that it has told, at whatever it does now."""
    told = json.loads(next((play.folder / "held").glob("*.json")).read_text())
    record = json.loads((play.folder / "record.json").read_text())
    limit = int(told["base_bytes"] + left * record["trials"][0]["peak_bytes"])
    pid = play.trainers()[0].pid
    resource.prlimit(pid, resource.RLIMIT_DATA, (limit, resource.prlimit(pid, resource.RLIMIT_DATA)[1]))


def played(place: Path, trainer: str, *, taken: bool, **recover: Any) -> Play:
    places.make(trainer, place)
    text = yaml.safe_dump(places.recipe(trainer, "memory", recover), sort_keys=False)
    (place / "recipes" / "night.yaml").write_text(f"# @package _global_\n{text}")
    play = Play(Case(seed=0, trainer=trainer, fault="memory", at=0.1, delay_s=0, corruption="cut"), place)
    play.launch("train", "recipe=night", "device.memory=2GiB", *LARGE[trainer])
    if taken:
        assert play.until(lambda: play.trainers() and places.progress(trainer, play.folder) >= 0.1)
        lower(play, LEFT[trainer])
    assert play.wait() == 0
    return play


def test_a_text_model_has_the_weights_of_a_run_that_was_left_alone(tmp_path: Path) -> None:
    alone, split = (played(tmp_path / name, "text", taken=name == "split") for name in ("alone", "split"))
    (attempt,) = split.said["attempts"]
    assert attempt["ended"] == "done"
    assert attempt["rung_index"] == 0
    assert "a training step found no room" in attempt["taken_again"][0]
    assert "the fit was wrong, and no step was lost" in (tmp_path / "split" / "stderr").read_text()
    names = [json.loads(line)["event"] for line in (split.folder / "events.jsonl").read_text().splitlines()]
    assert "taken_again" in names
    weights, others = (load_file(play.folder / "run" / "model.safetensors") for play in (alone, split))
    assert max(float((weights[name] - others[name]).abs().max()) for name in weights) < 1e-5


def test_a_script_of_its_own_loop_has_the_weights_of_a_run_that_was_left_alone(tmp_path: Path) -> None:
    alone, split = (played(tmp_path / name, "script", taken=name == "split") for name in ("alone", "split"))
    (attempt,) = split.said["attempts"]
    assert (attempt["ended"], attempt["rung_index"]) == ("done", 0)
    assert "a training pass found no room" in attempt["taken_again"][0]
    weights, others = (torch.load(play.folder / "run" / f"epoch{places.EPOCHS['script'] - 1}.pt")["model"] for play in (alone, split))
    assert max(float((weights[name] - others[name]).abs().max()) for name in weights) < 3e-4, "its own 8 x 2 is 1e-4 apart from 16 x 1"


def test_yolo_goes_on_without_a_restart(tmp_path: Path) -> None:
    split = played(tmp_path, "yolo", taken=True)
    (attempt,) = split.said["attempts"]
    assert attempt["ended"] == "done"
    assert "a micro-batch found no room in epoch" in attempt["taken_again"][0]
    kept = torch.load(split.folder / "run" / "weights" / "last.pt", weights_only=False)
    assert all(bool(torch.isfinite(value.float()).all()) for value in kept["model"].state_dict().values())


def test_by_a_key_the_run_is_restarted(tmp_path: Path) -> None:
    restarted = played(tmp_path, "text", taken=True, split=False)
    first, *more = restarted.said["attempts"]
    assert first["ended"] == "out_of_memory"
    assert first["taken_again"] == []
    assert more[-1]["ended"] == "done"
