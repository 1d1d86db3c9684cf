"""A batch that no word of a command says: the first trial shows where it arrives, and is not made again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS


@pytest.mark.slow
def test_what_the_first_trial_shows_makes_the_ladder_and_stays_a_trial_of_it(tmp_path: Path) -> None:
    script = str(SCRIPTS / "batch_in_source.py")
    said = answer(autofit("run", "--fit-only", "--json", "device=cpu", "device.memory=1GiB", "--", sys.executable, script, cwd=tmp_path))
    assert said["status"] == "done" and len(said["trials"]) == 1 and "misread" not in said
    assert (said["rung"]["micro_batch"], said["accumulation"], said["effective_batch"]) == (64, 1, 64)
    recipe = yaml.safe_load((Path(said["run_dir"]) / "recipe.yaml").read_text())
    assert recipe["trainer"]["args"]["spelled"] == {"micro_batch": "loader:batch_in_source.py:18", "accumulation": "outside"}
    assert recipe["ladder"]["order"] == ["micro_batch"]
