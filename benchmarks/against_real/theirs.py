"""Trainings that other people measured, written anew: one of them on the card that there is -> its allocator's peaks, a line of JSON.

python benchmarks/against_real/theirs.py preflight_bert_8_256     whose, model, and what they changed; see results/against_real.jsonl

Their sizes, order of steps and kinds of numbers; our words. Weights are drawn, not loaded: no size depends on them. litgpt's models are its
package's, peft's adapters peft's.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional

Stages = Iterator[str]
"""A training; it names each stage that it has come to the end of."""


def card(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda")


def words(many: int, batch: int, length: int) -> torch.Tensor:
    return card(torch.randint(many, (batch, length)))


# -- highwaterlabs/torch-preflight: two steps of AdamW under autocast; the second one's peak. On a T4 PyTorch says of bf16 that it is
# -- supported (it is emulated), so bf16 it is; neither flash nor memory-efficient attention has it there


def preflight(name: str, batch: str, size: str) -> Stages:
    import torchvision
    import transformers as t

    makers: dict[str, Callable[[], Any]] = {
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config()), "distilbert": lambda: t.DistilBertModel(t.DistilBertConfig()),
        "bert": lambda: t.BertModel(t.BertConfig()), "resnet50": torchvision.models.resnet50,
    }  # fmt: skip
    model = makers[name]().to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    seen = name == "resnet50"
    x = torch.randn(int(batch), 3, int(size), int(size), device="cuda") if seen else words(30000, int(batch), int(size))
    y = torch.randint(1000, (int(batch),), device="cuda") if seen else x
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=kind):
            if seen:
                loss = functional.cross_entropy(model(x), y)
            else:
                out = model(input_ids=x, labels=x) if name == "gpt2" else model(input_ids=x)
                loss = out.loss if name == "gpt2" else out.last_hidden_state.float().pow(2).mean()
        loss.backward()
        optimizer.step()

    step()
    torch.cuda.reset_peak_memory_stats()
    step()
    yield ""


# -- DaoyuanLi2816/can-i-finetune-this: LoRA in bf16 with gradient checkpointing, three steps


class AdamW8bit(torch.optim.Optimizer):
    """What bitsandbytes keeps on the card for parameters below 100,000 elements; larger ones' states are paged, outside the allocator."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is not None and not self.state[one]:
                    kind = torch.uint8 if one.numel() >= 4096 else torch.float32
                    self.state[one] = {name: torch.zeros_like(one, dtype=kind) for name in ("state1", "state2")}


def lora(name: str, length: str) -> Stages:
    import peft
    import transformers as t

    qwen = {"num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True}
    makers: dict[str, Callable[[], Any]] = {
        "qwen0.5b": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, **qwen)),
        "tinygpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=2, n_layer=2, n_head=2)),
    }
    at, rank = (["c_attn"], 8) if name == "tinygpt2" else (["q_proj", "k_proj", "v_proj", "o_proj"], 16)
    model = makers[name]().bfloat16().to("cuda")
    model.gradient_checkpointing_enable()
    model = peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=16, target_modules=at, task_type="CAUSAL_LM"))
    optimizer = AdamW8bit([one for one in model.parameters() if one.requires_grad], {"lr": 2e-4})
    model.train()
    for _ in range(3):
        ids = torch.randint(model.config.vocab_size, (1, int(length)))
        x, seen, y = (one.to("cuda", non_blocking=True) for one in (ids, torch.ones_like(ids), ids.clone()))
        out = model(input_ids=x, attention_mask=seen, labels=y)
        loss = out.loss
        float(loss.detach().to("cpu").item())
        yield "forward"
        loss.backward()
        yield "backward"
        optimizer.step()
        optimizer.zero_grad()
    yield ""


# -- rasbt/LLMs-from-scratch, ch05/10_llm-training-speed: GPT-2 small from scratch, 8 x 1024, each change on top of those before it


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = torch.nn.Parameter(torch.ones(768)), torch.nn.Parameter(torch.zeros(768))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, spread = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(spread + 1e-5)) + self.shift


class Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.sqrt(torch.tensor(2.0 / math.pi)) * (x + 0.044715 * torch.pow(x, 3))
        return 0.5 * x * (1 + torch.tanh(inner))


