"""The trial of a training that a person's script asks for: the script runs up to it, and the trial is made in its place."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.inside import overlaid_libraries
from launcher.inside.after_import import after_import
from launcher.inside.overlay import Overlay
from launcher.inside.quiet import QUIET
from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.trainers.ultralytics.inside import own_validation
from launcher.trainers.ultralytics.inside.plan import NotCovered, Plan, TrialDone, refuse_uncovered
from launcher.trainers.ultralytics.native import exact_trainer, script_training


class _Left(BaseException):
    """The script is over: nothing in it catches this as an error of its own."""


class _Trial:
    """What the script's training comes to."""

    def __init__(self, orders: Orders, plan: Plan, recorder: Recorder, made: Callable[[Any], Any]) -> None:
        self._plan, self._recorder, self._made = plan, recorder, made
        self._given: Mapping[str, Any] = orders.payload["given"]
        self._validations: Sequence[Mapping[str, Any]] = orders.payload.get("validates", ())
        self.ended: BaseException | None = None

    def take(self, model: Any, trainer: Any, keywords: Mapping[str, Any]) -> Any:
        try:
            self._train(model, trainer, keywords)
        except BaseException as error:
            self.ended = error
        raise _Left

    def _train(self, model: Any, trainer: Any, keywords: Mapping[str, Any]) -> None:
        if trainer is not None:
            raise NotCovered(f"the script brings a trainer of its own ({trainer.__name__}), which no trial covers")
        if different := script_training.differing(script_training.arriving(model, keywords), self._given):
            raise NotCovered(f"the script gives {', '.join(different)}: it asks for another training than the one that is tried")
        refuse_uncovered(model.task)
        wanted = {key: value for key, value in self._plan.arguments.items() if key != "model"}
        if wanted["resume"]:
            model.ckpt_path = wanted["resume"]  # as ``yolo_script`` does
        try:
            given = exact_trainer.going_on(model, {**keywords, **wanted})
            script_training.plain_train(model, self._made(exact_trainer.trainer_for(model)), **given)
        except TrialDone:
            if self._recorder.report().loss_finite is not False and not self._plan.orders.resumes:
                always = {key: wanted[key] for key in ("data", "device", "workers") if key in wanted}
                own_validation.validate(model, self._validations, self._recorder, **always)
            raise


def run(orders: Orders, plan: Plan, recorder: Recorder, made: Callable[[Any], Any]) -> None:
    """Raises what ended the trial, ``plan.TrialDone`` where it went through. ``made``: the trial's trainer upon the exact one."""
    trial = _Trial(orders, plan, recorder, made)
    script_training.hand_over(trial.take)
    with tempfile.TemporaryDirectory(prefix="autofit-", ignore_cleanup_errors=True) as temporary:
        _writes_go_aside(orders, plan, temporary)
        try:
            script_training.run(orders.payload["script"])
        except _Left:
            pass
        except BaseException:
            if trial.ended is None:
                raise
        if trial.ended is None:
            raise RuntimeError("the script ended before it came to its training")
        raise trial.ended


def _writes_go_aside(orders: Orders, plan: Plan, temporary: str) -> None:
    """What the script writes before its training goes to the trial's folder; nothing is sent, and no caches are left beside its modules."""
    os.environ.update({**QUIET, "TMPDIR": temporary})
    tempfile.tempdir, sys.dont_write_bytecode = temporary, True
    own = (
        orders.folder,
        orders.scratch.parent,
        plan.cache_folder,
        Path(os.environ["YOLO_CONFIG_DIR"]).parent,
        temporary,
    )  # with its neighbours: ``environment``
    overlay = Overlay(orders.scratch / "overlay", kept=[Path(place) for place in own])
    overlay.install()
    after_import(overlaid_libraries.hooks(overlay))
