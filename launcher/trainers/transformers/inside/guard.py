"""The installed transformers -> whether it is one whose inner workings a trial knows. Raises NotCovered, naming what differs."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

CHECKED = ("5.23.0",)
"""transformers versions that the tests ran against. Another one is accepted while ``RELIED_UPON`` reads the same there."""

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


def check_transformers(table: Mapping[str, str] = RELIED_UPON) -> None:
    """Raises NotCovered unless the installed transformers is one whose inner workings are known here."""
    import transformers

    different = changed(table)
    if different:
        raise NotCovered(
            f"transformers {transformers.__version__} differs from {CHECKED[-1]} in what a trial builds upon: {', '.join(different)}. "
            f"Install a checked version: pip install transformers=={CHECKED[-1]}"
        )
