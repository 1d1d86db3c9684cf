"""Tests that every adapter must pass, shipped with autofit: subclass the suite, name your adapter, give a recipe, and run pytest.

    from autofit_launcher.trainers.suite import AdapterSuite

    class TestMyTrainer(AdapterSuite):
        adapter_type = MyAdapter

        @pytest.fixture
        def recipe(self, tmp_path):      # a small one that check() accepts and that trains on a CPU in seconds
            return Recipe(name="mine", ask={"micro_batch": 4}, trainer=TrainerRules(adapter="mine", args={...}))

Needs pytest and the trainer itself: two of the tests are real trials on a CPU budget, one that fits and one that can't.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.commands import under_budget
from autofit_launcher.adapter.protocol import Adapter
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.common.files import plain
from autofit_launcher.common.sizes import GIB, MIB
from autofit_launcher.config.schema import Recipe
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import MICRO_BATCH, Ladder
from autofit_launcher.ladder.verdict import Kind
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job


def cpu_budget(size: int = GIB) -> Budget:
    """A CPU's budget of that many bytes, without headroom."""
    return Budget(
        kind="cpu", index=0, name="test", total_bytes=size * 4, free_bytes=size * 4, budget_bytes=size, cap_bytes=size,
        ceiling_bytes=size * 3 // 2, headroom=0.0, emulated=True, notes=(),
    )  # fmt: skip


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``: path -> content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class AdapterSuite:
    """See the module's docstring."""

    adapter_type: ClassVar[type[Adapter]]
    enough_bytes: ClassVar[int] = 4 * GIB
    """A CPU budget in which the recipe's asked rung fits."""
    hopeless_bytes: ClassVar[int] = 8 * MIB
    """A CPU budget in which it can't."""

    @pytest.fixture
    def adapter(self, recipe: Recipe) -> Adapter:
        return self.adapter_type(recipe)

    @pytest.fixture
    def ladder(self, adapter: Adapter) -> Ladder:
        return ladder_of(adapter)

    def test_it_is_found_and_says_what_each_wheel_is_and_recognises_no_command_that_is_nobodys(self) -> None:
        assert load_adapter(self.adapter_type.name) is self.adapter_type
        assert "micro_batch" in self.adapter_type.wheels and all(spec.help for spec in self.adapter_type.wheels.values())
        assert self.adapter_type.general or self.adapter_type.recognise(["no-such-program", "--whatever"]) is None

    def test_it_accepts_a_good_recipe_writes_nothing_and_no_method_waits_for_another(self, recipe: Recipe, tmp_path: Path) -> None:
        before, checked = snapshot(tmp_path), self.adapter_type(recipe)
        assert checked.check() == [] and snapshot(tmp_path) == before
        assert list(self.adapter_type(recipe).notes()) == list(checked.notes()) and checked.asked.accumulation >= 1

    def test_every_rung_has_a_trial_in_plain_values(self, adapter: Adapter, ladder: Ladder, tmp_path: Path) -> None:
        for rung in ladder.rungs:
            plan = adapter.trial(rung, cpu_budget(), folder=tmp_path / "trial", cache=tmp_path)
            assert importlib.util.find_spec(plan.module) is not None
            assert json.loads(json.dumps(plan.payload)) == plain(plan.payload)
            assert all(isinstance(value, str) for value in plan.env.values())

    def test_every_rung_has_its_own_full_run_that_does_not_need_autofit(self, adapter: Adapter, ladder: Ladder, tmp_path: Path) -> None:
        commands = [adapter.command(rung, cpu_budget(), folder=tmp_path / "run") for rung in ladder.rungs]
        assert len({command.shell() for command in commands}) == len(ladder.rungs)
        for command in commands:
            assert "autofit" not in Path(command.argv[0]).name
            for text in command.files.values():
                assert "import autofit_launcher" not in text and "from autofit_launcher" not in text

    def test_a_full_run_held_to_a_budget_is_the_same_program(self, adapter: Adapter, ladder: Ladder, tmp_path: Path) -> None:
        command = adapter.command(ladder.asked, cpu_budget(), folder=tmp_path / "run")
        told = under_budget(command, cpu_budget(), settings=tmp_path / "budget.json")
        assert told.argv == command.argv and str(cpu_budget().budget_bytes) in (tmp_path / "budget.json").read_text(encoding="utf-8")

    def test_it_tells_alike_each_time_what_a_fit_hangs_on_or_why_it_cant(self, adapter: Adapter, recipe: Recipe, ladder: Ladder) -> None:
        inputs = adapter.inputs(ladder)
        assert inputs == self.adapter_type(recipe).inputs(ladder)
        assert inputs.unknown or inputs.data or inputs.code, "a fit that hangs on nothing would be kept for ever"

    def test_it_never_imports_torch(self) -> None:
        module = self.adapter_type.__module__
        code = f"import sys, {module}; sys.exit(int(any(name in sys.modules for name in ('torch', 'ultralytics', 'transformers'))))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_where_nothing_was_trained_there_are_no_checkpoints(self, adapter: Adapter, tmp_path: Path) -> None:
        assert list(adapter.saved(tmp_path / "launch").files) == [] and "checkpoints" not in adapter.results(folder=tmp_path)
        assert adapter.asked.keeps is None or MICRO_BATCH in adapter.asked.keeps, "a lower micro-batch is what a late failure needs first"
        assert not (tmp_path / "launch").exists()

    def test_a_real_trial_with_enough_memory_fits_and_leaves_nothing_behind(self, adapter: Adapter, ladder: Ladder, tmp_path: Path) -> None:
        before = snapshot(tmp_path)
        tried = self._tried(adapter, ladder, self.enough_bytes, tmp_path)
        assert tried.verdict.kind is Kind.FITS, f"{tried.verdict.why}\n{tried.verdict.evidence}"
        assert tried.report.observed.get("micro_batch") == ladder.asked.micro_batch
        assert not (tried.folder / "scratch").exists()
        assert {name: content for name, content in snapshot(tmp_path).items() if not name.startswith("runs/")} == before

    def test_a_real_trial_without_enough_memory_says_so(self, adapter: Adapter, ladder: Ladder, tmp_path: Path) -> None:
        tried = self._tried(adapter, ladder, self.hopeless_bytes, tmp_path)
        assert tried.verdict.kind is Kind.OUT_OF_MEMORY, f"{tried.verdict.why}\n{tried.verdict.evidence}"

    @staticmethod
    def _tried(adapter: Adapter, ladder: Ladder, size: int, tmp_path: Path) -> trial.Trial:
        job = Job(adapter=adapter, ladder=ladder, budget=cpu_budget(size), folder=RunFolder.create(tmp_path / "runs", "suite"))
        try:
            return trial.run(job, ladder.asked)
        finally:
            job.forks.end()
