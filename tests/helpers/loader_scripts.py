"""Scripts that train on what a data loader gives, and the recipe of what is understood of them."""

from __future__ import annotations

import json

from launcher.adapter.recognised import Understood
from launcher.config.schema import Recipe

HEAD = """import json, os, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

def train(loader, accumulation=1):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x,) in enumerate(loader):
        model(x).sum().backward()
        if (number + 1) % accumulation == 0:
            optimizer.step()
    open("ended.txt", "w").write("it trained")

data = TensorDataset(torch.rand(64, 4))
"""


def recipe_of(found: Understood) -> Recipe:
    trainer = {"adapter": "script", "args": dict(found.args)}
    said = {"name": "mine", "ask": dict(found.ask), "trainer": trainer, "ladder": {"order": ["micro_batch"]}}
    return Recipe.model_validate_json(json.dumps(said))
