"""Scripts of two ranks, really run as twins over gloo: is an update of several micro-batches the asked one?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.ladder.same_training import PROVEN
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial import proof
from autofit_launcher.trial.proof import Proof
from tests.helpers import script
from tests.helpers.places import SCRIPTS

pytestmark = pytest.mark.slow
SHARES = SCRIPTS / "shares.py"
LAUNCHED = (sys.executable, "-P", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--local_addr=localhost")


def proven(place: Path, kind: str, *words: str, accumulation: str = "--accum") -> Proof:
    """What becomes of rung 2, 4 x 4 on each of two ranks instead of 16 x 1."""
    how: dict[str, Any] = {"spelled": {**script.FLAGS, "accumulation": accumulation}, "lengths": {"--epochs": 3}}
    ask, more = {"micro_batch": 16, "accumulation": 1}, {"trial": {"proof_timeout_s": 1200.0}}
    adapter = ScriptAdapter(script.recipe(*LAUNCHED, str(SHARES), "--kind", kind, *words, ask=ask, more=more, **how))
    assert adapter.check() == []
    job = script.job(adapter, place / "runs", cpu_budget(2**30))
    rung = job.ladder.rungs[2]
    assert (rung.micro_batch, rung.accumulation, rung.world_size) == (4, 4, 2)
    return proof.prove(job, rung)


def test_two_ranks_that_share_their_rows_are_proven(tmp_path: Path) -> None:
    found = proven(tmp_path, "shared")
    assert found.same.lines == dict.fromkeys(("gradient", "steps", "schedule", "samples"), PROVEN) and not found.refused, found
    assert found.same.apart is not None and found.same.apart < 1e-5
    assert found.same.layouts == ("4 x 1 x 2 ranks", "1 x 4 x 2 ranks")
    assert not list((tmp_path / "runs").glob("**/*.pt")), "gradients are large, and of no use afterwards"


@pytest.mark.parametrize("kind", ["no_sampler", "whole_batch"])
def test_ranks_that_do_not_share_a_batch_make_the_commands_update_all_the_same(kind: str, tmp_path: Path) -> None:
    found = proven(tmp_path, kind)
    assert found.same.proven and not found.refused, found


def test_ranks_that_do_not_exchange_their_gradients_where_they_accumulate_are_refused(tmp_path: Path) -> None:
    found = proven(tmp_path, "apart_when_accumulating")
    assert found.refused and found.same.verdict == "different" and found.same.gradient.startswith("differs by"), found


@pytest.mark.parametrize(
    ("kind", "cure"), [("adds_up", {"update": "average"}), ("sum", {}), ("no_sync", {}), ("own_order", {}), ("augments", {}), ("fsdp", {})]
)
def test_what_is_the_same_on_two_ranks_or_only_a_factor_away(kind: str, cure: dict[str, str], tmp_path: Path) -> None:
    found = proven(tmp_path, kind)
    assert found.same.proven and found.same.cure == cure and not found.refused, found


def test_steps_of_two_ranks_that_are_held_back_from_outside_are_proven(tmp_path: Path) -> None:
    found = proven(tmp_path, "shared", accumulation="outside")
    assert found.same.proven and found.same.cure == {}, found
