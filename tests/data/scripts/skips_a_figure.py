"""Draws a figure at the end that needs much memory at once; skips it, with a warning, where there is too little."""

import warnings

import numpy
from usual import Usual

usual = Usual()
usual.train_for(2)
try:
    numpy.ones((64, 1024, 1024))
except MemoryError as error:
    warnings.warn(f"no figure: {error}", stacklevel=1)
