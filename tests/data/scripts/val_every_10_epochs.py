"""Validates every tenth epoch only."""

from usual import Usual

usual = Usual()
for epoch in range(30):
    usual.one_pass()
    if (epoch + 1) % 10 == 0:
        usual.validate()
