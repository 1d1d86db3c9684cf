"""The pure parts of `make survival`: cases from seeds, outcomes from answers, the table from rows. No training is run."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.common import rows as written
from benchmarks.survival import __main__ as survival
from benchmarks.survival import beside, cases, play, table
from launcher.cli import suggestions
from launcher.config import compose
from launcher.shared.report import PhaseUse, TrialReport
from tests.helpers.places import ROOT

MIB = 2**20


def row(seed: int, status: str = "done", **more: Any) -> dict[str, Any]:
    """A row as ``play`` makes it."""
    usual = {
        "seed": seed, "generator": cases.GENERATOR, "trainer": "yolo", "task": "detect", "headroom": 0.1, "factor": 1.02, "status": status,
        "budget_bytes": 400 * MIB, "trial_peak_bytes": 300 * MIB, "run_peak_bytes": 303 * MIB, "peak_source": "record", "lost": 0,
        "commit": "abc1234", "versions": {"torch": "2.15.0"}, "machine": {"cores": 2, "memory_gib": 24.0}, "seconds": 60.0,
    }  # fmt: skip
    return {**usual, **more}


def ended(returncode: int | None = 0, **answer: Any) -> play.Ended:
    return play.Ended(returncode=returncode, answer=answer, out="", err="Traceback: of autofit", seconds=1.0)


# -- cases ----------------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_case_in_another_process() -> None:
    code = "from benchmarks.survival import cases; print([cases.make(seed) for seed in range(20)])"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == repr([cases.make(seed) for seed in range(20)])


def test_ten_seeds_in_a_row_hold_every_trainer_and_every_yolo_task() -> None:
    for first in (0, 7, 40):
        ten = [cases.make(seed) for seed in range(first, first + 10)]
        assert {case.trainer for case in ten} == {"yolo", "speech", "text", "script"}
        assert {case.task for case in ten} >= {"detect", "segment", "pose", "obb"}
        assert any(case.trainer == "yolo" and case.command for case in ten)


def test_every_script_has_its_turn() -> None:
    turns = Counter(case.task for case in map(cases.make, range(130)) if case.trainer == "script")
    assert set(turns) == set(cases.SCRIPTS)
    assert max(turns.values()) - min(turns.values()) <= 1


def test_seeds_differ_in_what_is_asked_and_in_their_data() -> None:
    made = [case for case in map(cases.make, range(100)) if case.trainer == "yolo"]
    assert len({json.dumps(case.data, sort_keys=True) for case in made}) == len(made)
    assert len({case.factor for case in made}) >= 5 and {case.headroom for case in made} == {0.25}, "the default"


def test_short_trainings_have_seeds_of_their_own_and_make_one_to_eight_steps() -> None:
    made = [cases.make(seed) for seed in range(cases.SHORT, cases.SHORT + 40)]
    assert {case.task for case in made} == {"short ragged", "complete", "short hf_ragged", "detect"}
    steps = {case.recipe["trainer"]["args"]["set"]["--max_steps"] for case in made if case.recipe and case.task == "complete"}
    assert steps <= {1, 2, 3, 4, 6, 8} and len(steps) >= 3
    assert next(survival.seeds_left([row(cases.SHORT)], cases.SHORT)) == cases.SHORT + 1


def test_every_case_has_batches_enough_and_short_ladders() -> None:
    for case in map(cases.make, range(200)):
        if case.trainer == "yolo":
            batch = case.recipe["ask"]["micro_batch"] if case.recipe else int(_said(case, "batch"))
            own = batch * (1 if case.task == "obb" else 2)
            assert case.data["train"] >= 6 * batch and case.data["val"] > 3 * own, case
        assert (case.recipe is None) != (not case.command)


def _said(case: cases.Case, key: str) -> str:
    return next(word.removeprefix(f"{key}=") for word in case.command if word.startswith(f"{key}="))


def accepted(case: cases.Case, folder: Path) -> bool:
    """Whether autofit makes a ladder of the case. Its data isn't there, and isn't looked at."""
    from launcher.cli import main as cli

    places = {"data": "d", "python": sys.executable, "here": str(play.HERE), "root": str(ROOT)}
    (folder / "recipes").mkdir(parents=True)
    for name, what in case.files.items():
        (folder / name).write_text(yaml.safe_dump(play.filled(what, places)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if case.recipe is None:
            assert cli.run(["init", "--", *play.filled(case.command, places)]) == 0
        else:
            text = yaml.safe_dump(play.filled(case.recipe, places), sort_keys=False)
            (folder / "recipes" / "case.yaml").write_text(f"# @package _global_\n{text}")
        name = next((folder / "recipes").glob("*.yaml")).stem
        return cli.run(["ladder", f"recipe={name}", "device=cpu", *case.overrides]) == 0


@pytest.mark.parametrize("seed", range(10))
def test_autofit_accepts_what_is_asked(seed: int, tmp_path: Path) -> None:
    """Words of ours that autofit doesn't know would make cases that prove nothing."""
    assert accepted(cases.make(seed), tmp_path / "case"), cases.make(seed)


