"""Recognises what each setting of a command means, by its words, its configuration files and its source. Nothing is run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from launcher.adapter import wheel_names
from launcher.adapter.python_source import fault, files_of
from launcher.adapter.recognised import Belief, Doubt, Understood
from launcher.errors import PLACE, BadInput, Fault
from launcher.machine import devices
from launcher.trainers.script import (
    arrivals,
    batches,
    configs,
    deepspeed,
    families,
    launchers,
    lightning_source,
    lines,
    overrides,
    programs,
    said_lengths,
    source_facts,
    training_arguments,
)
from launcher.trainers.script.arrivals import Source
from launcher.trainers.script.candidates import (
    COMMAND_LINE,
    believed,
    bounded,
    counts_otherwise,
    defaults,
    held_files,
    in_config,
    in_lists,
    in_python,
    later_files,
    meaning,
    on_the_line,
    other_unit,
    trained_with,
    upright,
)
from launcher.trainers.script.declared import Flag, of_script
from launcher.trainers.script.spelling import LOADER, NOMINAL, OUTSIDE, kind

_ORDER = ("val_micro_batch", "micro_batch", "checkpointing", "segment", "sequence_length", "image_size", "model")
_LENGTHS = ("segment", "sequence_length", "image_size")
_REMARKS = (
    'validation: {force: "--val-every 1"}   # words added in trials only, where validation comes too late to be seen',
    'resume: {words: "--resume {checkpoint}", newest: "checkpoints/*.pt"}',
)


_NONE = Belief(wheel="", value=None, spelling="", source="")


def understand(words: Sequence[str], *, value: str = "") -> Understood:
    """What a command asks for, as far as its words, its configuration file and its source tell. Raises BadInput without its script.

    ``value``: which value of its source a person says to be the batch size.
    """
    script, begin = script_of(words)
    if script is not None and not script.is_file():
        raise BadInput([Fault(key=PLACE, found=f"there is no script {script} in {Path.cwd()}", cure="Give its path.")])
    behind = overrides.option(script, words) if script is not None else None
    named = configs.named(words[begin:])  # not those of its launcher
    config = tuple(path for path in named if not configs.of_a_family(path))
    held = held_files(config)
    declared = _declared(words, script, begin)
    python = [Path(word) for word in words[begin:] if word.endswith(".py") and Path(word).is_file()]
    later = later_files(words, begin, held) if script is not None and source_facts.in_order(script) else {}
    files = [*in_config(held, behind), *in_python(python, behind)]
    found = upright([*on_the_line(words, begin, declared, later), *files, *defaults(declared, words[begin:])])
    settled = batches.settled(found, ranks=launched(words).processes, in_tokens=partial(source_facts.in_tokens, script))
    beliefs, doubts = believed(settled)
    if "micro_batch" in beliefs and (unit := other_unit(found)) is not None:
        doubts.append(Doubt(wheel="micro_batch", text=counts_otherwise(beliefs.pop("micro_batch"), unit)))
    if any(belief.source == COMMAND_LINE for wheel, belief in beliefs.items() if wheel in _LENGTHS):  # then no other length is meant
        beliefs = {wheel: one for wheel, one in beliefs.items() if wheel not in _LENGTHS or not one.source.endswith("'s default")}
    if beliefs.get("micro_batch", _NONE).source.endswith("'s default") and (listed := in_lists(held)):
        doubts.append(Doubt(wheel="micro_batch", text=f"{listed}: say one for all of them, in the command or in the file"))
    if (belief := beliefs.get("micro_batch")) is not None and not _usable(belief):
        text = (
            f"{belief.spelling} says {belief.value}, which is no number of samples, so that the script works that out by itself: say how "
        )
        text += "many, and its word for it: autofit run ask.micro_batch=16 trainer.args.spelled.micro_batch=--my-batch -- ..."
        doubts.append(Doubt(wheel="micro_batch", text=text))
    given = training_arguments.in_source(files_of(script)) if script is not None else []
    if given and not doubts:
        beliefs = {**training_arguments.beliefs(given), **beliefs}
        doubts.extend(filter(None, [training_arguments.doubt(given)]))
    own = Source({}, {})
    unread = "micro_batch" not in beliefs and not doubts
    if script is not None and (value or (unread and "accumulation" not in beliefs)):
        own = arrivals.in_source(words, script, value, ranks=launched(words).processes)
        beliefs |= own.beliefs
        doubts = [doubt for doubt in doubts if not value or doubt.wheel not in own.beliefs]
    if "micro_batch" not in beliefs and not doubts and (unspelled := _unspelled(python)) is not None:
        doubts.append(Doubt(wheel="micro_batch", text=_only_its_word_is_missing(unspelled)))
    if "micro_batch" not in beliefs and not any(doubt.wheel == "micro_batch" for doubt in doubts):
        text = _not_shared(settled, launched(words).processes) or bounded(found) or _of_families({*named} - {*config})
        text = text or own.unknown or _no_batch(words, held, script)
        doubts.append(Doubt(wheel="micro_batch", text=text))
    unknown = next((f"{doubt.text}; until then the micro-batch is not turned" for doubt in doubts if doubt.wheel == "accumulation"), "")
    if not unknown and "accumulation" not in beliefs and (batch := beliefs.get("micro_batch")) is not None and _usable(batch):
        by = deepspeed.makes_steps(words, begin, config=config, script=script)
        unknown = deepspeed.unknown_steps(by) if by else _accumulation(beliefs, settled, script)
    counted_out = partial(said_lengths.counted_out, words[begin:], declared, python, said_lengths.said_in_files(held, python, behind))
    lengths = counted_out(said_lengths.is_length) or training_arguments.lengths(given) or own.lengths
    said = {"config": config, "lengths": lengths, "points": counted_out(wheel_names.counts_points)}
    return _recipe(words, beliefs, doubts, said, unknown=unknown)


def _declared(words: Sequence[str], script: Path | None, begin: int) -> list[Flag]:
    """The settings that the command may say: its script's, those of an installed program or module, and what is known of that."""
    if script is not None:
        return of_script(script)
    known = families.settings(words)
    found = programs.installed(words) if not known else None
    return known if found is None else of_script(found[0], root=found[1])


