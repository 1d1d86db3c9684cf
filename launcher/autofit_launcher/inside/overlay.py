"""Redirects what a tried script writes into a folder of the trial; reads look there first. Nothing of the user's changes.

Every path outside the kept folders has a twin under the overlay's root. Opening for writing opens the twin (after copying what is
there, for appending); reading, listing and asking for a file take the twin where there is one. What is removed or renamed away is
only noted as gone. So a script that reads back the checkpoint it has just written finds it, and nothing of the person's changes.
``posix`` has the functions as they were.

Reach: Python's own file functions (open, os, pathlib, shutil, tempfile), and the libraries that ``overlaid_libraries`` knows of those
that open files in native code. Not reached: other such libraries, and other programs that the script starts.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import os
import posix
import shutil
import stat as stats
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import caches

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FILES = "files"
"""Folder below an overlay's root that holds the twins."""
_PASSED = ("/dev", "/proc", "/sys", "/run")


class Overlay:
    """The twin of the file system. ``install`` patches this process for good; forked children inherit it."""

    _open: Any = staticmethod(builtins.open)

    def __init__(self, root: Path, *, kept: Sequence[Path] = ()) -> None:
        """``kept``: folders that are written to as they are, beside the root itself and devices."""
        self._root = str(root.resolve())
        self._files = os.path.join(self._root, FILES)
        self._gone_list = os.path.join(self._root, "gone")
        self._kept = tuple(f"{path}/" for path in (*_PASSED, self._root, *(path.resolve() for path in (*kept, *caches.hold()))))
        self._gone_seen: tuple[int, frozenset[str]] = (0, frozenset())
        os.makedirs(self._root, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=self._root)
        posix.utime(fresh, (0, 0))
        try:
            posix.rename(fresh, self._files)
        except OSError:  # another process of the trial has written there
            posix.rmdir(fresh)

    def moves(self, root: Path, kept: Sequence[Path]) -> None:
        """Redirects into another root from now on."""
        self.__init__(root, kept=(*kept, Path(self._root).parent))  # type: ignore[misc]

    # -- paths

    def _untouched(self) -> bool:
        """Tells whether no process of the trial has written or removed anything yet: the twins' folder has the time it was made with."""
        try:
            return posix.stat(self._files).st_mtime_ns == 0
        except FileNotFoundError:
            return True  # the trial is over

    def twin(self, path: Any) -> tuple[str, str] | None:
        """Returns (the real path, its twin), or None where the path is left alone."""
        if isinstance(path, int) or path is None:
            return None
        with contextlib.suppress(TypeError, ValueError):
            real = self._meant(os.path.abspath(os.fsdecode(path)))
            if not f"{real}/".startswith(self._kept):
                return real, self._files + real
        return None

    def there(self, path: str) -> bool:
        try:
            return bool(posix.lstat(path))
        except OSError:
            return False

    def _is_gone(self, real: str) -> bool:
        """Tells whether the script removed it, itself or with a folder above it, and hasn't made it again since."""
        gone = self._gone()
        while gone and real and real not in gone:
            real = real.rpartition("/")[0]
        return bool(gone and real)

    def _gone(self) -> frozenset[str]:
        """Reads which paths any of the trial's processes has noted as gone."""
        size = posix.stat(self._gone_list).st_size if self.there(self._gone_list) else 0
        if self._gone_seen[0] != size:
            with self._open(self._gone_list, encoding="utf-8") as file:
                self._gone_seen = (size, frozenset(line.rstrip("\n") for line in file))
        return self._gone_seen[1]

    def visible(self, path: Any) -> Any:
        """The path to read from: the twin where there is one. A path that is gone gives its (absent) twin."""
        both = None if self._untouched() else self.twin(path)
        if both is None:
            return path
        real, twin = both
        if self.there(twin):
            there = posix.lstat(twin)
            if stats.S_ISDIR(there.st_mode) and self.there(real) and not self._is_gone(real):
                return self._from_here(path, real)
            return twin
        return twin if self._is_gone(real) else self._from_here(path, real)

    def _from_here(self, path: Any, real: str) -> Any:
        """A path as it was given; the real one for a script that has gone to a folder that is there only as a twin."""
        return real if posix.getcwd().startswith(self._files) else path

    def writable(self, path: Any, *, keep: bool) -> Any:
        """The path to write to: the twin, with its folder, and (``keep``) with what is there now."""
        both = self.twin(path)
        if both is None:
            return path
        real, twin = both
        folder = os.path.dirname(real)
        if not os.path.isdir(self.visible(folder)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if not self.there(twin):
            self._folder(os.path.dirname(twin))
            if keep and self.there(real) and not self._is_gone(real) and os.path.isfile(real):
                with self._open(real, "rb") as source, self._open(twin, "wb") as target:
                    shutil.copyfileobj(source, target)
        return twin

    def _folder(self, path: str) -> None:
        missing = []
        while not self.there(path):
            missing.append(path)
            path = os.path.dirname(path)
        for one in reversed(missing):
            with contextlib.suppress(FileExistsError):
                posix.mkdir(one)

    # -- functions

    def install(self) -> None:
        """Puts the overlay's functions in the place of Python's."""
        opened = self.open
        builtins.open = io.open = opened
        setattr(io, "FileIO", _file(self))  # noqa: B010  # blobfile has a class below it
        for name in _READERS:
            setattr(os, name, self._told(getattr(posix, name), self.visible))
        for name in _CHANGERS:
            setattr(os, name, self._told(getattr(posix, name), functools.partial(self.writable, keep=True)))
        os.open, os.mkdir, os.rmdir, os.listdir, os.scandir = self.os_open, self.mkdir, self.remove, self.listdir, self.scandir
        os.remove = os.unlink = self.remove
        os.getcwd = lambda: self._meant(posix.getcwd())
        os.rename = os.replace = self.rename
        os.symlink = lambda src, dst, *args, **kwargs: posix.symlink(src, self.writable(dst, keep=False))
        os.link = lambda src, dst, **kwargs: shutil.copyfile(src, dst)
        setattr(shutil, "rmtree", self.rmtree)  # noqa: B010  # a plain function in the place of a callable object

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        return self._open(self.opened(file, mode), mode, *args, **kwargs)

    def opened(self, file: Any, mode: str) -> Any:
        """The path to open in that mode."""
        return self.writable(file, keep="w" not in mode) if set(mode) & set("wax+") else self.visible(file)

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = self._at(path, dir_fd)
        path = self.writable(path, keep=not flags & os.O_TRUNC) if flags & _WRITING else self.visible(path)
        return posix.open(path, flags, mode)

    def _at(self, path: Any, dir_fd: int | None) -> Any:
        """The whole path, where it was given relative to an open folder."""
        if dir_fd is None or os.path.isabs(os.fspath(path)):
            return path
        return os.path.join(self._meant(posix.readlink(f"/proc/self/fd/{dir_fd}")), os.fsdecode(path))

    def _meant(self, path: str) -> str:
        """The path a twin stands for."""
        return path.removeprefix(self._files) or "/" if path.startswith(self._files) else path

    def _told(self, function: Callable[..., Any], to: Callable[[Any], Any]) -> Callable[..., Any]:
        """A function that is told another path."""

        @functools.wraps(function)
        def called(path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
            return function(to(self._at(path, dir_fd)), *args, **kwargs)

        return called

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        path = self._at(path, dir_fd)
        both = self.twin(path)
        if both is None:
            posix.mkdir(path, mode)
            return
        if self.there(self.visible(path)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        posix.mkdir(self.writable(path, keep=False), mode)

    def remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        path = self._at(path, dir_fd)
        both = self.twin(path)
        if both is None:
            (posix.rmdir if os.path.isdir(path) and not os.path.islink(path) else posix.remove)(path)
            return
        real, twin = both
        if not self.there(self.visible(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self.there(twin):
            _remove(twin)
        if self.there(real):
            with self._open(self._gone_list, "a", encoding="utf-8") as file:
                file.write(f"{real}\n")
            posix.utime(self._files)

    def rmtree(self, path: Any, ignore_errors: bool = False, onerror: Any = None, **kwargs: Any) -> None:
        try:
            if self.twin(path) is None:
                _remove(os.fspath(path))
            else:
                self.remove(path)
        except OSError:
            if not ignore_errors:
                raise

    def rename(self, src: Any, dst: Any, **kwargs: Any) -> None:
        if self.twin(src) is None and self.twin(dst) is None:
            posix.replace(src, dst)
        elif os.path.isdir(src):
            shutil.copytree(src, dst, dirs_exist_ok=True)
            shutil.rmtree(src)
        else:
            shutil.copyfile(src, dst)
            os.remove(src)

    def listdir(self, path: Any = ".") -> list[Any]:
        names = [entry.name for entry in self.scandir(path)]
        return [*map(os.fsencode, names)] if isinstance(path, bytes) else names

    def scandir(self, path: Any = ".") -> Any:
        both = self.twin(path)
        if both is None or not (self.there(both[1]) or self._gone()):
            return posix.scandir(path if both is None else self._from_here(path, both[0]))
        real, twin = both
        if not self.there(self.visible(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        entries = {entry.name: entry for entry in posix.scandir(twin)} if self.there(twin) else {}
        if self.there(real) and not self._is_gone(real):
            for entry in posix.scandir(real):
                if not self._is_gone(entry.path):
                    entries.setdefault(entry.name, entry)
        return _Entries(iter(entries.values()))


class _Entries(contextlib.ExitStack, Iterator[Any]):
    """The result of ``os.scandir``: an iterator that can be closed."""

    def __init__(self, entries: Iterator[Any]) -> None:
        super().__init__()
        self._entries = entries

    def __next__(self) -> Any:
        return next(self._entries)


def _remove(path: str) -> None:
    """Removes a file or a whole folder as it is."""
    if stats.S_ISDIR(posix.lstat(path).st_mode):
        for name in posix.listdir(path):
            _remove(os.path.join(path, name))
        posix.rmdir(path)
    else:
        posix.remove(path)


_READERS = ("stat", "lstat", "statvfs", "access", "readlink", "chdir", "listxattr", "getxattr")
_CHANGERS = ("chmod", "utime", "chown", "truncate", "setxattr")


def _file(overlay: Overlay) -> type[io.FileIO]:
    """``io.FileIO`` whose files, and those of classes below it, lie in the overlay; what ``open`` has made is one of it, too."""
    own = io.FileIO

    class OfFiles(type(own)):  # type: ignore[misc]
        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, own) if cls is FileIO else super().__instancecheck__(one)

    class FileIO(own, metaclass=OfFiles):  # type: ignore[misc, valid-type]
        def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
            super().__init__(overlay.opened(file, mode), mode, closefd, opener)

    return FileIO
