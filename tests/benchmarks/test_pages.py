"""A page of measurements is what its rows make: none is written by hand, or left behind when its rows or its words change."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from benchmarks.ckpt_chaos import table as ckpt_chaos
from benchmarks.common.rows import Row, read
from benchmarks.cost import launches
from benchmarks.faults import table as faults
from benchmarks.fit import replay
from benchmarks.fit import table as fit
from benchmarks.gpu_check import table as gpu
from benchmarks.ranks import table as ranks
from benchmarks.same_training import table as same_training
from benchmarks.survival import table as survival
from benchmarks.third_party import table as third_party
from benchmarks.versions import table as versions
from tests.helpers.places import ROOT

PAGES: dict[str, Callable[[list[Row]], str]] = {
    "ckpt_chaos": ckpt_chaos.document, "faults": faults.document, "ranks": ranks.document, "same_training": same_training.document,
    "survival": survival.document, "survival_played": partial(survival.document, played=True), "survival_ranks": survival.of_ranks,
    "survival_beside": survival.of_beside, "gpu": lambda rows: gpu.render(gpu.read()),
    "fit": lambda rows: fit.document(rows, replayed=replay.table(list(replay.launches(rows)))),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_rows_make(name: str) -> None:
    rows = read(ROOT / "benchmarks" / "results" / f"{name}.jsonl") if name != "gpu" else []
    assert PAGES[name](rows) == (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_tables_within_pages_are_what_their_rows_make_and_name_no_machine() -> None:
    others, tried = third_party.TABLE.read_text(encoding="utf-8"), list(versions.read(versions.DATA).values())
    made = others.partition(third_party.BEGIN)[2].partition(third_party.END)[0].strip()
    assert made == third_party.table(third_party.rows().values()).strip()
    assert launches.PAGE.read_text(encoding="utf-8").endswith(launches.section(read(launches.DATA)))
    assert versions.table(tried) in (text := versions.TABLE.read_text(encoding="utf-8")) and versions.summary(tried) in text
    assert "://" not in json.dumps(tried) and "/home/" not in json.dumps(tried)
