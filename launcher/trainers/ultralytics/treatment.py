"""Says for every argument of Ultralytics what a trial does with it, and why that hides no memory need.

A fit means that the full run will come to its end. So each argument's effect is in the trial, or shown not to matter, or the argument is
refused; none is ignored silently. A test fails if ``default.yaml`` and this table don't have the same keys.

Loggers (wandb, tensorboard, mlflow, ...) are settings of the person's and no arguments. They are not in the trial, which must not upload
anything: what they send are figures already drawn. tensorboard's is in the trial: it sends nothing, and the graph that it traces before
training holds memory. On a CPU, where the budget is the host's memory, the others are refused in the trial (``inside/trial_trainer.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.errors import Fault
from launcher.trainers.ultralytics.arguments import ELSEWHERE, known


class TreatmentKind(StrEnum):
    RUNS = "runs"  # in the trial as asked
    HARMLESS = "harmless"  # can't touch the device's memory
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Treatment:
    kind: TreatmentKind
    because: str
    """Why that is enough; for one that is refused, the cure."""
    values: tuple[Any, ...] | None = None
    """REFUSED: the values that are; None: every one but the default."""


def _each(kind: TreatmentKind, because: str, keys: str) -> dict[str, Treatment]:
    return {key: Treatment(kind, because) for key in keys.split()}


_NOT_TRAINING = "no training reads it: it belongs to predict, export, track or another task"
_FOREVER = "no trial can stand for it"

TABLE: Mapping[str, Treatment] = {
    **{key: Treatment(TreatmentKind.REFUSED, cure) for key, cure in ELSEWHERE.items() if key != "accumulate"},
    # -- model and optimizer
    **_each(
        TreatmentKind.RUNS,
        "the trial's model, optimizer and loss are made of it",
        "pretrained cls_remap optimizer single_cls amp freeze channels_last",
    ),
    **_each(TreatmentKind.RUNS, "the trial's model is wrapped and run with it", "compile deterministic distill_model dis"),
    **_each(TreatmentKind.RUNS, "loss gains: the trial trains with them", "box cls cls_pw dfl pose kobj rle angle"),
    **_each(TreatmentKind.RUNS, "the trial steps with it; a loss that is not finite is its verdict", "lr0 lrf momentum weight_decay nbs"),
    **_each(TreatmentKind.RUNS, "the trial's steps are those of the warm-up", "warmup_epochs warmup_momentum warmup_bias_lr cos_lr"),
    # -- data and its augmentation
    **_each(TreatmentKind.RUNS, "the trial reads and validates these images", "fraction split classes"),
    **_each(TreatmentKind.RUNS, "its shapes are in the trial, the largest first and last", "rect multi_scale"),
    **_each(
        TreatmentKind.RUNS,
        "the trial's images go through it",
        "hsv_h hsv_s hsv_v degrees translate scale shear perspective flipud fliplr bgr augmentations",
    ),
    **_each(
        TreatmentKind.RUNS,
        "the trial's images go through it, and the labels they can join to are allowed for (worst.label_factor)",
        "mosaic mixup cutmix copy_paste copy_paste_mode",
    ),
    **_each(TreatmentKind.RUNS, "the trial's masks are made with it", "overlap_mask mask_ratio"),
    "close_mosaic": Treatment(TreatmentKind.RUNS, "the trial's last epoch has it closed where the run closes it, and the loader reset"),
    "cache": Treatment(TreatmentKind.RUNS, "ram: the trial caches them, too. disk: an image is read whole from its .npy as from its .jpg"),
    "workers": Treatment(
        TreatmentKind.RUNS, "on a card the trial's loader has them (their memory is the host's); on a CPU Ultralytics takes none"
    ),
    # -- how long
    "epochs": Treatment(
        TreatmentKind.RUNS, "kept for what hangs on it (optimizer=auto, mosaic, figures); first and last epochs are in the trial"
    ),
    "patience": Treatment(TreatmentKind.HARMLESS, "it ends a run sooner, and its end is in the trial"),
    "time": Treatment(TreatmentKind.REFUSED, "It changes epochs and accumulation as the run goes: set trainer.args.epochs."),
    # -- saving and validating
    "save": Treatment(TreatmentKind.HARMLESS, "the last epoch is saved in any case, and so are the trial's"),
    "save_period": Treatment(TreatmentKind.HARMLESS, "the checkpoint is serialized once and the same bytes written to one more file"),
    "val": Treatment(TreatmentKind.HARMLESS, "the last epoch is validated in any case, and so is the trial's first"),
    "plots": Treatment(TreatmentKind.RUNS, "the trial draws them all, at their real size"),
    **_each(
        TreatmentKind.RUNS,
        "the trial validates with it, and works its metrics out of as many predictions as the whole set gives",
        "save_json save_txt save_conf iou max_det nms agnostic_nms",
    ),
    **_each(TreatmentKind.RUNS, "the final validation of the trial runs with it", "augment visualize dnn show_labels show_conf"),
    "conf": Treatment(
        TreatmentKind.HARMLESS,
        "the trial passes on every box, at conf=0 (oriented ones: as many as a trained model fires): more than any threshold",
    ),
    "quantize": Treatment(
        TreatmentKind.REFUSED,
        "Quantization-aware training calibrates on data of its own, which no trial covers. Train without, and quantize on export.",
        (8, "8", "int8", "w8a8", "w8a16", "w8a32", "w16a16"),
    ),
    "profile": Treatment(
        TreatmentKind.REFUSED,
        "It exports the model to ONNX and TensorRT in the middle of the run, which no trial does. Leave it out; `yolo benchmark` times.",
        (True,),
    ),
    # -- names and words
    **_each(
        TreatmentKind.HARMLESS, "it says where things are written; a trial writes into its own folder", "project name exist_ok save_dir"
    ),
    **_each(TreatmentKind.HARMLESS, "words in the log, no memory", "verbose"),
    **_each(TreatmentKind.HARMLESS, "which images come together is luck in a run; the trial's are the worst of them", "seed"),
    # -- what training doesn't read
    **_each(
        TreatmentKind.HARMLESS,
        _NOT_TRAINING,
        "source vid_stride stream_buffer retina_masks embed show save_frames save_crop show_boxes line_width tracker "
        "format optimize dynamic simplify opset workspace dropout dlog dgrad dlam auto_augment erasing",
    ),
}
"""Argument -> its treatment."""

OLDER: Mapping[str, Treatment] = {
    **_each(TreatmentKind.RUNS, "the final validation of the trial runs with it (before 8.4.185)", "half save_hybrid"),
    **_each(TreatmentKind.RUNS, "the trial's model, optimizer and loss are made of it (before 8.4.150)", "label_smoothing end2end"),
    **_each(TreatmentKind.HARMLESS, _NOT_TRAINING, "int8 keras crop_fraction"),
}
"""As ``TABLE``, for arguments that Ultralytics had from 8.3.0 on and has no more."""


def faults(args: Mapping[str, Any]) -> list[Fault]:
    """The arguments that no trial can stand for, each with what to do instead. For those with a place of their own see ``arguments``."""
    table = {**OLDER, **TABLE}
    found = [
        Fault(key=f"trainer.args.{key}", found=f"{value!r}: {_FOREVER}", cure=table[key].because)
        for key, value in args.items()
        if key in table and key not in ELSEWHERE and _refused(table[key], value)
    ]
    unknown = [key for key, value in args.items() if key not in table and key in known() and value != known()[key].default]
    return found + [
        Fault(
            key=f"trainer.args.{key}",
            found=f"{args[key]!r}: the installed Ultralytics has it and autofit doesn't know it, so no trial can stand for it",
            cure="Leave it out, or install a later autofit.",
        )
        for key in unknown
    ]


def _refused(treatment: Treatment, value: Any) -> bool:
    if treatment.kind is not TreatmentKind.REFUSED or value is None:
        return False
    return treatment.values is None or any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in treatment.values)
