"""``python -m launcher.trainers.ultralytics.inside.capabilities OUT``: what of exact training the installed Ultralytics lets be done.

Each capability is tried on a tiny model and a few images, against the plain run; ``OUT`` gets a JSON object of capability -> why it
can't be had, an empty text where it can. Nothing is written elsewhere but below the working folder.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMAGES, SIDE = 8, 32

MODEL = """
nc: 1
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, C2f, [8, True]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, SPPF, [16, 5]]
head:
  - [[3, 5], 1, Detect, [nc]]
"""


def main(out: Path) -> None:
    """Tries all of them. A capability that raises can't be had, whatever it raises."""
    try:
        from launcher.trainers.ultralytics.inside import imports, trial  # noqa: F401
        from launcher.trainers.ultralytics.native import checked_versions, exact_trainer  # noqa: F401

        checked_versions.check_ultralytics()
    except Exception as error:
        out.write_text(json.dumps({"import": said(error)}), encoding="utf-8")
        return
    logging.getLogger("ultralytics").setLevel(logging.ERROR)
    data = _data(Path.cwd() / "data")
    tests: dict[str, Callable[[Path], str]] = {
        "accumulation": accumulation,
        "checkpointing": checkpointing,
        "val_micro_batch": val_micro_batch,
    }
    found = {name: _tried(test, data) for name, test in tests.items()}
    out.write_text(json.dumps(found), encoding="utf-8")


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def _tried(test: Callable[[Path], str], data: Path) -> str:
    from launcher.trainers.ultralytics.native import exact_settings

    try:
        return test(data)
    except Exception as error:
        return said(error)
    finally:
        exact_settings.configure(exact_settings.ExactSettings())


def accumulation(data: Path) -> str:
    """A rung of half the micro-batch steps after as many images as the plain run, with the same decay, through the warm-up."""
    from ultralytics.models.yolo.detect import DetectionTrainer

    from launcher.trainers.ultralytics.native import exact_settings, exact_trainer

    asked = {"batch": 4, "nbs": 8}
    plain = _trained(DetectionTrainer, data, "plain", **asked)
    exact_settings.configure(exact_settings.ExactSettings(asked_batch=4, asked_nbs=8))
    rung = _trained(exact_trainer.ExactDetectionTrainer, data, "rung", batch=2, nbs=8)
    if plain[0] != rung[0]:
        return f"a rung steps after {rung[0]} images where the plain run does after {plain[0]}"
    if not plain[0]:
        return "no optimizer step was seen"
    return "" if abs(plain[1] - rung[1]) < 1e-12 else f"a rung decays weights by {rung[1]}, the plain run by {plain[1]}"


def _trained(base: Any, data: Path, name: str, **arguments: Any) -> tuple[list[int], float]:
    """(images of every optimizer step, weight decay) of a short training."""
    steps: list[int] = []

    class Watched(base):  # type: ignore[misc]
        _images = 0

        def preprocess_batch(self, batch: Any) -> Any:
            self._images += len(batch["img"])
            return super().preprocess_batch(batch)

        def optimizer_step(self) -> None:
            super().optimizer_step()
            steps.append(self._images)
            self._images = 0

        def validate(self) -> Any:
            return {}, 0.0

        def final_eval(self) -> None: ...

        def save_model(self) -> bool:
            return False

    trainer = _built(Watched, data, name, epochs=4, warmup_epochs=2.0, **arguments)
    trainer.train()
    return steps, max(group["weight_decay"] for group in trainer.optimizer.param_groups)


def checkpointing(data: Path) -> str:
    """A checkpointed step has the plain step's gradients and statistics, and runs its layers twice."""
    import torch

    from launcher.trainers.ultralytics.native import exact_trainer, layer_checkpointing

    trainer = _built(exact_trainer.ExactDetectionTrainer, data, "checkpointing", batch=4)
    exact_trainer.set_up(trainer)
    trainer.model.train()
    batch = trainer.preprocess_batch(next(iter(trainer.train_loader)))
    plain, checkpointed = trainer.model, copy.deepcopy(trainer.model)
    results = []
    for model, switch in ((plain, layer_checkpointing.disable), (checkpointed, layer_checkpointing.enable)):
        switch()
        calls: list[int] = []
        model.model[0].register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))  # a recomputation may stop before its end
        torch.manual_seed(0)
        loss = model({key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in batch.items()})[0]
        loss.sum().backward()
        gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
        results.append((gradients, dict(model.named_buffers()), len(calls)))
    (gradients, buffers, once), (again, buffers_again, twice) = results
    if (once, twice) != (1, 2):
        return f"its layers ran {twice} times instead of twice: nothing was checkpointed"
    for first, second in ((gradients, again), (buffers, buffers_again)):
        if first.keys() != second.keys() or any(not torch.allclose(first[name], second[name], atol=1e-6) for name in first):
            return "a checkpointed step has other gradients or statistics than the plain one"
    return "" if gradients else "no gradient was seen"


def val_micro_batch(data: Path) -> str:
    """The validation loader takes the batch that it is given."""
    from launcher.trainers.ultralytics.native import exact_settings, exact_trainer

    exact_settings.configure(exact_settings.ExactSettings(val_batch=3))
    trainer = _built(exact_trainer.ExactDetectionTrainer, data, "validation", batch=4)
    exact_trainer.set_up(trainer)
    size = trainer.test_loader.batch_size
    if size != 3 or trainer.validator.dataloader is not trainer.test_loader:
        return f"validation ran batches of {size} instead of 3"
    return ""


def _built(base: Any, data: Path, name: str, **arguments: Any) -> Any:
    from launcher.trainers.ultralytics.arguments import saved_in

    model = Path.cwd() / "tiny.yaml"
    model.write_text(MODEL, encoding="utf-8")
    common = {"model": str(model), "data": str(data), "imgsz": SIDE, "device": "cpu", "plots": False, "val": False, "optimizer": "SGD"}
    return base(overrides={**common, "mosaic": 0.0, **saved_in(Path.cwd() / name), **arguments})


def _data(folder: Path) -> Path:
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        (folder / "images" / split).mkdir(parents=True)
        (folder / "labels" / split).mkdir(parents=True)
        for number in range(IMAGES):
            Image.fromarray(rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)).save(folder / "images" / split / f"{number}.png")
            (folder / "labels" / split / f"{number}.txt").write_text("0 0.5 0.5 0.4 0.4\n", encoding="utf-8")
    yaml = folder / "data.yaml"
    yaml.write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [thing]\n", encoding="utf-8")
    return yaml


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
