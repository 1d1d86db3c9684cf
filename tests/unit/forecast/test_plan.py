"""A plan without a card: from traces that were kept, so that no trainer is imported; and what is refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.adapter.tracing import Ask
from launcher.cli import main
from launcher.forecast import gpu_catalogue, trace_store
from launcher.forecast.forecaster import Forecaster
from launcher.forecast.plan import Word, word_for
from launcher.forecast.prediction import Forecast
from launcher.ladder import build
from launcher.shared import trace as events
from launcher.shared.report import Phase
from launcher.shared.sizes import GIB
from launcher.shared.trace import Trace
from tests.helpers import traces
from tests.helpers.kept_traces import adapter, keep_traces

RECIPE = """
summary: a detector
ask: {model: yolo11n.yaml, micro_batch: 64, image_size: 640, checkpointing: false}
trainer: {args: {epochs: 1, optimizer: AdamW}}
ladder: {order: [micro_batch, checkpointing], wheels: {micro_batch: {floor: 2}}}
"""


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("YOLO_OFFLINE", "true")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(RECIPE)


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    status = main.run(["plan", *words, "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out.splitlines()[-1]), err


def test_a_plan_names_the_rung_that_is_predicted_to_fit_each_card(capsys: pytest.CaptureFixture[str]) -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder)
    status, record, shown = answered(capsys, "recipe=mine", "gpu=t4,a100_80gb,rtx_4080s")
    assert status == 0
    chosen = {card["gpu"]: card["rung_predicted_to_fit"] for card in record["cards"]}
    assert chosen["a100_80gb"] == 0 < chosen["rtx_4080s"] <= chosen["t4"]
    assert [rung["rung"]["micro_batch"] for rung in record["rungs"][:3]] == [64, 32, 16]
    asked = record["rungs"][0]["on"]["t4"]
    train = asked["phases"]["train"]
    assert asked["said"] == Word.CERTAINLY and train["live_bytes"] <= train["low_bytes"] <= train["middle_bytes"] <= train["high_bytes"]
    assert record["made_with"] == {"torch": "2.15.0"} and "predicted, not proven" in record["evidence"]
    assert "rung 0 is the first predicted to fit" in shown and "twenty objects" in shown


def test_no_word_of_a_plan_says_that_something_fits(capsys: pytest.CaptureFixture[str]) -> None:
    one = adapter()
    keep_traces(one, build.ladder_of(one))
    _, record, shown = answered(capsys, "recipe=mine", "gpu=t4")
    assert " fits" not in shown and " fits" not in json.dumps(record)


def test_a_smaller_part_of_a_card_is_planned_for(capsys: pytest.CaptureFixture[str]) -> None:
    one = adapter()
    keep_traces(one, build.ladder_of(one))
    whole = answered(capsys, "recipe=mine", "gpu=a100_80gb")[1]["cards"][0]
    part = answered(capsys, "recipe=mine", "gpu=a100_80gb", "device.memory=8GiB", "device.headroom=0.2")[1]["cards"][0]
    assert part["cap_bytes"] == int(8 * GIB * 0.8) and part["rung_predicted_to_fit"] > whole["rung_predicted_to_fit"]


def test_the_memory_that_a_recipe_gives_another_device_is_none_of_the_card_s(capsys: pytest.CaptureFixture[str]) -> None:
    one = adapter()
    keep_traces(one, build.ladder_of(one))
    whole = answered(capsys, "recipe=mine", "gpu=t4")[1]["cards"][0]
    with Path("recipes/mine.yaml").open("a") as recipe:
        recipe.write("\ndevice: {kind: cpu, memory: 900MiB}\n")
    assert answered(capsys, "recipe=mine", "gpu=t4")[1]["cards"][0] == whole


def test_a_card_that_is_not_known_and_no_card_at_all_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    status, record, _ = answered(capsys, "recipe=mine", "gpu=rtx4080")
    assert status == 1 and "rtx_4080s" in record["faults"][0]["cure"]
    status, record, _ = answered(capsys, "recipe=mine")
    assert status == 1 and record["faults"][0]["key"] == "gpu"


def test_what_is_wrong_with_the_recipe_is_told_with_what_is_wrong_with_the_card(capsys: pytest.CaptureFixture[str]) -> None:
    status, record, _ = answered(capsys, "recipe=mine", "gpu=nothing", "trainer.args.epoch=3")
    assert status == 1 and {fault["key"] for fault in record["faults"]} == {"gpu", "trainer.args.epoch"}


def test_a_task_that_is_not_traced_is_one_clear_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    status, record, _ = answered(capsys, "recipe=mine", "gpu=t4", "ask.model=yolo11n-seg.yaml")
    (fault,) = record["faults"]
    assert status == 1 and "only detection is traced" in fault["found"] and "autofit fit" in fault["cure"]


def test_a_script_whose_python_has_no_pytorch_can_not_be_played_on_a_card_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launcher.machine.devices.identity", lambda kind, *, index: "cpu")
    (tmp_path / "train.py").write_text(
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\nfor _ in range(3):\n"
        "    torch.zeros(1).backward()\n"
    )
    (tmp_path / "python").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    status = main.run(["plan", "gpu=t4", "--json", "--", "python", "train.py", "--batch-size", "8"])
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert status == 1 and fault["found"] == f"{tmp_path / 'python'} has no PyTorch" and "Install torch there" in fault["cure"]
    assert not (tmp_path / "runs").exists()


def test_a_trainers_own_command_is_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = adapter()
    keep_traces(one, build.ladder_of(one))
    status = main.run(
        ["plan", "gpu=a100_80gb", "ladder.order=[micro_batch]", "--json", "--", "yolo", "detect", "train", "model=yolo11n.yaml", "batch=64",
         "optimizer=AdamW", "epochs=1", "data=nothing.yaml"]
    )  # fmt: skip
    assert status == 0 and json.loads(capsys.readouterr().out.splitlines()[-1])["cards"][0]["rung_predicted_to_fit"] == 0


def test_a_trace_that_cannot_be_made_says_why_and_is_asked_for_once(tmp_path: Path) -> None:
    ask = Ask(module="launcher.trainers.nobody", payload={}, packages=())
    found = trace_store.traces([ask], environments={ask.module: lambda folder: {}})
    assert "No module named launcher.trainers.nobody" in str(found[ask.key])


def test_another_version_or_another_question_is_another_trace() -> None:
    one = Ask(module="launcher.shared.trace", payload={"a": 1}, packages=("pydantic",))
    assert one.key == Ask(module="launcher.shared.trace", payload={"a": 1}, packages=("pydantic",)).key
    others = [
        Ask(module="launcher.shared.trace", payload={"a": 2}, packages=("pydantic",)),
        Ask(module="launcher.shared.trace", payload={"a": 1}, packages=("rich",)),
        Ask(module="launcher.forecast.replay", payload={"a": 1}, packages=("pydantic",)),
    ]
    assert len({one.key, *(other.key for other in others)}) == 4


def forecaster(card: str) -> Forecaster:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder)
    return Forecaster(one, ladder, gpu_catalogue.named([card])[0])


def test_a_rung_that_accumulates_keeps_its_gradients_beside() -> None:
    one_card = forecaster("a100_80gb")
    family = one_card._family(one_card.ladder.asked)
    assert not isinstance(family, str)
    at = traces.sizes(1, 1)
    alone, accumulated = (family.live(at, accumulates=one)[Phase.TRAIN] for one in (False, True))
    assert accumulated >= alone


def test_on_a_cpu_the_rest_is_added_to_what_is_alive() -> None:
    one = adapter()
    ladder = build.ladder_of(one)
    keep_traces(one, ladder, cuda=False)
    foreseen = Forecaster(one, ladder, None).forecasts(ladder.asked)
    assert foreseen is not None
    train = foreseen[Phase.TRAIN]
    assert train.live_bytes < train.low_bytes < train.middle_bytes < train.high_bytes and train.context_bytes == 0


def test_what_is_reserved_grows_with_what_is_alive() -> None:
    one_card = forecaster("rtx_3090")
    peaks = [peak.middle_bytes for rung in one_card.ladder.rungs[:5] if (peak := one_card.peak(rung)) is not None]
    assert peaks == sorted(peaks, reverse=True) and len(peaks) == 5


@pytest.mark.parametrize(
    ("live", "low", "high", "word"),
    [(11, 12, 13, Word.CERTAINLY), (8, 11, 13, Word.TOO_LARGE), (8, 8, 11, Word.EDGE), (7, 8, 9, Word.TO_FIT)],
)
def test_what_is_said_of_a_rung_follows_its_bounds(live: int, low: int, high: int, word: Word) -> None:
    forecast = Forecast(
        live_bytes=live * GIB, low_bytes=low * GIB, high_bytes=high * GIB, middle_bytes=(low + high) * GIB // 2, context_bytes=GIB // 2
    )
    assert word_for({Phase.TRAIN: forecast}, 10 * GIB) is word
    assert word_for(None, 10 * GIB) is Word.UNKNOWN


def test_a_trace_of_nothing_has_no_phase_to_foresee() -> None:
    assert events.live(Trace(traced_at={}, events=(), versions={}).events) == {"start": 0}


def test_a_script_without_a_card_that_is_named_is_told_to_name_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int)\n")
    status = main.run(["plan", "--json", "--", sys.executable, "train.py", "--batch-size", "1"])
    (fault,) = json.loads(capsys.readouterr().out.splitlines()[-1])["faults"]
    assert status == 1 and fault["key"] == "gpu" and "gpu=a100_40gb" in fault["cure"]
