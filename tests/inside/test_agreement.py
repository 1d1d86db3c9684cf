"""What several ranks of a training decide, each at its own pace, and none alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from torch import nn

from autofit_launcher.inside import agreement as module
from autofit_launcher.inside import stubs
from autofit_launcher.inside.agreement import YES, Ranks


def two(folder: Path) -> tuple[Ranks, Ranks]:
    return Ranks(folder, 0), Ranks(folder, 1)


def test_who_comes_first_to_a_place_decides_it_for_all(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    assert [first.decision(f"step {number}", lambda: "go on") for number in range(3)] == ["go on"] * 3
    assert [second.decision(f"step {number}", lambda: "end") for number in range(4)] == ["go on"] * 3 + ["end"]
    assert first.decision("step 3", lambda: "go on") == "end"


def test_a_pass_is_cut_where_every_rank_that_comes_to_such_has_had_enough(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    assert not first.agree("train", "1 1", False) and not second.agree("train", "1 1", False)
    assert not first.agree("train", "1 2", True), "the other still wants batches"
    assert not second.agree("train", "1 2", True), "what was decided holds"
    assert second.agree("train", "1 3", True) and first.agree("train", "1 3", True)


def test_of_two_ranks_that_run_at_once_each_does_as_the_other(tmp_path: Path) -> None:
    cut: dict[int, list[int]] = {0: [], 1: []}

    def run(rank: int) -> None:
        ranks = Ranks(tmp_path, rank)
        for number in range(200):
            served = 1
            while not ranks.agree("train", f"{number} {served}", served >= 3 + rank * (number % 3)):
                served += 1
            cut[rank].append(served)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in cut]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cut[0] == cut[1] and min(cut[0]) >= 3


def test_in_fast_forward_a_rank_waits_for_one_that_validates(tmp_path: Path) -> None:
    first, second = two(tmp_path)
    first.say("step", "1")
    beats: list[None] = []

    def validated() -> None:
        beats.append(None)
        if len(beats) == 5:
            first.say("step", "2")

    second.say("step", "2")
    second.keep_up("step", validated)
    assert not beats
    second.say("step", "3")
    second.keep_up("step", validated)
    assert len(beats) >= 5


def test_a_rank_that_has_ended_is_not_waited_for_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    first, second = two(tmp_path)
    first.say("step", "1")
    waited: list[None] = []
    for number in range(1, 100):
        second.say("step", str(number))
        before = len(waited)
        second.keep_up("step", lambda: waited.append(None))
        assert (len(waited) > before) is (number == 3)
    assert not second.all_here(2)
    first.say("end", YES)
    assert second.all_here(2)


def test_a_model_that_communicates_by_itself_is_run_by_all_ranks() -> None:
    assert stubs._apart(nn.Linear(2, 2)) and not stubs._apart(nn.Sequential(nn.SyncBatchNorm(2)))
    assert not stubs._apart(stubs._wrapped(nn.Linear(2, 2))), "it isn't in DistributedDataParallel"
