"""Which Ultralytics was read, what of it is relied upon, and whether the installed one reads the same. Beside ``yolo_exact.py``."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

import ultralytics

if __package__:
    from .exact_settings import Refused
else:  # copied beside yolo_exact.py
    from exact_settings import Refused  # type: ignore[import-not-found,no-redef]

CHECKED = ("8.4.190",)
"""Ultralytics versions whose source was read: ``RELIED_UPON`` holds its hashes. Others are told apart in a note, never refused for it."""

OLDEST = (8, 3, 0)
"""The first Ultralytics that this file was run with."""

RELIED_UPON: Mapping[str, str] = {
    "ultralytics.nn.tasks:BaseModel.forward": "be11e050406b052b",
    "ultralytics.nn.tasks:BaseModel.predict": "a47c1336427f96bc",
    "ultralytics.nn.tasks:BaseModel._predict_once": "b932f70b581bec47",
    "ultralytics.engine.trainer:BaseTrainer.__init__": "f65efe9d96beca31",
    "ultralytics.engine.trainer:BaseTrainer._do_train": "87a635e3bfc4fd3f",
    "ultralytics.engine.trainer:BaseTrainer._setup_train": "aecd0c111afe4314",
    "ultralytics.engine.trainer:BaseTrainer._build_train_pipeline": "07afcc0627f2c8b2",
    "ultralytics.engine.trainer:BaseTrainer._get_warmup_iterations": "2b8d4260941e5926",
    "ultralytics.engine.trainer:BaseTrainer.run_callbacks": "049f548711515e03",
    "ultralytics.engine.trainer:BaseTrainer.setup_model": "33c98eece052d628",
    "ultralytics.engine.trainer:BaseTrainer.build_optimizer": "108f7055e6005628",
    "ultralytics.engine.trainer:BaseTrainer.optimizer_step": "bec16cbc552a8f2d",
    "ultralytics.models.yolo.detect.train:DetectionTrainer.get_dataloader": "981b10cf054f7a1b",
    "ultralytics.models.yolo.detect.train:DetectionTrainer.preprocess_batch": "cd3df8d7801c310d",
    "ultralytics.models.yolo.detect.train:DetectionTrainer._build_train_pipeline": "a86453b56fab7d9a",
    "ultralytics.models.yolo.classify.train:ClassificationTrainer.get_dataloader": "1756fc09ff7eaf5b",
    "ultralytics.models.yolo.classify.train:ClassificationTrainer.preprocess_batch": "400fa382d323bad0",
    "ultralytics.data.build:build_dataloader": "4f01bd7501fe661a",
    "ultralytics.engine.model:Model.train": "478371e11f2ad0ac",
    "ultralytics.engine.model:Model._smart_load": "bedf675ecc25506a",
    "ultralytics.cfg:entrypoint": "65f2c474d1b4d4de",
    "ultralytics.cfg:get_cfg": "fe922e00099232ce",
    "ultralytics.utils.dist:generate_ddp_file": "7c80979f379ddf1a",
}
"""``module:qualified name`` of every function that is patched, overridden or reasoned about -> hash of its source in ``CHECKED``."""


RELIANCES: Mapping[str, str] = {
    "BaseTrainer.accumulate": "assigned by Ultralytics, compared after every micro-batch: where the asked accumulation is put in its "
    "place. Seen: every value assigned in the warm-up is the one that ``Ramp`` expects.",
    "BaseTrainer.preprocess_batch": "called once per micro-batch, before its forward pass: counts them. Seen: the same values.",
    "BaseTrainer.run_callbacks": "on_train_start and on_train_epoch_start (public): when counting begins.",
    "BaseTrainer.build_optimizer": "its ``iterations`` decide optimizer=auto. Seen: the optimizer is among the trial's facts.",
    "BaseTrainer.lf, args.warmup_bias_lr, args.warmup_momentum": "learning rates of the warm-up. Seen: what Ultralytics has set is "
    "what this file believes that it sets; otherwise it is left as it is.",
    "BaseTrainer.get_dataloader": "mode and batch_size: the validation batch. Seen: the batches that come.",
    "BaseTrainer.save_model": "writes by ``write_bytes`` of wdir, last and best. Otherwise they are written as ever.",
    "BaseTrainer.batch_size": "Seen: it stays what it was; Ultralytics halves it after an out-of-memory error.",
    "BaseTrainer._oom_retries": "from 8.4.60 on: set so that it halves nothing. Absent before, and nothing was halved there.",
    "BaseTrainer._get_warmup_iterations": "from 8.4.150 on; before, at least 100 iterations.",
    "BaseModel._predict_once": "the loop over layers that is checkpointed: ``model``, ``save``, and ``f`` and ``i`` of layers.",
    "cfg.ARGV, cfg.entrypoint, Model.train, Model._smart_load": "the yolo command, or a script's training, with another trainer.",
    "Model.overrides, Model.task, cfg.get_cfg, cfg.TASK2DATA": "what a script's training is given. Seen: the batches and sizes that come.",
}
"""What is private, or might change, and is relied upon -> what for, and by what it is seen to hold."""


def source_hash(name: str) -> str:
    """Hash of the source of ``module:qualified.name``; text saying so where there is none."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        source = inspect.getsource(getattr(found, "__func__", found))
    except (ImportError, AttributeError, OSError, TypeError) as error:
        return f"missing ({type(error).__name__})"
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def changed(table: Mapping[str, str]) -> tuple[str, ...]:
    """The names in ``table`` whose source is not the one that was checked."""
    return tuple(name for name, expected in table.items() if source_hash(name) != expected)


def check_ultralytics(version: str = ultralytics.__version__) -> None:
    """Raises ``Refused`` where the installed Ultralytics is older than any that this file was run with."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Refused(
            f"ultralytics {version} is installed; exact training needs {oldest} or a later one: pip install 'ultralytics>={oldest}'"
        )


def untried(table: Mapping[str, str] = RELIED_UPON, version: str = ultralytics.__version__) -> str | None:
    """A note where the installed Ultralytics reads otherwise than the one that was checked; None where it reads the same."""
    different = changed(table)
    if not different:
        return None
    return f"ultralytics {version} isn't the {CHECKED[-1]} that was read ({len(different)} functions differ): checked by behaviour"
