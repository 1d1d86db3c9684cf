"""`autofit plan` on a machine without a card: its search is played on PyTorch's real CUDA allocator, a recipe's as a command's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autofit_launcher.common.sizes import GIB, MIB
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card

SCRIPT = ROOT / "tests" / "data" / "pretended" / "train.py"


@pytest.mark.slow
@needs_a_pretended_card
def test_a_script_is_planned_for_cards_that_are_not_here(tmp_path: Path) -> None:
    """Weights, gradients and AdamW's states of 407 million fp32 parameters are 6.1 GiB; 16384 rows keep 7 activations of 512 MiB."""
    state, script = tmp_path / "state", (sys.executable, str(SCRIPT), "--batch-size", "16384")
    words = ("plan", "--json", "gpu=rtx_2080_ti,rtx_3090", "device.headroom=0.05", "--", *script)
    done = autofit(*words, cwd=tmp_path, XDG_STATE_HOME=str(state))
    said = answer(done)
    assert done.returncode == 0, done.stderr[-3000:]
    small, large = said["cards"]
    assert large["rung_index"] == 0 < small["rung_index"], "16384 rows fit 24 GB, and not 11"
    assert small["rung"]["micro_batch"] < 16384 and set(small["given_up"]) == {"micro_batch"}
    assert [one["verdict"] for one in small["trials"]] == ["out_of_memory", "fits"]
    fits = next(one for one in large["trials"] if one["rung_index"] == 0)
    assert fits["peak_bytes"] > 6.1 * GIB + 7 * 512 * MIB
    assert "played" in said["evidence"] and "(played, not proven)" in done.stderr
    assert [file for file in state.rglob("*") if file.is_file() and b"(pretended)" in file.read_bytes()] == [], "it leads no real launch"
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@needs_a_pretended_card
def test_a_recipe_is_planned_without_its_data_on_some_that_is_made_and_told(tmp_path: Path) -> None:
    asked = ("ask.model=yolov8n.yaml", "ask.image_size=320", "ask.micro_batch=8", "ladder.order=[micro_batch]")
    done = autofit("plan", "--json", "gpu=t4", "recipe=garbage_yolov8_4x48gb", *asked, cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
    (card,) = answer(done)["cards"]
    assert done.returncode == 0, done.stderr[-3000:]
    assert card["rung_index"] == 0 and card["rung"]["micro_batch"] == 8
    assert "in its place, what this makes: make_boxes.py --task=detect --size=320 --images=32 --densest=300" in done.stderr
    assert not list(tmp_path.iterdir()), "nothing is left"


def test_where_no_card_can_be_pretended_the_reason_is_said(tmp_path: Path) -> None:
    """A folder without a compiler on PATH, and nothing built before."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT.read_text())
    words = ("plan", "gpu=t4", "--", sys.executable, "train.py", "--batch-size", "64")
    done = autofit(*words, cwd=tmp_path, PATH=str(tmp_path / "bin"), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "It needs gcc and binutils" in done.stderr or "built for the CPU alone" in done.stderr
