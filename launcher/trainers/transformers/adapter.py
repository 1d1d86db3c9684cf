"""Hugging Face transformers' Trainer and Seq2SeqTrainer, in autofit's terms. Translates; only ``inside`` and ``native`` import it.

What runs is one of the built-in trainers (``trainer.task``: speech or text), a script that builds transformers' own trainer and hands it
its own arguments. Trial and full run get the same words. The batch arithmetic is Trainer's: ``per_device_train_batch_size`` x
``gradient_accumulation_steps`` x processes samples per optimizer step, so every rung keeps the effective batch exactly.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from launcher.adapter import log_line, progress
from launcher.adapter.commands import Checkpoint, Command, TrialPlan, absolute, budgeted, copies
from launcher.adapter.destination import destination_faults
from launcher.adapter.dialect import Dialect
from launcher.adapter.inputs import Inputs, package_folder
from launcher.adapter.log_line import LogLine, TrainerWords
from launcher.adapter.progress import TRAIN, VALIDATE, Progress
from launcher.adapter.protocol import Adapter, Proves, Resumes, aside
from launcher.config.schema import Value, WheelRule
from launcher.errors import BadInput, Fault, did_you_mean
from launcher.ladder.build import WheelSpec
from launcher.ladder.rungs import CARDS, Ladder, Rung, halves_down
from launcher.machine import process
from launcher.machine.devices import Budget
from launcher.shared.report import UPDATES, TrialReport
from launcher.trainers.transformers import arguments as hf_arguments
from launcher.trainers.transformers import checks, environment, levers, resuming, sharding
from launcher.trainers.transformers import data as hf_data
from launcher.trainers.transformers import models as hf_models
from launcher.trainers.transformers.dialect import DIALECT
from launcher.trainers.transformers.native import hf_run

TASKS = ("speech", "text")
_STEPS = re.compile(r"(?:step\s+|\s*\d+%\|[^|]*\|\s*)(\d+)/(\d+)(?:\s|$)")
_BELOW_ANOTHER = "\x1b[A"
"""How tqdm ends a bar that stands below another one: it goes up again."""
_CHECKED = ("5.23.0",)
"""What the test suite runs against (constraints.txt); a test holds it against ``guard.CHECKED``."""
SHORT_STEPS = 4
SHORT_PASSES = 2
"""How long a twin's training is."""