def _accumulation(beliefs: dict[str, Belief], settled: Sequence[Belief], script: Path | None) -> str:
    """Adds the accumulation of a script that has no word for it; or says why it can't be known."""
    nominal = source_facts.nominal_batch(script) if script is not None else None
    if nominal is not None:
        return _nominal(beliefs, nominal, script)
    if (whole := next((one for one in settled if one.wheel == batches.WHOLE), None)) is not None:
        said = f"{whole.spelling} {whole.value} is the batch of a step"
        return f"{said}, and in how many parts the script takes it isn't known, so the micro-batch is not turned"
    at_the_loader = kind(beliefs["micro_batch"].spelling)[0] in (OUTSIDE, LOADER)  # the script works with its own number then
    if script is not None and not at_the_loader and (counted := source_facts.counted_by_batch(script)):
        return f"no word for it was found, and a schedule is counted by the batch size ({counted}), so the micro-batch is not turned"
    trainer = lightning_source.accumulation(files_of(script)) if script is not None else None
    outside = Belief(wheel="accumulation", value=1, spelling=OUTSIDE, source="no word for it was found")
    beliefs["accumulation"] = trainer or outside
    return ""


def _not_shared(settled: Sequence[Belief], ranks: int) -> str:
    """What is said of a batch of all processes together that they can't share; empty where there is none."""
    whole = next((one for one in settled if one.wheel == batches.WHOLE), None)
    if whole is None or ranks == 1:
        return ""
    return f"{whole.spelling} says {whole.value} ({whole.source}), of which {ranks} processes can't have the same number each"


def _of_families(files: Collection[str]) -> str:
    """What is said of configuration files that aren't read; nothing where there are none."""
    if not files:
        return ""
    return f"{min(files)} takes in other files, so that it isn't read: say the batch in the command, by the script's own word for it"


