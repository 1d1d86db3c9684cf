"""Takes a ``yolo`` command line, runs it with what Ultralytics cannot say there: exact accumulation, checkpointing, a validation batch.

    python yolo_exact.py [options] detect train model=yolov8x.pt data=data.yaml batch=16 imgsz=1280 epochs=300

Everything after the options goes to Ultralytics unchanged, so native arguments keep their meaning. Options:

--asked-batch B0, --asked-nbs N0
    The run that was asked for. It would take one optimizer step per ``E = B0 * max(round(N0 / B0), 1)`` images, after a
    warm-up that ramps the accumulation from 1. This run's ``batch`` is a micro-batch that divides ``E``: it steps after the same images
    as the asked run, in the warm-up and at the end of a pass, too (after the micro-batch in which they end, where ``batch`` does not
    divide ``B0``), with the asked run's learning rates.
    Leave ``nbs`` and ``weight_decay`` as asked: the applied decay then is the asked run's, to the last bit.
    ``optimizer=auto`` is resolved as the asked run would resolve it. Defaults: this run's own ``batch`` and ``nbs``.
--checkpointing
    Gradient checkpointing, layer by layer: less memory, about 1.3 to 1.7 times the time; equal gradients and batch-norm statistics.
    Checkpoints on disk stay plain Ultralytics checkpoints.
--checkpointing-share S
    The same for the first layers alone, those that hold the share S (0 to 1) of what is kept for backward: less time, more memory.
--val-batch N
    Images per validation batch (per GPU); Ultralytics takes twice the training batch.
--tell FILE
    FILE gets the path of the folder that Ultralytics keeps the run in.

Checkpoints are written whole or not at all; Ultralytics writes over the last one in place.
In-loop halving of the batch after an out-of-memory error (Ultralytics, first epoch) is off: this trainer runs what it was told, or fails.

It needs nothing but torch, ultralytics and the files beside it; keep them beside your data and run it without autofit. It was written
against the Ultralytics of ``exact_settings.READ`` and runs with any from ``OLDEST`` on: what it builds upon is
checked by what is seen while it runs. The accumulation that Ultralytics works out for itself must be the one that is expected here, and
a batch that Ultralytics has halved ends the run.
The options travel in the environment variable ``YOLO_EXACT``, so Ultralytics' own multi-GPU workers inherit them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import ultralytics
import ultralytics.cfg
from ultralytics.engine.model import Model

if __package__:
    from .exact_settings import ExactSettings, Refused, check_version, configure
    from .exact_trainer import going_on, trainer_for
else:  # run as a script
    from exact_settings import ExactSettings, Refused, check_version, configure  # type: ignore[import-not-found,no-redef]
    from exact_trainer import going_on, trainer_for  # type: ignore[import-not-found,no-redef]


def parse(argv: Sequence[str]) -> tuple[ExactSettings, list[str]]:
    """Splits leading options of ours from Ultralytics' own words, which are returned untouched."""
    parser = argparse.ArgumentParser(prog="yolo_exact.py", description="The yolo command, trained exactly.", allow_abbrev=False)
    parser.add_argument("--asked-batch", type=int, metavar="B0", help="batch of the asked run; this run's batch is a micro-batch of it")
    parser.add_argument("--asked-nbs", type=int, metavar="N0", help="nbs of the asked run (default: this run's)")
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument(
        "--checkpointing-share", dest="checkpointing", type=float, default=argparse.SUPPRESS, metavar="S", help="of the first layers alone"
    )
    parser.add_argument("--val-batch", type=int, metavar="N", help="images per validation batch and GPU")
    parser.add_argument("--tell", metavar="FILE", help="gets the path of the folder that the run is kept in")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...", help="the yolo command, e.g. detect train model=yolo11n.pt data=d.yaml"
    )
    found = vars(parser.parse_args(argv))
    words = found.pop("words")
    found["tell"] = found["tell"] and os.path.abspath(found["tell"])
    return ExactSettings(**found), words


def train_exactly(self: Any, trainer: Any = None, **kwargs: Any) -> Any:
    """``Model.train`` with the exact trainer as its default."""
    return _plain_train(self, trainer or trainer_for(self), **going_on(self, kwargs))


_plain_train: Callable[..., Any] = Model.train


def main(argv: Sequence[str]) -> None:
    """Runs the yolo command in ``argv`` in this process; Ultralytics' own errors come through unchanged."""
    chosen, words = parse(argv)
    check_version(ultralytics.__version__)
    configure(chosen)
    Model.train = train_exactly
    torch.cuda.is_available()  # from here on CUDA has the card it was given: before 8.4.100 select_device("0") says another to it
    ultralytics.cfg.ARGV = ["yolo", *words]  # not entrypoint("..."): that splits on blanks
    ultralytics.cfg.entrypoint()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(f"yolo_exact: {error}")
