"""Hooks into Ultralytics: its trainers are steered through a trial, its validators made to need what the whole set does, and nothing is
fetched, sent, or lost to a failure of memory without a word. A script's ``YOLO(...).train()`` and the ``yolo`` command are one path.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from ....common.orders import LABELS
from ....common.report import Phase
from ....inside.after_import import Hook
from ....inside.instrument import Instrument
from . import validates

LOGGERS = ("clearml", "comet", "dvc", "hub", "mlflow", "neptune", "platform", "raytune", "wb")
"""All but TensorBoard, which writes into the run's folder alone; the graph that it traces holds memory (75 MiB where a run needed 309)."""
ANOTHER = "what the script does from its second training on is not proven"


def hooks(instrument: Instrument) -> dict[str, tuple[str, Hook]]:
    """Module -> (a name that must be in it, what is done with it when it has been imported)."""
    return {
        "ultralytics.engine.model": ("Model", lambda module: _models(instrument, module)),
        "ultralytics.engine.validator": ("BaseValidator", lambda module: validates.install(instrument, module)),
        "ultralytics.data.utils": ("save_dataset_cache_file", lambda module: _labels_once(instrument, module)),
        "ultralytics.utils.tal": ("TaskAlignedAssigner", lambda module: _tells_of_memory(instrument, module.TaskAlignedAssigner)),
        "ultralytics.utils.downloads": ("safe_download", _fetches_nothing),
        **{f"ultralytics.utils.callbacks.{name}": ("callbacks", lambda module: module.callbacks.clear()) for name in LOGGERS},
    }


def _labels_once(instrument: Instrument, module: Any) -> None:
    """Labels are scanned by one process of the launch: where its run can be given them (``native.yolo``), which scans else, with threads
    that no trial had, and where Ultralytics knows by its time what was written since."""
    if instrument.orders.device == "cpu" or "st_mtime_ns" not in module.get_hash.__code__.co_names:
        return
    load, save = module.load_dataset_cache_file, module.save_dataset_cache_file

    def ours(path: Path) -> Path:
        if path.exists() or not module.is_dir_writeable(path.parent):
            return path
        place = Path(os.environ[LABELS], *path.absolute().parts[1:])
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    module.load_dataset_cache_file = lambda path: load(ours(path))
    module.save_dataset_cache_file = lambda prefix, path, *more: save(prefix, ours(path), *more)


def _models(instrument: Instrument, module: Any) -> None:
    """Patches ``ultralytics.engine.model``: the training is steered."""
    train = module.Model.train

    @functools.wraps(train)
    def trained(this: Any, trainer: Any = None, **kwargs: Any) -> Any:
        instrument.open()  # the card is used from here on, and Ultralytics asks for it only as the trainer is made
        if instrument.recorder is None or this.task not in validates.COVERED:
            return train(this, trainer, **kwargs)
        if instrument.phase is Phase.FINISH:
            instrument.recorder.note(ANOTHER)
            instrument.finish()
        from .steers import Steered

        instrument.passive = instrument.knows_the_worst = True
        base = trainer or this._smart_load("trainer")
        try:
            found = train(this, type(f"Tried{base.__name__}", (Steered, base), {"instrument": instrument}), **kwargs)
        except Exception:  # whatever the script would make of it: a full run ends here, too
            instrument.at_exit()
            instrument.end(1)
        instrument.ends_soon()
        return found

    module.Model.train = trained


def _tells_of_memory(instrument: Instrument, assigner: Any) -> None:
    """The label assigner survives running out of memory, on the CPU or image by image, and hundreds of times slower."""
    assign = getattr(assigner, "_forward", None)
    if assign is None:  # 8.3.0 doesn't survive it
        return

    @functools.wraps(assign)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return assign(self, *args, **kwargs)
        except RuntimeError as error:
            if instrument.recorder is not None and "out of memory" in str(error).lower():
                instrument.recorder.swallowed(f"{type(self).__name__} ran out of memory ({self.n_max_boxes} boxes) and went on")
            raise

    assigner._forward = watched


def _fetches_nothing(module: Any) -> None:
    """``YOLO_OFFLINE`` still lets files be fetched."""

    def refuse(url: str, *_: Any, **__: Any) -> None:
        raise ConnectionError(f"a trial downloads nothing, and this was asked for: {url}. Fetch it once beforehand, or give its path")

    module.safe_download = refuse
