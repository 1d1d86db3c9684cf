"""Fault: never gets anywhere."""

import time

from usual import Usual

Usual()

time.sleep(3600)
