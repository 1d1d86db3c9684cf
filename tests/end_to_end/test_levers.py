"""Levers, each from an asked setting that really runs out of memory to the end of the run with the lever, on a CPU's budget."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from launcher.ladder.verdict import Kind
from tests.helpers.command_line import answer, autofit
from tests.helpers.hf_data import maker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WIDE = {"vocab_size": 2000, "hidden_size": 320, "intermediate_size": 960, "num_hidden_layers": 6}
MANY_WORDS = {"vocab_size": 16_000, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
DEEP = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 512, "num_hidden_layers": 8}


def make(place: Path, shape: dict[str, int], longest: int) -> Path:
    """Texts of up to ``longest`` words, and a language model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    rng = random.Random(0)
    place.mkdir()
    texts = [" ".join(rng.choice(WORDS) for _ in range(longest - number)) for number in range(12)]
    for name, part in (("train", texts), ("validation", texts[-3:])):
        (place / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in part), encoding="utf-8")
    words = maker("text").tokenizer(texts)
    torch.manual_seed(0)
    config = LlamaConfig(
        **shape, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, bos_token_id=None,
        eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(place / "model")
    words.save_pretrained(place / "model")
    return place


CASES: dict[str, tuple[dict[str, int], int, dict[str, Any], list[Any], int]] = {
    "adafactor": (WIDE, 40, {"optimizer": "adamw_torch_fused"}, ["adafactor"], 150),
    "adamw_8bit": (WIDE, 40, {"optimizer": "adamw_torch_fused"}, ["adamw_8bit", "adafactor"], 150),
    "freeze": (WIDE, 40, {"freeze": 0}, [3], 150),
    "loss_chunks": (MANY_WORDS, 500, {"loss_chunks": 1}, [8], 130),
    "precision": (DEEP, 500, {"precision": "fp32", "micro_batch": 4}, ["bf16"], 240),  # of one row a CPU's buffers take what bf16 saves
}
"""What is turned -> model, words, asked, the lever's values, MiB."""


@pytest.mark.parametrize("case", CASES)
def test_what_runs_out_of_memory_fits_with_a_lever_that_is_named_with_its_update_s_difference(case: str, tmp_path: Path) -> None:
    if case == "adamw_8bit":
        pytest.importorskip("bitsandbytes")
    shape, longest, asked, values, mib = CASES[case]
    lever, before = next(iter(asked.items()))
    data = make(tmp_path / "data", shape, longest)
    (tmp_path / "recipes").mkdir()
    ask = {"model": f"{data}/model", "micro_batch": 1, "accumulation": 1, "sequence_length": 512, "val_micro_batch": 1, **asked}
    recipe = {
        "data": str(data), "ask": ask, "device": {"kind": "cpu", "memory": mib * 2**20},
        "trainer": {"adapter": "transformers", "task": "text", "args": {"max_steps": 3, "learning_rate": 1e-3, "save_strategy": "no"}},
        "ladder": {"order": [lever], "wheels": {lever: {"values": values}}},
    }  # fmt: skip
    (tmp_path / "recipes" / "lever.yaml").write_text(f"# @package _global_\n{json.dumps(recipe)}\n", encoding="utf-8")
    done = autofit("train", "recipe=lever", "--json", cwd=tmp_path, timeout=3000)
    assert done.returncode == 0, done.stderr
    record = answer(done)
    trials = [(one["rung"][lever], one["verdict"], round(one["peak_bytes"] / 2**20)) for one in record["trials"]]
    same = record["same_training"]
    print(f"\n{case}: {trials}, run {record['memory']['run_peak_bytes'] / 2**20:.0f} MiB, {same['update']}")
    assert [kind for _, kind, _ in trials] == [Kind.OUT_OF_MEMORY, Kind.FITS] and record["rung"][lever] == values[0]
    assert record["given_up"] == {lever: {"asked": before, "used": values[0]}} and record["results"]["steps"] == 3
    update, exact = same["update"], lever == "loss_chunks"
    assert (update["gradient_apart"] < 1e-4) == (lever not in ("precision", "freeze")) and (update["apart"] < 1e-3) == exact
    assert 0 < update["apart"] < 1.2 and 0.5 < update["cosine"] < 1.0 + 1e-9
    assert same["gradient"] == "proven" if exact else f"(cosine {update['cosine']:.3f})" in same["gradient"]
