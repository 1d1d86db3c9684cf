"""Libraries that write files by themselves, taught to write where the overlay says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from launcher.trainers.script.inside.probe.overlay import Overlay
from launcher.trainers.script.inside.probe.session import Session


def hooks(overlay: Overlay, session: Session) -> dict[str, Callable[[ModuleType], None]]:
    """Module name -> what to do when it has been imported."""
    return {
        "torch.serialization": lambda module: _torch(module, overlay, session),
        "safetensors.torch": lambda module: _path_argument(module, overlay, ("save_file", "save_model"), at=1),
        "safetensors": lambda module: _opened(module, overlay),
        "soundfile": lambda module: _sound(module, overlay),
        "cv2": lambda module: _path_argument(module, overlay, ("imwrite",), at=0),
    }


def _torch(module: Any, overlay: Overlay, session: Session) -> None:
    save, load = module.save, module.load

    @functools.wraps(save)
    def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        both = overlay.twin(f) if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__") else None
        if both is None:
            save(obj, f, *args, **kwargs)
            return
        target = overlay.writable(f, keep=False)
        if session.forwarding and overlay.there(target):
            return  # saved before, and nothing has been trained since
        save(obj, target, *args, **kwargs)

    @functools.wraps(load)
    def loaded(f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__"):
            f = overlay.visible(f)
        return load(f, *args, **kwargs)

    module.save, module.load = saved, loaded


def _path_argument(module: Any, overlay: Overlay, names: tuple[str, ...], *, at: int) -> None:
    """Functions that take the path to write as their positional argument number ``at``, or by the name ``filename``."""
    for name in names:
        function = getattr(module, name, None)
        if function is not None:
            setattr(module, name, _redirected(function, overlay, at))


def _opened(module: Any, overlay: Overlay) -> None:
    """What safetensors writes is read again: its files are opened by native code, which knows nothing of the overlay."""
    opened = module.safe_open

    @functools.wraps(opened, updated=())
    def safe_open(filename: Any, *args: Any, **kwargs: Any) -> Any:
        return opened(overlay.visible(filename), *args, **kwargs)

    module.safe_open = safe_open


def _redirected(function: Callable[..., Any], overlay: Overlay, at: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def redirected(*args: Any, **kwargs: Any) -> Any:
        if len(args) > at:
            args = (*args[:at], overlay.writable(args[at], keep=False), *args[at + 1 :])
        elif "filename" in kwargs:
            kwargs["filename"] = overlay.writable(kwargs["filename"], keep=False)
        return function(*args, **kwargs)

    return redirected


def _sound(module: Any, overlay: Overlay) -> None:
    made = module.SoundFile.__init__

    @functools.wraps(made)
    def opened(this: Any, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> None:
        if isinstance(file, (str, bytes)) or hasattr(file, "__fspath__"):
            file = overlay.visible(file) if mode in ("r", None) else overlay.writable(file, keep="+" in mode)
        made(this, file, mode, *args, **kwargs)

    module.SoundFile.__init__ = opened
