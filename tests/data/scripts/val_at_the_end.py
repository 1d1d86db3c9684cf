"""Validates once, when training is over."""

from usual import Usual

usual = Usual()
for _ in range(5):
    usual.one_pass()
usual.validate()
