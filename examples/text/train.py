"""Fine-tunes a causal language model on a table of texts with transformers' Trainer, padded or packed; all weights or LoRA.

    python train.py --model_name_or_path folder/ --data texts.jsonl --sequence_length 1024 --output_dir out --num_train_epochs 3

Every argument of TrainingArguments is understood. --data is a .jsonl, .csv or .json table, or a folder with train and validation tables. A
row has a text, or a prompt and a completion, of which only the completion is learned. Padded: one text per row of a batch, cut at
--sequence_length. Packed: all texts one after the other, in full rows. Needs torch and transformers, and peft for LoRA.
"""

from __future__ import annotations

import csv
import json
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

IGNORED = -100
"""The label that no loss counts."""
TABLES = (".jsonl", ".csv", ".json")
Row = tuple[list[int], list[int]]
"""Tokens and labels."""


@dataclass(kw_only=True)
class Arguments:
    """What this script takes beside TrainingArguments'."""

    model_name_or_path: str = field(metadata={"help": "folder with model and tokenizer, or a name on the hub"})
    data: str = field(metadata={"help": "table of texts, or a folder with train and validation tables"})
    validation_data: str | None = field(default=None, metadata={"help": "table to validate on"})
    validation_fraction: float = field(default=0.1, metadata={"help": "part that is held back where there is no validation table"})
    text_column: str | None = field(default=None, metadata={"help": "column of the text; text, content or completion where it isn't named"})
    prompt_column: str | None = field(default=None, metadata={"help": "column of what isn't learned; prompt where there is one"})
    sequence_length: int = field(default=1024, metadata={"help": "most tokens in one row of a batch"})
    packing: bool = field(default=False, metadata={"help": "fill every row with the next texts instead of padding it"})
    dtype: str = field(default="float32", metadata={"help": "of the weights; bfloat16 for frozen ones under LoRA"})
    attn_implementation: str | None = field(default=None, metadata={"help": "sdpa, eager, flash_attention_2"})
    eval_keeps: str = field(
        default="tokens",
        metadata={"choices": ["logits", "tokens", "sums"], "help": "what an evaluation keeps of each batch to its end"},
    )
    lora_rank: int = field(default=0, metadata={"help": "train adapters of this rank instead of all weights; 0: all weights"})
    lora_alpha: int | None = field(default=None, metadata={"help": "scale of the adapters; twice the rank where it isn't said"})
    lora_dropout: float = 0.0
    lora_target_modules: str = field(default="all-linear", metadata={"help": "comma separated, or all-linear"})


@dataclass(kw_only=True)
class TextTrainingArguments(TrainingArguments):  # type: ignore[misc]
    """TrainingArguments, with one word for the precision. A loss that isn't finite is logged as such."""

    precision: str = field(default="fp32", metadata={"choices": ["fp32", "bf16", "fp16"], "help": "fp32, or autocast to bf16 or fp16"})
    logging_nan_inf_filter: bool = False

    def __post_init__(self: Any) -> None:
        self.bf16, self.fp16 = self.bf16 or self.precision == "bf16", self.fp16 or self.precision == "fp16"
        if self.gradient_checkpointing and self.gradient_checkpointing_kwargs is None:
            self.gradient_checkpointing_kwargs = {"use_reentrant": False}
        self.use_cpu = self.use_cpu or not (torch.cuda.is_available() or torch.backends.mps.is_available())  # torchrun is told by it
        super().__post_init__()


# ---------------------------------------------------------------------------------------------------------------------
# Data


