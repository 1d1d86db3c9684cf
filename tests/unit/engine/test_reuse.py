"""Fits that are kept: the same launch makes no trial, a changed one says what changed, and one that a run disproved is never used again."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.cli import main
from autofit_launcher.common.sizes import MIB
from autofit_launcher.engine import launch, prepare, reuse
from autofit_launcher.engine.launch import Launch
from autofit_launcher.errors import Interrupted
from autofit_launcher.history import digests, kept_fits
from autofit_launcher.history.records import Status
from autofit_launcher.history.runs import run_in
from autofit_launcher.trial import trial
from autofit_launcher.trial.trial import Trial
from tests.helpers.few import LADDER, Few, Launches


def test_the_same_launch_again_makes_no_trial_and_its_record_says_so(launches: Launches) -> None:
    first = launches.fit()
    assert launches.tried == [8, 4] and first.rung is not None and first.rung.micro_batch == 4
    second = launches.fit()
    assert launches.tried == [] and second.rung == first.rung and second.command is not None
    record = json.loads(second.job.folder.record.read_text())
    assert record["kept"]["used"] and record["kept"]["made_in"] == str(first.job.folder.path) and record["status"] == "done"
    assert [one["verdict"] for one in record["trials"]] == ["out_of_memory", "fits"] and all(one["kept"] for one in record["trials"])
    assert second.chosen is not None and first.chosen is not None
    assert second.chosen.report == first.chosen.report, "its base is what a run needs"


def test_a_run_that_was_launched_on_a_kept_fit_can_be_gone_on_with(launches: Launches) -> None:
    launches.fit()
    launches.fault = "import time; raise SystemExit(3)"
    fit = launches.train()
    assert launches.tried == [] and fit.outcome is not None
    found = prepare.resumable(str(fit.job.folder.path))
    trials, _ = found.trials(LADDER)
    assert [one.rung.micro_batch for one in trials] == [8, 4] and trials[1].report.base_bytes == 7 and trials[1].kept


@pytest.mark.parametrize(("change", "said"), [
    (lambda one: (one.data / "b.jpg").write_bytes(b"new"), "another data"),
    (lambda one: (one.data / "a.jpg").write_bytes(b"eigam"), "another data"),
    (lambda one: one.says.update(epochs=4), "another trainer.args.epochs"),
    (lambda one: os.environ.__setitem__("OMP_NUM_THREADS", "7"), "environment OMP_NUM_THREADS"),
    (lambda one: setattr(one, "budget", replace(one.budget, total_bytes=5)), "another device"),
    (lambda one: setattr(one, "budget", replace(one.budget, headroom=0.2)), "another device.headroom"),
    (lambda one: setattr(one, "budget", replace(one.budget, cap_bytes=499 * MIB)), "the cap is 499 MiB, and the fit of"),
    (lambda one: setattr(one, "budget", replace(one.budget, cap_bytes=950 * MIB)), "the cap is 950 MiB, and the fit of"),
])  # fmt: skip
def test_what_has_changed_is_told_in_one_line_and_the_trials_are_made(
    launches: Launches, monkeypatch: pytest.MonkeyPatch, change: Any, said: str
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    launches.fit()
    looked: list[str] = []
    look_up = reuse.look_up
    monkeypatch.setattr(reuse, "look_up", lambda job: (looked.append((found := look_up(job)).record.why), found)[1])
    change(launches)
    launches.fit()
    assert launches.tried and said in looked[0] and "\n" not in looked[0], looked
    launches.fit()
    assert not launches.tried, "what was proven anew is kept, too"


def test_a_launch_between_its_trials_and_its_run_is_not_called_done(launches: Launches) -> None:
    """`autofit watch` would end with "done 100%" as the run begins."""
    seen: list[tuple[str, str]] = []
    launches.heard.hears = lambda name: seen.append((name, run_in(launches.folder).state))
    launches.train()
    assert seen[2:4] == [("fitted", "trying"), ("launched", "running")]


def test_a_smaller_budget_above_what_fitted_needs_no_trial(launches: Launches) -> None:
    """80 % of what a machine has free is another number each time."""
    launches.fit()
    for cap in (launches.budget.cap_bytes - MIB, 510 * MIB):
        launches.budget = replace(launches.budget, cap_bytes=cap)
        assert launches.fit().rung == LADDER.rungs[1] and not launches.tried


def test_a_fit_that_a_run_disproved_is_never_used_again_nor_kept_again(launches: Launches) -> None:
    launches.fault = "raise MemoryError('DefaultCPUAllocator: can\\'t allocate memory: you tried to allocate 1000 bytes.')"
    launches.fit()
    fit = launches.train()
    assert not launches.tried and fit.outcome is not None and not fit.outcome.done
    launches.fault = ""
    launches.says = {"fresh": True}
    fit = launches.fit()
    assert launches.tried == [8, 4] and fit.reuse.fit is None, "asked for anew: tried, never kept"
    kept_fits.forget("")
    (known,) = kept_fits.everything()
    assert not known.fit and [one.rung_index for one in known.failures] == [1], "what a run has shown is not forgotten with the fits"


def test_a_rung_at_which_a_run_has_died_is_not_launched_again_with_no_more_room(launches: Launches) -> None:
    launches.fault = "raise MemoryError('DefaultCPUAllocator: can\\'t allocate memory: you tried to allocate 1000 bytes.')"
    launches.train()
    launches.fault = ""
    fit = launches.fit()
    assert launches.tried == [2] and fit.chosen is not None and fit.chosen.rung.micro_batch == 2, "its trial would fit again"
    assert "failed at rung 1" in launches.why(fit)
    roomy = launches.budget
    launches.budget = replace(roomy, budget_bytes=800 * MIB, cap_bytes=720 * MIB)
    fit = launches.fit()
    assert launches.tried == [8, 4] and fit.chosen is not None and fit.chosen.rung.micro_batch == 4


def test_a_run_that_was_killed_by_nobody_known_is_proven_anew_and_that_is_said(launches: Launches) -> None:
    launches.fault = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    launches.fit()
    launches.train()
    assert any("was killed" in line and "its kept fit is not used again before new trials" in line for line in launches.heard.lines)
    launches.fault = ""
    launches.fit()
    assert launches.tried == [8, 4]
    launches.fit()
    assert not launches.tried


def test_a_launch_that_is_killed_with_autofit_itself_takes_its_fit_along(launches: Launches) -> None:
    """As a scheduler's kill for want of memory takes all of a job: nobody is left to say what of."""
    launches.fit()
    assert launches.looks().record.used, "it relies on the fit, and is heard of no more"
    why = launches.looks().record.why
    assert "relies on it just now, or was killed together with autofit" in why and "few-" in why
    launches.fit()
    assert launches.tried == [8, 4]
    launches.fit()
    assert not launches.tried, "it was proven anew"


