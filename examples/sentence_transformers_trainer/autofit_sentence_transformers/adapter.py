"""sentence-transformers' trainer in autofit's terms: a rung in the words of ``train_embeddings``, and its results back.

The effective batch is exact in both losses, each in its own way. ``similarity``: every row counts for itself, so that a smaller
micro-batch is accumulated. ``ranking``: the rows of a batch are each other's negatives, so that a smaller batch would learn something else;
the batch stays, and goes through in mini-batches with cached gradients. What a rung calls micro_batch is what is in memory at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from autofit_launcher.adapter import (
    FIRST,
    Adapter,
    Asked,
    Budget,
    Command,
    Fault,
    Inputs,
    Ladder,
    LogLine,
    Progress,
    Rung,
    RunStart,
    TrialPlan,
    Understood,
    Value,
    WheelRule,
    WheelSpec,
    absolute,
    copies,
    destination_faults,
    did_you_mean,
    halves_down,
    log_line,
    package_folder,
)
from autofit_sentence_transformers import environment, recognise
from autofit_sentence_transformers.files import read_json
from autofit_sentence_transformers.native import train_embeddings as script

ELSEWHERE: Mapping[str, str] = {
    "model": "It is the ladder's: set ask.model.",
    "data": "Set data= (top level).",
    "accumulation": "It is the ladder's: set ask.accumulation; every rung keeps micro_batch x accumulation.",
    "mini_batch_size": "It is the ladder's: set ask.micro_batch, and here the batch_size that it is a part of.",
    "eval_batch_size": "It is the ladder's: set ask.val_micro_batch.",
    "sequence_length": "It is the ladder's: set ask.sequence_length.",
    "precision": "Set ask.precision.",
    "checkpointing": "It is the ladder's: set ask.checkpointing.",
    "use_cpu": "Set device=cpu.",
}
"""Options of the script that have their own place in a recipe: name -> what to do instead."""

_OPTIONS = {"model": "model", "val_micro_batch": "eval_batch_size", "sequence_length": "sequence_length", "precision": "precision"}
"""Wheel -> the option that it turns, where it is a plain value."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


