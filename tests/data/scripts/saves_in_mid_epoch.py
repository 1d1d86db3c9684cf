"""Saves in the middle of an epoch, and reads it back at the end of it."""

import torch
from usual import Usual

usual = Usual()
for epoch in range(2):
    for number, batch in enumerate(usual.train):
        usual.step(batch)
        if number == 8:
            torch.save(usual.model.state_dict(), f"epoch{epoch}.pt")
    usual.model.load_state_dict(torch.load(f"epoch{epoch}.pt"))
    usual.validate()