class TransformersAdapter(Adapter, Resumes, Proves):
    """Whisper-shaped speech models and causal language models, by transformers' own trainers."""

    name: ClassVar[str] = "transformers"
    ranks: ClassVar[bool] = True
    words: ClassVar[TrainerWords] = TrainerWords(
        cures={
            "pinned": "Trainer pins unless dataloader_pin_memory=False",
            "disk": "Trainer keeps the last two alone with save_total_limit=2",
        }
    )
    dialects: ClassVar[tuple[Dialect, ...]] = (DIALECT,)
    wheels: ClassVar[Mapping[str, WheelSpec]] = {
        "micro_batch": WheelSpec(type=int, help="Samples per device per forward and backward pass; per_device_train_batch_size."),
        "label_length": WheelSpec(
            type=int,
            rule=WheelRule(floor=32, grid=16, ratio=0.7),
            help="Longest transcript in tokens, prompt included; longer ones are left out on lower rungs, never cut.",
        ),
        "audio_seconds": WheelSpec(
            type=(int, float), help="The encoder's window in seconds; the saved model keeps it. Turned only by a recipe's values."
        ),
        "sequence_length": WheelSpec(type=int, rule=WheelRule(floor=128, grid=64, ratio=0.75), help="Most tokens in one row of a batch."),
        "checkpointing": WheelSpec(
            type=(bool, float),
            rule=WheelRule(values=(True,)),
            help="Gradient checkpointing with expandable segments: true, false, or for this part of the layers (0 to 1), the first ones.",
        ),
        "sharding": WheelSpec(
            type=str,
            help="Weights, gradients and optimizer states shared among the cards: none, fsdp2, fsdp2_reshard, fsdp2_offload; "
            "zero2, zero3 by DeepSpeed, where it is installed.",
        ),
        "optimizer": WheelSpec(type=str, help="A name of TrainingArguments' optim, such as adamw_torch_fused, adamw_8bit, adafactor."),
        "offload": WheelSpec(
            type=str, help="none, or optimizer: on one card, its states lie in the host's memory; the same steps, which take longer."
        ),
        "precision": WheelSpec(type=str, help="fp32, bf16 or fp16 (autocast; the weights and the optimizer stay as they are)."),
        "loss_chunks": WheelSpec(
            type=int, rises=True, help="Parts in which logits and loss of a training's tokens are computed; 1 is all at once. Text."
        ),
        "freeze": WheelSpec(
            type=int, rises=True, help="Embeddings and so many of the first layers aren't trained; 0 is all trained. Text."
        ),
        "lora": WheelSpec(type=int, help="Rank of LoRA adapters to train instead of all weights; 0 is all weights. Needs peft."),
        "model": WheelSpec(
            type=str, help="A folder with model and tokenizer, or a name on the hub; smaller ones: ladder.wheels.model.values."
        ),
        "val_micro_batch": WheelSpec(type=int, acts_in="validation", help="Samples per evaluation batch; per_device_eval_batch_size."),
        "generation_length": WheelSpec(
            type=int,
            acts_in="validation",
            rule=WheelRule(floor=32, grid=8, ratio=0.5),
            help="Most tokens generated per sample in an evaluation.",
        ),
        "val_keeps": WheelSpec(
            type=str,
            acts_in="validation",
            rule=WheelRule(values=("tokens", "sums")),
            help="Kept per sample until the end of an evaluation: logits (Trainer's own way), tokens, or sums (metrics batch by batch).",
        ),
        "workers": WheelSpec(
            type=int, rule=WheelRule(values=(8, 4, 2, 0)), acts_in="host", help="Data loader workers; dataloader_num_workers."
        ),
    }

    # -- what is asked ------------------------------------------------------------------------------------------------

    def accumulation(self) -> int:
        """Trainer's default: 1."""
        return 1

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """Halves of the evaluation micro-batch, further sharding; nothing for other wheels: only a recipe can say which smaller models are
        alike."""
        if wheel == sharding.WHEEL:
            return sharding.lesser(self.recipe, asked, cpu=checks.on_cpu(self.recipe))
        return halves_down(asked, floor=floor) if wheel == "val_micro_batch" else ()

    def check(self) -> list[Fault]:
        task = self.recipe.trainer.task
        if task not in TASKS:
            cure = f"{did_you_mean(str(task), TASKS)}Known: {', '.join(TASKS)}."
            return [Fault(key="trainer.task", found=f"there is no built-in trainer for {task!r}", cure=cure)]
        try:
            faults = hf_arguments.faults(self.recipe.trainer.args, task=task, on_cpu=checks.on_cpu(self.recipe))
        except BadInput as refused:
            return list(refused.faults)
        faults += checks.wheel_faults(self.recipe, task)
        to_be_made = self.recipe.prepare is not None and self.recipe.data is not None and not Path(self.recipe.data).exists()
        asked = hf_models.Model(name="", place="nowhere")
        if not to_be_made:  # a demo makes its model with its data
            model_faults, asked = checks.model_faults(self.recipe, task)
            faults += model_faults
        faults += hf_data.inspect(self.recipe, task, asked)
        args = self.recipe.trainer.args
        return faults if args.get("resume_from_checkpoint") else faults + destination_faults("output_dir", args.get("output_dir"))

    def notes(self) -> Sequence[str]:
        found = [hf_models.locate(str(name)) for _, name in checks.values(self.recipe, "model")]
        notes = [f"{model.name} isn't here yet: it will be fetched from the hub" for model in found if model.place == "hub"]
        notes += [f"{model.why}: its rungs can't be tried" for model in found if model.place == "unreachable"]
        if self.recipe.trainer.args.get("on_bad_data") == "skip":
            notes.append("bad samples are left out (trainer.args.on_bad_data=skip); the run's log names them")
        return [*notes, *sharding.notes(self.recipe)]

    def inputs(self, ladder: Ladder) -> Inputs:
        """The data's tables and all that they name, every model of the ladder, and the files of transformers."""
        try:
            data = hf_data.files(self.recipe, str(self.recipe.trainer.task))
        except hf_run.Refused as refused:
            return Inputs(unknown=str(refused))
        names = dict.fromkeys(str(rung.values["model"]) for rung in ladder.rungs)
        packages = [package_folder(name) for name in ("transformers", "accelerate", "peft")]
        return Inputs(
            data=data,
            models={name: hf_models.locate(name).path for name in names},
            packages=[folder for folder in packages if folder is not None],
        )

    # -- a rung in transformers' words ----------------------------------------------------------------------------------

    def arguments(self, rung: Rung, budget: Budget) -> dict[str, Any]:
        """The native arguments of one rung, save for the output folder."""
        return self._arguments(rung, on_cpu=budget.kind == "cpu")

    def _arguments(self, rung: Rung, *, on_cpu: bool) -> dict[str, Any]:
        values, task = rung.values, str(self.recipe.trainer.task)
        checkpointing = hf_arguments.checkpointing(task)
        args: dict[str, Any] = {
            "model_name_or_path": absolute(str(values["model"])),
            "data": absolute(str(self.recipe.data)),
            **self.recipe.trainer.args,
            "per_device_train_batch_size": rung.micro_batch,
            "gradient_accumulation_steps": rung.accumulation,
            checkpointing: bool(values.get("checkpointing")),
            "optim": values.get("optimizer") or levers.DEFAULT_OPTIMIZER,
        }
        if share := values.get("checkpointing"):
            if share is not True:
                args["checkpointing_share"] = share
            args[f"{checkpointing}_kwargs"] = {"use_reentrant": False}
            if "use_cache" in hf_arguments.known(task):  # transformers 4 turns it off by itself
                args["use_cache"] = False
        if values.get("precision") in ("bf16", "fp16"):
            args[str(values["precision"])] = True
        for wheel, argument in _ARGUMENTS.items():
            if values.get(wheel) is not None:
                args[argument] = values[wheel]
        if values.get("workers") == 0:
            args = {name: value for name, value in args.items() if name not in resuming.OF_WORKERS}
        if rung.position and values.get("label_length") != self.recipe.ask.get("label_length"):
            args["leave_out_longer"] = True
        if on_cpu:
            args["use_cpu"] = True
        if sharding.shards(values.get(sharding.WHEEL)):
            args |= sharding.arguments(values[sharding.WHEEL], args)
            args = sharding.on_cpu(args) if on_cpu else args
        if task == "speech":
            args.setdefault("predict_with_generate", True)
        for name, rule in self.recipe.ladder.wheels.items():
            if rule.argument and values.get(name) is not None:
                args[rule.argument] = values[name]
        return args

    def fetch(self, rung: Rung) -> Command | None:
        model = hf_models.locate(str(rung.values["model"]))
        if model.place == "unreachable":
            raise BadInput([Fault(key="ladder.wheels.model.values", found=f"no rung above fits, and {model.why}", cure=model.cure)])
        if model.place != "hub":
            return None
        return Command(argv=process.python_module("launcher.trainers.transformers.inside.fetch", model.name))

    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        args = {key: value for key, value in self.arguments(rung, budget).items() if key != "output_dir"}
        if (last := self._last_checkpoint()) is not None:
            args["resume_from_checkpoint"] = last
        payload: dict[str, Any] = {
            "script": f"launcher.trainers.transformers.native.hf_{self.recipe.trainer.task}",
            "argv": _words(args),
            "imports": [*_imports(str(self.recipe.trainer.task), str(args["model_name_or_path"])), *sharding.imports(args)],
            "generates": bool(args.get("predict_with_generate")),
            "saves": self.recipe.trial.resume,
        }
        module = "launcher.trainers.transformers.inside.trial"
        saves = str(args.get("save_strategy", "steps")) in ("steps", "epoch") and not args.get("save_only_model")
        env = {**environment.prepare(cache / "environment"), **sharding.environment(args, cpu=budget.kind == "cpu")}
        return TrialPlan(module=module, payload=payload, env=env, resumes=saves)

    def _last_checkpoint(self) -> str | None:
        """The checkpoint that ``resume_from_checkpoint=last`` means in the run's own folder; a trial has another folder."""
        args = self.recipe.trainer.args
        if args.get("resume_from_checkpoint") != "last" or not isinstance(args.get("output_dir"), str):
            return None
        there = [path for path in Path(args["output_dir"]).glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
        return str(max(there, key=lambda path: int(path.name.rpartition("-")[2])).absolute()) if there else None

    def full_run(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        """``python native/hf_speech.py ...``: a copy of the built-in trainer, which needs nothing of autofit."""
        return self._command({"output_dir": str(folder / "run"), **self.arguments(rung, budget)}, budget, folder=folder)

    def _command(self, args: Mapping[str, Any], budget: Budget, *, folder: Path) -> Command:
        script = f"hf_{self.recipe.trainer.task}.py"
        files = copies((script, "hf_run.py", "hf_offload.py"), of=Path(hf_run.__file__).parent, to=folder / "native")
        env = {"TOKENIZERS_PARALLELISM": "false", **sharding.environment(args, cpu=budget.kind == "cpu")}
        return Command(argv=(sys.executable, str(folder / "native" / script), *_words(args)), env=env, files=files)

    def twin(self, rung: Rung, budget: Budget, *, folder: Path, short: bool = True, points: bool = False) -> Command:
        """As the full run, into a folder of its own. ``short``: a few optimizer steps, or a few passes if those give the length."""
        args = {key: value for key, value in self.arguments(rung, budget).items() if key != "resume_from_checkpoint"}
        if short:
            task = str(self.recipe.trainer.task)
            by_steps = (hf_arguments.value_of(args, "max_steps", task) or -1) > 0
            args |= {"max_steps": SHORT_STEPS} if by_steps else {"num_train_epochs": SHORT_PASSES}
        return self._command({**args, "output_dir": str(folder / "run")}, budget, folder=folder)

    def held(self, command: Command, budget: Budget, *, folder: Path) -> Command:
        task = Path(command.argv[1]).stem.removeprefix("hf_")
        model = command.argv[command.argv.index("--model_name_or_path") + 1]
        words = [word.removeprefix("--") for word in command.argv]
        return budgeted(command, budget, imports=(*environment.IMPORTS, *_imports(task, model), *sharding.imports(words)))

    # -- what came of it --------------------------------------------------------------------------------------------------

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        said = log_line.read(line, known)
        return replace(said, progress=self._progress(line, known, rung))

    def _progress(self, line: str, known: Progress, rung: Rung) -> Progress:
        """Trainer's bar, and without one ``hf_run``'s lines, count optimizer steps of the whole run; an evaluation's bar stands below
        it, or comes after it. Trainer's lines of words tell epochs done and the loss.
        """
        known = replace(known, batch=rung.effective_batch)
        if (bar := _STEPS.match(line)) is not None:
            step, steps = int(bar[1]), int(bar[2])
            if line.endswith(_BELOW_ANOTHER) or known.steps not in (None, steps):
                return replace(known, phase=VALIDATE)
            return replace(known, phase=TRAIN, step=step, steps=steps)
        told = progress.read(line) if line.startswith("{") and "'train_runtime'" not in line else None
        if told is None:
            return known
        task, args = str(self.recipe.trainer.task), self.recipe.trainer.args
        by_steps = (hf_arguments.value_of(args, "max_steps", task) or -1) > 0
        epochs = None if by_steps else hf_arguments.value_of(args, "num_train_epochs", task)
        phase = TRAIN if told.loss is not None else VALIDATE if "'eval_" in line else None
        return replace(known.then(Progress(epoch=told.epoch, epochs=epochs, loss=told.loss)), phase=phase or known.phase)

    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """The last evaluation's metrics and the steps done, from all_results.json and trainer_state.json."""
        output = self._output(folder)
        metrics, state = hf_models.read_json(output / "all_results.json"), hf_models.read_json(output / "trainer_state.json")
        checkpoints = [str(path) for path in sorted(output.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))]
        found = {
            "output_dir": str(output),
            "steps": state.get("global_step"),
            "epochs": state.get("epoch"),
            "best_metric": state.get("best_metric"),
        }
        if not metrics:
            return {"output_dir": str(output)}
        return {
            **found,
            "metrics": {key: value for key, value in metrics.items() if not key.endswith("per_second")},
            "checkpoints": checkpoints,
        }

    def _output(self, folder: Path) -> Path:
        return Path(str(self.recipe.trainer.args.get("output_dir", folder / "run")))

    def kept_in(self, folder: Path) -> Path:
        return self._output(folder)

    def kept_bytes(self, rung: Rung, report: TrialReport, *, scratch: Path) -> int | None:
        task, args = str(self.recipe.trainer.task), self._arguments(rung, on_cpu=True)
        per_epoch = math.ceil(report.train_samples / rung.effective_batch) or 1
        value = partial(hf_arguments.value_of, args, task=task)
        return resuming.kept_bytes(scratch / "run", value, steps=int(report.facts.get(UPDATES, 0)), per_epoch=per_epoch)

    def keeps(self) -> frozenset[str]:
        """Wheels that change neither a checkpoint's contents (model, LoRA, optimizer, positions) nor the number of samples in an epoch."""
        keeps = {"micro_batch", CARDS, "checkpointing", sharding.WHEEL, "offload", "precision", "loss_chunks", *_OF_EVALUATION}
        if (self.recipe.trainer.args.get("max_steps") or -1) > 0:  # the schedule doesn't hang on the number of samples
            keeps |= {"sequence_length", "label_length"}
        return frozenset(keeps)

    def saved_as(self, wheel: str, value: Value) -> Value:
        """FSDP2 saves weights and states whole, however it shares them, in files of its own; ZeRO saves parts."""
        if wheel != sharding.WHEEL:
            return None
        return value if value in sharding.ZERO else sharding.shards(value)

    def checkpoints(self, *, folder: Path) -> Sequence[Checkpoint]:
        return resuming.checkpoints(self._output(folder))

    def spoiled(self, *, folder: Path) -> Mapping[Path, str]:
        return resuming.spoiled(self._output(folder))

    def saved(self, *, folder: Path) -> Sequence[Path]:
        return resuming.saved(self._output(folder))

    def resume(self, rung: Rung, checkpoint: Checkpoint, budget: Budget, *, folder: Path, attempt: int) -> Command:
        """The rung's own words: with the same effective batch Trainer goes on in the same stream of samples (``hf_run.checked_resume``)."""
        return resuming.going_on(self.full_run(rung, budget, folder=folder), checkpoint.path)

    def workers(self) -> int | None:
        return int(self.recipe.ask.get("workers") or self.recipe.trainer.args.get("dataloader_num_workers") or 0)

    def with_workers(self, command: Command, workers: int) -> Command:
        return resuming.with_workers(command, workers)

    def put_aside(self, *, folder: Path, attempt: int) -> None:
        aside(self._output(folder), attempt)

    def estimate_seconds(self, rung: Rung, report: TrialReport) -> float | None:
        """Steps, and as many evaluations as ``eval_strategy`` says and the one at the end."""
        if not report.step_seconds or not report.train_samples:
            return None
        task, args = str(self.recipe.trainer.task), self.recipe.trainer.args
        per_epoch = math.ceil(report.train_samples / rung.effective_batch)
        steps = hf_arguments.value_of(args, "max_steps", task) or -1
        if steps <= 0:
            steps = math.ceil(per_epoch * hf_arguments.value_of(args, "num_train_epochs", task))
        evaluations = 1.0
        strategy = args.get("eval_strategy", "no")
        if strategy == "epoch":
            evaluations += steps / per_epoch
        elif strategy == "steps":
            every = args.get("eval_steps") or args.get("logging_steps") or 500
            evaluations += 1 / every if every < 1 else steps // every
        seconds = steps * rung.accumulation * report.step_seconds
        return float(seconds + evaluations * report.validation_batches_total * report.validation_batch_seconds)


_OF_EVALUATION = ("val_micro_batch", "generation_length", "val_keeps")
_ARGUMENTS = {
    "label_length": "label_length", "audio_seconds": "audio_seconds", "sequence_length": "sequence_length", "lora": "lora_rank",
    "loss_chunks": "loss_chunks", "freeze": "freeze", "offload": "offload", "val_micro_batch": "per_device_eval_batch_size",
    "generation_length": "generation_max_length", "val_keeps": "eval_keeps", "workers": "dataloader_num_workers",
}  # fmt: skip
"""Wheel -> the argument that it turns, where it is a plain value."""


def _imports(task: str, model: str) -> tuple[str, ...]:
    """What a run of this model imports beside ``environment.IMPORTS``."""
    if task == "speech":
        return environment.SPEECH_IMPORTS
    kind = hf_models.config_of(hf_models.locate(model)).get("model_type")
    module = f"transformers.models.{kind}.modeling_{kind}"
    known = isinstance(kind, str) and (hf_arguments.package() / "models" / kind / f"modeling_{kind}.py").is_file()
    return (module, *(("peft",) if importlib.util.find_spec("peft") is not None else ())) if known else ()


def _words(args: Mapping[str, Any]) -> tuple[str, ...]:
    """Arguments as words that HfArgumentParser reads."""
    words: list[str] = []
    for key, value in args.items():
        if value is None:
            continue
        words.append(f"--{key}")
        if isinstance(value, (list, tuple)):
            words += [str(one) for one in value]
        else:
            words.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return tuple(words)