@pytest.mark.parametrize("name", cases.SCRIPTS)
def test_autofit_understands_every_script(name: str, tmp_path: Path) -> None:
    case = next(case for case in map(cases.make, range(130)) if case.task == name)
    assert accepted(case, tmp_path / "case"), case


# -- budgets --------------------------------------------------------------------------------------------------------------


def test_the_budget_lies_at_the_factor_of_the_need_it_is_aimed_at() -> None:
    case = cases.Case(seed=0, trainer="yolo", task="detect", data={}, headroom=0.25, factor=0.97, aim=0.6)
    assert play.budget_for(case, 450 * MIB, last=False) == 582 * MIB
    assert play.budget_for(case, 50 * MIB, last=False) == int(50 * MIB * 0.97) + 64 * MIB, "the least headroom"


def test_the_last_rung_gets_what_it_needs_else_nothing_would_be_launched() -> None:
    case = cases.Case(seed=0, trainer="yolo", task="detect", data={}, headroom=0.25, factor=0.97, aim=0.0)
    assert play.budget_for(case, 900 * MIB, last=True) == 1200 * MIB


@pytest.mark.parametrize(
    ("tried", "status"),
    [
        (ended(None), "timeout"),
        (ended(1, status="bad_input", faults=[{"key": "data"}]), "refused"),
        (ended(4, verdict="crashed", why="KeyError"), "trial_failed"),
    ],
)
def test_a_need_that_was_not_measured_says_why_and_launches_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tried: play.Ended, status: str
) -> None:
    monkeypatch.setattr(play, "_command", lambda argv, *_: ended(0, rungs=[{}, {}]) if "ladder" in argv else tried)
    row, budget = play._measured(cases.make(0), "survival", tmp_path, play.Table(folder=tmp_path))
    assert (row["status"], budget) == (status, None)


def test_a_run_that_finds_no_room_dies_of_it(tmp_path: Path) -> None:
    """It isn't started again: that would hide a fit that was wrong."""
    words = play._device(cases.make(1), 2**30)
    (draft,) = compose.drafts(["recipe=yolo_demo", *words], program="test", advice=suggestions)
    assert draft.recipe.recover.restarts == 0


# -- outcomes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exit_status", "run", "said", "peak", "status"),
    [
        (0, {"returncode": 0}, [], 10, "done"),
        (0, {"returncode": 0}, ["Unable to allocate 18.6 MiB"], 10, "done"),
        (5, {"returncode": 1}, ["Unable to allocate 18.6 MiB"], 10, "died"),
        (5, {"returncode": -11}, [], 10, "died"),
        (5, {"returncode": 1}, [], 99, "died"),
        (5, {"returncode": 1}, [], 10, "failed"),
        (None, {"returncode": 0}, [], 10, "timeout"),
    ],
)
def test_a_death_is_told_by_its_words_its_signal_or_its_cap(
    exit_status: int | None, run: dict[str, Any], said: list[str], peak: int, status: str
) -> None:
    assert play.outcome(ended(exit_status, status="failed"), run, peak=peak, budget=100, said=said) == status


@pytest.mark.parametrize(("exit_status", "status"), [(1, "refused"), (3, "no_rung_fits"), (4, "trial_failed"), (130, "no_answer")])
def test_what_was_not_launched_says_why(exit_status: int, status: str) -> None:
    assert play.outcome(ended(exit_status, status="x"), {}, peak=None, budget=100, said=[]) == status


def test_an_autofit_without_an_answer_is_never_taken_for_a_launch() -> None:
    assert play.outcome(ended(1), {}, peak=None, budget=100, said=[]) == "no_answer"


