"""Redirects the files of libraries that write in native code, as ``overlay`` does those of Python."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from .overlay import Overlay


def hooks(overlay: Overlay, *, forwarding: Callable[[], bool] = lambda: False) -> dict[str, Callable[[ModuleType], None]]:
    """Module name -> what to do when it has been imported. ``forwarding``: whether nothing is really trained now."""
    how: Any = {"overlay": overlay, "forwarding": forwarding}
    return {name: functools.partial(_taught, functions=functions, **how) for name, functions in _NATIVE.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Native:
    """A function that hands a path to code which knows nothing of Python's own file functions."""

    name: str
    """The function's name in its module; ``Class.method`` counts ``self`` as argument 0."""
    at: int
    """The position of the path among the arguments."""
    key: str
    """The path's keyword."""
    writes: Literal["file", "folder", "mode", "a", ""] = ""
    """Empty: it is read; mode: the argument behind it says, as it does to ``open``; a: what is there is kept, and more is written."""
    once: bool = False
    """True: it doesn't save again what it has saved before as long as nothing is really trained."""


_NATIVE: Mapping[str, Sequence[_Native]] = {
    **dict.fromkeys(
        ("torch", "torch.serialization"),  # scripts call either; the twin of a twin is itself
        (_Native(name="save", at=1, key="f", writes="file", once=True), _Native(name="load", at=0, key="f")),
    ),
    **dict.fromkeys(("sqlite3", "sqlite3.dbapi2"), (_Native(name="connect", at=0, key="database", writes="a"),)),
    "soundfile": [_Native(name="SoundFile.__init__", at=1, key="file", writes="mode")],
    "h5py": [_Native(name="File.__init__", at=1, key="name", writes="mode")],
    "cv2": [_Native(name="imwrite", at=0, key="filename", writes="file"), _Native(name="imread", at=0, key="filename")],
    "safetensors": [_Native(name="safe_open", at=0, key="filename")],
    "safetensors.torch": [
        _Native(name="save_file", at=1, key="filename", writes="file"),
        _Native(name="save_model", at=1, key="filename", writes="file"),
    ],
    "tokenizers": [
        _Native(name="Tokenizer.save", at=1, key="path", writes="file"),
        _Native(name="Tokenizer.from_file", at=0, key="path"),
        *(
            _Native(name=f"models.{kind}.save", at=1, key="folder", writes="folder")
            for kind in ("BPE", "Unigram", "WordLevel", "WordPiece")
        ),
    ],
    "torch.jit": [_Native(name="save", at=1, key="f", writes="file"), _Native(name="load", at=0, key="f")],
    "torchvision.io.image": [_Native(name="write_file", at=0, key="filename", writes="file"), _Native(name="read_file", at=0, key="path")],
    "torchaudio": [_Native(name="save", at=0, key="uri", writes="file"), _Native(name="load", at=0, key="uri")],
    "polars": [_Native(name=f"read_{kind}", at=0, key="source") for kind in ("csv", "parquet")],
    "pyarrow": [_Native(name="memory_map", at=0, key="path", writes="mode")],  # by datasets.load_from_disk, too
    "pyarrow.parquet": [
        _Native(name="write_table", at=1, key="where", writes="file"),
        _Native(name="ParquetWriter.__init__", at=1, key="where", writes="file"),
        _Native(name="read_table", at=0, key="source"),
        _Native(name="ParquetFile.__init__", at=1, key="source"),
    ],
}


def _taught(module: Any, *, overlay: Overlay, functions: Sequence[_Native], forwarding: Callable[[], bool]) -> None:
    """Sends what these functions write to the overlay, and has them read from there what is there.

    A person's own module of a library's name has none of them, and stays as it is.
    """
    for one in functions:
        *path, name = one.name.split(".")
        owner = functools.reduce(lambda found, part: getattr(found, part, None), path, module)
        function = getattr(owner, name, None)
        if owner is not None and function is not None:  # None has an __init__, too
            told = _redirected(function, overlay, one, forwarding)
            setattr(owner, name, staticmethod(told) if path and one.at == 0 else told)


def _redirected(function: Callable[..., Any], overlay: Overlay, one: _Native, forwarding: Callable[[], bool]) -> Callable[..., Any]:
    places: Mapping[str, Callable[[Any], Any]] = {
        "file": functools.partial(overlay.writable, keep=False), "": overlay.visible, "r": overlay.visible,
        "folder": lambda path: os.path.dirname(overlay.writable(os.path.join(path, "file"), keep=False)),
    }  # fmt: skip

    @functools.wraps(function, updated=())
    def redirected(*args: Any, **kwargs: Any) -> Any:
        way: str = one.writes
        if way == "mode":
            way = (args[one.at + 1] if len(args) > one.at + 1 else kwargs.get("mode")) or "r"
        to = places.get(way) or functools.partial(overlay.writable, keep="+" in way or way == "a")
        path = args[one.at] if len(args) > one.at else kwargs.get(one.key)
        if one.once and overlay.twin(path) and forwarding() and overlay.there(to(path)):
            return None
        if len(args) > one.at and _is_path(args[one.at]):
            args = (*args[: one.at], _like(args[one.at], to), *args[one.at + 1 :])
        elif _is_path(kwargs.get(one.key)):
            kwargs[one.key] = _like(kwargs[one.key], to)
        return function(*args, **kwargs)

    return redirected


def _is_path(value: Any) -> bool:
    """Tells whether it is one; bytes are what would be read, and a data base may be in memory, or have an address."""
    return not value.startswith((":memory:", "file:")) if isinstance(value, str) else hasattr(value, "__fspath__")


def _like(path: Any, to: Callable[[Any], Any]) -> Any:
    """The other path as text: native code wants that as often as not."""
    return os.fsdecode(os.fspath(to(path)))
