"""``python -m launcher.trainers.ultralytics.inside.fetch yolov8x.pt``: downloads weights as Ultralytics does, once, before any trial.

``--if-it-can NAME``: these too, but their absence is no failure.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from ultralytics.utils.downloads import attempt_download_asset


def main(argv: list[str]) -> int:
    """Exit status 0 where the weights lie on this machine afterwards."""
    if argv[0] == "--if-it-can":
        with contextlib.suppress(Exception):
            attempt_download_asset(argv[1])
        return main(argv[2:]) if argv[2:] else 0
    print(found := Path(attempt_download_asset(argv[0])))
    return 0 if found.exists() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
