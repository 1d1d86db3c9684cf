"""How people say to Hugging Face's Trainer (and TRL's) what a lower rung changes, and how its logs are known."""

from launcher.adapter import Dialect

DIALECT = Dialect(
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
    },
    settings={
        "micro_batch": r"(?:Instantaneous batch size per device = |per_device_train_batch_size[ =:]+)(\d+)",
        "accumulation": r"(?:Gradient Accumulation steps = |gradient_accumulation_steps[ =:]+)(\d+)",
    },
)
