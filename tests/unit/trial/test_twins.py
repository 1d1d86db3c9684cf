"""What twins wrote down, read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.config.schema import Recipe
from launcher.ladder.build import ladder_of
from launcher.ladder.twins import Step
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.suite import cpu_budget
from launcher.trial.twins import read
from tests.helpers.places import SCRIPTS
from tests.helpers.updates import write


def test_what_a_twin_wrote_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, 7, steps=[{"optimizer": 0, "rows": 4, "backwards": 1, "settings": [{"lr": 0.1}], "kind": "SGD", "weights": "w"}])
    found = read(tmp_path, micro_batch=4, accumulation=1)
    assert found.steps == (Step(optimizer=0, rows=4, backwards=1, settings=({"lr": 0.1},), weights="w"),) and found.ended == "exit"
    assert found.rows == ("a", "b") and found.whole == 64
    write(tmp_path, 8, steps=[{"optimizer": 0, "rows": 4, "backwards": 1, "settings": [], "against": {"apart": 0.5}}])
    assert read(tmp_path, micro_batch=4, accumulation=1).why == "2 processes made steps, each for itself"
    assert read(tmp_path / "none", micro_batch=4, accumulation=1).why == "no optimizer of torch's made a step"
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "log").write_text("Traceback\nModuleNotFoundError: No module named 'soundfile'\n\n", encoding="utf-8")
    assert "No module named 'soundfile'" in read(tmp_path / "early", micro_batch=4, accumulation=1).why


def test_what_several_ranks_wrote_is_one_twin(tmp_path: Path) -> None:
    """The rows of all, step by step; the rank that is farthest from the first twin; and the end of the one that left first."""

    def rank(number: int, apart: float, rows: str, **more: object) -> None:
        against = {"apart": apart, "factor": 1.0, "rest": apart, "length": 1.0, "length_first": 1.0}
        steps = [{"optimizer": 0, "rows": 2 * step, "backwards": step, "settings": [{"lr": 0.1}], "against": against} for step in (1, 2)]
        told = {"rank": number, "size": 2, "rows": {"0": [["0", row] for row in rows]}, **more}
        write(tmp_path, 30 - number, steps=steps, **told)

    rank(0, 1e-8, "abcd", ended="limit")
    rank(1, 1e-3, "efgh", ended="failed", failure="connection closed by peer")
    write(tmp_path, 5, steps=[])  # torchrun's own
    found = read(tmp_path, micro_batch=2, accumulation=1, ranks=2)
    assert found.rows == tuple("abefcdgh") and [step.rows for step in found.steps] == [4, 8] and found.read_each_step == found.samples == 4
    assert [step.against.apart for step in found.steps if step.against is not None] == [1e-3, 1e-3]
    assert found.ended == "limit" and not found.alike and found.indices == ()
    rank(1, 1e-8, "badc")
    assert read(tmp_path, micro_batch=2, accumulation=1, ranks=2).alike
    assert "2 processes of 2 that train together made steps, and 1 were read" in read(tmp_path, micro_batch=2, accumulation=1).why


def test_ranks_on_several_machines_have_no_twins(tmp_path: Path) -> None:
    words = ["torchrun", "--nnodes=2", "--nproc_per_node=1", str(SCRIPTS / "two_processes.py")]
    trainer = {"adapter": "script", "args": {"command": words, "spelled": {"micro_batch": "--batch-size", "accumulation": "--accum"}}}
    recipe = Recipe.model_validate({"name": "test", "ask": {"micro_batch": 8}, "trainer": trainer, "ladder": {"order": ("micro_batch",)}})
    adapter = ScriptAdapter(recipe)
    rungs = ladder_of(adapter).rungs
    with pytest.raises(ValueError, match="its ranks train on 2 machines"):
        adapter.twin(rungs[0], cpu_budget(2**30), folder=tmp_path)
