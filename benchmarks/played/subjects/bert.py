"""BERT-large by transformers' Trainer, as its page on training memory has it. SAMPLES ACCUMULATION CHECKPOINTING FP16."""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial


def main(samples: int, accumulation: int, checkpointing: int, fp16: int) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    config = BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager", num_labels=2
    )
    rows = [{"input_ids": torch.randint(100, 30000, (512,)), "labels": number % 2} for number in range(16)]
    with tempfile.TemporaryDirectory() as place:
        arguments = TrainingArguments(
            output_dir=place, per_device_train_batch_size=samples, gradient_accumulation_steps=accumulation, max_steps=3,
            gradient_checkpointing=bool(checkpointing), fp16=bool(fp16), save_strategy="no", report_to="none",
            disable_tqdm=True,
        )  # fmt: skip
        model = BertForSequenceClassification(config).cuda()
        model.zero_grad = partial(BertForSequenceClassification.zero_grad, model, set_to_none=False)  # kept as zeros, as PyTorch 1 did
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)  # a tensor at a time, as PyTorch 1 did
        Trainer(model=model, args=arguments, train_dataset=rows, optimizers=(optimizer, None)).train()
    print(json.dumps({"allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
