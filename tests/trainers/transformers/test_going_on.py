"""What fits must be able to go on from the checkpoint that its trial has saved: a second process loads it under the same budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.ladder.verdict import Kind
from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.trainers.transformers.adapter import TransformersAdapter
from launcher.trial import trial
from launcher.trial.trial import Trial
from tests.helpers import going_on
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import spoken as spoken
from tests.helpers.hf_data import sums as sums

pytestmark = pytest.mark.slow
MIB = 2**20


def tried(data: Path, place: Path, *, task: str = "text", more: dict[str, Any] | None = None) -> Trial:
    device = {"kind": "cpu", "memory": "2GiB"}
    asked = recipe(str(data), task, device=device, args={"max_steps": 8, "save_steps": 4}, **more or {})
    adapter = TransformersAdapter(asked)
    return going_on.tried(adapter, place, memory_bytes=asked.device.memory)


TRAININGS: list[tuple[str, dict[str, Any]]] = [
    ("text", {}),
    ("text", {"lora": 4, "precision": "bf16", "accumulation": 3}),
    ("speech", {"micro_batch": 2, "accumulation": 4}),
]


@pytest.mark.parametrize(("task", "ask"), TRAININGS)
def test_the_checkpoint_is_loaded_in_a_new_process_for_one_step(
    task: str, ask: dict[str, Any], sums: Path, spoken: Path, tmp_path: Path
) -> None:
    found = tried({"text": sums, "speech": spoken}[task], tmp_path, task=task, more={"ask": ask})
    uses = {use.phase: use for use in found.report.uses}
    assert found.verdict.fits
    assert list(uses)[-1] == Phase.RESUME
    assert uses[Phase.RESUME].batches >= 4, "it goes on to the trial's own end: what it holds is level"
    assert uses[Phase.RESUME].held_bytes > uses[Phase.SAVE].held_bytes > uses[Phase.SETUP].held_bytes
    assert any("checkpoint-" in note and "was loaded" in note for note in found.report.notes)
    assert trial.TrialReport.read(found.folder / "report.json") == found.report


def test_one_that_finds_no_room_for_going_on_does_not_fit(sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on.between(monkeypatch, lambda orders: replace(orders, cap_bytes=12 * MIB, ceiling_bytes=14 * MIB))
    found = tried(sums, tmp_path)
    assert found.verdict.kind is Kind.OUT_OF_MEMORY
    assert found.verdict.phase == Phase.RESUME
    assert found.verdict.why.startswith("it can't go on from a checkpoint of its own: ")


def test_a_checkpoint_that_can_not_be_loaded_is_a_verdict(sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tear(orders: Orders) -> Orders:
        (kept,) = orders.scratch.glob("run/checkpoint-*/optimizer.pt")
        kept.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
        return orders

    going_on.between(monkeypatch, tear)
    found = tried(sums, tmp_path)
    assert found.verdict.kind is Kind.CRASHED
    assert found.verdict.why.startswith("it can't go on from a checkpoint of its own: ")


def test_one_process_where_nothing_is_resumed(sums: Path, tmp_path: Path) -> None:
    found = tried(sums, tmp_path, more={"recover": {"restarts": 0}})
    assert found.verdict.fits
    assert Phase.RESUME not in [use.phase for use in found.report.uses]
