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
from collections.abc import Callable
from typing import Any

from launcher.inside import budget
from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.trainers.ultralytics.environment import IMPORTS
from launcher.trainers.ultralytics.inside import going_on
from launcher.trainers.ultralytics.inside.isolation import isolate
from launcher.trainers.ultralytics.inside.plan import Plan, TrialDone, refuse_uncovered
from launcher.trainers.ultralytics.inside.unseen import Hooks


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    plan = Plan.of(orders)
    copying = going_on.Copying(orders, plan.arguments) if orders.resumes else None
    for name in IMPORTS:
        importlib.import_module(name)
    if copying is not None:
        copying.done()
    recorder.budget(budget.take(orders))  # where the run takes it: what is read or imported from here on is its own need, too
    from launcher.trainers.ultralytics.native import exact_settings

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
