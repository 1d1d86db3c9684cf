"""What lines of training loops tell of how far a run has come."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.progress import TRAIN, VALIDATE, Progress, read
from autofit_launcher.adapter.registry import load_adapter
from autofit_launcher.config.schema import Recipe
from tests.helpers import script, yolo_recipe
from tests.helpers.places import EXAMPLES


def told(line: str) -> dict[str, object]:
    found = read(line) or Progress()
    return {name: value for name in Progress.__slots__ if (value := getattr(found, name)) is not None and value is not False}


STEP_OF_EPOCH = {"epoch": 1, "step": 45, "steps": 100, "of_epoch": True}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("iter 250: loss 4.5213, time 300.2ms, mfu 1.2%", {"step": 250, "loss": 4.5213}),
        ("step 250: train loss 4.5, val loss 4.6", {"step": 250, "loss": 4.5}),
        ("Epoch [2/10], Step [100/500], Loss: 0.12", {"epoch": 2, "epochs": 10, "step": 100, "steps": 500, "of_epoch": True, "loss": 0.12}),
        ("epoch 3 of 9 val_loss=0.4 loss=1.2e-3", {"epoch": 3, "epochs": 9, "loss": 0.0012}),
        ('{"epoch": 1, "train_loss": 0.5, "val_loss": 0.4, "step": 3}', {"epoch": 1, "loss": 0.5, "step": 3}),
        (" 10%|#         | 1/10 [00:03<00:35,  3.91s/it]", {"phase": TRAIN, "step": 1, "steps": 10}),
        ("Validation DataLoader 0:  50%|##  | 1/2 [00:00<00:00]", {"phase": VALIDATE, "step": 1, "steps": 2}),
        ("Loading weights: 100%|###| 71/71 [00:00<00:00, 3526it/s]", {}),
        ("batch_size: 64, lossless", {}),
        (
            "[######........................] 2/8 epoch 6 loss 1.450",
            {"phase": TRAIN, "epoch": 6, "step": 2, "steps": 8, "of_epoch": True, "loss": 1.45},
        ),
        (
            "Epoch 1/9 ━━━━━━━╸━━━━━━━━ 45/100 0:00:01 • 0:00:02 45.30it/s v_num: 0 train_loss: 0.5",
            {"phase": TRAIN, **STEP_OF_EPOCH, "epochs": 9, "loss": 0.5},
        ),
        (
            "        1/299      3.2G     0.0512     0.031         64        640:  45%|####      | 45/100 [00:10<00:12,  4.5it/s]",
            {"phase": TRAIN, **STEP_OF_EPOCH, "epochs": 299},
        ),
        ("Epoch 1/10 [45/100] loss 0.3", {**STEP_OF_EPOCH, "epochs": 10, "loss": 0.3}),
        ("Epoch: [1][ 45/100]\tTime  0.1 ( 0.2)\tLoss 6.9e+00 (7.0e+00)", {**STEP_OF_EPOCH, "loss": 6.9}),
        (
            "2024/01/31 12:00:00 - mmengine - INFO - Epoch(train)  [1][ 45/100]  lr: 2.0e-02  eta: 0:10:00  loss: 1.2",
            {**STEP_OF_EPOCH, "loss": 1.2},
        ),
        ("01/31 12:00:00 - mmengine - INFO - Iter(train) [    45/100]  lr: 9.9e-03  loss: 2.1", {"step": 45, "steps": 100, "loss": 2.1}),
        ("Epoch(val) [1][45/100]    eta: 0:00:30", {"phase": VALIDATE, **STEP_OF_EPOCH}),
        ("| epoch 001:     45 / 100 loss=9.517, nll_loss=8.2, ppl=301", {**STEP_OF_EPOCH, "loss": 9.517}),
        ("Epoch 1 | iter 100 step 25 | loss train: 1.200, val: n/a | iter time: 300.1 ms", {"epoch": 1, "step": 100, "loss": 1.2}),
        ("{'loss': '0.5', 'epoch': '0.9'}", {"epoch": 0.9, "loss": 0.5, "parts": True}),
    ],
)
def test_what_loops_print_is_understood(line: str, expected: dict[str, object]) -> None:
    assert told(line) == expected


@pytest.mark.parametrize("line", [
    "12/31 12:00:00 begins", "31/12/2024 saved runs/3/4", "data in a/b, 3/4 of it",
    "[3/7] Linking CXX executable", "batch: 16", "max steps: 1000", "Gradient Accumulation steps = 4",
    "Total optimization steps = 500", "warmup epochs: 3", "best epoch: 3", "stopped early at epoch 7",
    "   ━━━━━━━━━━━━━━━━━━━━ 1.2/3.4 MB 5.0 MB/s eta 0:00:00", "download ━━━━━━━━━━━━━━━━━━━━ 12/34 MB",
    "Loading weights [=====>    ] 3/5", "loss 3/4", "100 steps in 3 s", "step 120ms", "| name | 3/4 |", "----------------------------",
    "[----------] 3 tests from X",
])  # fmt: skip
def test_what_is_no_progress_is_not_taken_for_it(line: str) -> None:
    assert told(line) == {}


def test_a_loss_that_is_no_number_is_told_as_it_is() -> None:
    found = read("step 3 loss nan")
    assert found is not None and found.loss is not None and math.isnan(found.loss)


def followed(lines: Iterable[str]) -> list[Progress]:
    known, all_of_it = Progress(), []
    for line in lines:
        known = known.then(read(line))
        all_of_it.append(known)
    return all_of_it


def test_a_bar_for_each_epoch_counts_within_it_once_that_shows() -> None:
    first, _, again, done = followed(["epoch 1/4", " 50%|##  | 5/10 [00:01<00:01]", "epoch 2/4", " 50%|##  | 5/10 [00:01<00:01]"])
    assert first.done == 0.25 and again.step is None
    assert done.done == pytest.approx((1 + 0.5) / 4) and (done.epoch, done.step) == (2, 5)


def test_a_count_is_of_what_its_neighbours_show() -> None:
    assert followed([" 90%|##  | 9/10 [00:01<00:01]", " 10%|##  | 1/10 [00:01<00:01]"])[-1].done is None
    last = followed([" 50%|##  | 5/10 [00:01<00:01]", " 50%|##  | 1/2 [00:01<00:01]"])[-1]
    assert last.phase == VALIDATE and (last.step, last.steps) == (5, 10)
    lines = [" 20%|#   | 2/10 [00:01<00:01]", "{'loss': '0.5', 'epoch': '0.4'}", " 30%|#   | 3/10 [00:01<00:01]"]
    assert followed(lines)[-1].done == 0.3
    assert followed(["step 1/3: reads the data", "step 100 loss 0.3"])[-1].done is None


def test_a_length_that_was_not_reached_is_told_from_one_that_was() -> None:
    assert Progress(epoch=3, epochs=40).short_of_its_length == "epoch 3 of 40"
    for reached in (Progress(epoch=39, epochs=40), Progress(epoch=3), Progress(step=3, steps=40)):
        assert not reached.short_of_its_length


def of_trainer(recipe: Recipe, lines: Iterable[str]) -> list[Progress]:
    """What its adapter knows after each line."""
    adapter = load_adapter(recipe.trainer.adapter)(recipe)
    rung, known = ladder_of(adapter).asked, [Progress()]
    for line in lines:
        known.append(adapter.read_log(line, known[-1], rung=rung).progress)
    return known[1:]


YOLO = [
    "\x1b[K\x1b[34m\x1b[1mtrain: \x1b[0mScanning labels/train... 81 images, 0 backgrounds, 0 corrupt: 33% ━━━━──────── 81/240 242it/s",
    "\x1b[K        2/6         0G       6.79      5.035      4.157         67        160: 50% ━━━━━━────── 15/30 1.2it/s 0.7s<1:09",
    "\x1b[K                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 75% ━━━━━━━━━─── 3/4 1.8it/s",
    "                   all         60        381      0.816      0.729      0.841      0.687",
    "        3/6      26.5G        nan        nan        nan         67       1280:   3%|▎         | 1/30 [00:02<01:09,  2.4s/it]",
]


def test_ultralytics_bars_tell_epoch_batch_and_loss() -> None:
    scanned, trained, validated, table, later = of_trainer(yolo_recipe.make("d.yaml"), YOLO)
    assert scanned == Progress()
    assert trained.phase == TRAIN and trained.loss == pytest.approx(6.79 + 5.035 + 4.157)
    assert trained.done == pytest.approx((1 + 0.5) / 6) and (trained.epoch, trained.step) == (2, 15)
    assert validated.phase == VALIDATE and validated.done == trained.done and table == validated
    assert later.phase == TRAIN and later.loss is not None and math.isnan(later.loss) and later.epoch == 3


HF = [
    "Loading weights: 100%|##########| 39/39 [00:00<00:00, 20656.38it/s]",
    "  0%|          | 0/10 [00:00<?, ?it/s]",
    "  0%|          | 0/500 [00:00<?, ?it/s]\x1b[A",
    "{'eval_loss': '6.981', 'eval_runtime': '1.448', 'eval_samples_per_second': '1.382', 'epoch': '0.3'}",
    " 30%|###       | 3/10 [00:06<00:12,  1.83s/it]",
    "{'loss': '6.76', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.9'}",
    "100%|##########| 10/10 [00:22<00:00,  2.20s/it]",
]


def test_transformers_bar_and_words_tell_step_epoch_and_loss() -> None:
    loaded, begun, below, evaluated, stepped, logged, ended = of_trainer(
        script.recipe(sys.executable, str(EXAMPLES / "text" / "train.py"), "--num_train_epochs", "3", ask={"micro_batch": 8}), HF
    )
    assert loaded.done is None and begun.done == 0.0
    assert below.phase == VALIDATE and below.steps == 10 and evaluated.epoch == 0.3 and evaluated.loss is None
    assert stepped.done == 0.3 and stepped.phase == TRAIN
    assert logged.loss == 6.76 and logged.epoch == 0.9 and logged.done == 0.3
    assert ended.done == 1.0 and ended.loss == 6.76
