"""``python -m launcher.trainers.ultralytics.inside.fetch yolov8x.pt``: downloads weights as Ultralytics does, once, before any trial.

``--if-it-can NAME``: these too, but their absence is no failure.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """Exit status 0 where the weights lie on this machine afterwards."""
    if argv[0] == "--if-it-can":
        with contextlib.suppress(Exception):
            fetched(argv[1])
        return main(argv[2:]) if argv[2:] else 0
    return fetched(argv[0])


def fetched(model: str) -> int:
    from ultralytics.utils.downloads import attempt_download_asset

    found = Path(attempt_download_asset(model))
    if not found.exists():
        print(f"{model} could not be downloaded", file=sys.stderr)
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