def _no_batch(words: Sequence[str], held: Mapping[str, Any], script: Path | None) -> str:
    """What is said where no batch size was found: where was looked."""
    if (known := families.unread(words)) or (known := in_lists(held)):
        return known
    if script is not None and (given := source_facts.batch_of_a_call(script)):
        return given
    if script is not None and (wrong := fault(script)):
        return f"{script} can't be read as Python ({wrong}), so that no batch size was looked for in it"
    looked = "".join([", its config" if held else "", f" or {script}" if script is not None else ""])
    return (
        f"nothing in the command{looked} looks like a batch size: say which, as in autofit run ask.micro_batch=16 "
        "trainer.args.spelled.micro_batch=--my-batch trainer.args.spelled.accumulation=--my-accum -- ..."
    )


def _unspelled(python: Sequence[Path]) -> Belief | None:
    """A batch that is known, and not how the command would say it: in a configuration file in Python."""
    said = {
        key: Belief(wheel="micro_batch", value=value, spelling=key, source=str(path))
        for path in python
        for key, value in configs.in_python(path)
        if trained_with(key, meaning(key)) in ("micro_batch", batches.WHOLE) and said_lengths.positive(value)
    }
    trained = [belief for key, belief in said.items() if "train" in key.lower()] or list(said.values())
    return trained[-1] if trained else None


def _only_its_word_is_missing(belief: Belief) -> str:
    key, value = belief.spelling, belief.value
    return (
        f"the batch is {value} ({key} in {belief.source}), and only how the command says it isn't known: say it in the command, by the "
        f"script's own option for that (mmengine: --cfg-options {key}={value})"
    )


def _nominal(beliefs: dict[str, Belief], nominal: int, script: Path | None) -> str:
    """Adds the accumulation of a script that keeps a nominal batch by itself; or says why it can't be known."""
    micro_batch = beliefs["micro_batch"].value
    own = batches.by_nominal(nominal, micro_batch)
    if own is None:
        does = f"{script} accumulates up to a batch of {nominal} by itself"
        return f"{does}, of which {micro_batch} is no part, so the micro-batch is not turned"
    source = f"{script} takes {own} by itself, up to a batch of {nominal}"
    beliefs["accumulation"] = Belief(wheel="accumulation", value=own, spelling=f"{NOMINAL}:{nominal}", source=source)
    return ""


def _recipe(
    words: Sequence[str],
    beliefs: Mapping[str, Belief],
    doubts: Sequence[Doubt],
    said: Mapping[str, Any],
    *,
    unknown: str,
) -> Understood:
    """The recipe that the beliefs amount to. ``said``: the configuration files, and how long it trains and how often it evaluates.
    ``unknown``: why accumulation isn't known."""
    wheels = {wheel: belief for wheel, belief in beliefs.items() if _usable(belief)}
    order = _order(wheels)
    spelled = {wheel: belief.spelling for wheel, belief in beliefs.items() if wheel in wheels or wheel == "micro_batch"}
    rules = _rules(wheels, order)
    says = {wheel: belief.value for wheel, belief in wheels.items()}
    long = {name: dict(said[name]) for name in ("lengths", "points") if said[name] and order}
    config = said["config"]
    places = [kind(belief.spelling)[1] for belief in wheels.values() if kind(belief.spelling)[0] == LOADER]
    known = {place: text for place in places if (text := lines.text_at(place, words))}
    named = {"config": config[0] if len(config) == 1 else list(config)} if config else {}
    unturned = next((str(doubt) for doubt in doubts if doubt.wheel == "micro_batch"), unknown)
    remarks = () if "accumulation" in wheels else (f"accumulation: {unknown or 'not known, so the micro-batch is not turned'}",)
    return Understood(
        adapter="script",
        words=tuple(words),
        beliefs=tuple(beliefs.values()),
        doubts=tuple(doubts),
        groups=("trainer: script", "ladder: script"),
        ask={wheel: belief.value for wheel, belief in wheels.items()},
        args={
            "command": list(words),
            **named,
            "spelled": spelled,
            "says": says,
            **({"lines": known} if known else {}),
            **long,
            **({"unturned": unturned} if unturned else {}),
        },
        device=cards(words),
        ladder={"order": order or ["micro_batch"], **({"wheels": rules} if rules else {})},
        comments={
            **{f"ask.{wheel}": str(belief) for wheel, belief in wheels.items()},
            "trainer.args.config": "autofit passes changed copies",
            "trainer.args.says": "what the command means as it stands; nothing of it is said again",
            "trainer.args.lines": "by which the loader is found where the script was edited",
            "trainer.args.lengths": "how long it trains, as it says it; made small where a rung is proven to be the same training",
            "trainer.args.points": "how often it evaluates and saves, as it says it; turned along where that counts micro-batches",
            "trainer.args.spelled": "wheel: how the script says it (docs/scripts.md has all the ways)",
            "ladder.order": "fastest wheel first",
            **({} if order else {"ladder.wheels.micro_batch": "no fall-back: nothing else is known of the script"}),
        },
        remarks={"ask": remarks, "trainer.args": _REMARKS},
    )


