"""One plain training of four steps on the card that there is -> its allocator's peaks, a line of JSON. Knows nothing of autofit.

python benchmarks/against_real/trainings.py gpt2_8_1024_amp     model, micro-batch, tokens (of texts), how
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

STEPS = 4
CASES = (
    "resnet50_64", "resnet50_128_amp", "vit_b_16_64_bf16", "convnext_base_32_bf16", "bert_8_256", "bert_32_128", "distilbert_16_256",
    "gpt2_4_1024", "gpt2_8_1024_bf16", "qwen_2_1024", "qwen_4_1024_gc", "llama_2_1024_bf16", "whisper_8_128_amp", "t5_8_256",
)  # fmt: skip
HOW = {"amp": torch.float16, "bf16": torch.bfloat16}
"""Autocast's kind of number, by a case's last word."""
Training = tuple[torch.nn.Module, Callable[[], tuple[torch.Tensor, ...]], Callable[..., Any]]
"""A model, what makes a batch of it, and the loss of one."""


def vision(name: str, batch: int) -> Training:
    import torchvision

    model = getattr(torchvision.models, name)()
    made = lambda: (torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,)))  # noqa: E731
    return model, made, lambda x, y: torch.nn.functional.cross_entropy(model(x), y)


def text(name: str, batch: int, length: int, how: str) -> Training:
    import transformers as t

    small = {"encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 12, "decoder_attention_heads": 12}
    qwen = {"num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True}
    llama = {"num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}
    t5 = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "decoder_start_token_id": 0}
    makers: dict[str, tuple[Callable[[], Any], int]] = {
        "bert": (lambda: t.BertForSequenceClassification(t.BertConfig(num_labels=2)), 30000),
        "distilbert": (lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(num_labels=2)), 30000),
        "gpt2": (lambda: t.GPT2LMHeadModel(t.GPT2Config()), 50257),
        "qwen": (
            lambda: t.Qwen2ForCausalLM(t.Qwen2Config(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, **qwen)).bfloat16(),
            151936,
        ),
        "llama": (lambda: t.LlamaForCausalLM(t.LlamaConfig(hidden_size=2048, intermediate_size=5632, **llama)), 32000),
        "whisper": (
            lambda: t.WhisperForConditionalGeneration(
                t.WhisperConfig(d_model=768, encoder_ffn_dim=3072, decoder_ffn_dim=3072, **small)
            ),
            50000,
        ),
        "t5": (lambda: t.T5ForConditionalGeneration(t.T5Config(**t5)), 32000),
    }  # fmt: skip
    make, words = makers[name]
    model = make()
    if how == "gc":
        model.gradient_checkpointing_enable()
    first = "input_features" if name == "whisper" else "input_ids"
    said = partial(torch.randint, words, (batch, length))
    heard = (lambda: torch.randn(batch, 80, 3000)) if name == "whisper" else said
    labels = partial(torch.randint, 2, (batch,)) if name.endswith("bert") else said
    return model, lambda: (heard(), labels()), lambda x, y: model(**{first: x, "labels": y}).loss


def training(case: str) -> tuple[Training, Callable[..., torch.optim.Optimizer], torch.dtype | None]:
    """What trains, its optimizer, and autocast's kind of number, if any."""
    words = case.split("_")
    how = words.pop() if words[-1] in ("gc", *HOW) else ""
    numbers = [int(word) for word in words if word.isdigit()]
    seen = words[0] in ("resnet50", "vit", "convnext")
    made = vision("_".join(words[:-1]), numbers[-1]) if seen else text(words[0], *numbers, how)
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    return made, sgd if words[0] == "resnet50" else torch.optim.AdamW, HOW.get(how)


def main(case: str) -> None:
    torch.manual_seed(0)
    (model, made, loss_of), optimizer_of, kind = training(case)
    model.to("cuda").train()
    optimizer = optimizer_of(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=kind is torch.float16)
    for _ in range(STEPS):
        batch = [one.to("cuda") for one in made()]
        with torch.autocast("cuda", dtype=kind or torch.float16, enabled=kind is not None):
            loss = loss_of(*batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    peaks = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    print(json.dumps({"case": case, "card": torch.cuda.get_device_name(), "torch": torch.__version__, **peaks}))


if __name__ == "__main__":
    main(sys.argv[1])