def run_folder(place: Path, *, stderr: str) -> Path:
    """A run folder with one trial at rung 2."""
    folder = place / "runs" / "survival-1"
    (folder / "trials" / "002").mkdir(parents=True)
    (folder / "trials" / "002" / "report.json").write_text(json.dumps({"base_bytes": 1000 * MIB}))
    (folder / "trials" / "002" / "stderr.log").write_text(
        "WARNING ConfusionMatrix plot failure: Unable to allocate 18.6 MiB for an array\n"
    )
    (folder / "run.stdout.log").write_text("epoch 1\r  50%\r 100%\n")
    (folder / "run.stderr.log").write_text(stderr)
    return folder


def answer(folder: Path, **run: Any) -> dict[str, Any]:
    trials = [{"rung_index": 0, "verdict": "out_of_memory"}, {"rung_index": 2, "verdict": "fits", "peak_bytes": 300 * MIB}]
    return {"status": "x", "run_dir": str(folder), "rung_index": 2, "trials": trials, "run": {"memory_failure": None, **run}}


def test_a_finished_run_counts_what_it_lost_by_its_words(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, stderr="WARNING ConfusionMatrix plot failure: Unable to allocate 18.6 MiB\nMemoryError\nall is well\n")
    found = play.judged(ended(0, **answer(folder, returncode=0)), tmp_path, budget=400 * MIB)
    assert (found["status"], found["lost"], found["lost_in_trial"]) == ("done", 2, 1)


def test_a_record_that_knows_more_losses_than_the_logs_say_is_believed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, stderr="")
    found = play.judged(ended(0, **answer(folder, returncode=0, lost_to_memory=["a", "b", "c"])), tmp_path, budget=400 * MIB)
    assert found["lost"] == 3


def test_the_records_own_peak_wins_over_the_one_seen_from_outside(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, stderr="")
    seen = play.Ended(returncode=0, answer=answer(folder, returncode=0), out="", err="", seconds=1.0, by_rank={"": 1310 * MIB})
    told = play.Ended(
        returncode=0, answer=answer(folder, returncode=0, peak_bytes=7), out="", err="", seconds=1.0, by_rank={"": 1310 * MIB}
    )
    judged = [play.judged(one, tmp_path, budget=400 * MIB) for one in (seen, told)]
    assert [(one["run_peak_bytes"], one["peak_source"]) for one in judged] == [(310 * MIB, "outside"), (7, "record")]


def test_a_death_keeps_the_words_and_the_end_of_what_was_said(tmp_path: Path) -> None:
    folder = run_folder(
        tmp_path, stderr="RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes\nbye\n"
    )
    found = play.judged(ended(5, **answer(folder, returncode=1)), tmp_path, budget=400 * MIB)
    assert found["status"] == "died" and "DefaultCPUAllocator" in found["words"][-1] and found["tail"].endswith("bye")


# -- resuming -------------------------------------------------------------------------------------------------------------


def test_a_seed_in_the_data_file_is_never_played_again(tmp_path: Path) -> None:
    data = tmp_path / "survival.jsonl"
    for seed in (0, 1, 3):
        written.append(data, row(seed))
    left = survival.seeds_left(written.read(data))
    assert [next(left) for _ in range(3)] == [2, 4, 5]


