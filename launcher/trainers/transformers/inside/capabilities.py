"""``python -m launcher.trainers.transformers.inside.capabilities OUT``: what the built-in trainers can do with the installed transformers.

Each capability is tried on a tiny language model and a few rows, against the plain run; ``OUT`` gets a JSON object of capability -> why
it can't be had, an empty text where it can. Nothing is written elsewhere but below the working folder.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher.trainers.transformers.environment import IMPORTS

ROWS, TOKENS, VOCABULARY = 8, 6, 16


def main(out: Path) -> None:
    """Tries all of them. A capability that raises can't be had, whatever it raises."""
    try:
        for name in (*IMPORTS, "launcher.trainers.transformers.native.hf_text"):
            importlib.import_module(name)
        from launcher.trainers.transformers.inside import guard, trial  # noqa: F401

        guard.check_transformers()
        _model()
    except Exception as error:
        out.write_text(json.dumps({"import": said(error)}), encoding="utf-8")
        return
    tests: dict[str, Callable[[], str]] = {"micro_batch": accumulation, "checkpointing": checkpointing, "val_micro_batch": evaluation}
    out.write_text(json.dumps({name: _tried(test) for name, test in tests.items()}), encoding="utf-8")


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def _tried(test: Callable[[], str]) -> str:
    try:
        return test()
    except Exception as error:
        return said(error)


def accumulation() -> str:
    """Two micro-batches of two rows, some of them shorter, step as one of four does."""
    whole, parts = _stepped(per_device_train_batch_size=4), _stepped(per_device_train_batch_size=2, gradient_accumulation_steps=2)
    return _same(whole, parts, "an accumulated step changes weights otherwise than the whole one")


def checkpointing() -> str:
    """A checkpointed step changes weights as the plain one does, and runs its layers twice."""
    from launcher.trainers.transformers.arguments import checkpointing

    name = checkpointing("text")
    calls: list[int] = []
    plain = _stepped(per_device_train_batch_size=4)
    saving = _stepped(calls, per_device_train_batch_size=4, **{name: True, f"{name}_kwargs": {"use_reentrant": False}})
    if len(calls) != 2:
        return f"its layers ran {len(calls)} times instead of twice: nothing was checkpointed"
    return _same(plain, saving, "a checkpointed step changes weights otherwise than the plain one")


def evaluation() -> str:
    """Evaluation takes the batch that it is given, and keeps its predictions in the container that a trial measures."""
    module: Any = importlib.import_module("transformers.trainer")
    sizes: list[int] = []
    container, add = module.EvalLoopContainer, module.EvalLoopContainer.add

    def counted(self: Any, tensors: Any) -> None:
        sizes.append(len(tensors[0] if isinstance(tensors, (list, tuple)) else tensors))
        add(self, tensors)

    container.add = counted
    try:
        _trainer(per_device_eval_batch_size=3).evaluate()
    finally:
        container.add = add
    return "" if sizes and max(sizes) == 3 else f"an evaluation in threes kept rows by {max(sizes, default=0)}"


def _same(one: dict[str, Any], other: dict[str, Any], words: str) -> str:
    import torch

    return "" if one.keys() == other.keys() and all(torch.allclose(one[name], other[name], atol=1e-5) for name in one) else words


def _stepped(calls: list[int] | None = None, **arguments: Any) -> dict[str, Any]:
    """The weights after one optimizer step."""
    trainer = _trainer(**arguments)
    before = {name: one.detach().clone() for name, one in trainer.model.named_parameters()}
    if calls is not None:
        trainer.model.model.layers[0].self_attn.register_forward_pre_hook(lambda *_: calls.append(1))
    trainer.train()
    after = {name: one.detach().clone() for name, one in trainer.model.named_parameters()}
    if all((before[name] == after[name]).all() for name in before):
        raise RuntimeError("a step changed nothing")
    return after


def _model() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
            max_position_embeddings=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip


def _trainer(**arguments: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    from launcher.trainers.transformers.native.hf_run import IGNORED
    from launcher.trainers.transformers.native.hf_text import Collate, TextData

    rows = [([3 + (row + place) % 12 for place in range(TOKENS - row % 3)],) for row in range(ROWS)]
    data = TextData([(tokens, [IGNORED if place == 0 else token for place, token in enumerate(tokens)]) for (tokens,) in rows])
    args = TrainingArguments(
        output_dir=str(Path.cwd() / "run"), max_steps=1, use_cpu=True, report_to="none", save_strategy="no", optim="sgd",
        learning_rate=0.1, lr_scheduler_type="constant", logging_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        label_names=["labels"], seed=1, **arguments,
    )  # fmt: skip
    return Trainer(model=_model(), args=args, train_dataset=data, eval_dataset=data, data_collator=Collate(pad=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