def read(own: Arguments) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(prompt, text) of training and of validation."""
    place = Path(own.data).expanduser()
    train = place if place.is_file() else _table(place, ["train"])
    if train is None:
        sys.exit(f"{place}: no table, and no folder with a train table ({', '.join(TABLES)})")
    held = Path(own.validation_data) if own.validation_data else None if place.is_file() else _table(place, ["validation", "valid", "test"])
    texts = _texts(train, own)
    if held is not None:
        return texts, _texts(held, own)
    every = max(2, round(1 / own.validation_fraction))
    split = [[one for at, one in enumerate(texts) if (at % every == every - 1) is of] for of in (False, True)]
    return split[0], split[1]


def _table(folder: Path, names: Sequence[str]) -> Path | None:
    return next((path for name in names for suffix in TABLES if (path := folder / f"{name}{suffix}").is_file()), None)


def _texts(path: Path, own: Arguments) -> list[tuple[str, str]]:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(text.splitlines()))
    else:
        rows = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines() if line.strip()]
    there = rows[0] if rows else {}
    column = next((name for name in (own.text_column, "text", "content", "completion") if name in there), None)
    if column is None or (own.text_column or column) != column:
        sys.exit(f"{path}: no column {own.text_column or 'text'}; it has {', '.join(there) or 'no rows'}")
    prompt = own.prompt_column or "prompt"
    texts = [(str(row.get(prompt) or ""), str(row.get(column) or "")) for row in rows]
    kept = [one for one in texts if one[1].strip()]
    if len(kept) < len(texts):
        print(f"{path}: {len(texts) - len(kept)} rows without a text are left out", flush=True)
    return kept


def tokenized(texts: Sequence[tuple[str, str]], tokenizer: Any) -> list[Row]:
    """Each text with an end-of-text token behind it; prompts are not learned."""
    rows, end = [], tokenizer.eos_token_id
    for prompt, text in texts:
        before = tokenizer(prompt).input_ids if prompt else []
        before = before[:-1] if before and before[-1] == end else before
        after = tokenizer(text, add_special_tokens=not prompt).input_ids
        after = after if after and after[-1] == end else [*after, end]
        rows.append(([*before, *after], [IGNORED] * len(before) + after))
    return rows


def packed(rows: Sequence[Row], length: int) -> list[Row]:
    """The same tokens in full rows; the last, shorter row is left out unless it is the only one."""
    tokens, labels = ([one for row in rows for one in row[which]] for which in (0, 1))
    full = [(tokens[at : at + length], labels[at : at + length]) for at in range(0, len(tokens) - length + 1, length)]
    return full or [(tokens, labels)]


def cut(rows: Sequence[Row], length: int) -> list[Row]:
    """Rows of at most ``length`` tokens, without those that have nothing left to learn."""
    kept = [(tokens[:length], labels[:length]) for tokens, labels in rows if any(label != IGNORED for label in labels[1:length])]
    if longer := sum(len(tokens) > length for tokens, _ in rows):
        left_out = len(rows) - len(kept)
        print(f"{longer} of {len(rows)} texts are longer than {length} tokens and are cut there; {left_out} left out", flush=True)
    return kept


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    """Rows of tokens and labels."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        if not self.rows:
            sys.exit("no text is left to train on or to validate with")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        tokens, labels = self.rows[index]
        return {"input_ids": tokens, "labels": labels}


@dataclass(frozen=True)
class Collate:
    """Rows -> one batch, padded on the right to its longest row."""

    pad: int

    def __call__(self, rows: Sequence[Mapping[str, list[int]]]) -> dict[str, Any]:
        width = max(len(row["input_ids"]) for row in rows)

        def joined(key: str, filler: int) -> Any:
            return torch.tensor([[*row[key], *[filler] * (width - len(row[key]))] for row in rows])

        mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
        return {"input_ids": joined("input_ids", self.pad), "attention_mask": mask, "labels": joined("labels", IGNORED)}


# ---------------------------------------------------------------------------------------------------------------------
# Model and metrics


def load(own: Arguments, device: torch.device) -> tuple[Any, Any]:
    """(model, tokenizer). A folder without weights gives a model of its shape with random ones."""
    beside = Path(own.data).expanduser() / "models" / own.model_name_or_path
    name = str(beside) if beside.is_dir() else own.model_name_or_path  # what lies beside the data comes before the hub's
    folder = Path(name)
    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    newer = tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (4, 56)
    how = {"dtype" if newer else "torch_dtype": getattr(torch, own.dtype), "attn_implementation": own.attn_implementation}
    if folder.is_dir() and not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        print(f"{name} has no weights: they are random", flush=True)
        with device:  # nothing large is copied there
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), **how)
    else:
        model = AutoModelForCausalLM.from_pretrained(name, **how)
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is not None and own.sequence_length > limit:
        sys.exit(f"--sequence_length {own.sequence_length}: the model has {limit} positions")
    return model, tokenizer


