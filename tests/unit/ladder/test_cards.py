"""The wheel ``cards``: what it may be turned to, and what is refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.errors import BadInput
from launcher.ladder.build import ladder_of
from launcher.ladder.rungs import Ladder
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trainers.ultralytics.adapter import UltralyticsAdapter
from tests.helpers.yolo_recipe import make


def ladder(cards: int | None = 4, ask: dict[str, Any] | None = None, **rule: Any) -> Ladder:
    rules = {"order": ("micro_batch", "cards"), "wheels": {"cards": rule} if rule else {}}
    asked = make("data", ask={"accumulation": 2, **(ask or {})}, device={"kind": "cpu", "cards": cards}, ladder=rules)
    return ladder_of(UltralyticsAdapter(asked))


def refused(**options: Any) -> str:
    with pytest.raises(BadInput) as refusal:
        ladder(**options)
    return "\n".join(f"{fault.key}: {fault.found} {fault.cure}" for fault in refusal.value.faults)


@pytest.mark.parametrize(
    ("cards", "rule", "values"),
    [(4, {}, [4, 2, 1]), (6, {"floor": 2}, [6, 3, 2]), (4, {"values": (1,)}, [4, 1]), (4, {"values": (4, 2, 1), "floor": 2}, [4, 2])],
)
def test_cards_go_down_where_the_order_names_them_and_the_batch_stays(cards: int, rule: dict[str, Any], values: list[int]) -> None:
    built = ladder(cards, **rule)
    assert list(dict.fromkeys(rung.world_size for rung in built.rungs)) == values
    assert {rung.effective_batch for rung in built.rungs} == {4 * 2 * cards}


@pytest.mark.parametrize(("rule", "said"), [
    ({"values": (3,)}, "ladder.wheels.cards: 3 cards can't make up the batch of 4; these can: 4, 2, 1"),
    ({"values": (8,)}, "8 cards can't make up the batch of 4"), ({"floor": 0}, "floor 0 is not a whole number from 1 to the asked 4"),
    ({"argument": "n_gpu"}, "how many cards there are is no setting of the trainer's"),
])  # fmt: skip
def test_what_cards_can_not_be_is_refused(rule: dict[str, Any], said: str) -> None:
    assert said in refused(**rule)


def test_a_script_that_starts_its_processes_itself_has_no_such_wheel() -> None:
    asked = make("data", device={"kind": "cuda", "cards": 2}, ladder={"order": ("micro_batch", "cards")})
    rules = asked.trainer.model_copy(update={"adapter": "script", "args": {"command": ["torchrun", "train.py"]}})
    with pytest.raises(BadInput) as refusal:
        ladder_of(ScriptAdapter(asked.model_copy(update={"trainer": rules, "ask": {"micro_batch": 4}})))
    assert any("unknown wheel 'cards'" in fault.found for fault in refusal.value.faults)
