"""Language and speech models traced without memory, from their configuration alone."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from launcher.shared import trace as events
from launcher.shared.report import Phase
from launcher.shared.trace import ACCUMULATE
from launcher.trainers.transformers.inside.trace import NotTraced, trace

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
WHISPER = {
    "model_type": "whisper", "d_model": 64, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_mel_bins": 80, "max_source_positions": 100,
    "max_target_positions": 64, "vocab_size": 400, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3,
}  # fmt: skip


def payload(folder: Path, config: dict[str, Any], **changed: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    speech = config["model_type"] == "whisper"
    plain = {
        "task": "speech" if speech else "text", "model": str(folder), "dtype": "float32", "attention": None, "autocast": False,
        "optimizer": "adamw_torch_fused", "lora": 0, "lora_targets": "q_proj,v_proj" if speech else "all-linear", "lora_dropout": 0.0,
        "freeze": 0, "loss_chunks": 1, "offload": "none",
        "freeze_encoder": False, "checkpointing": False, "keeps": "tokens", "generates": speech,
        "padded": False, "positions": None,
        "cuda": True,
    }  # fmt: skip
    return {**plain, **changed}


def test_a_language_model_is_weights_moments_and_rows_of_tokens(tmp_path: Path) -> None:
    one = trace(payload(tmp_path / "llama", LLAMA))
    assert one.facts is not None
    weights = 4 * one.facts["parameters"]
    nothing = events.live(one.at({"rows": 1, "length": 1, "val_rows": 1}))
    assert nothing[Phase.TRAIN] >= 3 * weights and nothing[ACCUMULATE] >= 4 * weights
    rows = [events.live(one.at({"rows": rows, "length": 128, "val_rows": 1}))[Phase.TRAIN] for rows in (2, 4, 6)]
    assert rows[2] - rows[1] == pytest.approx(rows[1] - rows[0], rel=1e-3)
    assert rows[1] - rows[0] > 2 * 128 * 512 * 4 * 2  # logits and their gradients at least


def really_alive(config: dict[str, Any], *, rows: int, length: int, padded: bool) -> int:
    """Bytes alive at the peak of a real step, by torch's own account of its allocations."""
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, mask = torch.zeros((rows, length), dtype=torch.int64), torch.ones((rows, length), dtype=torch.int64)
    mask[0, length // 2 :] = 0 if padded else 1

    def micro_batch() -> None:
        model(input_ids=tokens.clone(), attention_mask=mask.clone(), labels=tokens.clone()).loss.backward()

    micro_batch()
    optimizer.step()
    model.zero_grad()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        micro_batch()
    assert profile.profiler is not None and profile.profiler.kineto_results is not None
    allocations = [(one.start_ns(), one.nbytes()) for one in profile.profiler.kineto_results.events() if one.name() == "[memory]"]
    moments_and_weights = 3 * 4 * sum(one.numel() for one in model.parameters())
    return moments_and_weights + max(itertools.accumulate(size for _, size in sorted(allocations)))


@pytest.mark.parametrize("padded", [False, True])
def test_what_is_alive_is_what_really_is(padded: bool, tmp_path: Path) -> None:
    """Rows that are all full have no mask: transformers drops one that hides nothing, and with a mask attention needs more."""
    at = {"rows": 16, "length": 256, "val_rows": 1}
    foreseen = events.live(trace(payload(tmp_path / "llama", LLAMA, padded=padded, cuda=False)).at(at))[Phase.TRAIN]
    assert foreseen == pytest.approx(really_alive(LLAMA, rows=16, length=256, padded=padded), rel=0.02)


def test_lora_keeps_no_moments_of_frozen_weights(tmp_path: Path) -> None:
    at = {"rows": 1, "length": 1, "val_rows": 1}
    whole = events.live(trace(payload(tmp_path / "llama", LLAMA)).at(at))[ACCUMULATE]
    adapters = trace(payload(tmp_path / "llama", LLAMA, lora=4, autocast=True, checkpointing=True, dtype="bfloat16", keeps="logits"))
    assert events.live(adapters.at(at))[ACCUMULATE] < whole / 2


def test_a_generation_grows_with_its_tokens_and_training_with_its_labels(tmp_path: Path) -> None:
    one = trace(payload(tmp_path / "whisper", WHISPER))
    small = {"rows": 2, "labels": 16, "val_rows": 4, "generated": 8}
    peaks = [events.live(one.at({**small, **more})) for more in ({}, {"generated": 4000}, {"labels": 48})]
    assert peaks[1][Phase.VALIDATE] > peaks[0][Phase.VALIDATE] and peaks[1][Phase.TRAIN] == peaks[0][Phase.TRAIN]
    assert peaks[2][Phase.TRAIN] > peaks[0][Phase.TRAIN]


def test_an_optimizer_that_is_not_traced_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotTraced, match="adamw_8bit"):
        trace(payload(tmp_path / "llama", LLAMA, optimizer="adamw_8bit"))
