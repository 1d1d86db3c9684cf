"""``python -m launcher.trainers.transformers.inside.trace ORDERS``: traces of the built-in trainers. Nothing is computed.

The model is transformers' own, from its configuration alone; loss, LoRA and what an evaluation keeps are those of ``native/``. What
``Trainer`` does around them (5.23.0) is said again here: autocast, the loss, clipping, the optimizer; an evaluation batch with its
generation, of which the last token is traced, when the cache is full.

Payload: ``task``, ``model`` (folder or name), ``dtype``, ``attention`` (None: transformers chooses), ``autocast``, ``optimizer``,
``lora`` (rank), ``lora_targets``, ``lora_dropout``, ``freeze``, ``loss_chunks``, ``offload``, ``freeze_encoder``, ``checkpointing``,
``keeps``, ``generates``, ``padded`` (rows aren't all full: a mask that hides nothing is dropped by transformers, which can't look into one
without memory), ``positions`` (of the encoder's window, or None), ``cuda``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from launcher.shared.report import Phase
from launcher.shared.trace import Trace
from launcher.trainers.transformers.native import hf_run
from launcher.worker import tracing
from launcher.worker.tracing import Counts, autocast

TEXT = {"rows": 8, "length": 509, "val_rows": 16}
SPEECH = {"rows": 8, "labels": 211, "val_rows": 16, "generated": 127}
"""Sizes that a trace is made near to, as far as the model has positions."""
ROOM = 3 / 4
"""Of the model's positions: a prime near to it is still below them."""


class NotTraced(ValueError):
    """There is no trace of such a run; the message says why."""


def main(orders: Path) -> None:
    tracing.main(orders, trace)


def trace(payload: Mapping[str, Any]) -> Trace:
    """One training: a micro-batch with its step, two evaluation batches, a micro-batch of an accumulated batch with its step."""
    import transformers

    if payload["loss_chunks"] > 1:
        raise NotTraced("a loss in parts isn't traced")
    if payload["offload"] != "none":
        raise NotTraced("an optimizer whose states come to the card in pieces isn't traced")
    config = transformers.AutoConfig.from_pretrained(payload["model"])
    if payload["positions"]:
        config.max_source_positions = payload["positions"]
    sizes = tracing.primes(_wanted(payload["task"], config), beside=_numbers(config))
    counts = Counts(sizes=tuple(sizes.values()))
    with tracing.tracing(counts) as (tracer, _):
        tracer.begin(Phase.SETUP)
        model = _built(payload, config)
        tracing.whole(_Run(payload, sizes, model), tracer)
        events = tuple(tracer.events)
        facts = {"parameters": sum(one.numel() for one in model.parameters()), "operators": tracer.operators}
    versions = tracing.versions("torch", "transformers", *(["peft"] if payload["lora"] else []))
    return Trace(traced_at=sizes, events=events, versions=versions, facts=facts)


def _wanted(task: str, config: Any) -> dict[str, int]:
    if task == "text":
        return {**TEXT, "length": _within(TEXT["length"], getattr(config, "max_position_embeddings", None))}
    return {**SPEECH, **{name: _within(SPEECH[name], config.max_target_positions) for name in ("labels", "generated")}}


def _within(size: int, positions: int | None) -> int:
    return min(size, int(positions * ROOM)) if positions else size


def _numbers(config: Any) -> set[int]:
    """Every whole number of a model's configuration."""
    return {value for value in config.to_dict().values() if isinstance(value, int) and not isinstance(value, bool)}


@contextlib.contextmanager
def _weights_in(dtype: torch.dtype) -> Iterator[None]:
    """New weights have this dtype, and are not filled: nothing reads them."""
    import transformers

    fill, before = transformers.PreTrainedModel.init_weights, torch.get_default_dtype()
    transformers.PreTrainedModel.init_weights = lambda self: self.tie_weights()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        transformers.PreTrainedModel.init_weights = fill


