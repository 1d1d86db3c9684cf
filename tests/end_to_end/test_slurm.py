"""launch=slurm on a real SLURM: one job, followed while it waits and runs, and gone on with at the same rung when it starts again.

Skipped where SLURM isn't installed or can't be started.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from autofit_launcher.history import runs
from tests.helpers import resumable, slurm
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import SCRIPTS
from tests.helpers.slurm import Cluster

WHY_NOT = slurm.missing() or ("" if find_spec("submitit") else "submitit isn't installed")
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT), pytest.mark.timeout(900)]
NIGHT = resumable.recipe("--epochs", "4", "--pause", "0.2")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two pretended nodes with two pretended cards each."""
    with ExitStack() as until_the_end:
        try:
            started = until_the_end.enter_context(slurm.cluster(tmp_path_factory.mktemp("slurm"), nodes=2, cards=2))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            pytest.skip(f"no SLURM can be started here: {error}")
        yield started


class Place:
    """A person's folder, on a cluster."""

    def __init__(self, folder: Path, up: Cluster) -> None:
        self.folder, self.up = folder, up
        (folder / "train.py").write_text((SCRIPTS / "resumable.py").read_text())
        (folder / "recipes").mkdir()
        self.recipe("night", NIGHT)

    def recipe(self, name: str, recipe: dict[str, Any]) -> None:
        (self.folder / "recipes" / f"{name}.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(recipe)}")

    def autofit(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return autofit(*words, cwd=self.folder, timeout=600, **{**self.up.env, "XDG_STATE_HOME": str(self.folder / "state"), **env})

    def submitted(self, *words: str, verb: str = "train") -> dict[str, Any]:
        done = self.autofit(verb, "launch=slurm", "launch.slurm.mem=2G", "--json", *words)
        assert done.returncode == 0, done.stderr
        said = answer(done)
        assert said["status"] == "submitted" and Path(said["run_dir"]).is_dir()
        return said

    def seen(self, said: dict[str, Any]) -> dict[str, Any]:
        return answer(self.autofit("watch", "--json", said["run_dir"]))

    def runs(self) -> list[Path]:
        root = self.folder / "runs" / "autofit"
        return sorted(root.iterdir()) if root.is_dir() else []


@pytest.fixture
def place(tmp_path: Path, up: Cluster) -> Iterator[Place]:
    yield Place(tmp_path, up)
    for job in up.queued():
        up.said("scancel", job)
    until(lambda: not up.queued())


def until(there: Callable[[], object], *, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if there():
                return
        except (OSError, ValueError, StopIteration):
            pass
        time.sleep(0.1)
    raise AssertionError("never seen")


def record(said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(said["run_dir"]) / "record.json").read_text())
    return found


def epochs(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(said["run_dir"]) / "run" / "metrics.jsonl").read_text().splitlines()]


def trials(said: dict[str, Any]) -> int:
    return len(list((Path(said["run_dir"]) / "trials").glob("*/verdict.json")))


def log(said: dict[str, Any]) -> str:
    return Path(said["log"]).read_text()


def test_a_job_that_waits_is_listed_followed_not_begun_elsewhere_and_taken_back(place: Place) -> None:
    said = place.submitted("recipe=night", "launch.slurm.sbatch={begin: now+1hour}")
    until(lambda: place.seen(said)["job_reason"])
    seen = place.seen(said)
    assert (seen["state"], seen["job"], seen["job_state"], seen["job_reason"]) == ("pending", said["job"], "PENDING", "BeginTime")
    assert f"pending (job {said['job']}: BeginTime)" in place.autofit("runs", COLUMNS="200").stdout
    refused = place.autofit("resume", said["run_dir"])
    assert refused.returncode == 1 and f"SLURM's job {said['job']} has it (pending)" in refused.stderr
    pruned = place.autofit("runs", "--prune", "--yes")
    assert pruned.returncode == 0 and Path(said["run_dir"]).is_dir(), "a launch that waits is not over"
    stopped = place.autofit("stop", said["run_dir"])
    assert stopped.returncode == 0 and "took SLURM's job back" in stopped.stdout, stopped.stderr
    assert place.up.queued() == [] and place.seen(said)["state"] == "stopped"
    assert "had not begun with it" in place.autofit("watch", said["run_dir"]).stdout
    again = place.autofit("resume", said["run_dir"], "launch.slurm.partition=nope")
    assert again.returncode == 1 and place.seen(said)["job"] == said["job"], "one that isn't taken changes nothing"
    assert place.autofit("runs", "--prune", "--yes").returncode == 0 and place.runs() == []


@pytest.mark.slow
def test_a_job_that_starts_again_goes_on_at_the_same_rung_without_another_trial(place: Place) -> None:
    said = place.submitted("recipe=night")
    until(lambda: len(epochs(said)) >= 1)
    place.up.said("scontrol", "requeue", said["job"])
    until(lambda: place.seen(said)["state"] == "pending", seconds=60)
    assert record(said)["status"] == "interrupted" and place.up.state(said["job"]) == "PENDING"
    watched = place.autofit("watch", said["run_dir"])
    assert watched.returncode == 0, watched.stdout
    done = record(said)
    assert [one["ended"] for one in done["attempts"]] == ["interrupted", "done"] and trials(said) == 1
    assert {one["rung_index"] for one in done["attempts"]} == {0} and done["attempts"][1]["checkpoint"] is not None
    assert [row["epoch"] for row in epochs(said)] == list(range(4)), "each epoch once"
    assert len(place.runs()) == 1


@pytest.mark.slow
def test_at_the_warning_before_its_time_limit_it_saves_and_is_queued_again_and_gives_up_where_nothing_is_gained(place: Place) -> None:
    """The warning comes when SLURM's clock says so, which takes minutes; here it is sent as SLURM sends it, to the batch script alone."""
    said = place.submitted("recipe=night")
    until(lambda: len(epochs(said)) >= 1)
    place.up.said("scancel", "--batch", "--signal=USR2", said["job"])
    until(lambda: "is queued again" in log(said), seconds=60)
    until(lambda: len(record(said)["attempts"]) == 2)
    assert trials(said) == 1
    assert place.autofit("watch", said["run_dir"]).returncode == 0 and record(said)["status"] == "done"

    stuck = place.submitted("recipe=night", "name=stuck", "trainer.args.set={--out: '{run}', --pause: 60}")
    until(lambda: runs.run_in(Path(stuck["run_dir"])).phase == "train")
    place.up.said("scancel", "--batch", "--signal=USR2", stuck["job"])
    until(lambda: f"job {stuck['job']} is not queued again" in log(stuck), seconds=60)
    until(lambda: place.up.state(stuck["job"]) == "FAILED", seconds=20)
    assert place.up.queued() == []


@pytest.mark.slow
def test_a_run_that_was_stopped_is_handed_in_again_or_gone_on_with_here(place: Place) -> None:
    said = place.submitted("recipe=night")
    until(lambda: len(epochs(said)) >= 1)
    assert place.autofit("stop", said["run_dir"]).returncode == 0 and record(said)["status"] == "interrupted"
    until(lambda: not place.up.queued(), seconds=30)
    again = answer(place.autofit("resume", said["run_dir"], "--json"))
    assert again["status"] == "submitted" and again["job"] != said["job"]
    until(lambda: len(epochs(said)) >= 2)
    assert place.autofit("stop", said["run_dir"]).returncode == 0
    until(lambda: not place.up.queued(), seconds=30)
    done = place.autofit("resume", said["run_dir"], "launch.kind=here", "--json")
    assert done.returncode == 0 and answer(done)["status"] == "done" and trials(said) == 1
