"""What a rung of speech or text is foreseen to keep beside what is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.ladder.build import ladder_of
from launcher.shared.report import Phase
from launcher.trainers.transformers.adapter import TransformersAdapter
from tests.helpers.hf_data import recipe
from tests.helpers.hf_data import sums as sums

pytest.importorskip("transformers")


def kept(data: Path, *, ask: dict[str, Any] | None = None, args: dict[str, Any] | None = None) -> int:
    adapter = TransformersAdapter(recipe(data, "text", ask={"val_keeps": "logits", **(ask or {})}, args=args))
    return adapter.tracing(ladder_of(adapter).asked, cuda=False).kept.get(Phase.VALIDATE, 0)


def test_logits_of_a_whole_evaluation_are_there_twice_save_those_of_the_batch_that_is_traced(sums: Path) -> None:
    adapter = TransformersAdapter(recipe(sums, "text"))
    samples, tokens = adapter._lengths.evaluated or (0, 0)
    vocabulary = 2 * 128 * 4 * int((sums / "model" / "config.json").read_text().split('"vocab_size":')[1].split("\n")[0].strip(" ,"))
    assert samples == 200 and kept(sums) == (tokens // 128 - 4) * vocabulary
    assert kept(sums, args={"eval_accumulation_steps": 2}) == 4 * vocabulary, "moved to the host every two batches"
    assert kept(sums, args={"packing": False}) < (200 - 4) * vocabulary, "rows as long as the longest text"


def test_what_is_kept_as_tokens_is_in_the_trace(sums: Path) -> None:
    assert kept(sums, ask={"val_keeps": "tokens"}) == 0


def test_only_rows_that_are_all_full_are_traced_without_a_mask(sums: Path) -> None:
    for packing in (True, False):
        adapter = TransformersAdapter(recipe(sums, "text", args={"packing": packing}))
        assert adapter.tracing(ladder_of(adapter).asked, cuda=False).payload["padded"] is not packing


def test_buffers_of_matrix_products_grow_with_the_rows_of_the_larger_phase(sums: Path) -> None:
    def rest(micro_batch: int, val_micro_batch: int) -> int:
        ask = {"micro_batch": micro_batch, "val_micro_batch": val_micro_batch}
        adapter = TransformersAdapter(recipe(sums, "text", ask=ask))
        return adapter.tracing(ladder_of(adapter).asked, cuda=False).rests[Phase.TRAIN].constant_bytes

    assert rest(1, 1) < rest(4, 1) == rest(1, 4) < rest(64, 1) == rest(128, 1)