class Attention(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, linear = how, partial(torch.nn.Linear, 768, bias=False)
        self.parts = torch.nn.ModuleList([linear(3 * 768)] if how == "flash" else [linear(768), linear(768), linear(768)])
        self.out = torch.nn.Linear(768, 768)
        self.dropout = torch.nn.Dropout(0.1)
        if how == "orig":
            self.register_buffer("mask", torch.ones(1024, 1024).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        if self.how == "flash":
            q, k, v = self.parts[0](x).view(batch, length, 3, 12, 64).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0, is_causal=True)
            return self.out(seen.transpose(1, 2).contiguous().view(batch, length, 768))
        k, q, v = (one(x) for one in self.parts)
        k, q, v = (one.view(batch, length, 12, 64).transpose(1, 2) for one in (k, q, v))
        scores = q @ k.transpose(2, 3)
        mask = self.mask if self.how == "orig" else torch.ones(length, length, device=x.device).triu(1)
        scores.masked_fill_(mask.bool()[:length, :length], -torch.inf)
        weights = self.dropout(torch.softmax(scores / 8.0, dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, 768))


class Block(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        own = how in ("orig", "mask", "bf16")
        self.attention, self.dropout = Attention(how), torch.nn.Dropout(0.1)
        gelu = Gelu() if own else torch.nn.GELU(approximate="tanh")
        self.wide = torch.nn.Sequential(torch.nn.Linear(768, 3072), gelu, torch.nn.Linear(3072, 768))
        self.norms = torch.nn.ModuleList(Norm() if own else torch.nn.LayerNorm(768) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part, norm in zip((self.attention, self.wide), self.norms, strict=True):
            before = x
            x = norm(x)
            x = part(x)
            x = self.dropout(x)
            x = x + before
        return x


class Scratch(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(50257, 768), torch.nn.Embedding(1024, 768)
        norm = Norm() if how in ("orig", "mask", "bf16") else torch.nn.LayerNorm(768)
        self.dropout, self.norm, self.head = torch.nn.Dropout(0.1), norm, torch.nn.Linear(768, 50257, bias=False)
        self.blocks = torch.nn.Sequential(*(Block(how) for _ in range(12)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        tokens, places = self.tokens(ids), self.places(torch.arange(ids.shape[1], device=ids.device))
        x = tokens + places
        x = self.dropout(x)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x)


def scratch(how: str) -> Stages:
    model = Scratch(how).to("cuda")
    if how in ("bf16", "classes", "flash"):
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=how not in ("orig", "mask"))

    def loss_of() -> torch.Tensor:
        x, y = words(50257, 8, 1024), words(50257, 8, 1024)
        logits = model(x)
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())

    for step in range(4):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        if step == 0:
            model.eval()
            with torch.no_grad():
                said = [loss_of().item(), loss_of().item()]
            model.train(bool(said))
    yield ""


# -- Lightning-AI/litgpt: bf16, the longest sequences, accumulated. ``on``: the layers that LoRA adapts. Fabric gives logits back in fp32


def litgpt(name: str, batch: str, length: str, rank: str, on: str) -> Stages:
    import litgpt.lora as adapted
    import litgpt.model as plain
    from litgpt.utils import chunked_cross_entropy

    parts = {"q": "query", "k": "key", "v": "value", "p": "projection", "m": "mlp", "h": "head"}
    full = on == "full"
    chosen = {} if full else {"lora_r": int(rank), "lora_alpha": 16, "lora_dropout": 0.05, **{f"lora_{parts[one]}": True for one in on}}
    torch.set_default_dtype(torch.bfloat16)
    config = (plain if full else adapted).Config.from_name(name.replace("-1.5", "-1_5"), **chosen)
    with torch.device("cuda"):
        model: Any = (plain if full else adapted).GPT(config)
    if not full:
        adapted.mark_only_lora_as_trainable(model)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=3e-4, weight_decay=0.01)
    model.max_seq_length = int(length)
    model.train()
    for count in range(1, 5):
        x, y = words(30000, int(batch), int(length)), words(30000, int(batch), int(length))
        if full:
            logits = model(x).float()
            loss = chunked_cross_entropy(logits[..., :-1, :], y[..., 1:])
        else:
            logits = [one.float() for one in model(x, lm_head_chunk_size=128)]
            logits[-1] = logits[-1][..., :-1, :]
            loss = chunked_cross_entropy(logits, y[..., 1:])
        loss.backward()
        if count % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    yield ""


# -- huggingface/nanoVLM: SigLIP's base shape at 256 pixels, SmolLM2-135M's over 128 tokens, 64 of them the picture's; autocast


class Seeing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(768) for _ in range(2))
        self.into, self.out = torch.nn.Linear(768, 3 * 768), torch.nn.Linear(768, 768)
        self.wide = torch.nn.Sequential(torch.nn.Linear(768, 3072), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(3072, 768))

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (one.view(batch, length, 12, 64).transpose(1, 2) for one in self.into(x).split(768, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, 768))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.mixed(self.norms[0](x))
        return x + self.wide(self.norms[1](x))


class Rms(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(576))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(torch.mean(x**2, dim=-1, keepdim=True) + 1e-5) * self.weight


class Saying(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        linear = partial(torch.nn.Linear, bias=False)
        self.q, self.k, self.v, self.out = linear(576, 576), linear(576, 192), linear(576, 192), linear(576, 576)
        self.gate, self.up, self.down = linear(576, 1536), linear(576, 1536), linear(1536, 576)
        self.norms = torch.nn.ModuleList(Rms() for _ in range(2))

    def mixed(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seen: torch.Tensor, kept: list[torch.Tensor]) -> torch.Tensor:
        def turned(one: torch.Tensor) -> torch.Tensor:
            left, right = one.chunk(2, dim=-1)
            return (one * cos) + (torch.cat((-right, left), dim=-1) * sin)

        batch, length, _ = x.shape
        q, k, v = (one(x).view(batch, length, -1, 64).transpose(1, 2) for one in (self.q, self.k, self.v))
        q, k = turned(q), turned(k)
        kept += [k, v]  # a cache for generation, which is there in training, too
        k, v = k.repeat_interleave(3, dim=1), v.repeat_interleave(3, dim=1)
        mask = (1.0 - seen.unsqueeze(1).unsqueeze(2).float()) * torch.finfo(q.dtype).min
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, 576))

    def forward(self, x: torch.Tensor, *places: Any) -> torch.Tensor:
        x = x + self.mixed(self.norms[0](x), *places)
        y = self.norms[1](x)
        gate = functional.silu(self.gate(y))
        return x + self.down(gate * self.up(y))


