"""Checks the installed transformers for changes in the inner workings that trials rely on, and notes them."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

CHECKED = ("5.23.0",)
"""transformers versions whose source was read: ``RELIED_UPON`` holds its hashes. Others are told apart in a note, never refused for it."""

OLDEST = (4, 50)
"""The first transformers that the built-in trainers were run with."""

RELIANCES: Mapping[str, str] = {
    "Trainer._get_train_sampler": "which samples come, and in which order: the trial's. Seen: it is asked for.",
    "Trainer.get_batch_samples": "what a step has on the device before its first micro-batch. Seen: it is called.",
    "Trainer.training_step": "the micro-batch and its loss. Seen: rows per call.",
    "Trainer.get_eval_dataloader, Trainer._get_eval_sampler": "which samples are validated (the first is public). Seen: asked for.",
    "Trainer.prediction_step": "the validation micro-batch. Seen: rows per call.",
    "trainer_pt_utils.EvalLoopContainer.add": "what an evaluation keeps. Seen: it is called.",
    "TrainerCallback": "public: steps, evaluations and the end. Seen: the optimizer's steps and validation batches are counted.",
}
"""What is private, or might change, and is relied upon -> what for, and by what it is seen to hold."""

RELIED_UPON: Mapping[str, str] = {
    "transformers.trainer:Trainer.get_batch_samples": "0b3727386f73f670",
    "transformers.trainer:Trainer._run_epoch": "31aff00f34c302a2",
    "transformers.trainer:Trainer.training_step": "e9760c8ee10308d5",
    "transformers.trainer:Trainer.compute_loss": "160dea726d2f28bd",
    "transformers.trainer:Trainer.get_train_dataloader": "205a99685f8facd9",
    "transformers.trainer:Trainer.get_eval_dataloader": "dd1c9287ad46f5ae",
    "transformers.trainer:Trainer._get_dataloader": "d1296dbd4dcb6a20",
    "transformers.trainer:Trainer.evaluate": "47001f3acc991bc4",
    "transformers.trainer:Trainer.evaluation_loop": "a0fe4d6536f8a84a",
    "transformers.trainer:Trainer._maybe_log_save_evaluate": "af101534f0f7b2d7",
    "transformers.trainer:Trainer._get_num_items_in_batch": "a31fa106f70db1b9",
    "transformers.trainer_seq2seq:Seq2SeqTrainer.prediction_step": "3965ce182d654f6b",
    "transformers.trainer_pt_utils:EvalLoopContainer": "e80b2043fe201fb6",
    "transformers.trainer_pt_utils:nested_concat": "41d3ec83532387ce",
    "transformers.trainer_callback:DefaultFlowCallback": "c9efb81c3102d41f",
    "transformers.trainer:Trainer._finalize_training": "6d6d83d6a2715f2a",
    "transformers.trainer:Trainer._get_train_sampler": "1580d7493244e637",
    "transformers.trainer:Trainer._get_eval_sampler": "f0213c4ba087dcaf",
    "transformers.trainer:Trainer.set_initial_training_values": "81697f5f3100a3ad",
    "transformers.trainer:Trainer._init_training_state": "8fbd17ebb7d3793d",
    "transformers.trainer:Trainer._load_best_model": "0e183d55a9db7414",
    "transformers.trainer:Trainer._save_checkpoint": "a9111e30faa99339",
    "transformers.trainer_callback:TrainerState.load_from_json": "1e94c20503beea12",
    "transformers.trainer_utils:EvalPrediction": "ea5a6ed8b3b312f9",
}
"""``module:qualified name`` of every function that is patched or reasoned about -> hash of its source in ``CHECKED``."""


class NotCovered(ValueError):
    """This trial cannot say anything true about such a run. The message says which, and what is covered."""


def source_hash(name: str) -> str:
    """Hash of the source of ``module:qualified.name``; text saying so where there is none."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        source = inspect.getsource(inspect.unwrap(found))
    except (ImportError, AttributeError, OSError, TypeError) as error:
        return f"missing ({type(error).__name__})"
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def changed(table: Mapping[str, str] = RELIED_UPON) -> tuple[str, ...]:
    """The names in ``table`` whose source is not the one that was checked."""
    return tuple(name for name, expected in table.items() if source_hash(name) != expected)


def check_transformers(version: str | None = None) -> None:
    """Raises NotCovered where the installed transformers is older than any that the built-in trainers were run with."""
    import transformers

    found = version or transformers.__version__
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if len(numbers) == 2 and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NotCovered(f"transformers {found} is installed; a trial needs {oldest} or a later one: pip install 'transformers>={oldest}'")


def untried(table: Mapping[str, str] = RELIED_UPON) -> str | None:
    """A note where the installed transformers reads otherwise than the one that was checked; None where it reads the same."""
    import transformers

    different = changed(table)
    if not different:
        return None
    known = f"isn't the {CHECKED[-1]} that was read ({len(different)} functions differ)"
    return f"transformers {transformers.__version__} {known}: checked by behaviour"


class Hooks:
    """What a trial puts into transformers, and whether it was really called. One that never was makes the trial prove nothing."""

    NEEDED: Mapping[str, str] = {
        "training samples": "training took its samples from elsewhere than the trial's order (Trainer._get_train_sampler)",
        "accumulated batches": "a step's micro-batches were not fetched together (Trainer.get_batch_samples)",
        "training step": "no micro-batch was seen (Trainer.training_step)",
        "validation samples": "validation took its samples from elsewhere (Trainer.get_eval_dataloader)",
        "validation step": "no validation batch was seen (Trainer.prediction_step)",
        "kept": "what an evaluation keeps was not seen (transformers.trainer.EvalLoopContainer)",
    }

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def seen(self, name: str) -> None:
        self._seen.add(name)

    def unseen(self) -> str:
        """What did not happen, in words, or an empty string."""
        missing = [words for name, words in self.NEEDED.items() if name not in self._seen]
        return f"this transformers works otherwise than the trial knows it: {'; '.join(missing)}" if missing else ""
