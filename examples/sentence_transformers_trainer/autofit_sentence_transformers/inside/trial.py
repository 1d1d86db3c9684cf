"""Takes orders whose payload is a rung as words of ``train_embeddings``; runs a short, real training of it on the worst data.

The script that the full run launches is run to its own end: model, loss, loop, evaluation, checkpoints and the best of them loaded again
are its own. Replaced are which rows come and how many. Two things are not shortened, since memory hangs on them: the batch of an
optimizer step, and how many embeddings an evaluation keeps and compares (texts beyond a few batches get copies of embeddings).

Payload: ``argv`` (this rung's words, save for the output folder), ``imports`` (modules to import before the budget is taken).
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autofit_launcher.inside.api import Orders, Phase, Recorder, budget
from autofit_sentence_transformers.native import train_embeddings as script

SCORE_BYTES = 8
"""Per row of an evaluation: its loss is kept to the end, and joined anew at every batch."""
LONGEST, SHORTEST = 0, 1


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    for name in orders.payload["imports"]:
        importlib.import_module(name)
    plan = Plan.of(orders)
    recorder.budget(budget.take(orders))
    recorder.phase(Phase.SETUP)
    train, validation = script.rows(plan.own.data, plan.own.loss)
    model = script.load(plan.own)
    trainer = script.build(plan.own, model, train, validation)
    trial = _Trial(plan, recorder, trainer)
    trial.install(train, validation)
    script.finish(trainer)
    trial.ended()
    recorder.phase(Phase.DONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The orders, read: what is asked of the script, and when which phase begins."""

    own: script.Arguments
    """The rung's options, with an early end."""
    evaluated_after: int
    """Optimizer steps before the evaluation."""
    all_steps: int
    validation_batches: int

    @classmethod
    def of(cls, orders: Orders) -> Plan:
        asked = script.arguments([*orders.payload["argv"], "--output_dir", str(orders.scratch / "run")])
        before, after = max(orders.steps, 2) + 1, max(orders.steps_after, 1)  # one more: a small batch among the large ones
        return cls(
            own=replace(asked, max_steps=before + after, eval_steps=before),
            evaluated_after=before,
            all_steps=before + after,
            validation_batches=max(orders.validation_batches, 2),
        )


# ---------------------------------------------------------------------------------------------------------------------------------
# The worst of the data


def lengths(texts: Sequence[str], tokens_of: Callable[[list[str]], Sequence[Sequence[int]]], at_once: int = 1000) -> list[int]:
    """Tokens of each text, a part of them at a time: what is measured must not take the memory that is measured."""
    return [len(tokens) for begin in range(0, len(texts), at_once) for tokens in tokens_of(list(texts[begin : begin + at_once]))]


def extremes(rows: Sequence[Mapping[str, Any]], tokens_of: Callable[[list[str]], Sequence[Sequence[int]]]) -> tuple[dict[str, Any], ...]:
    """(the longest text of each column in one row, the shortest): a batch is as wide as its longest text, column by column."""
    longest, shortest = dict(rows[0]), dict(rows[0])
    for name in (name for name, value in rows[0].items() if isinstance(value, str)):
        column = [row[name] for row in rows]
        measured = lengths(column, tokens_of)
        longest[name] = column[measured.index(max(measured))]
        shortest[name] = column[measured.index(min(measured))]
    return longest, shortest


def copies(kept: Any, count: int) -> Any:
    """``count`` rows, the ones there are over and over: as much memory as real ones take."""
    return kept[[row % len(kept) for row in range(count)]]


# ---------------------------------------------------------------------------------------------------------------------------------
# The trial


