"""Levers: settings that need less memory whatever the batch, and change how an update is made (an optimizer, a precision). Pure.

Each that is turned is named in what a rung gives up, with how far its update is from the asked one (docs/decisions/015).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from launcher.config.schema import Value, WheelRule
from launcher.ladder.rungs import Ladder, Rung
from launcher.ladder.twins import APART, Twin

EXACT = frozenset({"loss_chunks", "offload"})
"""Those whose update is the asked one but for rounding, which twins show; they cost time."""
ROUNDING = 1e-6
"""Distance of the same gradients: 1e-8 to 4e-7. Frozen layers may have had 6e-6 of them, and an update like others'."""
ANOTHER = " (another training, not the same one cheaper)"
_UPDATE = frozenset(("optimizer", "optim", "opt", "adam", "adamw", "precision", "dtype", "amp", "bf16", "fp16", "freeze", "frozen"))
_ANOTHER = frozenset(("lora", "qlora", "dora", "peft", "adapters", "quantization", "4bit", "8bit", "nf4"))


def _means(name: str, rules: Mapping[str, WheelRule], words: frozenset[str]) -> bool:
    """Whether a wheel, or the argument that it turns, has one of these words in its name."""
    rule = rules.get(name)
    said = f"{name} {rule.argument if rule is not None and rule.argument else ''}".lower()
    return bool(words.intersection(re.split(r"[^a-z0-9]+", said)))


def turned(ladder: Ladder, rung: Rung, rules: Mapping[str, WheelRule], *, exact: Set[str] = EXACT) -> dict[str, Value]:
    """Levers that this rung turns -> what was asked. LoRA and the like are none: nothing of their update can be held against the asked
    one."""
    less = ladder.given_up(rung)
    if any(another(name, rules) for name in less):
        return {}
    return {name: asked for name, (asked, _) in less.items() if name in exact or _means(name, rules, _UPDATE)}


def another(name: str, rules: Mapping[str, WheelRule]) -> str:
    """What is to be said beside a wheel that makes it another training, whatever is measured; empty for others."""
    is_another = _means(name, rules, _ANOTHER) and not _means(name, rules, _UPDATE)  # --use_8bit_adam is an optimizer
    return ANOTHER if is_another else ""


def beside(name: str, rules: Mapping[str, WheelRule]) -> str:
    """What is to be said beside a wheel in what is given up; empty for most."""
    return " (costs time)" if name in EXACT else another(name, rules)


def beside_in_record(name: str, pair: Mapping[str, Value]) -> str:
    """The same of a pair of ``given_up``, as it was recorded."""
    return ANOTHER if pair.get("another_training") else beside(name, {})


def given_up(ladder: Ladder, rung: Rung, rules: Mapping[str, WheelRule]) -> dict[str, dict[str, Value]]:
    """What a rung gives up, as a record has it: wheel -> ``asked`` and ``used``, and ``another_training`` where it makes it one."""
    less = ladder.given_up(rung).items()
    marks = {name: {"another_training": True} if another(name, rules) else {} for name, _ in less}
    return {name: {"asked": asked, "used": used, **marks[name]} for name, (asked, used) in less}


def measured(asked: Twin, used: Twin) -> dict[str, float | str]:
    """How the second twin's update of its first gradient lies to the first one's, and those gradients; ``why`` not. The update is that of a
    second step with the same gradient: at the first, states are exact however few bits they are kept in."""
    for twin, whose in ((asked, "as asked"), (used, "as it is given up")):
        if not twin.steps:
            return {"why": f"a step {whose} was not seen: {twin.why}"}
    gradient, update = used.steps[0].against, used.steps[0].update
    if gradient is None or update is None or gradient.mismatch or update.mismatch:
        return {"why": (gradient and gradient.mismatch) or (update and update.mismatch) or "its tensors are others than the asked ones"}
    if not update.length or not update.length_first:
        return {"why": "a step changes nothing"}
    cosine = update.factor * update.length_first / update.length
    return {"apart": update.apart, "cosine": cosine, "length": update.length / update.length_first, "gradient_apart": gradient.apart}


def told(update: Mapping[str, float | str]) -> str:
    """``measured`` in words; empty where nothing was to be."""
    if not update or "why" in update:
        return f"how far its update is from the asked one was not measured: {update['why']}" if update else ""
    same = float(update["gradient_apart"]) <= ROUNDING
    gradients = "the same gradients" if same else f"gradients {update['gradient_apart']:.2g} apart"
    alike = float(update["apart"]) <= APART
    far = "the asked one" if alike else f"{update['apart']:.2g} apart from the asked one (cosine {update['cosine']:.3f})"
    return f"its update is {far}, of {gradients}"
