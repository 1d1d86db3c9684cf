"""Ultralytics YOLO training, in autofit's terms. Translates; only ``inside`` and ``native`` import the trainer itself.

The batch arithmetic (engine/trainer.py of 8.4.190): Ultralytics steps after ``max(round(nbs / batch), 1)`` batches and applies
``weight_decay * batch * accumulate / nbs``. A rung with a smaller micro-batch is the asked run, each of whose batches is trained in parts
(``native.exact_trainer``). Another accumulation than Ultralytics' own is asked by ``nbs=E weight_decay=wd0*E/nbs0``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from autofit_launcher import paths
from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.commands import Command, Inputs, TrialPlan, absolute, preloaded
from autofit_launcher.adapter.log_line import LogLine, TrainerWords
from autofit_launcher.adapter.progress import VALIDATE, Progress
from autofit_launcher.adapter.protocol import FIRST, Adapter, Asked, Correction, RunStart, Saved, WheelSpec
from autofit_launcher.adapter.recognised import Understood
from autofit_launcher.common import interpreter
from autofit_launcher.common.orders import LABELS
from autofit_launcher.config.schema import Recipe, WheelRule
from autofit_launcher.errors import Fault
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Ladder, Rung, Value
from autofit_launcher.ladder.twins import Finding, FindingKind
from autofit_launcher.machine import devices, process, ranks
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trainers.ultralytics import arguments as yolo_arguments
from autofit_launcher.trainers.ultralytics import data as yolo_data
from autofit_launcher.trainers.ultralytics import environment, recognise, resuming
from autofit_launcher.trainers.ultralytics import models as yolo_models

_EXACT = ("yolo.py", ("exact_settings.py", "exact_trainer.py", "layer_checkpointing.py", "yolo_ranks.py"))
"""Files of ``native``: the one that the processes of a command load, and those that it needs beside it."""
_KEPT_IN = "kept_in"
"""File beside them in which a run tells, once it has begun, where it is kept."""
_LOSSES = re.compile(r"\d+/\d+\s+[\d.]+G((?:\s+(?:[\d.]+(?:e[-+]?\d+)?|nan|inf))+)\s+\d+\s+\d+:")
_VALIDATION = re.compile(r"Class\s+Images\s+Instances.*\d+%")
_SUFFIX_TASK = {"-seg": "segment", "-pose": "pose", "-obb": "obb", "-cls": "classify", "-sem": "semantic", "-depth": "depth"}
WORDS = TrainerWords(
    out_of_memory=r"[A-Z]+ (out of memory|backend memory error) with batch=|out of memory in TaskAlignedAssigner",
    diverged=r"NaN persisted for \d+ epochs|Loss NaN/Inf detected but no valid|corrupted with NaN/Inf weights",
    deviations={
        r"(CUDA|MPS) (out of memory|backend memory error) with batch=": "halved its own batch",
        r"TaskAlignedAssigner": "assigns labels image by image, many times slower",
        r"AMP: .*checks failed": "trains in fp32, not in the mixed precision of its trial",
    },
)
"""Ultralytics' messages (engine/trainer.py, utils/tal.py, utils/checks.py of 8.4.190)."""


