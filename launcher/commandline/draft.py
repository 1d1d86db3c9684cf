"""What was understood of a command -> the text of a recipe that says it, commented, to be kept and edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.commandline.recognise import Belief, Understood, as_text

_ORDER = ("micro_batch", "val_micro_batch", "checkpointing", "segment", "sequence_length", "image_size", "model")


def recipe(understood: Understood, *, name: str) -> str:
    """The recipe's text."""
    if understood.adapter == "ultralytics":
        return _ultralytics(understood, name=name)
    wheels = {belief.wheel: belief for belief in understood.beliefs if _usable(belief)}
    accumulates = "accumulation" in wheels
    order = [wheel for wheel in _ORDER if wheel in wheels and (wheel != "micro_batch" or accumulates) and _turns(wheels[wheel])]
    lines = [
        *_head(understood, name, groups=("trainer: script", "ladder: script")),
        "",
        "ask:                       # the configuration as it stands: rung 0",
        *(f"  {wheel}: {as_text(belief.value)}   # {_from(belief)}" for wheel, belief in wheels.items()),
        *([] if accumulates else ["  # accumulation: no word for it was found, so the micro-batch is not turned"]),
        "",
        "trainer:",
        "  args:",
        f"    command: {_words(understood.words)}",
        *([f"    config: {as_text(understood.config)}   # autofit passes a changed copy"] if understood.config else []),
        "    spelled:               # wheel: how the script says it (--flag, --flag=, switch:--flag, config:key, key=, env:NAME)",
        *(f"      {wheel}: {as_text(belief.spelling)}" for wheel, belief in wheels.items()),
        '    # validation: {force: "--val-every 1"}   # words added in trials only, where validation comes too late to be seen',
        '    # resume: {words: "--resume {checkpoint}", newest: "checkpoints/*.pt"}',
        "",
        "ladder:",
        f"  order: [{', '.join(order)}]   # fastest wheel first" if order else "  order: [micro_batch]",
        *_rules(wheels, order),
    ]
    return "\n".join(lines) + "\n"


def _usable(belief: Belief) -> bool:
    """A value that the wheel can stand at; a script's ``--segment none`` is no length."""
    if belief.wheel == "checkpointing":
        return isinstance(belief.value, bool)
    if isinstance(belief.value, bool) or not isinstance(belief.value, (int, float)):
        return False
    return belief.wheel == "segment" or (isinstance(belief.value, int) and belief.value >= 1)


def _turns(belief: Belief) -> bool:
    return belief.wheel != "checkpointing" or belief.value is False


def _rules(wheels: dict[str, Belief], order: Sequence[str]) -> list[str]:
    """How far each wheel may turn; lengths in four steps down to a quarter."""
    lines = []
    for wheel in order:
        value = wheels[wheel].value
        if wheel in ("segment", "sequence_length", "image_size"):
            steps = list(dict.fromkeys(_shorter(value, part, wheel) for part in (0.75, 0.5, 0.375, 0.25)))
            lines.append(f"    {wheel}: {{values: {as_text([one for one in steps if 0 < one < value])}}}")
        elif wheel == "val_micro_batch":
            halves = [value >> shift for shift in range(1, 12) if value >> shift]
            lines.append(f"    {wheel}: {{values: {as_text(halves)}}}")
    if not order:
        micro_batch = wheels["micro_batch"].value if "micro_batch" in wheels else 1
        lines.append(f"    micro_batch: {{floor: {micro_batch}}}   # no fall-back: nothing else is known of the script")
    return ["  wheels:", *lines] if lines else []


def _shorter(value: Any, part: float, wheel: str) -> Any:
    if isinstance(value, float):
        return round(value * part, 3)
    grid = 32 if wheel == "image_size" else 8
    return max(int(value * part) // grid * grid, 1) if value >= 4 * grid else max(int(value * part), 1)


def _ultralytics(understood: Understood, *, name: str) -> str:
    lines = [
        *_head(understood, name, groups=("trainer: ultralytics",)),
        *([f"data: {as_text(understood.data)}"] if understood.data else []),
        "",
        "ask:                       # the configuration as it stands: rung 0",
        *(f"  {wheel}: {as_text(value)}" for wheel, value in understood.ask.items()),
        "",
        "trainer:",
        f"  task: {as_text(understood.task)}",
        f"  args: {as_text(understood.args)}",
    ]
    if "multi_scale" in understood.ask:
        lines += ["", "ladder:", "  order: [micro_batch, image_size, checkpointing, multi_scale, model]"]
    return "\n".join(lines) + "\n"


def _head(understood: Understood, name: str, *, groups: Sequence[str]) -> list[str]:
    """Header, defaults list and summary. ``groups``: the options that the recipe overrides, as ``group: option``."""
    believed = [f"#   {belief.wheel:<16} {as_text(belief.value):<10} {_from(belief)}" for belief in understood.beliefs]
    return [
        "# @package _global_",
        f"# What autofit understood of: {' '.join(understood.words)}",
        *believed,
        *(f"#   in doubt: {doubt}" for doubt in understood.doubts),
        "#",
        f"# Launch:   autofit train recipe={name}",
        "defaults:",
        *(f"  - override /{group}" for group in groups),
        "  - _self_",
        "",
        f"summary: {as_text('`' + ' '.join(understood.words)[:100] + '`')}",
    ]


def _from(belief: Belief) -> str:
    return f"{belief.spelling} ({belief.source})"


def _words(words: Sequence[str]) -> str:
    return f"[{', '.join(as_text(word) for word in words)}]"


def beliefs(understood: Understood) -> list[str]:
    """What each setting is taken for, a line each, for the screen."""
    return [
        f"{belief.wheel:<16} {as_text(belief.value):<8} {_from(belief)}"
        for belief in understood.beliefs
        if _usable(belief) or understood.ask
    ]
