"""``python -m launcher.trainers.ultralytics.inside.fetch yolov8x.pt``: downloads weights as Ultralytics does, once, before any trial."""

from __future__ import annotations

import sys
from pathlib import Path


def main(model: str) -> int:
    """Exit status 0 where the weights lie on this machine afterwards."""
    from ultralytics.utils.downloads import attempt_download_asset

    found = Path(attempt_download_asset(model))
    if not found.exists():
        print(f"{model} could not be downloaded", file=sys.stderr)
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
