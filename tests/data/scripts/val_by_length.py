"""Validates inside the loop, at the pass's last batch."""

from usual import Usual

usual = Usual()
for _ in range(2):
    for number, batch in enumerate(usual.train, start=1):
        usual.step(batch, number)
        if number == len(usual.train):
            usual.validate()
