"""Summarises files, folders, packages and variables as texts that differ once they have changed. Only reads; imports nothing.

A file is summarised by its size and the times of its last change of content and inode, in nanoseconds: a change that keeps all three would
have to be forged.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from autofit_launcher.common.files import CODE
from autofit_launcher.common.words import SECRET

MOST_FILES = 1_000_000
"""Looking at more files than this before each launch would take too long."""
_NO_CODE = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages", "wandb", "mlruns", "lightning_logs"})
DISTRIBUTION = "autofit_launcher"
"""The name of autofit's own metadata folder; on the index, the name autofit is a stranger's project."""


class UnknownIdentity(Exception):
    """The error where nobody can find out whether something has changed; the message says why."""


def short(text: str) -> str:
    """A digest of a text: twelve hexadecimal digits."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]


def files(*places: Path, suffixes: tuple[str, ...] = (), without: Iterable[Path] = (), most: int = MOST_FILES) -> str:
    """Digest of files and of everything below folders. Missing paths are part of it.

    ``suffixes``: only files with these, and no folders of caches or packages. Raises UnknownIdentity if there are more than ``most``.
    """
    found = list[str]()
    for path, status in _below(places, suffixes, {os.path.abspath(place) for place in without}):
        found.append(f"{path} {(status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status is not None else 'missing'}")
        if len(found) > most:
            raise UnknownIdentity(f"there are more than {most:,} files in {', '.join(map(str, places[:3]))}")
    return short("\n".join(sorted(found)))


def _below(places: Sequence[Path], suffixes: tuple[str, ...], left_out: set[str]) -> Iterator[tuple[str, os.stat_result | None]]:
    """Files, each with its status; None for what isn't there."""
    seen: set[tuple[int, int]] = set()
    waiting = [os.path.abspath(place) for place in dict.fromkeys(places)]
    while waiting:
        path = waiting.pop()
        try:
            status = os.stat(path)
            if not stat.S_ISDIR(status.st_mode):
                yield path, status
            elif (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                waiting += [entry.path for entry in os.scandir(path) if _counts(entry, suffixes) and entry.path not in left_out]
        except FileNotFoundError:
            yield path, None
        except OSError as error:
            raise UnknownIdentity(f"{path} can't be looked at: {error.strerror}") from error


def _counts(entry: os.DirEntry[str], suffixes: tuple[str, ...]) -> bool:
    code = not entry.name.startswith(".") and entry.name not in _NO_CODE
    return entry.name.endswith(suffixes or "") or (code and entry.is_dir())


def packages(folders: Iterable[Path], *, without: Iterable[Path] = ()) -> dict[str, str]:
    """Name -> digest of everything that is imported from these folders: of a folder of packages each distribution with its version, an
    editable install by its files; any other by its code. ``.pth`` files count, too: they run code.
    """
    found = {}
    for folder in folders:
        if folder.name not in ("site-packages", "dist-packages"):
            found[f"path {folder}"] = files(folder, suffixes=CODE, without=without)
        for path in folder.iterdir() if folder.name in ("site-packages", "dist-packages") and folder.is_dir() else ():
            if path.suffix in (".dist-info", ".egg-info", ".pth", ".egg-link") and not path.name.startswith(f"{DISTRIBUTION}-"):
                edited = [files(place, suffixes=CODE, without=without) for place in _edited_in_place(path)]
                found[f"package {path.stem}"] = " ".join([files(path), *edited])
    return found


def _edited_in_place(metadata: Path) -> Iterator[Path]:
    with suppress(OSError, ValueError, AttributeError):
        said = json.loads((metadata / "direct_url.json").read_text(encoding="utf-8"))
        if said.get("dir_info", {}).get("editable"):
            yield Path(unquote(urlparse(said["url"]).path))


_OF_NO_ACCOUNT = frozenset({
    "_", "COLORTERM", "COLUMNS", "DISPLAY", "HOSTNAME", "INVOCATION_ID", "JOURNAL_STREAM", "LINES", "LOGNAME", "LS_COLORS", "MAKEFLAGS",
    "MAKELEVEL", "MFLAGS", "OLDPWD", "PS1", "PWD", "SHELL", "SHLVL", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_NODELIST", "SLURM_RESTART_COUNT",
    "SLURM_STEPID", "SLURM_TASK_PID", "STY", "TERM", "TERM_SESSION_ID", "TMP", "TMPDIR", "USER", "WINDOW", "WINDOWID", "XAUTHORITY",
    "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
})  # fmt: skip
_OF_NO_ACCOUNT_EITHER = (
    "AUTOFIT_", "DBUS_SESSION_", "PYTEST_", "SLURM_JOB_END_", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_START_",
    "SLURM_JOBID", "SLURM_SRUN_COMM_", "SLURM_STEP_", "SLURM_TOPOLOGY_", "SLURMD_NODENAME", "SSH_", "TERM_PROGRAM", "TMUX",
    "VIRTUAL_ENV_PROMPT", "VSCODE_", "WAYLAND_", "XDG_SEAT", "XDG_SESSION_", "XDG_VTNR",
)  # fmt: skip
"""Variables, and prefixes of some, that differ from one terminal or job to the next and don't change a training."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Name -> digest of every variable that may change a training; of what looks like a secret, which a digest may tell, that it is set."""
    counted = [name for name in environ if name not in _OF_NO_ACCOUNT and not name.startswith(_OF_NO_ACCOUNT_EITHER)]
    return {name: "set" if any(part in name.upper() for part in SECRET) else short(environ[name]) for name in counted}


def system() -> dict[str, str]:
    """Name -> text for the interpreter, the kernel, the C library and the limits of a process."""
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("AS", "DATA", "STACK", "MEMLOCK", "NPROC")}
    return {
        "python": f"{sys.version} {sys.executable}".replace("\n", " "),
        "system": platform.platform(),
        "limits": ", ".join(f"{name} {soft}" for name, (soft, _) in limits.items()),
    }
