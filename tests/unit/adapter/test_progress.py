"""What lines of training loops tell of how far a run has come."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import pytest

from launcher.adapter.progress import TRAIN, VALIDATE, Progress, read
from tests.helpers.progress_of import of_trainer, recipe


def told(line: str) -> dict[str, object]:
    found = read(line) or Progress()
    return {name: value for name in Progress.__slots__ if (value := getattr(found, name)) not in (None, False)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("iter 250: loss 4.5213, time 300.2ms, mfu 1.2%", {"step": 250, "loss": 4.5213}),
        ("step 250: train loss 4.5, val loss 4.6", {"step": 250, "loss": 4.5}),
        ("step 250: val loss 4.6, train loss 4.5", {"step": 250, "loss": 4.5}),
        ("Epoch [2/10], Step [100/500], Loss: 0.12", {"epoch": 2, "epochs": 10, "step": 100, "steps": 500, "of_epoch": True, "loss": 0.12}),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.31", {"epoch": 1, "step": 640, "steps": 60000, "of_epoch": True, "loss": 2.31}),
        ("epoch 3: validation loss 0.4", {"epoch": 3}),
        ("epoch 3 of 9 val_loss=0.4 loss=1.2e-3", {"epoch": 3, "epochs": 9, "loss": 0.0012}),
        ('{"epoch": 1, "train_loss": 0.5, "val_loss": 0.4, "step": 3}', {"epoch": 1, "loss": 0.5, "step": 3}),
        (" 10%|#         | 1/10 [00:03<00:35,  3.91s/it]", {"phase": TRAIN, "step": 1, "steps": 10}),
        (
            "Epoch 3:  45%|####   | 45/100 [00:12<00:10, 3.0it/s, train_loss=0.812]",
            {"phase": TRAIN, "epoch": 3, "step": 45, "steps": 100, "of_epoch": True, "loss": 0.812},
        ),
        ("Validation DataLoader 0:  50%|##  | 1/2 [00:00<00:00]", {"phase": VALIDATE, "step": 1, "steps": 2}),
        ("Loading weights: 100%|###| 71/71 [00:00<00:00, 3526it/s]", {}),
        ("Map (num_proc=2): 100%|###| 71/71 [00:00<00:00, 3526it/s]", {}),
        ("accuracy 0.5", {}),
        ("batch_size: 64, lossless", {}),
    ],
)
def test_what_loops_print_is_understood(line: str, expected: dict[str, object]) -> None:
    assert told(line) == expected


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
    assert done.done == pytest.approx((1 + 0.5) / 4) and done.steps_done == 15


def test_one_bar_for_the_whole_run_is_the_run() -> None:
    assert followed([" 50%|##  | 5/10 [00:01<00:01]"])[-1].done == 0.5


def test_a_bar_that_starts_anew_was_of_an_epoch() -> None:
    assert followed([" 90%|##  | 9/10 [00:01<00:01]", " 10%|##  | 1/10 [00:01<00:01]"])[-1].done is None


def test_a_shorter_bar_without_a_word_is_a_validation() -> None:
    last = followed([" 50%|##  | 5/10 [00:01<00:01]", " 50%|##  | 1/2 [00:01<00:01]"])[-1]
    assert last.phase == VALIDATE and (last.step, last.steps) == (5, 10)


def test_a_long_line_costs_little() -> None:
    began = time.process_time()
    for _ in range(20):
        read("x " * 250)
        read("1" * 500)
        read("loss " * 100)
    assert time.process_time() - began < 1.0


# ----------------------------------------------------------------------------------------------------------------------
# The trainers' own lines


YOLO = [
    "\x1b[K\x1b[34m\x1b[1mtrain: \x1b[0mScanning labels/train... 81 images, 0 backgrounds, 0 corrupt: 33% ━━━━──────── 81/240 242it/s",
    "\x1b[K        2/6         0G       6.79      5.035      4.157         67        160: 50% ━━━━━━────── 15/30 1.2it/s 0.7s<1:09",
    "\x1b[K                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 75% ━━━━━━━━━─── 3/4 1.8it/s",
    "                   all         60        381      0.816      0.729      0.841      0.687",
    "        3/6      26.5G        nan        nan        nan         67       1280:   3%|▎         | 1/30 [00:02<01:09,  2.4s/it]",
]


def test_ultralytics_bars_tell_epoch_batch_and_loss() -> None:
    scanned, trained, validated, table, later = of_trainer(recipe("ultralytics"), YOLO)
    assert scanned == Progress()
    assert trained.phase == TRAIN and trained.loss == pytest.approx(6.79 + 5.035 + 4.157) and trained.batch == 8
    assert trained.done == pytest.approx((1 + 0.5) / 6) and trained.steps_done == 45
    assert validated.phase == VALIDATE and validated.done == trained.done and table == validated
    assert later.phase == TRAIN and later.loss is not None and math.isnan(later.loss) and later.epoch == 3


HF = [
    "Loading weights: 100%|##########| 39/39 [00:00<00:00, 20656.38it/s]",
    "  0%|          | 0/10 [00:00<?, ?it/s]",
    "  0%|          | 0/500 [00:00<?, ?it/s]\x1b[A",
    "{'eval_loss': '6.981', 'eval_runtime': '1.448', 'eval_samples_per_second': '1.382', 'epoch': 0}",
    " 30%|###       | 3/10 [00:06<00:12,  1.83s/it]",
    "{'loss': '6.76', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.9'}",
    "100%|##########| 10/10 [00:22<00:00,  2.20s/it]",
    "{'train_runtime': '22.02', 'train_samples_per_second': '1.68', 'train_loss': '1e9', 'epoch': '3'}",
    "  0%|          | 0/500 [00:00<?, ?it/s]",
]


def test_transformers_bar_and_words_tell_step_epoch_and_loss() -> None:
    loaded, begun, below, evaluated, stepped, logged, ended, summed, last = of_trainer(
        recipe("transformers", task="text", num_train_epochs=3), HF
    )
    assert loaded.done is None and begun.done == 0.0 and begun.batch == 16
    assert below.phase == VALIDATE and below.steps == 10 and evaluated.epoch == 0 and evaluated.loss is None
    assert stepped.done == 0.3 and stepped.phase == TRAIN
    assert logged.loss == 6.76 and logged.epoch == 0.9 and logged.epochs == 3 and logged.done == 0.3
    assert ended.done == 1.0 and summed.loss == 6.76
    assert last.phase == VALIDATE and last.done == 1.0


def test_transformers_without_a_bar_tells_its_steps_in_lines() -> None:
    words = ["{'loss': '6.76', 'epoch': '0.9'}", "step 20/100"]
    by_epochs, by_steps = of_trainer(recipe("transformers", task="text", max_steps=100), words)
    assert by_epochs.done is None and by_steps.done == 0.2
    assert of_trainer(recipe("transformers", task="text", num_train_epochs=3), words[:1])[-1].done == pytest.approx(0.3)


def test_a_script_is_read_as_most_loops_print() -> None:
    last = of_trainer(recipe("script", command=["python", "train.py"]), ["epoch 3/10 loss=0.5"])[-1]
    assert last.done == 0.3 and last.loss == 0.5
