"""Words of any command -> what each of its settings is believed to mean. The script is read, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.errors import BadInput, Fault
from launcher.trainers.script import configs, flags
from launcher.understood import PLACE, Belief, Doubt, Understood, typed

_ORDER = ("micro_batch", "val_micro_batch", "checkpointing", "segment", "sequence_length", "image_size", "model")
_LENGTHS = ("segment", "sequence_length", "image_size")
_REMARKS = (
    'validation: {force: "--val-every 1"}   # words added in trials only, where validation comes too late to be seen',
    'resume: {words: "--resume {checkpoint}", newest: "checkpoints/*.pt"}',
)


def understand(words: Sequence[str]) -> Understood:
    """What a command asks for, as far as its words, its configuration file and its source tell. Raises BadInput without its script."""
    script = script_of(words)
    if script is not None and not script.is_file():
        raise BadInput([Fault(key=PLACE, found=f"there is no script {script} in {Path.cwd()}", cure="Give its path.")])
    begin = next((at for at, word in enumerate(words) if script is not None and word == str(script)), 0)
    config = configs.named(words[begin + 1 :])  # what stands before the script is its launcher's
    beliefs, doubts = _believed([*_on_the_line(words, script), *_in_config(config), *_declared(script)])
    if "micro_batch" not in beliefs and not any(doubt.wheel == "micro_batch" for doubt in doubts):
        looked = "".join([", its config" if config else "", f" or {script}" if script is not None else ""])
        doubts.append(
            Doubt(
                wheel="micro_batch",
                text=f"nothing in the command{looked} looks like a batch size: say which, as in autofit run ask.micro_batch=16 "
                "trainer.args.spelled.micro_batch=--my-batch trainer.args.spelled.accumulation=--my-accum -- ...",
            )
        )
    return _recipe(words, beliefs, doubts, config)


def _recipe(words: Sequence[str], beliefs: Mapping[str, Belief], doubts: Sequence[Doubt], config: str | None) -> Understood:
    """The recipe that the beliefs amount to."""
    wheels = {wheel: belief for wheel, belief in beliefs.items() if _usable(belief)}
    order = _order(wheels)
    spelled = {wheel: belief.spelling for wheel, belief in wheels.items()}
    rules = _rules(wheels, order)
    unknown = () if "accumulation" in wheels else ("accumulation: no word for it was found, so the micro-batch is not turned",)
    return Understood(
        adapter="script",
        words=tuple(words),
        general=True,
        beliefs=tuple(beliefs.values()),
        doubts=tuple(doubts),
        groups=("trainer: script", "ladder: script"),
        ask={wheel: belief.value for wheel, belief in wheels.items()},
        args={"command": list(words), **({"config": config} if config else {}), "spelled": spelled},
        ladder={"order": order or ["micro_batch"], **({"wheels": rules} if rules else {})},
        comments={
            **{f"ask.{wheel}": str(belief) for wheel, belief in wheels.items()},
            "trainer.args.config": "autofit passes a changed copy",
            "trainer.args.spelled": "wheel: how the script says it (--flag, --flag=, switch:--flag, config:key, key=, env:NAME)",
            "ladder.order": "fastest wheel first",
            **({} if order else {"ladder.wheels.micro_batch": "no fall-back: nothing else is known of the script"}),
        },
        remarks={"ask": unknown, "trainer.args": _REMARKS},
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
            steps = list(dict.fromkeys(_shorter(value, part, wheel) for part in (0.75, 0.5, 0.375, 0.25)))
            rules[wheel] = {"values": [one for one in steps if 0 < one < value]}
        elif wheel == "val_micro_batch":
            rules[wheel] = {"values": [value >> shift for shift in range(1, 12) if value >> shift]}
    if not order:
        rules["micro_batch"] = {"floor": wheels["micro_batch"].value if "micro_batch" in wheels else 1}
    return rules


def _shorter(value: Any, part: float, wheel: str) -> Any:
    if isinstance(value, float):
        return round(value * part, 3)
    grid = 32 if wheel == "image_size" else 8
    return max(int(value * part) // grid * grid, 1) if value >= 4 * grid else max(int(value * part), 1)


# ----------------------------------------------------------------------------------------------------------------------
# Where settings stand


def script_of(words: Sequence[str]) -> Path | None:
    """The script among the words."""
    return next((Path(word) for word in words if word.endswith(".py") and not word.startswith("-")), None)


def _believed(candidates: Sequence[Belief]) -> tuple[dict[str, Belief], list[Doubt]]:
    """For each wheel the candidate from the most telling place; a doubt where that place says two things."""
    beliefs: dict[str, Belief] = {}
    doubts = []
    for wheel in flags.NAMES:
        found = [belief for belief in candidates if belief.wheel == wheel]
        if not found:
            continue
        best = [belief for belief in found if _rank(belief) == _rank(found[0])]
        if len({belief.spelling for belief in best}) > 1:
            said = " or ".join(f"{belief.spelling} ({belief.value})" for belief in best)
            cure = f"say trainer.args.spelled.{wheel}=SPELLING ask.{wheel}=VALUE before --"
            doubts.append(Doubt(wheel=wheel, text=f"{wheel} could be {said}: {cure}"))
            continue
        beliefs[wheel] = best[0]
    return beliefs, doubts


def _rank(belief: Belief) -> int:
    return {"command line": 0}.get(belief.source, 1 if belief.spelling.startswith("config:") else 2)


def _on_the_line(words: Sequence[str], script: Path | None) -> Iterator[Belief]:
    """Settings that the command itself says."""
    declared = {flag.spelling.removeprefix("switch:").split("/")[0]: flag for flag in (flags.of_source(script) if script else [])}
    begin = next((at + 1 for at, word in enumerate(words) if script is not None and word == str(script)), 1)
    for at, word in enumerate(words[begin:], start=begin):
        name, equals, value = word.partition("=")
        wheel = flags.meaning(name.rsplit(".", 1)[-1])
        if wheel is None:
            wheel = flags.meaning(declared[name].spelling) if name in declared else None
        if wheel is None or not (name.startswith("-") or equals):
            continue
        switch = declared.get(name)
        if not equals and (switch is not None and switch.spelling.startswith("switch:")):
            yield Belief(wheel=wheel, value=True, spelling=switch.spelling, source="command line")
        elif equals:
            yield Belief(wheel=wheel, value=typed(value), spelling=f"{name.lstrip('+')}=", source="command line")
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield Belief(wheel=wheel, value=typed(words[at + 1]), spelling=name, source="command line")


_ELSEWHERE = re.compile(r"(^|[._])(val|valid|validation|eval|evaluation|test|infer|inference|predict)([._]|$)")


def _in_config(config: str | None) -> Iterator[Belief]:
    """Keys of the configuration file. One of a validation section means the validation's batch."""
    if config is None or not Path(config).is_file():
        return
    path = Path(config)
    try:
        held = configs.load(path.read_text(encoding="utf-8"), path.suffix)
    except ValueError:
        return
    for key, value in configs.leaves(held):
        wheel = flags.meaning(key.rsplit(".", 1)[-1])
        if wheel == "micro_batch" and _ELSEWHERE.search(key):
            wheel = "val_micro_batch"
        elif wheel is not None and wheel != "val_micro_batch" and _ELSEWHERE.search(key):
            wheel = None
        if wheel is not None and isinstance(value, (bool, int, float)):
            yield Belief(wheel=wheel, value=value, spelling=f"config:{key}", source=str(path))


def _declared(script: Path | None) -> Iterator[Belief]:
    """Flags that the script has, at their defaults."""
    if script is None:
        return
    for flag in flags.of_source(script):
        name = flag.spelling.removeprefix("switch:").split("/")[0].rstrip("=")
        wheel = flags.meaning(name)
        if wheel is not None and flag.default is not None and isinstance(flag.default, (bool, int, float)):
            yield Belief(wheel=wheel, value=flag.default, spelling=flag.spelling, source=f"{flag.where}'s default")
