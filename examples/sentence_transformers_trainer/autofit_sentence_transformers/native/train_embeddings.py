"""Takes a model's folder and pairs of texts; trains the embeddings with sentence-transformers' own trainer, evaluates and saves them.

    python train_embeddings.py --model folder/ --data pairs/ --output_dir out --batch_size 64 --epochs 3

``pairs/`` holds train.jsonl and validation.jsonl. ``--loss ranking``: rows with ``anchor`` and ``positive``; every other positive of the
batch is a negative, so the batch itself is part of what is learned. ``--mini_batch_size`` then bounds memory and changes nothing in the
result (gradient caching, CachedMultipleNegativesRankingLoss). ``--loss similarity``: rows with ``sentence1``, ``sentence2`` and ``score``.

Needs sentence-transformers with its trainer; autofit is not needed. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

COLUMNS = {"ranking": ("anchor", "positive"), "similarity": ("sentence1", "sentence2", "score")}
"""Loss -> what a row must have; the last of ``similarity`` is a number."""
PRECISIONS = ("fp32", "bf16")


class Refused(ValueError):
    """The run cannot be done as asked. The message says why, and what would work."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """The command line, read."""

    model: str
    data: str
    output_dir: str
    loss: str = "ranking"
    batch_size: int = 32
    accumulation: int = 1
    mini_batch_size: int | None = None
    eval_batch_size: int = 32
    sequence_length: int | None = None
    precision: str = "fp32"
    checkpointing: bool = False
    epochs: float = 1.0
    max_steps: int = -1
    eval_steps: int = 0
    keep_best: bool = False
    learning_rate: float = 2e-5
    warmup_steps: float = 0.0
    seed: int = 42
    use_cpu: bool = False


HELP = {
    "model": "folder of a sentence-transformers or BERT-like model with its tokenizer, or a name on the hub",
    "data": "folder with train.jsonl and validation.jsonl",
    "output_dir": "where checkpoints, the model and all_results.json go",
    "loss": f"one of {', '.join(COLUMNS)}",
    "batch_size": "rows per device and pass; of a ranking loss: the rows that are each other's negatives",
    "accumulation": "batches per optimizer step",
    "mini_batch_size": "ranking only: rows in memory at once, gradients cached; the result stays the same",
    "eval_batch_size": "rows per batch of an evaluation",
    "sequence_length": "most tokens of a text, longer ones are cut; not given: the model's own",
    "precision": f"one of {', '.join(PRECISIONS)} (autocast)",
    "checkpointing": "recompute activations in the backward pass",
    "epochs": "passes over the training rows",
    "max_steps": "end after so many optimizer steps; -1: after the epochs",
    "eval_steps": "evaluate and save after so many optimizer steps; 0: after every epoch",
    "keep_best": "load the best checkpoint at the end",
    "learning_rate": "peak of the learning rate",
    "warmup_steps": "steps until the peak; below 1: a part of all steps",
    "seed": "of the order of the rows and of dropout",
    "use_cpu": "leave a card alone",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def parser() -> argparse.ArgumentParser:
    """The command line: one option per field of ``Arguments``; true and false are words, as are numbers."""
    made = _Parser(prog="train_embeddings", allow_abbrev=False, description=(__doc__ or "").partition("\n")[0])
    kinds: dict[str, Callable[[str], Any]] = {"int": int, "int | None": int, "float": float, "bool": _flag}
    for field in fields(Arguments):
        required = field.default is MISSING
        default = None if required else field.default
        made.add_argument(
            f"--{field.name}", type=kinds.get(str(field.type), str), required=required, default=default, help=HELP[field.name]
        )
    return made


def _flag(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{word!r} is neither true nor false")
    return word.lower() == "true"


def arguments(argv: Sequence[str]) -> Arguments:
    """``argv``, read and checked. Raises ``Refused``."""
    own = Arguments(**vars(parser().parse_args(list(argv))))
    if fault := next(iter(faults(own)), None):
        raise Refused(fault)
    return own


def faults(own: Arguments) -> list[str]:
    """What is wrong with the arguments by themselves."""
    found = []
    if own.loss not in COLUMNS:
        found.append(f"--loss {own.loss}: it is one of {', '.join(COLUMNS)}")
    if own.precision not in PRECISIONS:
        found.append(f"--precision {own.precision}: it is one of {', '.join(PRECISIONS)}")
    if own.mini_batch_size is not None and own.loss != "ranking":
        found.append(f"--mini_batch_size {own.mini_batch_size}: only --loss ranking has one; lower --batch_size and raise --accumulation")
    for name in ("batch_size", "accumulation", "mini_batch_size", "eval_batch_size", "sequence_length"):
        value = getattr(own, name)
        if value is not None and value < 1:
            found.append(f"--{name} {value}: at least 1")
    return found


# ---------------------------------------------------------------------------------------------------------------------------------
# Data: standard library only


def rows(data: str, loss: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(training, validation) rows with the columns that the loss reads, and no others. Raises ``Refused``."""
    found = []
    for name in ("train", "validation"):
        path = Path(data).expanduser() / f"{name}.jsonl"
        try:
            read = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            raise Refused(f"{path}: can't be read: {error}") from error
        found.append([_row(row, f"{path}: row {number}", loss) for number, row in enumerate(read, start=1)])
        if not read:
            raise Refused(f"{path}: no rows")
    return found[0], found[1]