def test_a_fit_whose_run_was_another_training_is_not_kept(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_hold_to_what_was_due", lambda launch: setattr(launch, "status", Status.OTHER_TRAINING))
    launches.train()
    assert not kept_fits.everything() or not launches.looks().record.used


def interrupted_and_gone_on_with(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> Launch:
    def stops(name: str) -> None:
        if name == "trial_ended":
            raise Interrupted("SIGTERM")

    launches.heard.hears = stops
    with pytest.raises(Interrupted) as stopped:
        launches.fit()
    launches.heard.hears, launches.says = lambda name: None, {}
    monkeypatch.setattr(launch, "load_adapter", lambda name: Few)
    monkeypatch.setattr(launch.build, "ladder_of", lambda adapter: LADDER)
    monkeypatch.setattr(launch, "budget_in_turn", lambda recipe, waited: launches.budget)
    with (launches.place / "out").open("wb") as out:
        return launch.go_on(prepare.resumable(stopped.value.run_dir), show=(out, out))


def test_a_launch_that_is_gone_on_with_in_its_trials_notes_its_end_and_is_not_called_killed(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches.fit()
    launches.says = {"fresh": True}
    interrupted_and_gone_on_with(launches, monkeypatch)
    assert launches.looks().record.used


def test_a_rung_at_which_a_run_has_died_is_passed_over_where_the_next_launch_is_gone_on_with_too(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches.fault = "raise MemoryError('DefaultCPUAllocator: can\\'t allocate memory: you tried to allocate 1000 bytes.')"
    launches.train()
    assert interrupted_and_gone_on_with(launches, monkeypatch).rung == LADDER.rungs[2]


def test_an_adapter_that_does_not_say_what_it_hangs_on_keeps_nothing(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Few, "inputs")
    for _ in range(2):
        fit = launches.fit()
        assert launches.tried == [8, 4] and "the adapter few doesn't say" in launches.why(fit)


def test_data_that_changes_while_trials_are_made_is_not_kept(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*args: Any, **more: Any) -> Trial:
        (launches.data / "a.jpg").write_bytes(b"other")
        return launches.trial(*args, **more)

    monkeypatch.setattr(trial, "run", meanwhile)
    fit = launches.fit()
    assert "while the trials were made, another data" in launches.why(fit)
    assert not kept_fits.everything()


def test_a_fit_is_not_relied_on_where_that_can_not_be_written_down(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    launches.fit()

    def full(path: Path, text: str) -> None:
        if path.is_relative_to(kept_fits.folder()):
            raise OSError("the disk is full")
        path.write_text(text)

    monkeypatch.setattr(kept_fits.files, "replace", full)
    fit = launches.fit()
    assert launches.tried and "disk is full" in launches.why(fit), "what its run would show against it could not be written down either"


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole.replace('"rung_index": 0', '"rung_index": 9')]
)
def test_an_edited_or_torn_file_costs_a_launch_its_trials(launches: Launches, damage: Any) -> None:
    launches.fit()
    (path,) = kept_fits.folder().glob("*.json")
    path.write_text(damage(path.read_text()))
    fit = launches.fit()
    assert launches.tried and fit.chosen is not None
    launches.fit()
    assert not launches.tried


@pytest.mark.parametrize(("name", "text"), [("uv", "\x7fELF"), ("poetry", "#!/a/bin/python\n"), ("env", "\x7fELF"), ("run", "#!/bin/sh\n")])
def test_what_starts_a_command_in_an_environment_that_is_not_its_own_tells_nothing_of_packages(
    tmp_path: Path, name: str, text: str
) -> None:
    for path in (tmp_path / name, tmp_path / "torchrun"):
        path.write_text(f"#!{sys.executable}\n" if path.name == "torchrun" else text)
        path.chmod(0o755)
    assert Path(sysconfig.get_path("purelib")) in reuse._imports_from(str(tmp_path / "torchrun"))
    with pytest.raises(digests.UnknownIdentity, match=f"with which packages {name} starts its command"):
        reuse._imports_from(str(tmp_path / name))


def test_a_newer_package_and_code_of_an_editable_one_are_noticed(tmp_path: Path) -> None:
    (source := tmp_path / "mine").mkdir()
    (source / "model.py").write_text("width = 8")
    (metadata := tmp_path / "site-packages" / "mine-1.dist-info").mkdir(parents=True)
    (metadata / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))
    before = digests.packages([metadata.parent])
    (source / "model.py").write_text("width = 16")
    assert digests.packages([metadata.parent]).keys() == before.keys() and digests.packages([metadata.parent]) != before
    metadata.rename(metadata.with_name("mine-2.dist-info"))
    assert set(digests.packages([metadata.parent])) == {"package mine-2"}


def test_secrets_of_the_environment_are_not_kept() -> None:
    said = digests.environment({"HF_TOKEN": "hf_abc", "DB": "postgres://me:hunter2@x", "TERM": "xterm"})
    assert said == {"HF_TOKEN": "set", "DB": said["DB"]} and "hunter2" not in said["DB"]


def test_fits_are_listed_and_forgotten(launches: Launches, capsys: pytest.CaptureFixture[str]) -> None:
    launches.fit()
    assert main.run(["fits", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(one["rung"], one["trials"]) for one in said["fits"]] == [({"micro_batch": 4}, 2)]
    assert main.run(["fits"]) == 0
    assert "few (few)" in capsys.readouterr().out
    number = said["fits"][0]["id"]
    assert main.run(["fits", "--forget", "x"]) == 1 and "there is no fit" in capsys.readouterr().err
    assert main.run(["fits", "--forget"]) == 1 and main.run(["fits", "--forget", number]) == 0
    launches.fit()
    assert launches.tried
    assert main.run(["fits", "--forget", "all"]) == 0 and main.run(["fits"]) == 0
    assert "no fit is kept" in capsys.readouterr().out
