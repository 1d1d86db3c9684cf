"""Fine-tunes with the model in evaluation mode all along (frozen statistics), and evaluates without gradients."""

import torch
from torch import nn
from usual import Usual

usual = Usual()
usual.model.insert(1, nn.BatchNorm1d(usual.args.width))
usual.model.eval()
for _ in range(3):
    usual.one_pass()
    with torch.inference_mode():
        print(sum(int((usual.model(inputs).argmax(1) == targets).sum()) for inputs, targets in usual.train) / 640)
