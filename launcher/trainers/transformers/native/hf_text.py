"""Fine-tunes a causal language model with transformers' own ``Trainer`` on a table of texts, padded or packed; all weights or LoRA.

    python hf_text.py --model_name_or_path folder/ --data texts.jsonl --sequence_length 1024 --output_dir out --num_train_epochs 3 ...

Every argument of ``TrainingArguments`` is understood, in its own words. The data is a .jsonl, .csv, .tsv or .json table, or a folder with
``train`` and ``validation`` tables. A row has a ``text``, or a ``prompt`` and a ``completion``, of which only the completion is learned.
Padded: one text per row of a batch, cut at ``sequence_length``. Packed: all texts one after the other, in full rows of ``sequence_length``.

Needs torch and transformers >= 4.50 (peft for LoRA); ``hf_run.py`` lies beside it. autofit is not needed. Nothing heavy is imported
before it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__:
    from . import hf_run
    from .hf_run import CommonArguments, Refused
else:  # copied beside hf_run.py
    import hf_run  # type: ignore[import-not-found,no-redef]
    from hf_run import CommonArguments, Refused  # type: ignore[no-redef]

TEXT_COLUMNS = ("text", "content", "completion")


@dataclass(kw_only=True)
class TextArguments(CommonArguments):
    """The trainer's own arguments."""

    sequence_length: int = field(default=1024, metadata={"help": "most tokens in one row of a batch"})
    packing: bool = field(default=False, metadata={"help": "fill every row with the next texts instead of padding it"})
    loss_chunks: int = field(default=1, metadata={"help": "parts in which a training's logits and loss are computed, one after the other"})
    freeze: int = field(default=0, metadata={"help": "embeddings and so many of the first layers aren't trained"})
    prompt_column: str | None = field(default=None, metadata={"help": "column of what is given and not learned; prompt where there is one"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """One text to learn."""

    where: str
    """File and row, for messages."""
    prompt: str
    """What is given; no loss is counted on it. May be empty."""
    text: str


# ---------------------------------------------------------------------------------------------------------------------------------
# Data: standard library only


def read_data(
    data: str, validation_data: str | None, *, text_column: str | None, prompt_column: str | None, fraction: float
) -> tuple[list[Text], list[Text]]:
    """(training, validation) texts. Raises ``Refused`` where there is no such data."""
    train, found_validation = _tables(Path(data).expanduser())
    validation = _tables(Path(validation_data).expanduser())[0] if validation_data is not None else found_validation
    texts = _texts(train, text_column, prompt_column)
    if not texts:
        raise Refused(f"{train}: no rows")
    if validation is None:
        return hf_run.split_off(texts, fraction)
    held = _texts(validation, text_column, prompt_column)
    if not held:
        raise Refused(f"{validation}: no rows")
    return texts, held


def _tables(place: Path) -> tuple[Path, Path | None]:
    """(the training table, the validation table or None)."""
    if place.is_file():
        if place.suffix not in hf_run.TABLES:
            raise Refused(f"{place}: a table of texts is one of {', '.join(hf_run.TABLES)}")
        return place, None
    if not place.is_dir():
        raise Refused(f"{place}: there is no such file or folder")
    train = _table_in(place, "train")
    if train is None:
        raise Refused(f"{place}: there is no train table in it ({', '.join(f'train{suffix}' for suffix in hf_run.TABLES)})")
    return train, next((found for name in hf_run.VALIDATION_NAMES if (found := _table_in(place, name)) is not None), None)


def _table_in(folder: Path, stem: str) -> Path | None:
    return next((path for suffix in hf_run.TABLES if (path := folder / f"{stem}{suffix}").is_file()), None)


def _texts(path: Path, text_column: str | None, prompt_column: str | None) -> list[Text]:
    rows = hf_run.table(path)
    if not rows:
        return []
    text = hf_run.column(rows, text_column, TEXT_COLUMNS, option="text_column", path=path)
    asked = prompt_column if prompt_column is not None else "prompt" if "prompt" in rows[0] else None
    prompt = hf_run.column(rows, asked, (), option="prompt_column", path=path) if asked is not None else None
    return [
        Text(where=f"{path}: row {number}", prompt=str(row.get(prompt) or "") if prompt else "", text=str(row.get(text) or ""))
        for number, row in enumerate(rows, start=1)
    ]


def empty(texts: Sequence[Text]) -> list[str]:
    """What is wrong with the texts themselves, by file and row."""
    return [f"{one.where}: its text is empty" for one in texts if not one.text.strip()]


class TextData:
    """Rows of tokens and labels."""

    def __init__(self, rows: Sequence[tuple[list[int], list[int]]]) -> None:
        self.rows = list(rows)

    @property
    def lengths(self) -> list[int]:
        """Tokens per row: what differs between rows in memory."""
        return [len(tokens) for tokens, _ in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        tokens, labels = self.rows[index]
        return {"input_ids": tokens, "labels": labels}


def tokenized(texts: Sequence[Text], tokenizer: Any) -> list[tuple[list[int], list[int]]]:
    """(tokens, labels) of each text, with an end-of-text token behind it; prompts are not learned."""
    rows = []
    for one in texts:
        prompt = tokenizer(one.prompt).input_ids if one.prompt else []
        answer = tokenizer(one.text, add_special_tokens=not one.prompt).input_ids
        answer = [*answer, tokenizer.eos_token_id] if not answer or answer[-1] != tokenizer.eos_token_id else answer
        if prompt and prompt[-1] == tokenizer.eos_token_id:
            prompt = prompt[:-1]
        rows.append(([*prompt, *answer], [hf_run.IGNORED] * len(prompt) + answer))
    return rows


def packed(rows: Sequence[tuple[list[int], list[int]]], length: int) -> list[tuple[list[int], list[int]]]:
    """The same tokens in full rows of ``length``; the last, shorter row is left out unless it is the only one."""
    tokens = [token for row, _ in rows for token in row]
    labels = [label for _, row in rows for label in row]
    full = [(tokens[at : at + length], labels[at : at + length]) for at in range(0, len(tokens) - length + 1, length)]
    return full or [(tokens, labels)]


def cut(rows: Sequence[tuple[list[int], list[int]]], length: int) -> list[tuple[list[int], list[int]]]:
    """Rows of at most ``length`` tokens; what was cut is said, and rows that have nothing left to learn are left out."""
    longer = sum(len(tokens) > length for tokens, _ in rows)
    short = [(tokens[:length], labels[:length]) for tokens, labels in rows]
    kept = [row for row in short if any(label != hf_run.IGNORED for label in row[1][1:])]
    if longer:
        print(
            f"{longer} of {len(rows)} texts are longer than {length} tokens and are cut there; {len(rows) - len(kept)} left out", flush=True
        )
    return kept


@dataclass(frozen=True, kw_only=True, slots=True)
class Collate:
    """Rows -> one batch, padded on the right to its longest row."""

    pad: int

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        import torch

        width = max(len(row["input_ids"]) for row in rows)

        def joined(key: str, filler: int) -> Any:
            return torch.tensor([[*row[key], *[filler] * (width - len(row[key]))] for row in rows])

        mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
        return {"input_ids": joined("input_ids", self.pad), "attention_mask": mask, "labels": joined("labels", hf_run.IGNORED)}


# ---------------------------------------------------------------------------------------------------------------------------------
# Model and metrics


def load(own: TextArguments) -> tuple[Any, Any]:
    """(model, tokenizer)."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(own.model_name_or_path)
        model = AutoModelForCausalLM.from_pretrained(
            own.model_name_or_path, **hf_run.weights_in(own.dtype), attn_implementation=own.attn_implementation
        )
    except (OSError, ValueError) as error:
        raise Refused(f"{own.model_name_or_path}: no model with its tokenizer could be loaded: {error}") from error
    if tokenizer.eos_token_id is None:
        raise Refused(f"{own.model_name_or_path}: its tokenizer has no end-of-text token")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is not None and own.sequence_length > limit:
        raise Refused(f"--sequence_length {own.sequence_length}: the model has {limit} positions")
    return model, tokenizer


class Accuracy:
    """Predicted and true tokens -> the part that is right; kept whole or summed batch by batch."""

    def __init__(self) -> None:
        self._right = self._all = 0

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """``compute_metrics`` of Trainer; with ``batch_eval_metrics`` it is called for each batch, the last time with True."""
        import numpy as np

        said, true = (np.asarray(_on_host(one)) for one in (prediction.predictions, prediction.label_ids))
        if said.ndim == 3:  # eval_keeps=logits
            said = said.argmax(axis=-1)
        counted = true[:, 1:] != hf_run.IGNORED
        self._right += int(((said[:, :-1] == true[:, 1:]) & counted).sum())
        self._all += int(counted.sum())
        if not compute_result:
            return {}
        result = {"token_accuracy": self._right / max(1, self._all)}
        self._right = self._all = 0
        return result


def _on_host(tokens: Any) -> Any:
    scores = tokens[0] if isinstance(tokens, (tuple, list)) else tokens
    return scores.cpu() if hasattr(scores, "cpu") else scores


# ---------------------------------------------------------------------------------------------------------------------------------
# The trainer


def prepared(own: TextArguments, texts: Sequence[Text], tokenizer: Any) -> TextData:
    """The rows to train on. Raises ``Refused`` with everything wrong, or says what it left out."""
    hf_run.report_bad(empty(texts), own.on_bad_data)
    rows = tokenized([one for one in texts if one.text.strip()], tokenizer)
    rows = packed(rows, own.sequence_length) if own.packing else cut(rows, own.sequence_length)
    if not rows:
        raise Refused("no text is left to train on or to validate with")
    return TextData(rows)


def build(own: TextArguments, args: Any) -> Any:
    """The trainer, ready to train. Raises ``Refused`` with everything that is wrong with the data or the model."""
    from transformers import Trainer

    train, validation = read_data(
        own.data, own.validation_data, text_column=own.text_column, prompt_column=own.prompt_column, fraction=own.validation_fraction
    )
    model, tokenizer = load(own)
    datasets = [prepared(own, texts, tokenizer) for texts in (train, validation)]
    args.remove_unused_columns = False
    args.label_names = ["labels"]
    args.batch_eval_metrics = own.eval_keeps == "sums"
    if own.freeze:
        hf_run.freeze_first(model, own.freeze)
    if own.loss_chunks > 1:
        hf_run.loss_in_chunks(model, own.loss_chunks, datasets[0][0])
    if own.lora_rank:
        model = hf_run.with_adapters(model, own, targets="all-linear", task_type="CAUSAL_LM")
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=datasets[0],
        eval_dataset=datasets[1],
        data_collator=Collate(pad=tokenizer.pad_token_id),
        compute_metrics=Accuracy(),
        preprocess_logits_for_metrics=None if own.eval_keeps == "logits" else hf_run.likeliest,
        processing_class=tokenizer,
    )
    return hf_run.checkpointing_first_layers(hf_run.offloading(trainer, own.offload), own.checkpointing_share)


def arguments(argv: Sequence[str]) -> tuple[TextArguments, Any]:
    """``argv``, read and checked as transformers checks it."""
    from transformers import TrainingArguments

    own, args = hf_run.parse(TextArguments, TrainingArguments, argv)
    return own, args


def main(argv: Sequence[str]) -> None:
    """Trains, saves and evaluates as ``argv`` says."""
    own, args = arguments(argv)
    trainer = build(own, args)
    metrics = hf_run.finish(trainer, args)
    if "eval_loss" in metrics:
        trainer.save_metrics("eval", {**metrics, "eval_perplexity": hf_run.perplexity(metrics["eval_loss"])})


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(f"hf_text: {error}")
