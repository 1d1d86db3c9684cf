"""What every adapter owes, as a suite: subclass it, give ``adapter`` and ``recipe``, and pytest runs it all.

class TestMyTrainer(AdapterContract):
    @pytest.fixture
    def adapter(self): return MyAdapter()
    @pytest.fixture
    def recipe(self, tmp_path): return Recipe(...)   # a small one that its check() accepts
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.contract.files import plain
from launcher.contract.report import TrialReport
from launcher.devices import Budget
from launcher.ladder import Ladder
from launcher.schema import Recipe
from launcher.trainers.base import Adapter
from launcher.wheels import ladder_of


def cpu_budget(size: int = 2**30) -> Budget:
    return Budget(
        kind="cpu", index=0, name="test", total_bytes=size * 4, free_bytes=size * 4, budget_bytes=size, cap_bytes=size,
        headroom=0.0, neighbours=(), emulated=True, notes=(),
    )  # fmt: skip


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class AdapterContract:
    """See the module's docstring."""

    @pytest.fixture
    def ladder(self, adapter: Adapter, recipe: Recipe) -> Ladder:
        return ladder_of(recipe, adapter)

    def test_it_is_found_by_its_entry_point(self, adapter: Adapter) -> None:
        from launcher.trainers.base import load_adapter

        assert type(load_adapter(adapter.name)) is type(adapter)

    def test_it_knows_the_micro_batch_and_says_what_each_wheel_is(self, adapter: Adapter) -> None:
        assert "micro_batch" in adapter.wheels
        assert all(spec.help for spec in adapter.wheels.values())

    def test_it_accepts_a_good_recipe_and_writes_nothing(self, adapter: Adapter, recipe: Recipe, tmp_path: Path) -> None:
        before = snapshot(tmp_path)
        assert adapter.check(recipe) == []
        assert snapshot(tmp_path) == before

    def test_its_accumulation_is_a_whole_number(self, adapter: Adapter, recipe: Recipe) -> None:
        assert adapter.accumulation(recipe) >= 1

    def test_every_rung_has_a_trial_in_plain_values(self, adapter: Adapter, recipe: Recipe, ladder: Ladder, tmp_path: Path) -> None:
        for rung in ladder.rungs:
            plan = adapter.trial(recipe, rung, cpu_budget(), folder=tmp_path / "trial", cache=tmp_path)
            assert importlib.util.find_spec(plan.module) is not None
            assert json.loads(json.dumps(plan.payload)) == plain(plan.payload)
            assert all(isinstance(value, str) for value in plan.env.values())

    def test_every_rung_has_its_own_full_run_that_does_not_need_autofit(
        self, adapter: Adapter, recipe: Recipe, ladder: Ladder, tmp_path: Path
    ) -> None:
        commands = [adapter.full_run(recipe, rung, cpu_budget(), folder=tmp_path / "run") for rung in ladder.rungs]
        assert len({command.shell() for command in commands}) == len(ladder.rungs)
        for command in commands:
            assert "launcher" not in Path(command.argv[0]).name
            for text in command.files.values():
                assert "import launcher" not in text and "from launcher" not in text

    def test_it_never_imports_torch(self, adapter: Adapter) -> None:
        module = type(adapter).__module__
        code = f"import sys, {module}; sys.exit(int(any(name in sys.modules for name in ('torch', 'ultralytics', 'transformers'))))"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_a_folder_where_nothing_was_trained_has_results_without_metrics(self, adapter: Adapter, recipe: Recipe, tmp_path: Path) -> None:
        assert "metrics" not in adapter.results(recipe, folder=tmp_path)

    def test_it_estimates_only_from_a_trial_that_measured(self, adapter: Adapter, recipe: Recipe, ladder: Ladder) -> None:
        assert adapter.estimate_seconds(recipe, ladder.asked, TrialReport()) is None
        report = TrialReport(step_seconds=0.5, train_samples=100, validation_batches_total=2, validation_batch_seconds=1.0)
        estimate = adapter.estimate_seconds(recipe, ladder.asked, report)
        assert estimate is None or estimate > 0