def _usable(belief: Belief) -> bool:
    """A value that the wheel can stand at; a script's ``--segment none`` is no length."""
    if belief.wheel == "checkpointing":
        return isinstance(belief.value, bool)
    if isinstance(belief.value, bool) or not isinstance(belief.value, (int, float)):
        return False
    return belief.wheel == "segment" or (isinstance(belief.value, int) and belief.value >= 1)


def _order(wheels: Mapping[str, Belief]) -> list[str]:
    """The wheels that can turn: the micro-batch only with accumulation, checkpointing only where it is off."""
    fixed = set() if "accumulation" in wheels else {"micro_batch"}
    if "checkpointing" in wheels and wheels["checkpointing"].value is not False:
        fixed.add("checkpointing")
    return [wheel for wheel in _ORDER if wheel in wheels and wheel not in fixed]


def _rules(wheels: Mapping[str, Belief], order: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How far each wheel may turn; lengths in four steps down to a quarter."""
    rules: dict[str, dict[str, Any]] = {}
    for wheel in order:
        value = wheels[wheel].value
        if wheel in _LENGTHS:
            grid = _grid(value, wheel)
            steps = list(dict.fromkeys(_shorter(value, part, grid) for part in (0.75, 0.5, 0.375, 0.25)))
            rules[wheel] = {**({"grid": grid} if wheel != "segment" else {}), "values": [one for one in steps if 0 < one < value]}
        elif wheel == "val_micro_batch":
            rules[wheel] = {"values": [value >> shift for shift in (1, 2, 4, 6) if value >> shift]}
    if not order:
        rules["micro_batch"] = {"floor": wheels["micro_batch"].value if "micro_batch" in wheels else 1}
    return rules


def _grid(value: Any, wheel: str) -> int:
    """What lesser lengths are multiples of: the usual grid where there are four steps of it, else a finer one."""
    usual = 32 if wheel == "image_size" else 8
    return next((usual >> shift for shift in range(6) if (usual >> shift) * 4 <= value), 1)


def _shorter(value: Any, part: float, grid: int) -> Any:
    return round(value * part, 3) if isinstance(value, float) else max(int(value * part) // grid * grid, grid)


# ----------------------------------------------------------------------------------------------------------------------
# Where settings stand


def script_of(words: Sequence[str]) -> tuple[Path | None, int]:
    """The script among the words, or the file of the module that ``-m`` names; and where its own arguments begin."""
    begin = 1
    for at, word in enumerate(words):
        if word.endswith(".py") and not word.startswith("-"):
            return Path(word), at + 1
        if word == "-m" and at + 1 < len(words):
            path = Path(*words[at + 1].split("."))
            found = next((one for one in (path.with_suffix(".py"), path / "__main__.py") if one.is_file()), None)
            if found is not None:
                return found, at + 2
            begin = at + 2  # a module that is installed: a launcher of scripts (torch.distributed.run), or the trainer itself
    return None, begin


def launched(words: Sequence[str]) -> launchers.LauncherWords:
    """What the command's launcher (torchrun, accelerate, deepspeed) starts."""
    return launchers.started(words, script_of(words)[1] - 1)


def cards(words: Sequence[str]) -> dict[str, Any]:
    """The section of a recipe by which each process has a card; empty for one process, and where this machine has no card."""
    by = launched(words)
    return {"cards": list(by.cards or ()) or by.here} if by.here > 1 and devices.chosen_kind("auto") == "cuda" else {}
