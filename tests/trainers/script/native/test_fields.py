"""Fields of a known trainer's call are set where they arrive: all of them or none, once however often they are met."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from autofit_launcher.trainers.script import outside
from autofit_launcher.trainers.script.native.fields import FieldOrders
from tests.helpers.places import lay

BATCH, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"


class Arguments:
    def __init__(self, batch: int, accumulation: int, **more: object) -> None:
        self.__dict__ |= {BATCH: batch, ACCUMULATION: accumulation, **more}

    @property
    def both(self) -> tuple[int, int]:
        return getattr(self, BATCH), getattr(self, ACCUMULATION)


ORDERS = FieldOrders({BATCH: [32, 8], ACCUMULATION: [2, 8]})


def test_what_was_given_is_set_once_and_what_is_set_stays() -> None:
    arguments = Arguments(32, 2, auto_find_batch_size=True)
    assert ORDERS.set(arguments) and ORDERS.set(arguments)
    assert arguments.both == (8, 8) and arguments.auto_find_batch_size is False  # type: ignore[attr-defined]


@pytest.mark.parametrize("held", [(32, 1), (8, 2), (16, 4)])
def test_other_arguments_are_left_whole_and_told(held: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = Arguments(*held)
    assert not ORDERS.set(arguments) and arguments.both == held
    ORDERS.told("Arguments", ORDERS.of(arguments))
    told = capsys.readouterr().err
    assert "per_device_train_batch_size" in told and "is left as it is" in told


def test_arguments_that_have_derived_others_of_the_batch_are_left_alone() -> None:
    arguments = Arguments(32, 2, generation_batch_size=64)
    assert not ORDERS.set(arguments) and arguments.both == (32, 2)


SCRIPT = """
import dataclasses, torch
from transformers import Trainer, TrainingArguments
{arguments}
print(args.per_device_train_batch_size, args.gradient_accumulation_steps, end=" ")
Trainer(model=torch.nn.Linear(2, 2), args=args)
print(args.per_device_train_batch_size, args.gradient_accumulation_steps)
"""
PLAIN = f"args = TrainingArguments('out', {BATCH}=32, {ACCUMULATION}=2, report_to=[], use_cpu=True)"
OWN = f"""
@dataclasses.dataclass
class Mine(TrainingArguments):
    def __post_init__(self):
        super().__post_init__()
        self.{BATCH} *= 2
args = Mine('out', {BATCH}=16, {ACCUMULATION}=2, report_to=[], use_cpu=True)
"""


@pytest.mark.parametrize("arguments", [PLAIN, OWN], ids=["transformers' own", "a class of the person's that computes its batch"])
def test_the_script_computes_with_its_own_numbers_until_the_trainer_is_made(arguments: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(arguments=arguments))
    variables, files = outside.placed({outside.FIELDS: json.dumps({BATCH: [32, 8], ACCUMULATION: [2, 8]})}, place=tmp_path, env={})
    lay(files)
    env = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["32", "2", "8", "8"], done.stderr[-2000:]


@pytest.mark.parametrize(("given", "came"), [({"accumulate_grad_batches": 2}, 8), ({}, None), ({"accumulate_grad_batches": 8}, 8)])
def test_lightnings_accumulation_is_set_as_its_trainer_is_made(
    given: dict[str, int], came: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    class Trainer:
        def __init__(self, **kwargs: int) -> None:
            self.given = kwargs

    FieldOrders({"accumulate_grad_batches": [2, 8]}).into_lightning(types.SimpleNamespace(Trainer=Trainer))
    assert Trainer(**given).given.get("accumulate_grad_batches") == came
    assert ("left as it is" in capsys.readouterr().err) is (came is None), "its default is another than the launch was made for"