def with_adapters(model: Any, own: Arguments) -> Any:
    """The model with LoRA adapters, which alone are trained."""
    from peft import LoraConfig, get_peft_model

    chosen = own.lora_target_modules
    config = LoraConfig(
        r=own.lora_rank, lora_alpha=own.lora_alpha or 2 * own.lora_rank, lora_dropout=own.lora_dropout, task_type="CAUSAL_LM",
        target_modules=chosen if chosen == "all-linear" else chosen.split(","),
    )  # fmt: skip
    model.enable_input_require_grads()  # checkpointed layers need an input that carries gradients where all weights are frozen
    return get_peft_model(model, config)


def likeliest(logits: Any, labels: Any) -> Any:
    """Token numbers instead of a row of scores for each, and no other output kept."""
    return (logits[0] if isinstance(logits, (tuple, list)) else logits).argmax(dim=-1)


class Accuracy:
    """Predicted and true tokens -> the part that is right; of the whole set at once, or summed batch by batch (batch_eval_metrics)."""

    def __init__(self) -> None:
        self._right = self._all = 0

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        scores = prediction.predictions[0] if isinstance(prediction.predictions, (tuple, list)) else prediction.predictions
        said, true = (np.asarray(one.cpu() if hasattr(one, "cpu") else one) for one in (scores, prediction.label_ids))
        if said.ndim == 3:  # --eval_keeps logits
            said = said.argmax(axis=-1)
        counted = true[:, 1:] != IGNORED
        self._right += int(((said[:, :-1] == true[:, 1:]) & counted).sum())
        self._all += int(counted.sum())
        if not compute_result:
            return {}
        result = {"token_accuracy": self._right / max(1, self._all)}
        self._right = self._all = 0
        return result


# ---------------------------------------------------------------------------------------------------------------------
# Training


class Leaving(TrainerCallback):  # type: ignore[misc]
    """Ctrl-C or SIGTERM while training: a checkpoint is saved after the step under way, and training ends. A second one ends it at once."""

    def __init__(self) -> None:
        self.signal = 0
        self._before = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}

    def _asked(self, number: int, frame: Any) -> None:
        self.signal = number
        self.over()
        print("a checkpoint is saved after this step, then training ends", file=sys.stderr, flush=True)

    def over(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.world_size > 1:  # all processes leave after the same step
            asked = torch.tensor([self.signal], device=args.device)
            torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
            self.signal = int(asked)
        if self.signal:
            control.should_save, control.should_evaluate, control.should_training_stop = True, False, True


def main() -> None:
    """Trains, saves and evaluates."""
    own, args = HfArgumentParser((Arguments, TextTrainingArguments)).parse_args_into_dataclasses()
    texts = read(own)
    model, tokenizer = load(own, args.device)
    rows = [tokenized(part, tokenizer) for part in texts]
    train, validation = (Rows((packed if own.packing else cut)(part, own.sequence_length)) for part in rows)
    args.remove_unused_columns, args.label_names = False, ["labels"]
    args.batch_eval_metrics = own.eval_keeps == "sums"
    leaving = Leaving()
    trainer = Trainer(
        model=with_adapters(model, own) if own.lora_rank else model, args=args, train_dataset=train, eval_dataset=validation,
        data_collator=Collate(tokenizer.pad_token_id), compute_metrics=Accuracy(), processing_class=tokenizer, callbacks=[leaving],
        preprocess_logits_for_metrics=None if own.eval_keeps == "logits" else likeliest,
    )  # fmt: skip
    if args.resume_from_checkpoint and transformers.__version__.startswith("4."):  # it would train on at the checkpoint's batch
        state = json.loads((Path(args.resume_from_checkpoint) / "trainer_state.json").read_text(encoding="utf-8"))
        if state.get("train_batch_size") not in (None, args.train_batch_size):
            sys.exit("going on at another micro-batch needs transformers 5: 4 takes that of the checkpoint, without a word")
    trained = trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    leaving.over()
    if leaving.signal:
        sys.exit(128 + leaving.signal)
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("train", trained.metrics)
    metrics = trainer.evaluate()
    metrics["eval_perplexity"] = math.exp(min(metrics["eval_loss"], 700.0))
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)


if __name__ == "__main__":
    main()
