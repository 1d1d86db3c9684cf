"""Fault: leaves with status 0 before it trains."""

import sys

from usual import Usual

Usual()

sys.exit(0)
