"""Prints which of attention's kernels PyTorch takes on this card, by what it is asked for, as a line of JSON."""

import json

import torch
from torch.nn import functional


def kernel(kind, size, dropout):
    q = torch.randn(1, 2, 16, size, device="cuda", dtype=getattr(torch, kind), requires_grad=True)
    taken = type(functional.scaled_dot_product_attention(q, q, q, dropout_p=dropout).grad_fn).__name__
    names = {"ScaledDotProductFlashAttentionBackward0": "flash", "ScaledDotProductEfficientAttentionBackward0": "efficient"}
    asked = ["math", "flash", "efficient"][torch._fused_sdp_choice(q, q, q, None, dropout)]
    return names.get(taken, "math") if names.get(taken, "math") == asked else f"{taken}, said to be {asked}"


asked = [("float16", 64, 0.0), ("bfloat16", 64, 0.1), ("float32", 64, 0.1), ("bfloat16", 256, 0.1)]
print(json.dumps([kernel(*one) for one in asked]))
