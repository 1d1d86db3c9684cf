"""The adapter for a user's own training script. The script is not edited and doesn't know of autofit.

The recipe names the command and how each wheel is spelled in it (``rules.ScriptArgs``); a trial is the very command with
the probe loaded from outside (``autofit_launcher.inside.trial``), the full run is the very command.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from autofit_launcher.adapter import log_line, wheel_names
from autofit_launcher.adapter.commands import Command, Inputs, TrialPlan
from autofit_launcher.adapter.log_line import ANOTHER_TRAINING, LogLine, TrainerWords
from autofit_launcher.adapter.progress import VALIDATE, Progress
from autofit_launcher.adapter.protocol import FIRST, Adapter, Asked, Correction, RunStart, Saved, Weights, WheelSpec, row_by_row
from autofit_launcher.adapter.python_source import files_of
from autofit_launcher.adapter.recognised import Understood
from autofit_launcher.common import interpreter
from autofit_launcher.config.schema import Recipe, WheelRule
from autofit_launcher.errors import BadInput, Fault
from autofit_launcher.ladder.rungs import CHECKPOINTING, Ladder, Rung, Value, halves_down
from autofit_launcher.ladder.twins import Finding
from autofit_launcher.machine import ranks
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trainers.script import arrived, checks, configs, outside, recognise, resuming, rules
from autofit_launcher.trainers.script.rules import ScriptArgs, asked_accumulation, spelling_of
from autofit_launcher.trainers.script.spelling import CALL, ITSELF, LOADER, OUTSIDE, VALUE, Line, in_config, name

SHORT_STEPS = 4
SHORT_PASSES = 2
"""Length of a twin's training, if an argument gives its length."""
MOST_ACCUMULATION = 4
"""Micro-batches per optimizer step in a trial."""
_FROM_OUTSIDE = (
    "the script has no word for accumulation: where the micro-batch is lowered, its optimizer waits until the whole "
    "batch is in (native/accumulate in the run's folder sees to that, and needs nothing of autofit)"
)
_BELOW_ANOTHER = "\x1b[A"
"""Tqdm's ending of a bar that stands below another one: of Hugging Face's Trainer, an evaluation's below the training's."""
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_FETCH = """
import sys, huggingface_hub as hub
try:
    safe = any(file.endswith(".safetensors") for file in hub.HfApi().list_repo_files(sys.argv[1]))
except OSError:  # without a network what is there already will do
    safe = True
weights = "*.safetensors" if safe else "pytorch_model*.bin"
hub.snapshot_download(sys.argv[1], allow_patterns=["*.json", "*.model", "*.txt", "*.jinja", weights])
"""
"""Fetches one form of a model's weights into the hub's cache."""
_ACCUMULATED = re.compile(r"accumulate: \d+ micro-batches, (\d+) optimizer steps")
"""The last word of what accumulates from outside (``native/accumulate``)."""


