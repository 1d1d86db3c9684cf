"""Has no validation at all."""

import torch
from usual import Usual

usual = Usual()
for _ in range(5):
    usual.one_pass()
torch.save(usual.model.state_dict(), "model.pt")
