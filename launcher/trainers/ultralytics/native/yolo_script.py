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

``resume=CHECKPOINT`` among the words goes on from there. A training that fails ends the script, even where the script catches the error;
it is not tried a second time with other settings. Another training after one that went well runs as it stands.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import ultralytics
import yaml
from ultralytics.cfg import TASK2DATA, get_cfg, smart_value
from ultralytics.engine.model import Model
from ultralytics.utils import checks

if __package__:
    from . import yolo_exact, yolo_ranks
    from .exact_settings import ExactSettings, Refused, check_version, configure
    from .exact_trainer import going_on, trainer_for
else:  # run as a script
    import yolo_exact  # type: ignore[import-not-found,no-redef]
    import yolo_ranks  # type: ignore[import-not-found,no-redef]
    from exact_settings import ExactSettings, Refused, check_version, configure  # type: ignore[import-not-found,no-redef]
    from exact_trainer import going_on, trainer_for  # type: ignore[import-not-found,no-redef]

plain_train: Callable[..., Any] = Model.train
STARTED_IN = os.getcwd()
_CARDS = "CUDA_VISIBLE_DEVICES"
STARTED_WITH = os.environ.get(_CARDS)
PLACES = ("project", "name", "save_dir", "exist_ok")
"""Arguments that say where a run is kept."""
_NOT_SAID = ("cfg", "mode", "task", "model", "session")


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
            return plain_train(model, trainer, **keywords)
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
        arrived = arriving(model, keywords)
        given = ((key, arrived.get(key), value) for key, value in self._given.items())
        if other := [f"{key}={now!r} instead of {value!r}" for key, now, value in given if _plain(now) != _plain(value)]:
            raise Refused(f"the script gives {', '.join(other)}: what is set here was chosen for another training")
        wanted = {**keywords, **self._wanted}
        if self._trained:
            return _validated(model, self._trained, wanted)
        if wanted.get("resume"):
            model.ckpt_path = wanted["resume"]  # before Ultralytics 8.4 it goes on from there alone
        return plain_train(model, trainer_for(model), **going_on(model, wanted))


def _validated(model: Any, weights: str, keywords: Mapping[str, Any]) -> Any:
    """As a training ends: its best weights are the model's, and what they come to is returned."""
    done = ultralytics.YOLO(weights)
    kept = {key: keywords[key] for key in ("data", "imgsz", "batch", "device", "workers") if key in keywords}
    metrics = done.val(**kept, plots=False)
    model.model, model.ckpt, model.ckpt_path = done.model, done.ckpt, done.ckpt_path
    model.overrides, model.metrics = {**done.overrides}, metrics
    return metrics


def say(text: str) -> None:
    print(f"yolo_script: {text}", file=sys.stderr, flush=True)


def hand_over(takes: Callable[[Any, Any, Mapping[str, Any]], Any]) -> None:
    """From now on every training that is asked of a model goes to ``takes``: the model, the script's own trainer or None, the keywords."""

    def train(self: Any, trainer: Any = None, **keywords: Any) -> Any:
        os.environ.pop(_CARDS, None)  # the cards that this program was given are those that it trains on, whatever the script has set since
        os.environ.update({_CARDS: STARTED_WITH} if STARTED_WITH is not None else {})
        return takes(self, trainer, keywords)

    Model.train = train
    torch.cuda.is_available()  # from here on CUDA has the cards it was given


def run(words: Sequence[str]) -> None:
    """The script and its arguments, in this process, as its main program; ``-m`` and a module may stand in the script's place."""
    if words[0] == "-m":
        sys.argv = list(words[1:])
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    script = os.path.abspath(words[0])
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    main = ModuleType("__main__")
    main.__file__ = script
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), main.__dict__)


def arriving(model: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument of a training as Ultralytics takes it: from a file (``cfg``), the model's own, the keywords; its defaults else."""
    file = keywords.get("cfg")
    own = yaml.safe_load(Path(checks.check_yaml(file)).read_text(encoding="utf-8")) if file else {**model.overrides, "data": None}
    said = {"data": own.get("data") or TASK2DATA[model.task], **keywords}
    said = {key: value for key, value in {**own, **said}.items() if key not in _NOT_SAID}
    arrived = {key: value for key, value in vars(get_cfg(overrides=said)).items() if key not in _NOT_SAID}
    arrived = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in arrived.items()}
    return {**arrived, "data": from_start(arrived["data"])}


def from_start(name: Any) -> Any:
    """A file's name as it is found from the folder that the program was started in, for a script that goes to another."""
    moved = isinstance(name, str) and os.getcwd() != STARTED_IN and os.path.exists(name)
    return os.path.abspath(name) if moved else name


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


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
    """Runs the script in this process; the error of a training that failed is its end, whatever the script made of it."""
    settings, training, words = parse(argv)
    check_version(ultralytics.__version__)
    configure(settings)
    hand_over(training.take)
    try:
        run(words)
    except SystemExit:
        if training.failed is None:
            raise
    if training.failed is not None:
        raise training.failed


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as error:
        sys.exit(f"yolo_script: {error}")