class _Trial:
    """Gives the trainer its rows, follows it through its own callbacks, and says what it saw."""

    def __init__(self, plan: Plan, recorder: Recorder, trainer: Any) -> None:
        self._plan = plan
        self._recorder = recorder
        self._trainer = trainer
        self._model = trainer.model
        self._whole = (trainer.train_dataset, trainer.eval_dataset)  # held, as the run holds them
        self._hidden: Exception | None = None

    def install(self, train: Sequence[dict[str, Any]], validation: Sequence[dict[str, Any]]) -> None:
        own, trainer = self._plan.own, self._trainer
        rows = extremes(train, self._tokens)
        longest = extremes(validation, self._tokens)[LONGEST]
        trainer.train_dataset = script.dataset(rows)
        trainer.eval_dataset = script.dataset([longest] * min(len(validation), self._plan.validation_batches * own.eval_batch_size))
        drawn = trainer.get_batch_sampler
        trainer.get_batch_sampler = lambda dataset, *args, **kwargs: (
            _fixed(self._batches()) if dataset is trainer.train_dataset else drawn(dataset, *args, **kwargs)
        )
        self._model.encode = self._shortened(self._model.encode, max(texts_of(longest), key=self._length))
        self._model[0].register_forward_pre_hook(self._saw)
        trainer._load_from_checkpoint = self._watched(trainer._load_from_checkpoint)
        trainer.add_callback(_callback(self))
        total = math.ceil(len(validation) / own.eval_batch_size)
        self._recorder.measured(
            train_samples=len(train), validation_batches_total=total, growth_bytes_per_batch=SCORE_BYTES * own.eval_batch_size,
        )  # fmt: skip
        widths = [max(lengths(texts_of(row), self._tokens)) for row in rows]
        self._recorder.note(
            f"worst data: batches as wide as the longest of {len(train)} rows, {widths[LONGEST]} tokens, and one of {widths[SHORTEST]}"
        )

    def _tokens(self, texts: list[str]) -> Sequence[Sequence[int]]:
        found: Sequence[Sequence[int]] = self._model.tokenizer(texts, truncation=True, max_length=self._model.max_seq_length)["input_ids"]
        return found

    def _length(self, text: str) -> int:
        return len(self._tokens([text])[0])

    def _batches(self) -> list[list[int]]:
        """Every optimizer step of the longest rows, save for one of the shortest: other sizes are where fragments come from."""
        own = self._plan.own
        steps = [SHORTEST if step == 1 else LONGEST for step in range(self._plan.all_steps)]
        return [[row] * own.batch_size for row in steps for _ in range(own.accumulation)]

    def _shortened(self, encode: Callable[..., Any], longest: str) -> Callable[..., Any]:
        """``encode`` for a few batches of the longest text; what it returns, and what it holds meanwhile, is as much as for all texts."""
        import torch

        signature = inspect.signature(encode)

        def encoded(*args: Any, **kwargs: Any) -> Any:
            asked = signature.bind(*args, **kwargs)
            asked.apply_defaults()
            texts = next(iter(asked.arguments.values()))
            few = self._plan.validation_batches * asked.arguments["batch_size"]
            if isinstance(texts, str) or len(texts) <= few:
                return encode(*args, **kwargs)
            where = self._model.device if asked.arguments["convert_to_tensor"] else "cpu"
            held = torch.zeros(len(texts), self._model.get_embedding_dimension(), device=where)
            asked.arguments[next(iter(asked.arguments))] = [longest] * few
            kept = copies(encode(*asked.args, **asked.kwargs), len(texts))
            del held
            return kept

        return encoded

    def _watched(self, load: Callable[[str], None]) -> Callable[[str], None]:
        """The trainer logs what goes wrong when it loads the best checkpoint, and goes on with the last one."""

        def loaded(checkpoint: str) -> None:
            try:
                load(checkpoint)
            except Exception as error:
                self._hidden = error
                raise

        return loaded

    # -- what happens

    def step_ended(self, step: int) -> None:
        self._recorder.batch()
        if step == self._plan.evaluated_after:
            self._recorder.phase(Phase.VALIDATE)
        elif step == self._plan.all_steps:
            self._recorder.phase(Phase.FINISH)

    def evaluated(self, step: int) -> None:
        if step == self._plan.evaluated_after:
            self._recorder.phase(Phase.TRAIN_AGAIN)

    def ended(self) -> None:
        if self._hidden is not None:
            raise self._hidden

    # -- what was seen

    def train_begins(self) -> None:
        args, own = self._trainer.args, self._plan.own
        self._recorder.observe(
            device=args.device.type,
            precision="bf16" if args.bf16 else "fp32",
            sequence_length=self._model.max_seq_length,
            checkpointing=bool(getattr(self._model[0].auto_model, "is_activation_checkpointing", False)),
        )
        parameters = list(self._model.parameters())
        self._recorder.fact(
            parameters=sum(one.numel() for one in parameters),
            effective_batch=args.train_batch_size * args.gradient_accumulation_steps * max(1, args.world_size),
            loss=type(self._trainer.loss).__name__,
            negatives=own.batch_size if own.loss == "ranking" else None,
        )
        self._recorder.phase(Phase.TRAIN)

    def _saw(self, module: Any, inputs: tuple[Any, ...]) -> None:
        """Rows that are really in memory at once, counted where they enter the transformer."""
        rows = int(inputs[0]["input_ids"].shape[0])
        wheel = "micro_batch" if self._model.training else "val_micro_batch"
        if wheel == "micro_batch" or rows == self._plan.own.eval_batch_size:  # a set, and its last batch, may be smaller than a batch
            self._recorder.observe(**{wheel: max(rows, self._recorder.observed.get(wheel, rows))})


def texts_of(row: Mapping[str, Any]) -> list[str]:
    """The texts of a row."""
    return [value for value in row.values() if isinstance(value, str)]


def _fixed(batches: Sequence[list[int]]) -> Any:
    import torch

    class Fixed(torch.utils.data.BatchSampler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batch_size, self.drop_last = len(batches[0]), False

        def __iter__(self) -> Iterator[list[int]]:
            return iter(batches)

        def __len__(self) -> int:
            return len(batches)

    return Fixed()


def _callback(trial: _Trial) -> Any:
    """The trial as a TrainerCallback."""
    from transformers import TrainerCallback

    class Probe(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.train_begins()

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial._recorder.optimizer_step()

        def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial._recorder.batch()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.step_ended(state.global_step)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial._recorder.batch()

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trial.evaluated(state.global_step)

    return Probe()
