"""torch.compile, validation every epoch."""

import torch
from usual import Usual

usual = Usual()
usual.model = torch.compile(usual.model, backend="eager")
usual.train_for(3)
