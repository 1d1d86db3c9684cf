"""Takes orders whose payload is a rung in Ultralytics' own words; runs a truncated, real training of it on the worst of the user's data.

Built on ``exact_trainer``'s trainers, so that what is proven here is what runs. The training loop, the loaders, the validator and the
optimizer are Ultralytics' own, and so is a run's end: mosaic closed, checkpoints saved and loaded, the fused model validated, figures
drawn. A second process goes on from what the first one's training has saved, by Ultralytics' own resuming, and ends likewise.
Replaced are which images come and in which shapes (``worst``), how many, and where things are written; the metrics are worked
out of as many predictions as the whole validation set gives. What becomes of each argument stands in ``treatment``.
Where Ultralytics would hide a failure of memory or write into the user's folders, a comment here says what holds it off, and
the traps' own tests show it.

Payload: ``model`` (str), ``task`` (str or None), ``args`` (this rung's native arguments), ``checkpointing`` (bool, or a share),
``val_batch`` (int or None), ``asked_batch`` and ``asked_nbs`` (int), ``cache_dir`` (folder for label caches, shared by a run's
trials); of a script that trains, ``script`` (its words) and ``given`` (what arrived at ``model.train`` when it was looked at) and
``validates`` (keywords of each ``model.val`` behind it, as far as they are known).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.trainers.ultralytics.environment import IMPORTS
from launcher.trainers.ultralytics.inside import going_on
from launcher.trainers.ultralytics.inside.hooks import Hooks
from launcher.trainers.ultralytics.inside.isolation import isolate
from launcher.trainers.ultralytics.inside.plan import Plan, TrialDone, refuse_uncovered
from launcher.worker import budget
from launcher.worker.recorder import Recorder

RELIED_UPON: Mapping[str, str] = {
    "ultralytics.engine.trainer:BaseTrainer.validate": "e56ca46cb1e38615",
    "ultralytics.engine.trainer:BaseTrainer.plot_metrics": "046604f9dfb25d8a",
    "ultralytics.data.base:BaseDataset.load_image": "088d1a203d122cdd",
    "ultralytics.data.base:BaseDataset.cache_images": "becfffb95f7db35e",
    "ultralytics.models.yolo.detect.val:DetectionValidator.get_stats": "ad64420cbd7cae7f",
    "ultralytics.utils.plotting:plot_images": "8e5f6489bd520fc9",
    "ultralytics.engine.trainer:BaseTrainer.train": "b7f76d34d85c1c6f",
    "ultralytics.engine.trainer:BaseTrainer.save_model": "47f61ede98e6f12b",
    "ultralytics.engine.trainer:BaseTrainer.final_eval": "398e74e935f34789",
    "ultralytics.engine.trainer:BaseTrainer._handle_nan_recovery": "e465d82576a3bc80",
    "ultralytics.engine.model:Model.val": "1ba1f74d3dd36a5d",
    "ultralytics.engine.validator:BaseValidator.__call__": "29da273b2118ebb6",
    "ultralytics.models.yolo.detect.val:DetectionValidator.postprocess": "0fcb34c909736510",
    "ultralytics.models.yolo.detect.val:DetectionValidator.update_metrics": "c8043746aafaa866",
    "ultralytics.data.build:InfiniteDataLoader": "7b232ee7c2d3e888",
    "ultralytics.data.build:_RepeatSampler": "2582f0c6ead5b2f2",
    "ultralytics.data.base:BaseDataset.set_rectangle": "f771615eb0dbde00",
    "ultralytics.data.dataset:YOLODataset.get_labels": "bd53038c16bfa12e",
    "ultralytics.data.dataset:YOLODataset._load_or_scan_cache": "f36510a1e2b307db",
    "ultralytics.data.utils:load_dataset_cache_file": "1c6cea96ce88f24d",
    "ultralytics.data.utils:save_dataset_cache_file": "ff400df7acf00376",
    "ultralytics.utils.tal:TaskAlignedAssigner._forward": "797909e9d693455a",
    "ultralytics.utils.tal:TaskAlignedAssigner.forward": "ef22692946368b14",
    "ultralytics.utils.nms:non_max_suppression": "51cdbaecdb0627c5",
    "ultralytics.utils.checks:check_font": "ccf9e94073e9904f",
    "ultralytics.utils.callbacks.base:add_integration_callbacks": "12935e9d4be7bfc7",
}
"""As ``checked_versions.RELIED_UPON``, for what only the trial builds upon."""


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    plan = Plan.of(orders)
    copying = going_on.Copying(orders, plan.arguments) if orders.resumes else None
    for name in IMPORTS:
        importlib.import_module(name)
    if copying is not None:
        copying.done()
    recorder.budget(budget.take(orders))  # where the run takes it: what is read or imported from here on is its own need, too
    from launcher.trainers.ultralytics.native import checked_versions, exact_settings

    checked_versions.check_ultralytics()
    if said := checked_versions.untried({**checked_versions.RELIED_UPON, **RELIED_UPON}):
        recorder.note(said)
    for complaint in budget.complaints(orders.device):
        recorder.note(complaint)
    recorder.phase(Phase.RESUME if orders.resumes else Phase.SETUP)
    exact_settings.configure(
        exact_settings.ExactSettings(
            asked_batch=plan.asked_batch, asked_nbs=plan.asked_nbs, checkpointing=plan.checkpointing, val_batch=plan.val_batch
        )
    )
    scans = isolate(recorder, plan.cache_folder)

    from launcher.trainers.ultralytics.inside import script_trial
    from launcher.trainers.ultralytics.inside.trial_trainer import trial

    hooks = Hooks()

    def made(base: Any) -> Any:
        return trial(base, plan, recorder, scans, hooks)

    try:
        if "script" in orders.payload:
            script_trial.run(orders, plan, recorder, made)
        else:
            _train(plan, made)
    except TrialDone:
        finite = recorder.report().loss_finite is not False
        if finite and (unseen := hooks.unseen(recorder.observed)):
            recorder.hint(unseen)  # without the last phase the verdict is "vacuous", and these are its words
        else:
            recorder.phase(Phase.DONE)
    else:
        raise RuntimeError("Ultralytics ended the training before the trial had seen its steps")


def _train(plan: Plan, made: Callable[[Any], Any]) -> None:
    from ultralytics import YOLO

    from launcher.trainers.ultralytics.native import exact_trainer

    model = YOLO(plan.model, task=plan.task)
    refuse_uncovered(model.task)
    given = going_on.told(plan.arguments) if plan.orders.resumes else plan.arguments
    trainer = made(exact_trainer.trainer_for(model))
    model.train(trainer=trainer, **exact_trainer.going_on(model, given))
