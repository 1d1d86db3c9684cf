"""One number shared by a watched process and who watches it from outside: the most data segments seen since it was last forgotten.

A thread of the process's own can't look while native code holds the interpreter's lock, as when a figure is drawn.
"""

from __future__ import annotations

import mmap
import os
import struct

NAME = "seen"
_FORM = struct.Struct("=qq")


class Seen:
    """The file ``PLACE/seen``, in the memory of both."""

    def __init__(self, place: str, *, new: bool = False) -> None:
        path = os.path.join(place, NAME)
        if new:
            with open(f"{path}.new", "wb") as file:
                file.write(bytes(_FORM.size))
            os.rename(f"{path}.new", path)
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORM.size)

    @property
    def most(self) -> int:
        return int(_FORM.unpack(self._map[:])[0])

    @property
    def paused(self) -> bool:
        """While set, children are not looked at: there is one that is the probe's own."""
        return bool(_FORM.unpack(self._map[:])[1])

    def pause(self, on: bool) -> None:
        self._map[8:] = struct.pack("=q", int(on))

    def forget(self) -> None:
        self._map[:8] = bytes(8)

    def saw(self, size: int) -> None:
        if size > self.most:
            self._map[:8] = struct.pack("=q", size)