def test_rows_of_an_older_generator_stand_for_other_cases() -> None:
    assert next(survival.seeds_left([row(0, generator=cases.GENERATOR - 1)])) == 0


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    data = tmp_path / "survival.jsonl"
    written.append(data, row(0))
    with data.open("a") as file:
        file.write('{"seed": 1, "gene')
    written.append(data, row(2))
    assert [one["seed"] for one in written.read(data)] == [0, 2]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Plays nothing: every case is done at once. The seeds that were asked for."""
    seeds: list[int] = []

    def done(case: cases.Case, place: play.Table, **_: Any) -> dict[str, Any]:
        seeds.append(case.seed)
        return row(case.seed, "no_rung_fits" if case.seed == 4 else "done")

    monkeypatch.setattr(play, "play", done)
    return seeds


def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    places = ("--data", tmp_path / "data.jsonl", "--table", tmp_path / "table.md", "--folder", tmp_path / "cases")
    monkeypatch.setattr(sys, "argv", ["survival", *map(str, places), *words])
    return survival.main()


def test_slices_go_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[int]) -> None:
    assert start(monkeypatch, tmp_path, "--slice", "3") == 0
    assert start(monkeypatch, tmp_path, "--slice", "2") == 0
    assert sorted(played) == [0, 1, 2, 3, 4]
    assert "4 runs, 0 deaths" in (tmp_path / "table.md").read_text()


def test_only_launched_runs_count_towards_how_many_are_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[int]) -> None:
    assert start(monkeypatch, tmp_path, "--runs", "6", "--jobs", "1") == 0
    assert sorted(played) == list(range(7))  # seed 4 was not launched


def test_two_at_once_would_be_four_cases_so_the_second_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[int]
) -> None:
    (tmp_path / "cases").mkdir()
    with (tmp_path / "cases" / "lock").open("w") as held:
        assert survival._only_one(held)
        assert start(monkeypatch, tmp_path, "--slice", "1") == 1
    assert played == []


def test_a_case_once_more_leaves_the_data_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, played: list[int]) -> None:
    assert start(monkeypatch, tmp_path, "--slice", "1") == 0
    before = (tmp_path / "data.jsonl").read_text()
    assert start(monkeypatch, tmp_path, "--seed", "0") == 0
    assert (tmp_path / "data.jsonl").read_text() == before and played == [0, 0]


# -- the table --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deaths", "runs", "low", "high"),
    # scipy.stats.beta.ppf(0.025, deaths, runs - deaths + 1), beta.ppf(0.975, deaths + 1, runs - deaths)
    [(0, 10, 0.0, 0.3085), (0, 150, 0.0, 0.0243), (6, 17, 0.1421, 0.6167), (4, 15, 0.0779, 0.5510), (5, 5, 0.4782, 1.0), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_clopper_and_pearsons(deaths: int, runs: int, low: float, high: float) -> None:
    assert table.interval(deaths, runs) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_the_page_without_deaths_says_so_and_has_no_list_of_them() -> None:
    page = table.document([row(seed, run_peak_bytes=300 * MIB * (100 + seed) // 100) for seed in range(20)])
    assert "**20 runs, 0 deaths of memory**: 95 % interval 0.0% to 16.8%" in page
    assert "min 1.000, median 1.095, 95 % of runs below 1.180, max 1.190; above 1.02 in 17, above 1 + headroom in 9" in page
    assert "## Deaths" not in page and "## Not launched" not in page


def test_the_page_lists_each_death_with_its_words_and_counts_what_was_not_launched_apart() -> None:
    words = ["first", "DefaultCPUAllocator: can't allocate | memory"]
    rows = [
        row(0),
        row(1, "died", task="pose", run_peak_bytes=400 * MIB, words=words, lost=None),
        row(2, "failed", words=["KeyError"], lost=None),
        row(3, lost=4),
        row(5, "no_rung_fits", run_peak_bytes=None),
        row(6, "refused"),
        row(7, "no_rung_fits"),
    ]
    page = table.document(rows)
    assert "**4 runs, 1 deaths of memory**" in page and "1 runs failed of something else" in page
    assert "1 finished runs lost something to memory (figures, mostly), 4 messages in all" in page
    assert "| 1 | yolo, pose | 400 MiB | 360 MiB | 300 MiB | 400 MiB | DefaultCPUAllocator: can't allocate \\| memory |" in page
    assert "| yolo, pose | 1 | 1 | 0 | 0 | 1.333 | 1.333 | 1.333 | 1.333 |" in page
    assert "| no rung fits | 2 | 5, 7 |" in page and "| refused, with a cure | 1 | 6 |" in page


def test_what_was_mended_is_told_with_its_cause_and_played_again_instead_of_counted() -> None:
    rows = [row(0), row(1, "died", run_peak_bytes=330 * MIB, mended="kept too much"), row(1)]
    page = table.document(rows)
    assert "**2 runs, 0 deaths of memory**" in page and "## Deaths" not in page
    assert "| 1.100 | died | kept too much |" in page
    assert list(itertools.islice(survival.seeds_left(rows[:2]), 2)) == [1, 2]


def test_the_page_says_how_many_peaks_were_seen_from_outside_only() -> None:
    assert "The peak of 1 runs was sampled from outside" in table.document([row(0, peak_source="outside"), row(1)])


def test_a_percentile_is_a_value_that_was_seen() -> None:
    assert table.percentile([3.0, 1.0, 2.0, 4.0], 0.95) == 4.0
    assert table.percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0


def test_cases_on_a_card_are_trained_there_near_their_need_half_of_them_with_segments_that_do_not_expand() -> None:
    ours = [cases.make(seed) for seed in range(cases.PLAYED, cases.PLAYED + 32)]
    assert {one.trainer for one in ours} == {"yolo", "text", "speech"} and {one.device for one in ours} == {"cuda"}
    assert all(0.95 <= one.factor <= 1.05 for one in ours) and len({one.seed for one in ours}) == 32
    assert sum(bool(one.allocator) for one in ours) == 16
    assert cases.make(0).device == "cpu" and not cases.make(0).allocator


def test_a_run_on_a_card_is_judged_by_what_its_allocator_told(tmp_path: Path) -> None:
    (tmp_path / "trials" / "001").mkdir(parents=True)
    peaks = {"reserved_bytes": 700, "allocated_bytes": 600, "ooms": 1, "micro_batches": 8, "steps": 4}
    (tmp_path / "peaks.json").write_text(json.dumps(peaks))
    report = {"base_bytes": 50, "uses": [{"allocated_bytes": 590}, {"allocated_bytes": 300}]}
    (tmp_path / "trials" / "001" / "report.json").write_text(json.dumps(report))
    told = play._told_itself(tmp_path, tmp_path, 1)
    live = {"run_allocated_bytes": 600, "trial_allocated_bytes": 590}
    assert told == {"run_peak_bytes": 750, **live, "refused": 1, "micro_batches": 8, "steps": 4}
    assert play._told_itself(tmp_path, tmp_path / "elsewhere", 1) == {}


def test_cases_of_two_ranks_are_near_their_need_and_only_ultralytics_is_on_cards() -> None:
    ours = [cases.make(seed) for seed in range(cases.RANKS, cases.RANKS + 24)]
    assert {(one.trainer, one.device) for one in ours} == {("text", "cpu"), ("speech", "cpu"), ("script", "cpu"), ("yolo", "cuda")}
    assert all(0.95 <= one.factor <= 1.05 and one.ranks == 2 and not one.allocator for one in ours)
    assert not any(one.recipe["trainer"]["args"].get("rect") for one in ours if one.recipe), "refused on several cards"
    text, script = ours[0], ours[1]
    assert "device.cards=2" in play._device(text, 64 * MIB) and "device.cards=2" not in play._device(script, 64 * MIB), "its own launcher's"
    assert script.command[script.command.index("--nproc_per_node") + 1] == "2"


@pytest.mark.parametrize(("seed", "took"), [(cases.RANKS, [250 * MIB, 240 * MIB]), (cases.RANKS + 2, [350 * MIB, 340 * MIB])])
def test_each_rank_of_a_run_is_told_beside_its_trial(seed: int, took: list[int], tmp_path: Path) -> None:
    """On a CPU what libraries held before the budget is taken off, on a card its context is added."""
    for rank in (0, 1):
        used = PhaseUse(phase="train", seconds=1.0, reserved_bytes=(260 - rank) * MIB)
        report = TrialReport(base_bytes=50 * MIB, uses=(used,))
        place = tmp_path / "runs" / "one" / "trials" / "001" / "ranks" / str(rank)
        place.mkdir(parents=True)
        report.write(place / "report.json")
        (tmp_path / f"peaks.json.{rank}").write_text(json.dumps({"reserved_bytes": (300 - 10 * rank) * MIB}))
    ended = play.Ended(returncode=0, answer={}, out="", err="", seconds=1.0, by_rank={"": 9 * MIB, "0": 300 * MIB, "1": 290 * MIB})
    told = play._of_ranks(cases.make(seed), ended, tmp_path, {"rung_index": 1})
    assert told == {"ranks": 2, "rank_trial_bytes": [260 * MIB, 259 * MIB], "rank_run_bytes": took}
    page = table.of_ranks([row(seed, trials=[{}], rung={"sharding": "fsdp2"}, status="died", **told)])
    assert "yolo, detect, fsdp2 | 360 | 1.02 | 1 | 260, 259 | " in page and "1 deaths of memory" in page and "## Deaths of memory" in page


def test_a_case_with_little_beside_the_device_is_told_and_stands_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = {"host memory": {"needed": 100 * MIB, "there": 120 * MIB, "took": 110 * MIB}}
    monkeypatch.setattr(beside, "_played", lambda *_: {"status": "done", "rung": {"workers": 2, "micro_batch": 8}, "rooms": rooms})
    case = cases.make(cases.BESIDE)
    told = beside.play(case, play.Table(folder=tmp_path, keep=False, environment={}))
    assert f"{case.trainer:<6} {case.task}" in survival._line(told) and told["memory"] in survival._line(told)
    page = table.of_beside([told])
    assert "**1 runs, 0 deaths**" in page and "| host memory | 1 | 0 | 1.100 | 1.100 | 1 of 1 | 0 |" in page
    rooms["host memory"]["took"] = 117 * MIB
    assert "| 1.170 | 1.170 | 1 of 1 | 1 |" in table.of_beside([told]), "16 MiB stay free of 100"
