"""torch.compile, validation every epoch."""

import torch
from usual import Usual

usual = Usual()
usual.model = torch.compile(usual.model, backend="eager")
for _ in range(3):
    usual.one_pass()
    usual.validate()
