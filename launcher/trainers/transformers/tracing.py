"""Says how a rung of a built-in transformers trainer can be traced without memory. ``inside.trace`` runs the trace."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.adapter.tracing import CpuRest, Tracing, Untraceable
from launcher.config.schema import Value
from launcher.ladder.rungs import CHECKPOINTING, Rung
from launcher.machine import install
from launcher.shared.report import Phase
from launcher.shared.sizes import MIB
from launcher.trainers.transformers import environment
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.data import TokenLengths

MODULE = "launcher.trainers.transformers.inside.trace"
EVALUATED = 8
"""``per_device_eval_batch_size`` of transformers."""
REST_MIB: Mapping[str, Mapping[str, int]] = {"speech": {Phase.TRAIN: 30, Phase.VALIDATE: 24}, "text": {Phase.TRAIN: 9, Phase.VALIDATE: 0}}
"""On a CPU, beside what is alive and the buffers of matrix products."""
LEFT_OUT = (
    "what an evaluation keeps of all its samples (two batches are traced); logits are counted where the data is here",
    "checkpoints as they are saved and loaded",
    "loader workers (host memory)",
)


def of(rung: Rung, *, task: str, args: Mapping[str, Any], lengths: TokenLengths, cuda: bool) -> Tracing:
    """Raises Untraceable. ``args``: the rung's native arguments."""
    if importlib.util.find_spec("transformers") is None:
        raise Untraceable(
            f"the package transformers isn't installed here, and its own model is what is traced: {install.extra('transformers')}"
        )
    model = hf_models.locate(str(args["model_name_or_path"]))
    if model.place in ("nowhere", "unreachable"):
        raise Untraceable(f"{model.why}; its config.json is what is traced. {model.cure}")
    generates = task == "speech" and bool(args.get("predict_with_generate", True))
    payload = {
        "task": task,
        "model": str(model.path.absolute()) if model.path is not None else model.name,
        "config": hf_models.config_of(model),
        "dtype": args.get("dtype", "float32"),
        "attention": args.get("attn_implementation"),
        "autocast": bool(args.get("bf16") or args.get("fp16")),
        "optimizer": str(args["optim"]),
        "loss_chunks": int(args.get("loss_chunks") or 1),
        "freeze": int(args.get("freeze") or 0),
        "offload": args.get("offload", "none"),
        "lora": int(args.get("lora_rank") or 0),
        "lora_targets": args.get("lora_target_modules") or ("all-linear" if task == "text" else "q_proj,v_proj"),
        "lora_dropout": float(args.get("lora_dropout") or 0.0),
        "freeze_encoder": bool(args.get("freeze_encoder")),
        "checkpointing": rung.values.get(CHECKPOINTING) or False,
        "keeps": args.get("eval_keeps", "tokens"),
        "generates": generates,
        "padded": not args.get("packing"),
        "positions": _positions(rung, model) if task == "speech" else None,
        "cuda": cuda,
    }
    sizes = _sizes(rung, task, args, hf_models.config_of(model), lengths.longest)
    evaluated = lengths.evaluated if payload["keeps"] == "logits" and not generates else None
    return Tracing(
        module=MODULE,
        payload=payload,
        sizes=sizes,
        samples=("rows", "val_rows"),
        packages=("transformers", "peft", "accelerate"),
        environment=_asking_the_hub if model.place == "hub" else environment.prepare,
        rests=_rests(task, rows=max(sizes["rows"], sizes["val_rows"]) * _length(sizes, payload)),
        expandable=True,  # shapes always vary: see the adapter
        kept={Phase.VALIDATE: _logits(sizes, args, hf_models.config_of(model), evaluated)} if evaluated is not None else {},
        left_out=LEFT_OUT,
    )


def _length(sizes: Mapping[str, int], payload: Mapping[str, Any]) -> int:
    """Rows that one sample is in the largest matrix products: tokens, or positions of the encoder."""
    return sizes.get("length") or int(payload["positions"] or payload["config"].get("max_source_positions") or 0)


def _rests(task: str, *, rows: int) -> dict[str, CpuRest]:
    """MKL keeps the buffers of its products: 12 MiB for 100 rows, 21 for 400, 31 for 750, 40 from 1500 on (two threads)."""
    packed = min(40.0, 10 + 0.028 * rows)
    return {phase: CpuRest(constant_bytes=int((rest + packed) * MIB)) for phase, rest in REST_MIB[task].items()}


LOGIT_BYTES = 4
"""accelerate makes a half-precision model's outputs fp32 again."""


def _logits(sizes: Mapping[str, int], args: Mapping[str, Any], config: Mapping[str, Any], evaluated: tuple[int, int]) -> int:
    """Logits of a whole evaluation beside those of the first batch, which is traced. Each batch's are joined to all before it, and for
    a moment those are there twice."""
    samples, tokens = evaluated
    length = sizes.get("length") or sizes["labels"]
    rows = tokens // length if args.get("packing") else samples
    moved_every = args.get("eval_accumulation_steps")
    kept = min(rows, moved_every * sizes["val_rows"]) if isinstance(moved_every, int) else rows
    return 2 * max(0, kept - sizes["val_rows"]) * length * int(config.get("vocab_size") or 0) * LOGIT_BYTES


def _asking_the_hub(folder: Path) -> dict[str, str]:
    """Only a model's configuration is fetched: a few kilobytes."""
    return {**environment.prepare(folder), "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}


def _sizes(rung: Rung, task: str, args: Mapping[str, Any], config: Mapping[str, Any], longest: int | None) -> dict[str, int]:
    evaluated = args.get("per_device_eval_batch_size", EVALUATED)
    if task == "text":
        length = int(args.get("sequence_length") or 1024)
        short = longest is not None and not args.get("packing")
        return {"rows": rung.micro_batch, "length": min(length, longest) if short and longest else length, "val_rows": evaluated}
    most = int(config.get("max_target_positions") or 448)
    return {
        "rows": rung.micro_batch,
        "labels": min(_at_most(args.get("label_length"), most), longest or most),
        "val_rows": evaluated,
        "generated": _at_most(args.get("generation_max_length"), most),
    }


def _at_most(asked: Value, most: int) -> int:
    return min(asked, most) if isinstance(asked, int) else most


def _positions(rung: Rung, model: hf_models.Model) -> int | None:
    """Of the encoder, where its window is asked to be shorter."""
    seconds = rung.values.get("audio_seconds")
    whole = hf_models.window_seconds(model)
    positions = hf_models.config_of(model).get("max_source_positions")
    return round(seconds / whole * positions) if isinstance(seconds, (int, float)) and isinstance(positions, int) else None