class ScriptAdapter(Adapter):
    """The adapter for commands that train with PyTorch."""

    name: ClassVar[str] = "script"
    general: ClassVar[bool] = True
    starts_ranks: ClassVar[bool] = True
    words: ClassVar[TrainerWords] = TrainerWords(deviations={"accumulate: from here on not": ANOTHER_TRAINING})
    wheels: ClassVar[Mapping[str, WheelSpec]] = {
        "micro_batch": WheelSpec(type=int, help="Samples per device per forward and backward pass."),
        "segment": WheelSpec(
            type=(int, float),
            help="Length of one training sample, in the script's own unit (audio: samples or seconds).",
            rule=WheelRule(ratio=0.67),
        ),
        "sequence_length": WheelSpec(type=int, help="Tokens per sample.", rule=WheelRule(grid=8, ratio=0.5, floor=8)),
        "image_size": WheelSpec(type=int, help="Image size in pixels.", rule=WheelRule(grid=32, ratio=0.8, floor=32)),
        "checkpointing": WheelSpec(type=bool, rule=WheelRule(values=(True,)), help="Gradient checkpointing."),
        "val_micro_batch": WheelSpec(type=int, acts_in="validation", help="Samples per validation batch."),
        "workers": WheelSpec(
            type=int, rule=WheelRule(values=(8, 4, 2, 0)), acts_in="host", help="Data loader workers; on a ladder where a recipe spells it."
        ),
        "model": WheelSpec(type=str, help="A named group of settings (trainer.args.presets.model), largest first."),
    }

    @classmethod
    def recognise(cls, words: Sequence[str], *, value: str = "") -> Understood | None:
        return recognise.understand(words, value=value)

    @cached_property
    def python(self) -> str:  # type: ignore[override]
        return recognise.python_of(self.args.command)

    @cached_property
    def args(self) -> ScriptArgs:
        """The recipe's ``trainer.args``, validated. Raises BadInput with a fault for each wrong key.

        Where several cards are asked, a command that starts one process of Hugging Face's Trainer is started by torchrun.
        """
        read, device = rules.read(self.recipe.trainer.args), self.recipe.device
        cards = ranks.world_size(device.cards, device.kind)
        script, begin = recognise.script_of(read.command)
        if cards == 1 or begin != 2 or script is None or not resuming.named(files_of(script)):
            return read
        return read.model_copy(update={"command": ranks.launched(read.command, devices=cards)})

    # -- what is asked ------------------------------------------------------------------------------------------------

    @cached_property
    def asked(self) -> Asked:
        args, unsaid, workers = self.args, self._unsaid(), self.recipe.ask.get("workers")
        exact = (CHECKPOINTING,) if spelling_of(self.recipe, args, CHECKPOINTING) == OUTSIDE else ()
        return Asked(
            world_size=args.processes or recognise.launched(args.command).processes, counted=arrived.counted(args),
            length=arrived.length_of(args.lengths, one_kind=asked_accumulation(self.recipe) == 1), exact=frozenset(exact),
            workers=workers if "workers" in args.spelled and isinstance(workers, int) else None, keeps=self._keeps(), unsaid=unsaid,
            told=arrived.told(self.recipe, args),
            unturned="" if checks.turns(self.recipe) else args.unturned,
            unseen_step=args.accumulation_form == ITSELF and self.recipe.ask.get("accumulation") is None,
            read_at=args.spelled,
        )  # fmt: skip

    def lesser(self, wheel: str, asked: Value, *, floor: Value) -> Sequence[Value]:
        """The presets after the asked one in the recipe, down to the floor; halves of the validation's batch."""
        if wheel == "val_micro_batch":
            return halves_down(asked, floor=floor)
        presets = self.recipe.trainer.args.get("presets")
        names = list(presets.get(wheel, {})) if isinstance(presets, Mapping) else []
        if floor not in (None, *names):
            raise ValueError(f"floor {floor!r} is none of the presets: {', '.join(names) or 'there are none'}")
        behind = names[names.index(asked) + 1 :] if asked in names else []
        return behind if floor is None else [one for one in behind if names.index(one) <= names.index(floor)]

    def check(self) -> list[Fault]:
        try:
            args = self.args
        except BadInput as refused:
            return list(refused.faults)
        return checks.faults(self.recipe, args, self.wheels)

    def notes(self) -> Sequence[str]:
        notes = [_FROM_OUTSIDE] if self.args.accumulation_form == OUTSIDE else []
        if why := self.asked.unturned:
            seen = self.recipe.ask.get("micro_batch") is not None
            how = ", and the command is guarded as it stands" if seen else ", unless its first trial shows where"
            notes = [f"the micro-batch isn't turned{how}: {why}"]
        if self.args.validation.none:
            notes.append("the recipe says that the script never validates: only training is proven")
        return notes

    def inputs(self, ladder: Ladder) -> Inputs:
        """Returns what the recipe says the script reads, models that are files, the code around it, and its program's environment."""
        if self.args.reads is None:
            return Inputs(unknown="what this script reads isn't known (trainer.args.reads=[...] would say it)")
        script = next((Path(word) for word in self.args.command if word.endswith(".py")), None)
        around = [Path.cwd(), *([script.resolve().parent] if script is not None else [])]
        data = [self.recipe.data] if self.recipe.data is not None else []
        data += [name for name in dict.fromkeys(str(rung.values.get("model")) for rung in ladder.rungs) if Path(name).exists()]
        return Inputs(
            data=[Path(place).expanduser() for place in (*data, *self.args.reads)],
            code=around,
            written=[Path(self.recipe.run.root)],
            program=self.args.command[0],
        )

    def _fetch(self, rung: Rung) -> Command | None:
        """Fetches a model that the hub has by its name: what a trial fetches itself is gone with the trial."""
        name = str(rung.values.get("model"))
        here = any(Path(place, name).exists() for place in ("", f"{self.recipe.data}/models"))
        if here or "model" not in self.args.spelled or not _ON_THE_HUB.fullmatch(name):
            return None
        return Command(argv=(interpreter.of(self.args.command[0]), "-c", _FETCH, name))

    # -- what its own words ran -----------------------------------------------------------------------------------------

    def _unsaid(self) -> frozenset[str]:
        """Settings of which neither the command nor its configuration file say anything, and which rung 0 leaves at that."""
        line = Line(words=list(self.args.command), begin=self.args.begin, env=dict(self.args.env))
        read = {*self.args.says, *(wheel for wheel, spelling in self.args.spelled.items() if spelling in (OUTSIDE, ITSELF))}
        unsaid = {wheel for wheel in read & self.args.spelled.keys() if not line.says(self.args.spelled[wheel])}
        return frozenset(unsaid | ({"micro_batch", "accumulation"} - self.args.spelled.keys()))

    def believing(self, ran: Mapping[str, int], arrives: Mapping[str, Any]) -> Recipe | None:
        return arrived.believing(self.recipe, self.args, self.asked, arrived.OfTrials(ran, arrives))

    # -- a rung in the script's words -----------------------------------------------------------------------------------

    def line(self, rung: Rung, *, run: Path, accumulation: int | None = None, short: bool = False) -> Line:
        """The command of one rung. ``run``: what {run} stands for. ``accumulation``: another than the rung's. ``short``: it trains as
        short as a twin."""
        line = Line(words=list(self.args.command), begin=self.args.begin, env=dict(self.args.env))
        for spelled, value in self.args.set.items():
            line.set(spelled, value.replace("{run}", str(run)) if isinstance(value, str) else value)
        if self.recipe.data is not None and "data" in self.args.spelled:
            line.set(self.args.spelled["data"], self.recipe.data)
        for wheel, value in {**rung.values, "accumulation": accumulation or rung.accumulation}.items():
            if value is None or self.args.says.get(wheel) == value:
                continue
            for spelled, said in self.args.presets.get(wheel, {}).get(str(value), {}).items():
                line.set(in_config(spelled), said)
            spelling = spelling_of(self.recipe, self.args, wheel)
            if spelling is not None and spelling.startswith(LOADER):
                split = f"{self.args.says[wheel]}:{value}:{spelling.removeprefix(LOADER)}"
                line.acts = {outside.ACCUMULATE: "1", **line.acts, outside.SPLIT: split}
            elif spelling == OUTSIDE and int(value) > (wheel == "accumulation"):
                line.acts[outside.CHECKPOINTING if wheel == CHECKPOINTING else outside.ACCUMULATE] = str(int(value))
            elif spelling is not None:
                line.set(spelling, value)
        for spelled, length in self.args.lengths.items() if short else ():
            most = SHORT_PASSES if wheel_names.counts_passes(name(spelled)) else SHORT_STEPS
            if length > most:
                line.set(spelled, most)
        return line

    def _placed(self, rung: Rung, *, place: Path, run: Path, accumulation: int | None = None, short: bool = False) -> Line:
        """The command with the files that it needs in ``place``: what acts in the script's processes, a copy of its configuration."""
        line = self.line(rung, run=run, accumulation=accumulation, short=short)
        times = (accumulation or rung.accumulation) / asked_accumulation(self.recipe)
        if self.args.update is not None and times > 1:
            line.acts[outside.UPDATE] = arrived.way(self.args.update, times)
        if fields := line.elsewhere["call"]:
            line.acts[outside.FIELDS] = json.dumps({name: [self.args.said(CALL).get(name), value] for name, value in fields.items()})
        variables, files = outside.placed(line.acts, place=place, env=line.env)
        line.env, line.files = {**line.env, **variables}, {**line.files, **files}
        self._config_copy(line, rung, place)
        if set_ := line.elsewhere["value"]:  # the script is run by what sets them
            values, given = place / "values.py", self.args.said(VALUE)
            line.env["VALUES"] = json.dumps([[name, given[name], value] for name, value in set_.items()])
            line.files[values] = (outside.NATIVE / values.name).read_text(encoding="utf-8")
            line.words.insert(line.begin - 1, str(values.absolute()))
        return line

    def _config_copy(self, line: Line, rung: Rung, place: Path) -> None:
        """Gives the line a copy of its configuration file with the rung's values, which it names, and what lies beside that file."""
        if not line.elsewhere["config"] or (path := self.args.config) is None:
            return
        source = Path(path)
        copy = place / f"{source.stem}.rung{rung.index}{source.suffix}"
        line.files |= {place / name: text for name, text in configs.beside(source).items()}
        line.files[copy] = configs.edited(source.read_text(encoding="utf-8"), line.elsewhere["config"])
        line.words = [*line.words[: line.begin], *(configs.replaced(word, path, str(copy)) for word in line.words[line.begin :])]

    def trial(self, rung: Rung, budget: Budget, *, folder: Path, cache: Path) -> TrialPlan:
        run = folder / "scratch" / "run"
        told = self._in_trial(rung)
        line = self._placed(rung, place=folder / "config", run=run, accumulation=told)
        payload: dict[str, Any] = {
            "accumulation": told,
            "argv": [*line.words, *self.args.validation.force],
            "env": {**line.env, **_hidden_cards(budget)},
            "files": {str(path): text for path, text in line.files.items()},
            "apart": bool(budget.ranks),
            "micro_batch": rung.micro_batch or None,
            "validation": "none" if self.args.validation.none else "seek",
            "whole": self._whole(rung),
        }
        expects: dict[str, Value] = {"accumulation": told} if "accumulation" in self.args.spelled else {}
        why = "" if self.asked.keeps is not None else "nobody says how it resumes (trainer.args.resume)"
        if resumes := not why and self.recipe.trial.resume and bool(self.recipe.recover.restarts):
            payload["goes_on"], more = self._going_on(line.env, place=folder / "config", run=run)
            payload["files"] |= {str(path): text for path, text in more.items()}
        fetch, module = self._fetch(rung), "autofit_launcher.inside.trial"
        return TrialPlan(module=module, payload=payload, expects=expects, resumes=resumes, unresumed=why, fetch=fetch)

    def _whole(self, rung: Rung) -> int | None:
        """Samples of a step that the script takes in parts by itself, as far as that is known: its loader may give them at once."""
        if self.args.accumulation_form != ITSELF:
            return None
        return self.args.whole if self.asked.unseen_step else rung.effective_batch // rung.world_size

    def _going_on(self, env: Mapping[str, str], *, place: Path, run: Path) -> tuple[dict[str, Any], Mapping[Path, str]]:
        """Returns (how a trial's second process goes on, files for it): see ``inside.going_on``."""
        if (resume := self.args.resume) is not None:
            newest = str(Path(resume.newest.replace("{run}", str(run))).absolute())
            return {"words": list(resume.words), "newest": newest, "holds": [], "env": {}}, {}
        variables, files = outside.placed({outside.KEPT_IN: ""}, place=place, env=env)
        of_trainer = {"words": [], "newest": "/**/checkpoint-[0-9]*/", "holds": list(resuming.OF_TRAINER)}
        return {**of_trainer, "env": {**variables, outside.RESUME: "{checkpoint}"}}, files

    def _in_trial(self, rung: Rung) -> int:
        """Accumulation in a trial: four micro-batches peak as four hundred do. As it is for Hugging Face's Trainer, which holds all inputs,
        where the script decides, and at rung 0 where no word of the command says it, or the micro-batch isn't turned: its own words are
        what is looked at then."""
        told, form = rung.accumulation, self.args.accumulation_form
        if self.asked.unseen_step:
            return 1  # how many it takes is asked of the trial
        unsaid = "accumulation" in self.asked.unsaid and self.args.says.get("accumulation") == told
        as_it_stands = not any(rung.position) and (unsaid or "micro_batch" not in self.recipe.ladder.order)
        if form == ITSELF or name(arrived.FIELDS["accumulation"]) in self.args.spelled.get("accumulation", "") or as_it_stands:
            return told
        return min(told, MOST_ACCUMULATION)

    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        """The very command. How it goes on from a checkpoint the recipe must say, but for Hugging Face's Trainer."""
        line, told = self._placed(rung, place=folder / "native", run=folder / "run"), dict[str, str]()
        if self._by_trainer:
            told, more = outside.placed({outside.KEPT_IN: str(_kept_in(folder).absolute())}, place=folder / "native", env=line.env)
            line.files |= more
        if start.workers is not None and "workers" in self.args.spelled:
            line.set(self.args.spelled["workers"], start.workers)
        words, env = tuple(line.words), {**line.env, **_hidden_cards(budget)}
        if start.checkpoint is not None:
            path = str(start.checkpoint.path)
            words += tuple(word.replace("{checkpoint}", path) for word in (self.args.resume.words if self.args.resume else ()))
            env |= {**told, outside.RESUME: path} if self.args.resume is None else {}
        return Command(argv=words, env=env, told=told, files=line.files)

    def small(self, chosen: Rung, asked: Rung) -> Sequence[tuple[int, int]]:
        """Keeps a whole batch that the script itself keeps as asked: takes the rung's own micro-batch, and a part of it."""
        if self.args.accumulation_form == ITSELF:
            whole, most = chosen.micro_batch * chosen.accumulation, chosen.micro_batch
            part = next((part for part in (4, 2) if most % part == 0), 1)
            return [(most, whole // most), (most // part, whole // (most // part))] if part > 1 else []
        return row_by_row(asked)

    def corrected(self, finding: Finding) -> Correction:
        return arrived.corrected(self.args, finding)

    def twin(self, rung: Rung, budget: Budget, *, folder: Path) -> Command:
        if (several := recognise.launched(self.args.command).machines) > 1:
            raise ValueError(f"its ranks train on {several} machines")
        line = self._placed(rung, place=folder / "native", run=folder / "run", short=True)
        return Command(argv=tuple(line.words), env={**line.env, **_hidden_cards(budget)}, files=line.files)

    # -- what came of it --------------------------------------------------------------------------------------------------

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        said, steps = log_line.read(line, known), _ACCUMULATED.match(line)
        below = line.endswith(_BELOW_ANOTHER) and (self._saves.of_trainer or resuming.trains(self.args.command))
        come = replace(known, phase=VALIDATE) if below else said.progress
        return replace(said, progress=come, optimizer_steps=int(steps[1]) if steps is not None else None)

    def results(self, *, folder: Path) -> Mapping[str, Any]:
        """The newest checkpoint, where it is known where they are."""
        files = self._files(folder)
        return {"checkpoints": {"newest": str(files[0])}} if files else {}

    # -- going on from a checkpoint ----------------------------------------------------------------------------------------

    @property
    def _by_trainer(self) -> bool:
        """True if Hugging Face's Trainer trains, as far as command and source tell, and the recipe doesn't say how it goes on."""
        said, field = self.args.spelled.get("micro_batch"), arrived.FIELDS["micro_batch"]
        named = said == field or (self._saves.of_trainer and (said is None or name(field) in said))
        return self.args.resume is None and (named or resuming.trains(self.args.command))

    @property
    def _saves(self) -> resuming.Saves:
        """The way in which the script saves, as far as its source tells."""
        return resuming.saves(self._source())

    def _source(self) -> Sequence[Path]:
        """The script's own files, where it is known."""
        script, _ = recognise.script_of(self.args.command)
        return files_of(script) if script is not None else ()

    def edited(self, *, since: float) -> Sequence[str]:
        own = [*self._source(), *([Path(self.args.config)] if self.args.config is not None else [])]
        return [str(path) for path in own if path.is_file() and path.stat().st_mtime > since]

    def saved(self, folder: Path) -> Saved:
        """Finds checkpoints: only the script knows how far each has come; whole is one by its own checksums and its weights."""
        look = partial(resuming.look, program=self.args.command[0], saves=self._saves)
        return Saved(place=folder / "run", files=self._files(folder), look=look, weights=partial(self._weights, folder))

    def _files(self, folder: Path) -> Sequence[Path]:
        """Finds what the recipe's glob names, newest first, or what Hugging Face's Trainer has saved in this run."""
        resume = self.args.resume
        if resume is None:
            return resuming.of_trainer(_kept_in(folder)) if self._by_trainer else []
        return self._saves.begun(resuming.found(resume.newest.replace("{run}", str(folder / "run"))))

    def _weights(self, folder: Path, since: float) -> Weights | None:
        newer = [path for path in self._files(folder) if path.stat().st_mtime >= since]
        return resuming.last_weights(newer, program=self.args.command[0])

    def _keeps(self) -> frozenset[str] | None:
        """Returns what the recipe says; None where it says no way to go on, and none is known."""
        if self._by_trainer:
            return frozenset(rules.Resume.model_fields["keeps"].default)
        return frozenset(self.args.resume.keeps) if self.args.resume is not None else None


def _kept_in(folder: Path) -> Path:
    """The file that is told where Hugging Face's Trainer saves."""
    return folder / "native" / "trainer_kept_in"


def _hidden_cards(budget: Budget) -> dict[str, str]:
    """A script takes a card where it sees one: on a CPU budget it must see none."""
    return {"CUDA_VISIBLE_DEVICES": ""} if budget.kind == "cpu" else {}
