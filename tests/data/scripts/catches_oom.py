"""Fault: catches running out of memory, skips the batch and carries on."""

from usual import Usual

usual = Usual()
for _ in range(3):
    for batch in usual.train:
        try:
            usual.step(batch)
        except RuntimeError as error:
            if "memory" not in str(error):
                raise
            usual.optimizer.zero_grad()
    usual.validate()
