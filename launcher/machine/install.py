"""Makes the ``pip install`` command for what is missing. All such advice comes from here.

Packages go by their names on PyPI. An extra of autofit's own is never named, since another project may have that name there.
"""

from __future__ import annotations

import shlex


def command(*packages: str) -> str:
    """``pip install ...`` of these packages, each perhaps with versions."""
    return f"pip install {' '.join(map(shlex.quote, packages))}"
