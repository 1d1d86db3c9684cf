"""Takes a script that trains with Ultralytics and runs it as it is, trained exactly, with other settings where its training is asked for.

    python yolo_script.py [options] batch=8 imgsz=1024 -- train.py --data data.yaml

What stands behind ``--`` is the script's own command line. Its settings may be anywhere in it (a dict, a constant, an argument): the words
before ``--`` are set as ``model.train(...)`` takes them, and nothing else is changed: neither the file, nor what runs before and after.
Options are those of ``yolo_exact.py``, beside which this file is kept, and

--given KEY=VALUE
    What the script gives, as it was when the words were chosen; anything else is refused, since they would not fit it.
--trained WEIGHTS
    The training is done already: these are its weights. They are validated in its place, and the script goes on.

--only
    The script ends with its training.

``resume=CHECKPOINT`` among the words goes on from there. A training that fails ends the script with a status of its own, even where the
script catches the error; it is not tried a second time with other settings. Another training after one that went well runs as it stands.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ultralytics
from ultralytics.cfg import smart_value

if __package__:
    from . import script_training, yolo_exact, yolo_ranks
    from .exact_settings import ExactSettings, Refused, check_version, configure
    from .exact_trainer import going_on, trainer_for
else:  # run as a script
    import script_training  # type: ignore[import-not-found,no-redef]
    import yolo_exact  # type: ignore[import-not-found,no-redef]
    import yolo_ranks  # type: ignore[import-not-found,no-redef]
    from exact_settings import ExactSettings, Refused, check_version, configure  # type: ignore[import-not-found,no-redef]
    from exact_trainer import going_on, trainer_for  # type: ignore[import-not-found,no-redef]


class Training:
    """The script's training, once it asks for one."""

    def __init__(self, wanted: Mapping[str, Any], *, given: Mapping[str, Any], options: argparse.Namespace, tell: str | None) -> None:
        self._wanted, self._given, self._tell = wanted, given, tell
        self._trained, self._only = options.trained, options.only
        self.failed: BaseException | None = None
        self._asked = False

    def take(self, model: Any, trainer: Any, keywords: Mapping[str, Any]) -> Any:
        if self.failed is not None:
            say("the script asks for another training after one that failed; with other settings it would be another one")
            raise SystemExit(1)
        if self._asked:
            say("another training of the script's runs as it stands: it wasn't tried, and can't be gone on with if it fails")
            if self._tell:
                Path(self._tell).unlink(missing_ok=True)
            return script_training.plain_train(model, trainer, **keywords)
        self._asked = True
        try:
            made = self._train(model, trainer, keywords)
        except BaseException as error:
            self.failed = error
            raise
        finally:
            configure(ExactSettings())
        if self._only:
            raise SystemExit(0)
        yolo_ranks.go_on_alone()
        return made

    def _train(self, model: Any, trainer: Any, keywords: Mapping[str, Any]) -> Any:
        if trainer is not None:
            raise Refused(f"trainer={getattr(trainer, '__name__', trainer)}: a trainer of the script's own isn't covered")
        if different := script_training.differing(script_training.arriving(model, keywords), self._given):
            raise Refused(f"the script gives {', '.join(different)}: what is set here was chosen for another training")
        if self._trained:
            return _validated(model, self._trained, {**keywords, **self._wanted})
        if self._wanted.get("resume"):
            model.ckpt_path = self._wanted["resume"]  # before Ultralytics 8.4 it goes on from there alone
        wanted = going_on(model, {**keywords, **self._wanted})
        return script_training.plain_train(model, trainer_for(model), **wanted)


def _validated(model: Any, weights: str, keywords: Mapping[str, Any]) -> Any:
    """As a training ends: its best weights are the model's, and what they come to is returned."""
    from ultralytics import YOLO

    done = YOLO(weights)
    kept = {key: keywords[key] for key in ("data", "imgsz", "batch", "device", "workers") if key in keywords}
    metrics = done.val(**kept, plots=False)
    model.model, model.ckpt, model.ckpt_path = done.model, done.ckpt, done.ckpt_path
    model.overrides, model.metrics = {**done.overrides}, metrics
    return metrics


def say(text: str) -> None:
    print(f"yolo_script: {text}", file=sys.stderr, flush=True)


def parse(argv: Sequence[str]) -> tuple[ExactSettings, Training, list[str]]:
    """Options and words of ours, and the script's own command line, which is returned untouched."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(prog="yolo_script.py", description="A script's training, exactly.", allow_abbrev=False)
    parser.add_argument("--given", action="append", default=[], metavar="KEY=VALUE", help="what the script gives to model.train")
    parser.add_argument("--trained", metavar="WEIGHTS", type=os.path.abspath, help="what a training that is done came to")
    parser.add_argument("--only", action="store_true", help="the script ends with its training")
    ours, rest = parser.parse_known_args(argv[:at])
    settings, words = yolo_exact.parse(rest)
    if not argv[at + 1 :]:
        parser.error("no script: say it behind --, as in yolo_script.py batch=8 -- train.py")
    training = Training(_values(words), given=_values(ours.given), options=ours, tell=settings.tell)
    return settings, training, list(argv[at + 1 :])


def _values(words: Sequence[str]) -> dict[str, Any]:
    found = {}
    for word in words:
        key, _, value = word.partition("=")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = os.path.abspath(value) if key == "resume" else smart_value(value)
    return found


def main(argv: Sequence[str]) -> None:
    """Runs the script in this process."""
    settings, training, words = parse(argv)
    check_version(ultralytics.__version__)
    configure(settings)
    script_training.hand_over(training.take)
    try:
        script_training.run(words)
    except SystemExit:
        _tell(training.failed)
        raise
    if training.failed is not None:
        _tell(training.failed)
        raise SystemExit(1)


def _tell(failed: BaseException | None) -> None:
    """A script that caught the error may have said nothing of it."""
    if failed is not None and not isinstance(failed, SystemExit):
        traceback.print_exception(failed)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(f"yolo_script: {error}")
