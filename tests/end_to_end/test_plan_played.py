"""`autofit plan gpu=... -- python train.py` on a machine without a card: its search is played on PyTorch's real CUDA allocator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.cli import played
from launcher.cli.plan_view import _searched
from launcher.errors import ExitCode
from launcher.machine import process
from launcher.shared.sizes import GIB, MIB
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card

SCRIPT = ROOT / "tests" / "data" / "pretended" / "train.py"


@pytest.mark.slow
@needs_a_pretended_card
def test_a_script_is_planned_for_cards_that_are_not_here(tmp_path: Path) -> None:
    """Weights, gradients and AdamW's states of 407 million fp32 parameters are 6.1 GiB; 16384 rows keep 7 activations of 512 MiB."""
    state = tmp_path / "state"
    words = (
        "plan",
        "--json",
        "gpu=rtx_2080_ti,rtx_3090",
        "device.headroom=0.05",
        "--",
        sys.executable,
        str(SCRIPT),
        "--batch-size",
        "16384",
    )
    done = autofit(*words, cwd=tmp_path, XDG_STATE_HOME=str(state))
    said = answer(done)
    assert done.returncode == 0, done.stderr[-3000:]
    small, large = said["cards"]
    assert (small["status"], large["status"]) == ("done", "done")
    assert large["rung_index"] == 0 < small["rung_index"], "16384 rows fit 24 GB, and not 11"
    assert small["rung"]["micro_batch"] < 16384 and set(small["given_up"]) == {"micro_batch"}
    assert [one["verdict"] for one in small["trials"]] == ["out_of_memory", "fits"]
    fits = next(one for one in large["trials"] if one["rung_index"] == 0)
    assert fits["peak_bytes"] > 6.1 * GIB + 7 * 512 * MIB
    record = json.loads((Path(large["run_dir"]) / "record.json").read_text())
    assert "played" in said["evidence"] and "(pretended)" in record["device"]["name"]
    assert [file for file in state.rglob("*") if file.is_file() and b"(pretended)" in file.read_bytes()] == [], "it leads no real launch"


@pytest.mark.slow
@needs_a_pretended_card
def test_a_fit_is_played_though_cards_are_here_and_what_they_are_chosen_by_does_not_count(tmp_path: Path) -> None:
    """A recipe as any: its search is played. The person's own cards, which another training may hold, aren't asked."""
    words = ("fit", "--json", "device=pretended", "gpu=t4", "recipe=yolo_demo", "trainer.args.epochs=1")
    done = autofit(*words, cwd=tmp_path, CUDA_VISIBLE_DEVICES="3", XDG_STATE_HOME=str(tmp_path / "state"))
    said = answer(done)
    assert done.returncode == 0, done.stderr[-3000:]
    (card,) = said["cards"]
    assert card["status"] == "done" and card["rung"] is not None
    assert "(played, not proven)" in done.stderr and "played" in said["evidence"]


def test_a_fit_that_is_to_be_played_names_its_card(tmp_path: Path) -> None:
    done = autofit("fit", "device=pretended", "recipe=yolo_demo", cwd=tmp_path)
    assert done.returncode == 1 and "gpu: no card is named" in done.stderr


CARD: dict[str, Any] = {
    "gpu": "t4", "title": "Tesla T4", "usable_bytes": 15 * GIB, "cap_bytes": 13 * GIB, "rung_index": 2, "rung": {"micro_batch": 8},
    "given_up": {}, "trials": [{"rung_index": 0, "peak_bytes": 13 * GIB}, {"rung_index": 2, "peak_bytes": 9 * GIB}], "run_dir": "runs/x",
}  # fmt: skip


def test_a_line_says_the_rung_and_what_it_was_seen_to_need() -> None:
    words = _searched(CARD).plain
    assert "rung 2 (played, not proven): micro_batch 8; 9.0 GiB of 13.0 GiB" in words and "given up" not in words
    less = {"micro_batch": {"asked": 16, "used": 8}, "image_size": {"asked": 640, "used": 512}}
    assert "given up: image_size 512 instead of 640" in _searched({**CARD, "given_up": less}).plain


def test_a_card_without_a_rung_is_told_as_such() -> None:
    assert "no rung was found" in _searched({**CARD, "rung": None, "cap_bytes": None}).plain


def test_the_python_of_the_command_is_the_one_that_is_played(tmp_path: Path) -> None:
    assert process.interpreter_of(sys.executable) == sys.executable
    assert process.interpreter_of("no-such-program") == sys.executable


def test_a_search_that_a_signal_has_ended_has_an_exit_status_all_the_same() -> None:
    assert played._exit_code(-9) is ExitCode.TRIAL_CRASHED and played._exit_code(3) is ExitCode.NO_RUNG_FITS


def test_where_no_card_can_be_pretended_the_reason_is_said(tmp_path: Path) -> None:
    """A folder without a compiler on PATH, and nothing built before."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT.read_text())
    words = ("plan", "gpu=t4", "--", sys.executable, "train.py", "--batch-size", "64")
    done = autofit(*words, cwd=tmp_path, PATH=str(tmp_path / "bin"), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "gcc is not installed" in done.stderr or "built for the CPU alone" in done.stderr
