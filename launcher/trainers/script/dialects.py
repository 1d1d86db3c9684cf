"""How people say to what a script trains with what a lower rung changes: Trainer, DeepSpeed, Lightning, PyTorch."""

from launcher.adapter import Dialect

_PLAIN = Dialect(
    trainer="PyTorch",
    signs="",
    changes={
        "batch": "DataLoader(batch_size=) half as large, with optimizer.step() and zero_grad() after every second batch",
        "precision": 'torch.autocast("cuda", dtype=torch.bfloat16) around the forward pass, if there is none',
        "checkpointing": "torch.utils.checkpoint around the model's blocks (use_reentrant=False)",
        "size": "smaller inputs: image size, sequence or segment length",
        "optimizer": "an optimizer with less state: SGD, Adafactor, bitsandbytes' AdamW8bit",
        "model": "a smaller model, or fewer trained weights (requires_grad_(False), LoRA)",
        "offload": "optimizer states in host memory (FSDP's CPUOffload, DeepSpeed ZeRO)",
        "eval_batch": "a smaller batch_size of the validation DataLoader, and torch.no_grad() around validation",
        "eval_kept": "predictions kept as numbers or on the CPU (.item(), .detach().cpu()), not as tensors on the card",
        "workers": "DataLoader(num_workers=) fewer (0: none)",
        "cache": "a data set that reads samples as they are needed (np.memmap, a list of file names), not all at once",
        "unpinned": "DataLoader(pin_memory=False)",
    },
)
_TRAINER = Dialect(
    trainer="transformers",
    signs=r"transformers[/\\](trainer|integrations)|trl[/\\]trainer|\*+ Running training \*+|Instantaneous batch size per device"
    r"|TrainingArguments\(|per_device_train_batch_size|Trainer\._inner_training_loop",
    changes={
        "batch": "per_device_train_batch_size half as large with gradient_accumulation_steps twice as many: the effective batch stays",
        "precision": "bf16=True (fp16=True on older cards), if neither is on",
        "checkpointing": "gradient_checkpointing=True: about a third slower, activations of one layer at a time",
        "size": "shorter rows: max_length (SFTConfig), max_seq_length, or the tokenizer's truncation",
        "optimizer": 'optim="adamw_8bit" or "adafactor" in place of adamw_torch: a quarter of the state, or next to none',
        "model": "LoRA (peft): only the adapters have gradients and states; load_in_4bit shrinks the frozen weights (QLoRA)",
        "offload": "DeepSpeed's zero_optimization.offload_optimizer, or FSDP's offload: states in host memory",
        "eval_batch": "per_device_eval_batch_size smaller (its default is 8, whatever training has)",
        "eval_kept": "eval_accumulation_steps=1, and preprocess_logits_for_metrics (argmax): predictions leave the card at once",
        "workers": "dataloader_num_workers fewer (0: none)",
        "cache": "a data set that is read as needed (datasets' memory-mapped Arrow, streaming=True), low_cpu_mem_usage=True for the model",
        "unpinned": "dataloader_pin_memory=False",
    },
)
_LIGHTNING = Dialect(
    trainer="Lightning",
    signs=r"pytorch_lightning|lightning[/\\](pytorch|fabric)|LightningModule|LOCAL_RANK: \d+ - CUDA_VISIBLE|GPU available: \w+.*used: ",
    changes={
        **_PLAIN.changes,
        "batch": "batch_size of the DataLoader half as large with Trainer(accumulate_grad_batches=) twice as many",
        "precision": 'Trainer(precision="bf16-mixed")',
        "offload": 'Trainer(strategy="deepspeed_stage_2_offload")',
        "eval_kept": "validation_step returns, and keeps in lists of self, numbers and not tensors on the card",
    },
)
_DEEPSPEED = Dialect(
    trainer="DeepSpeed",
    signs=r"(?i)deepspeed",
    changes={
        **_PLAIN.changes,
        "batch": "train_micro_batch_size_per_gpu half as large with gradient_accumulation_steps twice as many: train_batch_size stays",
        "precision": '"bf16": {"enabled": true}',
        "checkpointing": "activation checkpointing (the model's gradient_checkpointing_enable(), or DeepSpeed's activation_checkpointing)",
        "optimizer": "zero_optimization.stage 2 or 3 (with several cards each keeps a part), smaller reduce_bucket_size",
        "offload": "zero_optimization.offload_optimizer and, with stage 3, offload_param to the CPU",
        "cache": "no offload to the CPU (offload_optimizer takes 12 bytes or more for each weight), pin_memory false",
    },
)
DIALECTS = (_TRAINER, _DEEPSPEED, _LIGHTNING, _PLAIN)
"""The first whose signs a log holds counts."""
