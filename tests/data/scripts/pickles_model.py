"""Saves its whole model, and a state that must load with weights_only; reads both back."""

import copy
import pickle
from pathlib import Path

import torch
from usual import Usual

usual = Usual()
for _ in range(2):
    usual.one_pass()
    usual.validate()
    torch.save(usual.model, "whole.pt")
    assert b"launcher" not in Path("whole.pt").read_bytes(), "somebody else's classes are in the pickle"
    assert b"launcher" not in pickle.dumps(usual.model)
    assert torch.load("whole.pt", weights_only=False)(usual.x[:1]).shape == (1, 4)
    assert copy.deepcopy(usual.model)(usual.x[:1]).shape == (1, 4)
    torch.save({"model": usual.model.state_dict(), "optimizer": usual.optimizer.state_dict()}, "state.pt")
    usual.model.load_state_dict(torch.load("state.pt", weights_only=True)["model"])