def _row(row: Any, where: str, loss: str) -> dict[str, Any]:
    if not isinstance(row, dict) or (missing := [name for name in COLUMNS[loss] if name not in row]):
        raise Refused(f"{where}: no {', '.join(missing) if isinstance(row, dict) else 'object'}; --loss {loss} reads {COLUMNS[loss]}")
    return {name: float(row[name]) if name == "score" else str(row[name]) for name in COLUMNS[loss]}


# ---------------------------------------------------------------------------------------------------------------------------------
# Model, loss, evaluator, trainer


def load(own: Arguments) -> Any:
    """The model, its texts cut at ``--sequence_length``."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(own.model, device="cpu" if own.use_cpu else None)
    if own.sequence_length is not None:
        limit = getattr(model[0].auto_model.config, "max_position_embeddings", None)
        if limit is not None and own.sequence_length > limit:
            raise Refused(f"--sequence_length {own.sequence_length}: the model has {limit} positions")
        model.max_seq_length = own.sequence_length
    return model


def loss_of(own: Arguments, model: Any) -> Any:
    """The loss. A ranking loss in mini-batches caches gradients: the same negatives, the same gradient, less memory, more time."""
    from sentence_transformers.sentence_transformer import losses

    if own.loss == "similarity":
        return losses.CosineSimilarityLoss(model)
    if own.mini_batch_size is None or own.mini_batch_size >= own.batch_size:
        return losses.MultipleNegativesRankingLoss(model)
    return losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=own.mini_batch_size)


def evaluator(own: Arguments, validation: Sequence[dict[str, Any]]) -> Any:
    """What an evaluation computes beside the loss, on all of the validation rows at once."""
    from sentence_transformers.sentence_transformer import evaluation

    if own.loss == "similarity":
        first, second, scores = (list(column) for column in zip(*(row.values() for row in validation), strict=True))
        return evaluation.EmbeddingSimilarityEvaluator(first, second, scores, batch_size=own.eval_batch_size, write_csv=False)
    documents = {text: str(number) for number, text in enumerate(dict.fromkeys(row["positive"] for row in validation))}
    queries = {str(number): row["anchor"] for number, row in enumerate(validation)}
    relevant = {str(number): {documents[row["positive"]]} for number, row in enumerate(validation)}
    corpus = {name: text for text, name in documents.items()}
    return evaluation.InformationRetrievalEvaluator(queries, corpus, relevant, batch_size=own.eval_batch_size, write_csv=False)


def training_arguments(own: Arguments) -> Any:
    """``own`` in sentence-transformers' words."""
    from sentence_transformers import SentenceTransformerTrainingArguments

    when = {"strategy": "steps", "steps": own.eval_steps} if own.eval_steps else {"strategy": "epoch"}
    return SentenceTransformerTrainingArguments(
        output_dir=own.output_dir,
        per_device_train_batch_size=own.batch_size,
        gradient_accumulation_steps=own.accumulation,
        per_device_eval_batch_size=own.eval_batch_size,
        activation_checkpointing=own.checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False} if own.checkpointing else None,
        bf16=own.precision == "bf16",
        num_train_epochs=own.epochs,
        max_steps=own.max_steps,
        learning_rate=own.learning_rate,
        warmup_steps=own.warmup_steps,
        seed=own.seed,
        use_cpu=own.use_cpu,
        load_best_model_at_end=own.keep_best,
        metric_for_best_model="eval_loss",
        save_total_limit=2,
        logging_steps=10,
        disable_tqdm=True,
        report_to="none",
        **{f"{what}_{key}": value for what in ("eval", "save") for key, value in when.items()},
    )


def dataset(these: Sequence[dict[str, Any]]) -> Any:
    """Rows as the trainer takes them."""
    from datasets import Dataset

    return Dataset.from_list(list(these))


def build(own: Arguments, model: Any, train: Sequence[dict[str, Any]], validation: Sequence[dict[str, Any]]) -> Any:
    """The trainer, ready to train."""
    from sentence_transformers import SentenceTransformerTrainer

    return SentenceTransformerTrainer(
        model=model,
        args=training_arguments(own),
        train_dataset=dataset(train),
        eval_dataset=dataset(validation),
        loss=loss_of(own, model),
        evaluator=evaluator(own, validation),
    )


def finish(trainer: Any) -> dict[str, Any]:
    """Trains to the end, saves the model, evaluates it; all_results.json in the output folder holds what came of it."""
    trained = trainer.train()
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("train", trained.metrics)
    metrics = trainer.evaluate()
    trainer.save_metrics("eval", metrics)
    return dict(metrics)


def main(argv: Sequence[str]) -> None:
    own = arguments(argv)
    train, validation = rows(own.data, own.loss)
    for name, value in finish(build(own, load(own), train, validation)).items():
        print(f"{name}: {value}", flush=True)


def console() -> None:
    """The program ``train-embeddings``."""
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(f"train_embeddings: {error}")


if __name__ == "__main__":
    console()