class UltralyticsAdapter(Adapter):
    """Detect, segment, pose and obb training by Ultralytics."""

    name: ClassVar[str] = "ultralytics"
    ranks: ClassVar[bool] = True
    words: ClassVar[TrainerWords] = WORDS
    wheels: ClassVar[Mapping[str, WheelSpec]] = {
        "micro_batch": WheelSpec(type=int, help="Samples per device per forward and backward pass; Ultralytics' batch on one GPU."),
        "image_size": WheelSpec(
            type=int, rule=WheelRule(floor=320, grid=32, ratio=0.8),
            help="Training image size in pixels (imgsz), a multiple of the model's stride.",
        ),
        "checkpointing": WheelSpec(type=bool, rule=WheelRule(values=(True,)), help="Gradient checkpointing with expandable segments."),
        "model": WheelSpec(type=str, help="yolov8x.pt or yolov8x (weights), or yolov8x.yaml (from scratch)."),
        "multi_scale": WheelSpec(
            type=float, rule=WheelRule(values=(0.0,)), help="Sizes are drawn from image_size x (1 +- this fraction), 0 to 1."
        ),
        "val_micro_batch": WheelSpec(
            type=int, rule=WheelRule(values=(8, 4, 2, 1)), acts_in="validation",
            help="At most so many samples per validation batch; unset, it is Ultralytics' own: twice the micro-batch (obb: once).",
        ),
        "workers": WheelSpec(type=int, rule=WheelRule(values=(8, 4, 2, 0)), acts_in="host", help="Data loader workers."),
    }  # fmt: skip

    @classmethod
    def recognise(cls, words: Sequence[str], *, value: str = "") -> Understood | None:
        return recognise.understand(words)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        own = Path(sys.executable).with_name("yolo")
        interpreter.follow(self.script[0] if self.script else str(own) if own.exists() else "yolo")
        self.python = interpreter.persons()
        self._yolo = str(Path(self.python).with_name("yolo"))

    @cached_property
    def script(self) -> tuple[str, ...]:
        """The command of a person's own script, as they typed it, where that is what trains."""
        return tuple(map(str, self.recipe.trainer.args.get("command", ())))

    @cached_property
    def args(self) -> Mapping[str, Any]:
        """Ultralytics' own arguments; of a script those that arrive at its ``model.train``, and aren't Ultralytics' defaults."""
        return {key: value for key, value in self.recipe.trainer.args.items() if key != "command"}

    @cached_property
    def asked(self) -> Asked:
        """Ultralytics' own accumulation: max(round(nbs / batch), 1), of a batch over all cards."""
        asked, nbs, micro_batch = super().asked, yolo_arguments.value_of(self.args, "nbs"), self.recipe.ask.get("micro_batch")
        batch = micro_batch * asked.world_size if isinstance(micro_batch, int) else 0
        accumulation = max(round(nbs / batch), 1) if batch > 0 and isinstance(nbs, int) and nbs > 0 else 1
        return replace(asked, accumulation=accumulation, workers=self._workers(), keeps=frozenset(self.wheels) - {"model"})

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """Smaller sizes of the same family, for the model; nothing for other wheels. The floor is a size letter or a model."""
        below = yolo_models.smaller(str(asked), str(floor) if floor else None) if wheel == "model" else ()
        return [*filter(yolo_models.can_be_had, below)]

    def check(self) -> list[Fault]:
        """Values of arguments are held against Ultralytics' own check along with the data set."""
        yolo_arguments.known()
        found = yolo_arguments.faults(self.args, asked=self.recipe.ask)
        return [*found, *yolo_arguments.recipe_faults(self.recipe, self._task(), ranks=self.asked.world_size), *self._data[1]]

    @cached_property
    def _data(self) -> tuple[yolo_data.DatasetFacts | None, Sequence[Fault]]:
        """Looks once at what the data set holds, and what is wrong with it."""
        if self.recipe.data is None or self._task() not in yolo_arguments.TASKS:
            return None, ()
        refused = {fault.key for fault in yolo_arguments.faults(self.args, asked=self.recipe.ask)}
        model = str(self.recipe.ask.get("model", ""))
        args = {key: value for key, value in self.args.items() if f"trainer.args.{key}" not in refused}
        return yolo_data.inspect(self.recipe.data, args, model=yolo_models.file_of(model) if model and not yolo_models.here(model) else "")

    def inputs(self, ladder: Ladder) -> Inputs:
        """The data's images and labels, every model of the ladder, the user's settings, and Ultralytics' own files, architectures too."""
        facts = self._data[0]
        if facts is None or self.script:
            return Inputs(unknown="what the script reads before its training isn't known" if facts else "its data could not be looked at")
        files = [*facts.train, *facts.val]
        names = {str(rung.values["model"]) for rung in ladder.rungs}
        models = {name: yolo_models.here(name) for name in names if yolo_models.here(name) or yolo_models.file_of(name).endswith(".pt")}
        amp = yolo_models.weights_dir() / "yolo26n.pt"  # what mixed precision is checked with
        return Inputs(
            data=[facts.yaml_path, *map(Path, files), *(Path(yolo_data.label_path(image)) for image in files)],
            models=models | {amp.name: amp if amp.is_file() else None},
            packages=[folder for folder in (environment.installed(),) if folder is not None],
            program=self.python,
            more={"tensorboard": str(bool(yolo_models.setting("tensorboard")))},  # the one logger that is in a trial
        )

    def _task(self) -> str:
        stem = Path(str(self.recipe.ask.get("model"))).stem
        return self.recipe.trainer.task or next((task for suffix, task in _SUFFIX_TASK.items() if suffix in stem), "detect")

    # -- a rung in Ultralytics' words -----------------------------------------------------------------------------------

    def arguments(self, rung: Rung, budget: Budget) -> dict[str, Any]:
        """The native arguments of one rung."""
        values, batch, nbs = rung.values, self._batch(rung), yolo_arguments.value_of(self.args, "nbs")
        args: dict[str, Any] = {
            "model": yolo_models.file_of(str(values["model"])),
            "data": absolute(str(self.recipe.data)),
            **self.args,
            "batch": batch,
            "nbs": nbs,
            "device": "cpu" if budget.kind == "cpu" else ",".join(map(str, range(rung.world_size))),
        }
        if max(round(nbs / batch), 1) * batch != rung.effective_batch:
            args["nbs"] = rung.effective_batch
            args["weight_decay"] = yolo_arguments.value_of(self.args, "weight_decay") * rung.effective_batch / nbs
        wheels = {"imgsz": "image_size", "workers": "workers", "multi_scale": "multi_scale"}
        args |= {key: values[wheel] for key, wheel in wheels.items() if values.get(wheel) is not None}
        if "multi_scale" in args and isinstance(yolo_arguments.known()["multi_scale"], bool):  # before 8.4
            args["multi_scale"] = bool(args["multi_scale"])
        own = self.recipe.ladder.wheels.items()
        args |= {rule.argument: values[name] for name, rule in own if rule.argument and values.get(name) is not None}
        if "save_dir" in args:
            args |= yolo_arguments.saved_in(Path(str(args.pop("save_dir"))))
        return args

    def _batch(self, rung: Rung) -> int:
        """Ultralytics' own batch, over all cards: the asked one, of which a lower rung trains a micro-batch at a time."""
        accumulation = self.recipe.ask.get("accumulation") or self.asked.accumulation
        assert isinstance(accumulation, int)
        return rung.effective_batch // accumulation

    def stand_in(self, place: Path) -> Recipe | None:
        """Images of the asked size, as many as a micro-batch on all cards has."""
        size, micro_batch = self.recipe.ask.get("image_size") or yolo_arguments.value_of(self.args, "imgsz"), self.recipe.ask["micro_batch"]
        assert isinstance(micro_batch, int)
        said = {"task": self._task(), "size": size, "images": micro_batch * self.asked.world_size, "densest": 300}
        maker = str(paths.home() / "examples" / "boxes" / "make_boxes.py")
        prepare = (self.python, maker, str(place), *(f"--{name}={value}" for name, value in said.items()))
        return self.recipe.model_copy(update={"data": str(place / "data.yaml"), "prepare": prepare})

    def _fetch(self, rung: Rung) -> Command | None:
        """Weights that aren't here yet: the model's, and those that Ultralytics checks mixed precision with on a card. Without the latter a
        trial would take for granted what the run checks, and the run train in fp32 where that fails (``check_amp``, utils/checks.py)."""
        model, amp = str(rung.values["model"]), yolo_models.weights_dir() / "yolo26n.pt"
        on_card = yolo_arguments.value_of(self.args, "amp") and devices.chosen_kind(self.recipe.device.kind) == "cuda"
        wanted = on_card and not amp.is_file() and yolo_models.can_be_had(amp.name)
        weights = model.endswith((".yaml", ".yml")) or yolo_models.here(model)
        words = ("" if weights else yolo_models.file_of(model), *((str(amp),) if wanted else ()))
        return Command(argv=process.python_module(yolo_data.INSIDE, "fetch", *words, python=self.python)) if any(words) else None

    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        """The full run's own command, in the trial's folder."""
        place, told = folder / "scratch", min(rung.accumulation, 2)  # ``Orders.trial_accumulation``
        args = self._placed(self.arguments(rung, budget), place)
        if args.get("cache") == "disk":
            args["cache"] = False  # an image is read whole from its .npy as from its .jpg
        command, goes_on = (self._exact(rung, args, folder=place, set=more) for more in ({}, {"resume": "{checkpoint}"}))
        payload = {
            "argv": list(ranks.launched(command.argv, devices=rung.world_size)),
            "env": dict(command.env),
            "files": {str(path): text for path, text in command.files.items()},
            "micro_batch": rung.micro_batch,
            "accumulation": told,
            "apart": bool(budget.ranks),
            "val_micro_batch": self._val_batch(rung),
            "base": environment.BASE,
            "goes_on": {"words": [], "newest": "/**/weights/last.pt", "holds": [], "env": dict(goes_on.env)},
        }
        expects = {"accumulation": told, "val_micro_batch": self._val_batch(rung)}
        saves = yolo_arguments.value_of(self.args, "save") and int(yolo_arguments.value_of(self.args, "epochs")) > 1
        return TrialPlan(
            module="autofit_launcher.inside.trial", payload=payload, expects=expects, env=environment.prepare(cache / "environment"),
            resumes=bool(saves), fetch=self._fetch(rung),
        )  # fmt: skip

    def _placed(self, args: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """The arguments of a run that is kept in ``folder`` where nothing in them says another place."""
        elsewhere = self.script or self._elsewhere or "save_dir" in self.args
        return {**args, **({} if elsewhere else yolo_arguments.saved_in(folder / "run"))}

    def _val_batch(self, rung: Rung) -> int | None:
        """The validation micro-batch, where it isn't Ultralytics' own: twice the batch, and once for obb (engine/trainer.py, 8.4.190).

        It goes down with the micro-batch, and never above what the wheel says: turning that only saves.
        """
        at_most = rung.values.get("val_micro_batch")
        own = rung.micro_batch * (1 if self._task() == "obb" else 2)
        if isinstance(at_most, int):
            return min(at_most, own)
        return own if self._in_parts(rung) else None

    def _in_parts(self, rung: Rung) -> bool:
        return rung.micro_batch * rung.world_size < self._batch(rung)

    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        """``yolo ...`` where its command line can say the rung exactly, else the same line, or the script, with ``native/yolo.py`` loaded.

        On a card always the latter: a plain ``yolo`` halves its batch by itself when memory runs out, and goes on (engine/trainer.py).
        It can't say gradient checkpointing, a validation micro-batch, or a batch that is trained in parts.
        """
        args, more = self.arguments(rung, budget), {} if start.workers is None else {"workers": start.workers}
        if start.checkpoint is not None:
            command = self._resumed(rung, args, folder, start, more)
        elif self._settings(rung) or more or budget.kind != "cpu" or self.script or self._elsewhere or rung.world_size > 1:
            command = self._exact(rung, self._placed(args, folder), folder=folder, set=more)
        else:
            yolo = "yolo" if process.program("yolo") == self._yolo else self._yolo
            command = Command(argv=(yolo, *self._words(self._placed(args, folder))))
        return replace(command, base=environment.BASE, told={LABELS: str(RunFolder(folder).cache / "labels")})

    def _words(self, args: Mapping[str, Any]) -> list[str]:
        said = {key: json.dumps(value) if isinstance(value, (list, tuple, dict)) else value for key, value in args.items()}
        return [self._task(), "train", *(f"{key}={value}" for key, value in said.items())]

    def _exact(self, rung: Rung, args: Mapping[str, Any], *, folder: Path, set: Mapping[str, Any], **more: Any) -> Command:
        """``set`` and ``more``: of ``ExactSettings``."""
        place, settings = folder.absolute() / "native", {**self._settings(rung), **more}
        argv = (self.python, *(self.script[1:] or (self._yolo, *self._words(args))))
        if self.script:
            set = {**{key: value for key, value in args.items() if key != "model"}, **set}
        if self.script or self._elsewhere:
            settings["tell"] = str(place / _KEPT_IN)
        path, files = preloaded(*_EXACT, of=Path(__file__).parent / "native", to=place, env={})
        said = json.dumps({**settings, **({"set": set} if set else {})})
        return Command(argv=argv, env={**path, "YOLO_EXACT": said}, files=files)

    @property
    def _elsewhere(self) -> bool:
        """Tells whether Ultralytics chooses the run's folder by itself, another at every start (``get_save_dir``)."""
        return "project" in self.args or "name" in self.args

    def _settings(self, rung: Rung) -> dict[str, Any]:
        """Gives what ``native/exact_settings.py`` has to say of a rung."""
        settings: dict[str, Any] = {"micro_batch": rung.micro_batch} if self._in_parts(rung) else {}
        if rung.values.get("checkpointing"):
            settings["checkpointing"] = True
        if (val_batch := self._val_batch(rung)) is not None:
            settings["val_batch"] = val_batch
        return settings

    # -- the same training --------------------------------------------------------------------------------------------------

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        """Four images on each card, at once and one by one; nothing where the data has too few that show something."""
        facts, images = self._data[0], yolo_data.IMAGES * self.asked.world_size
        return [(4, 1), (1, 4)] if facts is not None and len(yolo_data.with_objects(facts.train, most=images)) == images else []

    def twin(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        """Gives the full run's command on a few images, where the asked one takes a whole optimizer step at once."""
        facts, _ = self._data
        assert facts is not None
        native, cards = folder / "native", self.asked.world_size
        images = yolo_data.with_objects(facts.train, most=yolo_data.IMAGES * cards)
        files = yolo_data.small(facts.yaml_path, images, folder=native)
        args = {key: value for key, value in self.recipe.trainer.args.items() if key not in yolo_data.NOT_TAKEN}
        if self.script:
            args |= {key: yolo_arguments.value_of({}, key) for key in ("split", "fraction")} | {"save_dir": str(folder / "run")}
        small = {key: value for key, value in yolo_data.SMALL.items() if key in yolo_arguments.known()}
        rules = self.recipe.trainer.model_copy(update={"args": {**args, **small}})
        ask = {**self.recipe.ask, "micro_batch": rung.effective_batch // cards, "accumulation": 1}
        recipe = self.recipe.model_copy(update={"ask": ask, "trainer": rules, "data": str(native / "data.yaml")})
        adapter, only = UltralyticsAdapter(recipe), {"only": True} if self.script else {}
        command = adapter._exact(rung, adapter._placed(adapter.arguments(rung, budget), folder), folder=folder, set={}, **only)
        env = {**command.env, **environment.prepare(RunFolder(folder.parents[3]).cache / "environment")}
        return replace(command, base=environment.BASE, env=env, files={**command.files, **files})

    def corrected(self, finding: Finding) -> Correction:
        """Knows that Ultralytics divides losses by each micro-batch's targets, whether it accumulates by itself or as here.

        Weights of images always make a difference, and a loss is divided by one where an image has no target that counts. So a
        difference whose cause wasn't seen (no time was left for it), or one that shrinks with the micro-batch, may be these alone."""
        if finding.kind is FindingKind.WEIGHTED:
            return Correction(told="the weights of images, as Ultralytics divides by each micro-batch's own targets")
        shrinks = finding.kind is FindingKind.FACTOR and finding.power < 0
        if shrinks or (finding.kind is FindingKind.DIFFERENT and finding.of == "gradient"):
            return Correction(doubted=f"{finding.why}, and Ultralytics' own weights of images may be all of that")
        return Correction()

    # -- what came of it --------------------------------------------------------------------------------------------------

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        """One bar an epoch: ``1/6  0G  3.55 3.33 2.12  45  160: 3%  1/30``, which is epoch, memory, losses, instances, image size, batches.

        Labels are told below a validation's bar, whose line begins with Class.
        """
        said = log_line.read(line, known)
        if (row := _LOSSES.search(line)) is not None:
            known = replace(said.progress, loss=sum(map(float, row[1].split())))
        elif _VALIDATION.search(line) and known.epoch is not None:
            known = replace(known, phase=VALIDATE)
        return replace(said, progress=known)

    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """Names the folder in which Ultralytics keeps the run, and the checkpoints that are there."""
        save_dir = self._save_dir(folder)
        checkpoints = {name: str(path) for name in ("best", "last") if (path := save_dir / "weights" / f"{name}.pt").exists()}
        return {"save_dir": str(save_dir), **({"checkpoints": checkpoints} if checkpoints else {})}

    def _save_dir(self, folder: Path) -> Path:
        told = folder / "native" / _KEPT_IN
        own = Path(told.read_text(encoding="utf-8").strip()) if told.is_file() else folder / "run"
        return own if self.script else Path(str(self.args.get("save_dir", own)))

    def saved(self, folder: Path) -> Saved:
        place = self._save_dir(folder)
        return Saved(place=place, files=resuming.saved(place / "weights"), look=resuming.look)

    def _resumed(self, rung: Rung, args: Mapping[str, Any], folder: Path, start: RunStart, more: Mapping[str, Any]) -> Command:
        """Gives the command that goes on with a run: always exact, never halving its own batch."""
        checkpoint, weights, placed = start.checkpoint, self._save_dir(folder) / "weights", self._placed(args, folder)
        assert checkpoint is not None
        if checkpoint.finished:  # one process does what is left, with a batch that each had
            one = {"batch": rung.micro_batch, **({"device": "0"} if rung.world_size > 1 else {})}
            command = self._exact(rung, placed, folder=folder, set={**more, **one}, trained=str(resuming.best(weights)))
            return replace(command, ranks=1)
        return self._exact(rung, placed, folder=folder, set={**more, "resume": str(checkpoint.path.absolute())})

    def _workers(self) -> int | None:
        """Counts loader workers: 0 for ``device.kind=cpu``, where Ultralytics loads in the process that trains, whatever is said (8.4)."""
        if self.recipe.device.kind == "cpu":
            return 0
        asked = self.recipe.ask.get("workers")
        workers = yolo_arguments.value_of(self.args, "workers") if asked is None else asked
        return workers if isinstance(workers, int) else None
