"""What a Python source spells out is read, and what only running it would tell is not guessed."""

from __future__ import annotations

import ast

import pytest

from launcher.adapter.python_source import UNKNOWN, Constants

SOURCE = """
BATCH = 16
CONFIG = {"batch": 64, "train": {"batch_size": 8}, **{"epochs": 3}}
OTHER = dict(batch=4, lr=0.1)
TWICE = 1
TWICE = 2
SAME = 5
SAME = 5
grown = 8
grown *= 2
class Config:
    batch_size: int = 32
    lr = 0.1
    def change(self):
        hidden = 7
cfg = Config()
args = parser.parse_args()
def train(given): ...
CHANGED = {"batch": 64, "lr": 0.1, "deep": {"batch": 8}}
CHANGED["batch"] = args.batch
CHANGED["deep"]["batch"] = 4
UPDATED = {"batch": 64}
UPDATED.update(load())
class Later:
    size = 8
    other = 9
Later.size = 4
late = Later()
late.other = 3
"""


@pytest.mark.parametrize(("expression", "value"), [
    ("64", 64), ("-1", -1), ("[0, BATCH]", [0, 16]), ("[0, nowhere]", UNKNOWN), ("BATCH", 16), ("BATCH * 2 * 1", 32),
    ("CONFIG['batch']", 64), ("CONFIG['train']['batch_size']", 8), ("CONFIG['epochs']", 3), ("CONFIG.get('batch', 1)", 64),
    ("OTHER['batch']", 4), ("Config.batch_size", 32), ("cfg.batch_size", 32), ("SAME", 5), ("TWICE", UNKNOWN), ("grown", UNKNOWN),
    ("given", UNKNOWN), ("args.batch_size", UNKNOWN), ("cfg.hidden", UNKNOWN), ("CONFIG['missing']", UNKNOWN), ("CONFIG[BATCH]", UNKNOWN),
    ("BATCH * n_gpus", UNKNOWN), ("BATCH // 0", UNKNOWN), ("int(BATCH)", UNKNOWN), ("nowhere", UNKNOWN), ("CHANGED['batch']", UNKNOWN),
    ("CHANGED['lr']", 0.1), ("CHANGED['deep']['batch']", UNKNOWN), ("UPDATED['batch']", UNKNOWN), ("Later.size", UNKNOWN),
    ("late.size", UNKNOWN), ("late.other", UNKNOWN), ("Later.other", 9),
])  # fmt: skip
def test_a_value_is_read_only_where_the_source_spells_it_out(expression: str, value: object) -> None:
    found = Constants(ast.parse(SOURCE)).value(ast.parse(expression, mode="eval").body)
    assert found == value if value is not UNKNOWN else found is UNKNOWN


def test_names_that_go_round_in_circles_end() -> None:
    found = Constants(ast.parse("a = b\nb = a\n")).value(ast.parse("a", mode="eval").body)
    assert found is UNKNOWN
