"""Asks a bare iterator for a known number of batches: an early end of it would be a crash."""

from usual import Usual

usual = Usual()
for _ in range(3):
    batches = iter(usual.train)
    for number in range(1, len(usual.train) + 1):
        usual.step(next(batches), number)
    usual.validate()