class SentenceTransformersAdapter(Adapter):
    """Embedding models by sentence-transformers' own trainer."""

    name: ClassVar[str] = "sentence-transformers"
    wheels: ClassVar[Mapping[str, WheelSpec]] = {
        "micro_batch": WheelSpec(type=int, help="Rows in memory at once; of a ranking loss a part of the batch, whose negatives stay."),
        "sequence_length": WheelSpec(
            type=int, rule=WheelRule(floor=32, grid=16, ratio=0.75), help="Most tokens of a text; longer ones are cut."
        ),
        "checkpointing": WheelSpec(
            type=bool, rule=WheelRule(values=(True,)), help="true or false: recompute activations in the backward pass."
        ),
        "val_micro_batch": WheelSpec(type=int, acts_in="validation", help="Rows per batch of an evaluation."),
        "precision": WheelSpec(type=str, help=f"{' or '.join(script.PRECISIONS)} (autocast; the weights stay as they are)."),
        "model": WheelSpec(type=str, help="A folder with model and tokenizer, or a name on the hub."),
    }

    @classmethod
    def recognise(cls, words: Sequence[str], *, value: str = "") -> Understood | None:
        return recognise.understand(words, adapter=cls.name)

    # -- what is asked ------------------------------------------------------------------------------------------------

    @property
    def _loss(self) -> str:
        return str(self.recipe.trainer.args.get("loss", "ranking"))

    @property
    def _batch(self) -> int | None:
        """Of a ranking loss: the rows that are each other's negatives, which no rung changes. None where rows stand for themselves."""
        asked = self.recipe.trainer.args.get("batch_size", self.recipe.ask.get("micro_batch"))
        return int(asked) if self._loss == "ranking" and isinstance(asked, int) else None

    @cached_property
    def asked(self) -> Asked:
        """Micro-batches in a batch; 1 where the batch is not said to be larger."""
        micro_batch = self.recipe.ask.get("micro_batch")
        return Asked(accumulation=max(1, self._batch // micro_batch) if self._batch and isinstance(micro_batch, int) else 1)

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """Halves of the evaluation's batch; which smaller model means the same only a recipe can say."""
        return halves_down(asked, floor=floor) if wheel == "val_micro_batch" else ()

    def check(self) -> list[Fault]:
        if faults := [*self._name_faults()]:
            return faults
        to_be_made = self.recipe.prepare is not None and self.recipe.data is not None and not Path(self.recipe.data).exists()
        return [*self._value_faults(), *self._batch_faults(), *self._data_faults(), *([] if to_be_made else self._model_faults())]

    def _name_faults(self) -> Iterator[Fault]:
        known = {field.name for field in fields(script.Arguments)}
        for name, value in self.recipe.trainer.args.items():
            key = f"trainer.args.{name}"
            if name in ELSEWHERE:
                yield Fault(key=key, found=f"{value!r} can't be set here", cure=ELSEWHERE[name])
            elif name not in known:
                cure = f"{did_you_mean(name, known)}Known: {', '.join(sorted(known - ELSEWHERE.keys()))}."
                yield Fault(key=key, found=f"{value!r}: there is no argument of that name", cure=cure)
        if self._loss not in script.COLUMNS:
            yield Fault(key="trainer.args.loss", found=repr(self._loss), cure=f"One of {', '.join(script.COLUMNS)}.")
        elif self._loss != "ranking" and "batch_size" in self.recipe.trainer.args:
            yield Fault(key="trainer.args.batch_size", found="only a ranking loss has one beside micro_batch", cure="Set ask.micro_batch.")

    def _value_faults(self) -> Iterator[Fault]:
        """The values, read by the script's own parser."""
        words = _words({"model": "-", "data": "-", "output_dir": "-", **self.recipe.trainer.args})
        try:
            script.arguments([*words, "--precision", str(self.recipe.ask.get("precision") or "fp32")])
        except script.Refused as refused:
            yield Fault(key="trainer.args", found=str(refused), cure="train-embeddings --help lists them.")
        yield from destination_faults("output_dir", self.recipe.trainer.args.get("output_dir"))

    def _batch_faults(self) -> Iterator[Fault]:
        micro_batch, accumulation = self.recipe.ask.get("micro_batch"), self.recipe.ask.get("accumulation") or self.asked.accumulation
        if self._batch is None or not isinstance(micro_batch, int) or not isinstance(accumulation, int):
            return  # the ladder says what is wrong with them
        if micro_batch > self._batch or micro_batch * accumulation % self._batch:
            found = f"micro-batches of {micro_batch} x {accumulation} don't make whole batches of {self._batch}"
            yield Fault(key="ask.micro_batch", found=found, cure=f"Take a divisor of trainer.args.batch_size={self._batch}.")

    def _data_faults(self) -> Iterator[Fault]:
        form = f"A folder with train.jsonl and validation.jsonl, whose rows have {', '.join(script.COLUMNS[self._loss])}."
        if self.recipe.data is None:
            yield Fault(key="data", found="no data is named", cure=f"Give a folder: data=path/to/folder. {form}")
            return
        try:
            script.rows(self.recipe.data, self._loss)
        except script.Refused as refused:
            yield Fault(key="data", found=str(refused), cure=form)

    def _model_faults(self) -> Iterator[Fault]:
        named = [("ask.model", self.recipe.ask.get("model"))]
        rule = self.recipe.ladder.wheels.get("model")
        named += [("ladder.wheels.model.values", value) for value in (rule.values or ()) if rule] if rule else []
        for key, model in named:
            folder = Path(str(model)).expanduser()
            if model is None:
                yield Fault(key=key, found="no model is named", cure="For example ask.model=sentence-transformers/all-MiniLM-L6-v2.")
            elif folder.is_dir() and not ((folder / "config.json").is_file() or (folder / "modules.json").is_file()):
                yield Fault(key=key, found=f"{model} has neither config.json nor modules.json", cure="Name the folder of a saved model.")
            elif not folder.is_dir() and not _HUB_NAME.fullmatch(str(model)):
                yield Fault(key=key, found=f"there is no folder {model}", cure="Name a model's folder, or a model on the hub.")
        length, limit = self.recipe.ask.get("sequence_length"), _positions(str(self.recipe.ask.get("model")))
        if isinstance(length, int) and limit is not None and length > limit:
            yield Fault(key="ask.sequence_length", found=f"{length} is over the {limit} that the model has", cure=f"At most {limit}.")

    def notes(self) -> Sequence[str]:
        if self._batch is None:
            return ()
        return (
            f"every rung ranks among {self._batch} rows; below that micro-batch gradients are cached, which takes about twice the time",
        )

    def inputs(self, ladder: Ladder) -> Inputs:
        """The data's folder and the models', and this package with sentence-transformers. Where the hub's cache has a model isn't known."""
        models = {str(rung.values["model"]): Path(str(rung.values["model"])).expanduser() for rung in ladder.rungs}
        if elsewhere := [name for name, place in models.items() if not place.is_dir()]:
            return Inputs(unknown=f"{', '.join(elsewhere)} is no folder of this machine")
        packages = [package_folder(name) for name in ("sentence_transformers", "transformers", "autofit_sentence_transformers")]
        data = [Path(str(self.recipe.data)).expanduser()]
        return Inputs(data=data, models=models, packages=[folder for folder in packages if folder is not None])

    # -- a rung in the script's words -----------------------------------------------------------------------------------

    def arguments(self, rung: Rung, budget: Budget) -> dict[str, Any]:
        """The script's options at one rung, save for the output folder."""
        options = {"data": absolute(str(self.recipe.data)), **self.recipe.trainer.args}
        options |= {option: rung.values[wheel] for wheel, option in _OPTIONS.items() if rung.values.get(wheel) is not None}
        options["model"] = absolute(str(options["model"]))
        if self._batch is None:
            options |= {"batch_size": rung.micro_batch, "accumulation": rung.accumulation}
        else:
            options |= {"batch_size": self._batch, "accumulation": rung.effective_batch // self._batch}
            options |= {"mini_batch_size": rung.micro_batch} if rung.micro_batch < self._batch else {}
        options |= {"checkpointing": True} if rung.values.get("checkpointing") else {}
        return options | ({"use_cpu": True} if budget.kind == "cpu" else {})

    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        options = {name: value for name, value in self.arguments(rung, budget).items() if name != "output_dir"}
        model, inside = str(options["model"]), "autofit_sentence_transformers.inside"
        payload, env = {"argv": _words(options), "imports": environment.imports(model)}, environment.offline(folder / "scratch")
        on_the_hub = not Path(model).is_dir()
        fetch = Command(argv=(sys.executable, "-m", f"{inside}.fetch", model)) if on_the_hub else None
        return TrialPlan(module=f"{inside}.trial", payload=payload, env=env, fetch=fetch)

    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        """``python native/train_embeddings.py ...``: a copy of the script, which needs nothing of autofit."""
        source, native = Path(script.__file__), folder / "native"
        options = {"output_dir": str(folder / "run"), **self.arguments(rung, budget)}
        argv = (sys.executable, str(native / source.name), *_words(options))
        files = copies([source.name], of=source.parent, to=native)
        return Command(argv=argv, files=files, base={"sentence_transformers": environment.imports(str(options["model"]))})

    # -- what came of it --------------------------------------------------------------------------------------------------

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        """transformers' bar and its lines of words. The summary at the end repeats the mean loss of all steps, which is no news."""
        if "'train_runtime'" in line:
            return LogLine(progress=known)
        return log_line.read(line, known)

    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """The last evaluation's metrics and the steps done, from what the trainer wrote."""
        output = Path(str(self.recipe.trainer.args.get("output_dir", folder / "run")))
        metrics, state = read_json(output / "all_results.json"), read_json(output / "trainer_state.json")
        if not metrics:
            return {"output_dir": str(output)}
        return {"output_dir": str(output), "steps": state.get("global_step"), "metrics": metrics}


def _positions(model: str) -> int | None:
    """Tokens that the model has positions for, where its folder says so."""
    said = read_json(Path(model).expanduser() / "config.json").get("max_position_embeddings")
    return said if isinstance(said, int) else None


def _words(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options as the script's parser reads them."""
    return tuple(word for name, value in options.items() if value is not None for word in (f"--{name}", str(value)))