class Nano(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.places = torch.nn.Conv2d(3, 768, 16, stride=16), torch.nn.Parameter(torch.rand(1, 256, 768))
        self.sees, self.seen = torch.nn.ModuleList(Seeing() for _ in range(12)), torch.nn.LayerNorm(768)
        self.between = torch.nn.Linear(4 * 768, 576, bias=False)
        self.tokens, self.says, self.said = torch.nn.Embedding(49153, 576), torch.nn.ModuleList(Saying() for _ in range(30)), Rms()

    def forward(self, ids: torch.Tensor, pictures: torch.Tensor, seen: torch.Tensor, targets: torch.Tensor) -> Any:
        batch = ids.shape[0]
        x = self.patches(pictures).flatten(2).transpose(1, 2) + self.places
        for block in self.sees:
            x = block(x)
        x = self.seen(x).reshape(batch, 8, 2, 8, 2, 768).permute(0, 1, 3, 2, 4, 5).contiguous().reshape(batch, 64, 4 * 768)
        picture = self.between(x)
        tokens = self.tokens(ids)
        x, which, where = tokens.clone(), torch.arange(batch, device=x.device), torch.arange(64, device=x.device)
        x[which[:, None].expand(-1, 64), where.expand(batch, -1)] = picture.to(x.dtype)
        angles = torch.rand(batch, 128, 64, device=x.device)
        cos, sin = torch.cos(angles).unsqueeze(1), torch.sin(angles).unsqueeze(1)
        kept: list[torch.Tensor] = []
        for block in self.says:
            x = block(x, cos, sin, seen, kept)
        logits = functional.linear(self.said(x), self.tokens.weight)
        return logits, functional.cross_entropy(logits.reshape(-1, 49153), targets.reshape(-1), ignore_index=-100)


def nanovlm(batch: str) -> Stages:
    model = Nano().to("cuda").train()
    optimizer, many = torch.optim.AdamW(model.parameters(), lr=1e-5), int(batch)
    for _ in range(2):
        pictures = card(torch.randn(many, 3, 256, 256))
        ids, labels, seen = words(49152, many, 128), words(49152, many, 128), card(torch.ones(many, 128, dtype=torch.int64))
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, loss = model(ids, pictures, seen, labels)
        loss.backward()
        optimizer.step()
    yield "" if logits.numel() else "none"


WHOSE: dict[str, Callable[..., Stages]] = {"preflight": preflight, "lora": lora, "scratch": scratch, "litgpt": litgpt, "nanovlm": nanovlm}


def main(case: str) -> None:
    """``case``: whose, and the words of it, a stage's name last where only so much of it is meant."""
    torch.manual_seed(0)
    whose, *said = case.split("_")
    until = said.pop() if said[-1] in ("forward", "backward") else ""
    with contextlib.suppress(StopIteration):
        stages = WHOSE[whose](*said)
        while next(stages) != until:
            pass
    torch.cuda.synchronize()
    peaks = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    print(json.dumps({"case": case, "card": torch.cuda.get_device_name(), "torch": torch.__version__, **peaks}))


if __name__ == "__main__":
    main(sys.argv[1])