def _built(payload: Mapping[str, Any], config: Any) -> Any:
    """The model as the built-in trainer builds it."""
    import transformers

    kind = transformers.AutoModelForCausalLM if payload["task"] == "text" else transformers.AutoModelForSpeechSeq2Seq
    chosen = {"attn_implementation": payload["attention"]} if payload["attention"] else {}
    with _weights_in(hf_run.torch_dtype(payload["dtype"])):
        model = kind.from_config(config, **chosen)
    if payload["freeze_encoder"]:
        model.freeze_encoder()
    if payload["freeze"]:
        hf_run.freeze_first(model, payload["freeze"])
    if payload["lora"]:
        rank, dropout = payload["lora"], payload["lora_dropout"]
        own: Any = SimpleNamespace(lora_rank=rank, lora_alpha=None, lora_dropout=dropout, lora_target_modules=None)
        task = "CAUSAL_LM" if payload["task"] == "text" else None
        model = hf_run.with_adapters(model, own, targets=payload["lora_targets"], task_type=task)
    if payload["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if payload["checkpointing"] is not True:
            hf_run.keep_first(model, payload["checkpointing"])
        model.config.use_cache = False
    return model.train()


class _Run:
    """``Trainer``'s loop, for as long as a trace needs."""

    def __init__(self, payload: Mapping[str, Any], sizes: Mapping[str, int], model: Any) -> None:
        self.payload, self._sizes, self._model = payload, sizes, model
        self._dtype = torch.bfloat16 if payload["autocast"] else None  # as large as fp16
        self.trained = [one for one in model.parameters() if one.requires_grad]
        self.optimizer = _optimizer(payload, self.trained)
        self._speech = payload["task"] == "speech"

    def micro_batch(self) -> None:
        self._loss(self._batch(self._sizes["rows"]))[0].backward()

    def step(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0, foreach=self.payload["cuda"])
        self.optimizer.step()
        self._model.zero_grad()

    def _batch(self, rows: int) -> dict[str, torch.Tensor]:
        if self._speech:
            config = self._model.config
            labels = torch.zeros((rows, self._sizes["labels"]), dtype=torch.int64)
            sound = torch.empty((rows, config.num_mel_bins, 2 * config.max_source_positions))
            return {"input_features": sound, "labels": labels, "decoder_input_ids": torch.zeros_like(labels)}
        tokens = torch.zeros((rows, self._sizes["length"]), dtype=torch.int64)
        mask = {"attention_mask": torch.ones_like(tokens)} if self.payload["padded"] else {}
        return {"input_ids": tokens, **mask, "labels": tokens.clone()}

    def _loss(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """(loss, logits), as ``Trainer.compute_loss``. Autocast's outputs are made fp32 again by accelerate."""
        if not self._speech:
            with autocast(self._dtype):
                outputs = self._model(**batch)
            return outputs.loss, outputs.logits.float() if self._dtype else outputs.logits
        labels = batch["labels"]
        with autocast(self._dtype):
            logits = self._model(**{name: value for name, value in batch.items() if name != "labels"}).logits
        logits = logits.float() if self._dtype else logits
        return hf_run.token_weighted()({"logits": logits}, labels), logits

    def validation(self) -> None:
        """Two batches, and what of the first is kept until the second has been."""
        self._model.eval()
        kept: list[torch.Tensor] = []
        for _ in range(2):
            batch = self._batch(self._sizes["val_rows"])
            with torch.no_grad():
                if self.payload["generates"]:
                    self._generate(batch["input_features"])
                loss, logits = self._loss(batch)
            generates = self.payload["generates"]
            kept.append(logits.clone() if self.payload["keeps"] == "logits" and not generates else logits.argmax(-1))
            del batch, loss, logits
        self._model.train()

    def _generate(self, sound: torch.Tensor) -> None:
        """The last token: every layer's cache is full, and made once more as it grows."""
        rows = sound.shape[0]
        with autocast(self._dtype):
            encoded = self._model.get_encoder()(sound)
            cache = _full_cache(self._model.config, rows, self._sizes["generated"], encoded[0].dtype)
            token = torch.zeros((rows, 1), dtype=torch.int64)
            self._model(encoder_outputs=encoded, decoder_input_ids=token, past_key_values=cache, use_cache=True)


def _full_cache(config: Any, rows: int, tokens: int, dtype: torch.dtype) -> Any:
    """A Whisper decoder's cache before its last token; what it grows to is as large, so that it scales with ``tokens``."""
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    heads, width = config.decoder_attention_heads, config.d_model // config.decoder_attention_heads
    own, cross = DynamicCache(), DynamicCache()
    for layer in range(config.decoder_layers):
        for cache, length in ((own, tokens), (cross, config.max_source_positions)):
            cache.update(torch.empty(rows, heads, length, width, dtype=dtype), torch.empty(rows, heads, length, width, dtype=dtype), layer)
    if not hasattr(own, "layers"):
        raise NotTraced("this transformers' cache has no layers of its own; a generation isn't traced with it")
    for one in own.layers:
        one.update, one.get_seq_length = _regrown(one), lambda *_, **__: tokens - 1
    whole = EncoderDecoderCache(own, cross)
    for layer in range(config.decoder_layers):
        whole.is_updated[layer] = True
    return whole


def _regrown(layer: Any) -> Any:
    def update(*_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        layer.keys, layer.values = torch.empty_like(layer.keys), torch.empty_like(layer.values)
        return layer.keys, layer.values

    return update


def _optimizer(payload: Mapping[str, Any], parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    name, cuda = payload["optimizer"], payload["cuda"]
    if name == "adamw_torch_fused":
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    if name == "adamw_torch":
        return torch.optim.AdamW(parameters, lr=1e-4, foreach=cuda)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4, foreach=cuda)
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters, lr=1e-4, relative_step=False, scale_parameter=False)
    raise NotTraced(f"the optimizer {name} isn't traced; adamw_torch_fused, adamw_torch, sgd and adafactor are")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
