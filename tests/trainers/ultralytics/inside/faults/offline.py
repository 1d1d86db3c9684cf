"""Any look at the network ends the trial, and so does any write outside the trial's folder, the shared caches and the temporary folder."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.trainers.ultralytics.inside import trial as ultralytics_trial

NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def run(orders: Orders, recorder: Recorder) -> None:
    allowed = tuple(
        str(Path(path).resolve())
        for path in (orders.folder, orders.payload["cache_dir"], os.environ["YOLO_CONFIG_DIR"], os.environ["MPLCONFIGDIR"])
    )
    temporary = tuple(f"{tempfile.gettempdir()}/{name}" for name in ("torchinductor_", "tmp", "pymp-"))

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in NETWORK:
            recorder.note(f"NETWORK {event} {arguments}")
            raise RuntimeError(f"the network was asked: {event} {arguments}")
        if event == "open" and isinstance(arguments[0], str) and arguments[2] & WRITES:
            path = str(Path(arguments[0]).resolve())
            if not path.startswith((*allowed, *temporary, "/dev/", "/proc/")):
                recorder.note(f"WRITE {path}")

    sys.addaudithook(watch)
    ultralytics_trial.run(orders, recorder)
