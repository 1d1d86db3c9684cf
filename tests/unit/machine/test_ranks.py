"""Which devices a training of several ranks gets, in which order, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.errors import BadInput
from autofit_launcher.machine import ranks
from autofit_launcher.machine.devices import allocator_environment
from autofit_launcher.machine.ranks import Cards, launched
from tests.helpers.nvml_stand_in import GIB, FakeCard, FakeNvml

NAMES = ("a", "b", "c", "d")


def driver(*used: int, totals: tuple[int, ...] = (16,) * 4, names: tuple[str, ...] = ("RTX 4080",) * 4) -> FakeNvml:
    held = [*used, 0, 0, 0, 0]
    return FakeNvml(
        *(FakeCard(uuid=f"GPU-{NAMES[at]}", used=held[at], total=totals[at] * GIB, name=names[at]) for at in range(len(totals)))
    )


def found(cards: Cards, nvml: FakeNvml | None = None, *, environ: dict[str, str] | None = None, **options: Any) -> ranks.Budget:
    return ranks.budget_of(cards, "cuda", headroom=0.1, nvml=nvml or driver(), environ=environ or {}, **options)


def refused(cards: Cards, nvml: FakeNvml | None = None, **options: Any) -> str:
    with pytest.raises(BadInput) as refusal:
        found(cards, nvml, **options)
    return "\n".join(f"{fault.key}: {fault.found}" for fault in refusal.value.faults)


@pytest.mark.parametrize(("cards", "environ", "chosen"), [
    ("all", {}, "abcd"), (2, {}, "ab"), ((0, 3), {}, "ad"), ((3, 0), {}, "da"), (("GPU-c", "GPU-b"), {}, "cb"),
    ("all", {"CUDA_VISIBLE_DEVICES": "2,1"}, "cb"), ((1,), {"CUDA_VISIBLE_DEVICES": "2,1"}, "b"),
])  # fmt: skip
def test_cards_are_all_so_many_or_which(cards: Cards, environ: dict[str, str], chosen: str) -> None:
    budget = found(cards, environ=environ)
    assert [one.uuid for one in budget.each] == [f"GPU-{name}" for name in chosen] and budget.notes == ()
    assert allocator_environment(budget)["CUDA_VISIBLE_DEVICES"] == ",".join(f"GPU-{name}" for name in chosen)


def test_the_smallest_decides() -> None:
    budget = found("all", driver(0, GIB // 2, totals=(14, 16, 16)), share=True)
    assert [one.uuid for one in budget.ranks] == ["GPU-a", "GPU-b", "GPU-c"]
    assert budget.uuid == "GPU-a" and {one.cap_bytes for one in budget.ranks} == {budget.cap_bytes}
    assert str(budget).startswith("cuda:0,1,2 (RTX 4080, ")


@pytest.mark.parametrize(("cards", "said"), [
    (5, "device.cards: 5 is asked, but of cards 4 can be seen"), ((0, 4), "0,4 is asked, but"), (("GPU-",), "GPU- is asked, but"),
    ((1, 1), "device.cards: 1,1 names a card twice"),
])  # fmt: skip
def test_cards_that_are_not_there_are_refused(cards: Cards, said: str) -> None:
    assert said in refused(cards)


def test_beside_another_kind_cards_are_counted_as_nvidia_smi_does(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = driver(totals=(16, 24, 24), names=("RTX 4080", "RTX 4090", "RTX 4090"))
    monkeypatch.setattr("autofit_launcher.machine.nvml.opened", lambda api=None: (nvml, None))
    assert [one.uuid for one in found((1, 2), nvml).ranks] == ["GPU-b", "GPU-c"] == ranks.identities((1, 2), "cuda")


def test_cards_of_different_kinds_are_refused_and_named() -> None:
    said = refused(2, driver(totals=(48, 24), names=("RTX 6000 Ada", "RTX 4090")))
    assert "cards of different kinds (0: RTX 6000 Ada, 47.8 GiB; 1: RTX 4090, 23.8 GiB)" in said


def test_a_card_is_named_in_one_place_only() -> None:
    assert "beside device.index=1" in refused(2, index=1)


def on_cpu(cards: Cards, **options: Any) -> ranks.Budget:
    return ranks.budget_of(cards, "cpu", headroom=0.0, **options)


def test_processes_on_a_cpu_play_a_card_each() -> None:
    budget = on_cpu(2, memory_bytes=64 * 2**20)
    assert [one.budget_bytes for one in budget.ranks] == [64 * 2**20] * 2 and budget.emulated
    assert "2 processes on this CPU, each with 64 MiB" in budget.notes[0]


def test_without_a_size_processes_on_a_cpu_share_what_there_is() -> None:
    one, four = on_cpu(1), on_cpu(4)
    assert one.ranks == () and 0.2 < four.budget_bytes / one.budget_bytes < 0.3
    assert sum(each.ceiling_bytes for each in four.ranks) <= one.free_bytes


def test_a_cpu_has_no_cards_to_be_named_and_no_more_memory_than_it_has() -> None:
    with pytest.raises(BadInput, match="no cards"):
        on_cpu((0, 1))
    with pytest.raises(BadInput, match="for each of 64 processes is asked"):
        on_cpu(64, memory_bytes=on_cpu(1).free_bytes // 32)


def test_launches_take_the_turns_of_their_cards_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autofit_launcher.machine.nvml.opened", lambda nvml=None: (driver(), None))
    assert ranks.identities((3, 1), "cuda") == ["GPU-b", "GPU-d"] == ranks.identities((1, 3), "auto")
    assert ranks.identities(2, "cpu") == ["cpu"] and ranks.world_size("all", "cuda") == 4


PY = "/env/bin/python"
RUN = "-P -m torch.distributed.run --nproc_per_node"


@pytest.mark.parametrize(("command", "devices", "words"), [
    (f"{PY} train.py --lr 1", 1, f"{PY} train.py --lr 1"), ("yolo train", 1, "yolo train"),
    (f"{PY} train.py --lr 1", 2, f"{PY} {RUN} 2 --local_addr=localhost train.py --lr 1"),
    (f"{PY} -m pkg.train -x", 2, f"{PY} {RUN} 2 --local_addr=localhost -m pkg.train -x"),
    (f"{PY} -P entry.py a", 2, f"{PY} {RUN} 2 --local_addr=localhost --no-python {PY} -P entry.py a"),
    ("yolo train", 2, f"{sys.executable} {RUN} 2 --local_addr=localhost --no-python yolo train"),
])  # fmt: skip
def test_ranks_are_started_by_these_words(command: str, devices: int, words: str) -> None:
    assert launched(command.split(), devices=devices) == tuple(words.split())


def test_torchrun_takes_these_words(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the working folder')\n", encoding="utf-8")
    told = tmp_path / "sub" / "tell.py"
    told.parent.mkdir()
    told.write_text(
        "import os, sys\nopen(os.environ['RANK'], 'w').write(os.environ['WORLD_SIZE'] + ' '.join(sys.argv[1:]))\n", encoding="utf-8"
    )
    subprocess.run(launched((sys.executable, str(told), " a"), devices=2), cwd=tmp_path, check=True, timeout=120)
    assert [(tmp_path / rank).read_text(encoding="utf-8") for rank in ("0", "1")] == ["2 a", "2 a"]
