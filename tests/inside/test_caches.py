"""Compilers' caches in trials, with what really compiles."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autofit_launcher.inside import caches
from autofit_launcher.inside.overlay import Overlay
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget, snapshot
from autofit_launcher.trial import trial
from tests.helpers import script
from tests.helpers.places import SCRIPTS


@pytest.mark.slow
def test_inductor_compiles_into_the_launchs_cache_whatever_cache_the_person_or_the_script_has_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, work = tmp_path / "theirs", tmp_path / "work"
    theirs.mkdir()
    work.mkdir()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(theirs))
    monkeypatch.chdir(work)
    command = (sys.executable, str(SCRIPTS / "ways.py"), "compiles", "--chosen", str(tmp_path / "own"))
    adapter = ScriptAdapter(script.recipe(*command, ask={"micro_batch": 64}, spelled={"micro_batch": "--batch-size"}, floor=2))
    job = script.job(adapter, work / "runs", cpu_budget(2 * 2**30))
    verdict = trial.run(job, job.ladder.asked).verdict
    assert verdict.fits, f"{verdict.why}\n{verdict.evidence}"
    assert [*work.glob("runs/*/trials/cache/**/*.so")] and snapshot(theirs) == {} and not (tmp_path / "own").exists()


def test_what_a_person_has_compiled_is_there_for_each_process_and_none_of_it_changes(tmp_path: Path) -> None:
    home, launch = tmp_path / "home", tmp_path / "launch"
    built = home / "torch_extensions" / "py312_cu132" / "twice" / "build.ninja"
    kernel = tmp_path / "kernels" / "ab" / "kernel.so"
    for path in (built, kernel):
        path.parent.mkdir(parents=True)
        path.write_text("theirs")
    (built.parent / "lock").touch()
    env = {"XDG_CACHE_HOME": str(home), "TRITON_CACHE_DIR": str(tmp_path / "kernels")}
    told = [caches.separate(env, tmp_path / name / "caches", launch=launch) for name in ("first", "second")]
    (launch / "extensions" / "twice" / "build.ninja").write_text("ours")
    assert {one["TRITON_CACHE_DIR"] for one in told} == {str(launch / "triton")}
    assert (launch / "triton" / "ab" / "kernel.so").read_text() == built.read_text() == "theirs"
    assert not (launch / "extensions" / "twice" / "lock").exists()


def test_a_launchs_cache_is_written_to_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os._Environ, "__setitem__", os._Environ.__setitem__)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "launch"))
    overlay = Overlay(tmp_path / "overlay")
    os.environ["TRITON_CACHE_DIR"] = str(tmp_path / "another")
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "launch")
    assert overlay.twin(tmp_path / "launch" / "kernel.so") is None
    assert overlay.twin(tmp_path / "another" / "kernel.so") is not None
