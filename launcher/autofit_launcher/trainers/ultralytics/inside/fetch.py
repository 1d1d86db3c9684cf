"""``python -m autofit_launcher.trainers.ultralytics.inside.fetch FILE.pt [ALSO...]`` downloads weights as Ultralytics does.

The absence of ``ALSO`` is no failure; an empty name is none.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from ultralytics.utils.downloads import attempt_download_asset


def main(model: str, *also: str) -> int:
    """Exit status 0 where the weights lie on this machine afterwards."""
    for one in also:
        with contextlib.suppress(Exception):
            attempt_download_asset(one)
    return 0 if not model or Path(attempt_download_asset(model)).exists() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
