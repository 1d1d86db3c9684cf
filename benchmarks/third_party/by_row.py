"""Loaded as ``sitecustomize`` into the processes of a script, plain and launched: what it draws belongs to the row, not to the batch.

With it the weights at the end of the two can be compared; without it a run in smaller batches is another draw of the same training.
- The masks of masked language models are drawn row by row, seeded by the row.
- Draws while no gradients are made (an evaluation, as often as it likes) don't move those of training.
Written to a folder of its own as ``sitecustomize.py``; needs ``benchmarks`` on PYTHONPATH.
"""

from __future__ import annotations

import functools
import sys
import zlib
from typing import Any

from benchmarks.same_training.observer import Once


def masks(module: Any) -> None:
    """Of transformers' collator, which has just been imported."""
    import torch

    kind = module.DataCollatorForLanguageModeling
    draw = kind.torch_mask_tokens

    @functools.wraps(draw)
    def drawn(self: Any, inputs: Any, special_tokens_mask: Any = None, **_: Any) -> tuple[Any, Any]:
        masked, labels = inputs.clone(), torch.full_like(inputs, -100)
        for at, row in enumerate(inputs):
            length = int((row != self.tokenizer.pad_token_id).sum())
            special = None if special_tokens_mask is None else special_tokens_mask[at, :length][None]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(zlib.crc32(row[:length].numpy().tobytes()))
                one, label = draw(self, row[:length][None].clone(), special_tokens_mask=special)
            masked[at, :length], labels[at, :length] = one[0], label[0]
        return masked, labels

    kind.torch_mask_tokens = drawn


def draws(torch: Any) -> None:
    """Of torch, which has just been imported."""
    plain, aside = torch.randint, torch.Generator().manual_seed(0)

    @functools.wraps(plain)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() and kwargs.get("generator") is None:
            kwargs["generator"] = aside
        return plain(*args, **kwargs)

    torch.randint = drawn


if __name__ == "sitecustomize":
    sys.meta_path[:0] = [Once("torch", draws), Once("transformers.data.data_collator", masks)]
