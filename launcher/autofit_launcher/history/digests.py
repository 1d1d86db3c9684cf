"""Summarises files, folders, packages and variables as texts that differ once they have changed. Only reads; imports nothing.

A file is summarised by its size and the times of its last change of content and inode, in nanoseconds: a change that keeps all three would
have to be forged. Small files are summarised by their content.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from autofit_launcher.common.files import CODE
from autofit_launcher.common.sizes import MIB
from autofit_launcher.common.words import SECRET

MOST_FILES = 1_000_000
"""Looking at more files than this before each launch would take too long."""
_NO_CODE = frozenset({"__pycache__", "node_modules", "site-packages", "wandb", "mlruns", "lightning_logs"})
SMALL_BYTES = 4 * MIB


class UnknownIdentity(Exception):
    """The error where nobody can find out whether something has changed; the message says why."""


def short(text: str | bytes) -> str:
    """A digest of a text: twelve hexadecimal digits."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:12]


def files(*places: Path, suffixes: tuple[str, ...] = (), without: Iterable[Path] = (), most: int = MOST_FILES) -> str:
    """Digest of files and of everything below folders. Missing paths are part of it.

    ``suffixes``: only files with these, and no folders of caches or packages. Raises UnknownIdentity if there are more than ``most``.
    """
    all_of_it = hashlib.sha256()
    left_out, found = {os.path.abspath(place) for place in without}, []
    for looked_at, (path, status) in enumerate(_below(places, suffixes, left_out)):
        if looked_at > most:
            raise UnknownIdentity(f"there are more than {most:,} files in {', '.join(map(str, places[:3]))}")
        if status is None or not stat.S_ISDIR(status.st_mode):
            found.append((path, status))
    for path, status in sorted(found, key=lambda one: one[0]):
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns) if status is not None else "missing"
        all_of_it.update(f"{path}\0{stamp}\n".encode(errors="surrogateescape"))
    return all_of_it.hexdigest()[:12]


def _below(places: Sequence[Path], suffixes: tuple[str, ...], left_out: set[str]) -> Iterator[tuple[str, os.stat_result | None]]:
    """Files and folders, each with its status; None for what isn't there."""
    seen: set[tuple[int, int]] = set()
    waiting = [os.path.abspath(place) for place in dict.fromkeys(places)]
    while waiting:
        path = waiting.pop()
        try:
            status = os.stat(path)
        except FileNotFoundError:
            yield path, None
            continue
        except OSError as error:
            raise UnknownIdentity(f"{path} can't be looked at: {error.strerror}") from error
        yield path, status
        if stat.S_ISDIR(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            waiting += [entry.path for entry in _entries(path) if _counts(entry, suffixes) and entry.path not in left_out]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise UnknownIdentity(f"{folder} can't be looked at: {error.strerror}") from error


def _counts(entry: os.DirEntry[str], suffixes: tuple[str, ...]) -> bool:
    if not suffixes or entry.name.endswith(suffixes):
        return True
    return not entry.name.startswith(".") and entry.name not in _NO_CODE and entry.is_dir()


def content(path: Path) -> str:
    """Summary of one file: a small one by its content, a large one as ``files`` does."""
    try:
        return short(path.read_bytes()) if path.stat().st_size <= SMALL_BYTES else files(path)
    except FileNotFoundError:
        return "it isn't there"
    except OSError as error:
        raise UnknownIdentity(f"{path} can't be read: {error.strerror}") from error


def packages(folders: Iterable[Path], *, without: Iterable[Path] = ()) -> dict[str, str]:
    """Distribution -> version and time of installation, for everything in these folders; an editable install by its files.

    ``.pth`` files count, too: they add folders to the path and run code.
    """
    found = {}
    for folder in folders:
        for entry in _entries(str(folder)) if folder.is_dir() else ():
            path = Path(entry.path)
            if path.suffix in (".dist-info", ".egg-info"):
                name, _, version = path.name.removesuffix(path.suffix).partition("-")
                found[name.lower()] = f"{version} [{short(_installed(path, without))}]"
            elif path.suffix in (".pth", ".egg-link"):
                found[path.name] = content(path)
    return found


def _installed(metadata: Path, without: Iterable[Path]) -> str:
    record = next((metadata / name for name in ("RECORD", "METADATA", "PKG-INFO") if (metadata / name).is_file()), metadata)
    stamp = record.stat()
    edited = _edited_in_place(metadata)
    return f"{stamp.st_size} {stamp.st_mtime_ns} {files(edited, suffixes=CODE, without=without) if edited is not None else ''}"


def _edited_in_place(metadata: Path) -> Path | None:
    with suppress(OSError, ValueError, AttributeError):
        said = json.loads((metadata / "direct_url.json").read_text(encoding="utf-8"))
        if said.get("dir_info", {}).get("editable"):
            return Path(unquote(urlparse(said["url"]).path))
    return None


_STARTS_OTHERS = ("conda", "hatch", "pdm", "pipenv", "poetry")
"""Python programs that start a command in another environment than their own."""


def site_folders(program: str) -> list[Path]:
    """Folders of an environment's packages, found by one of its programs; empty: this one's. Raises UnknownIdentity if that fails."""
    found = shutil.which(program or sys.executable)
    if found is None:
        raise UnknownIdentity(f"{program} is no program that is found")
    with open(found, "rb") as file:
        name, head = os.path.basename(found), file.read(400)
    if name in _STARTS_OTHERS or not (name.startswith("python") or (head[:2] == b"#!" and b"python" in head)):
        raise UnknownIdentity(f"it can't be told with which packages {name} starts its command")
    prefix = Path(found).absolute().parent.parent
    if prefix == Path(sys.prefix):
        return [Path(place) for place in sys.path if os.path.basename(place) in ("site-packages", "dist-packages")]
    folders = [one for place in (prefix, prefix / "local") for one in sorted(place.glob("lib*/python3*/*-packages"))]
    if not folders:
        raise UnknownIdentity(f"it can't be told which packages {program} has")
    return [*folders, *(Path.home() / ".local").glob("lib/python3*/site-packages")]


_OF_NO_ACCOUNT = frozenset({
    "BASH", "BASHOPTS", "COLORTERM", "COLUMNS", "DISPLAY", "EDITOR", "HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTSIZE",
    "HISTTIMEFORMAT", "HOSTNAME", "HYDRA_FULL_ERROR", "INVOCATION_ID", "JOURNAL_STREAM", "LESS", "LESSCLOSE", "LESSOPEN", "LINES",
    "LOGNAME", "LS_COLORS", "MAIL", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MANPATH", "MFLAGS", "OLDPWD", "PAGER", "PROMPT",
    "PROMPT_COMMAND", "PS1", "PS2", "PWD", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "SESSION_MANAGER", "SHELL", "SHLVL",
    "SLURMD_NODENAME", "SLURM_JOBID", "SLURM_JOB_END_TIME", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_START_TIME",
    "SLURM_LAUNCH_NODE_IPADDR", "SLURM_NODELIST", "SLURM_RESTART_COUNT", "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT", "SLURM_STEPID",
    "SLURM_STEP_ID", "SLURM_STEP_LAUNCHER_PORT", "SLURM_STEP_NODELIST", "SLURM_TASK_PID", "SLURM_TOPOLOGY_ADDR", "STY", "SYSTEMD_EXEC_PID",
    "TEMP", "TERM", "TERMINFO", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "TMP", "TMPDIR", "USER", "USERNAME",
    "VIRTUAL_ENV_PROMPT", "VISUAL", "WINDOW", "WINDOWID", "XAUTHORITY", "XDG_DATA_DIRS", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "_",
})  # fmt: skip
"""Variables of a terminal, a desktop, a login or a job's number, which don't change a training."""
_OF_NO_ACCOUNT_EITHER = (
    "AUTOFIT_", "DBUS_SESSION_", "DESKTOP_", "GNOME_", "GPG_", "GTK_", "ITERM_", "KDE_", "SSH_", "STARSHIP_", "SUDO_", "TMUX", "VSCODE_",
    "VTE_", "WAYLAND_", "WEZTERM_", "XDG_SEAT", "XDG_SESSION_", "XDG_VTNR", "ZSH_",
)  # fmt: skip
"""Prefixes of such names."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Name -> digest of every variable that may change a training; of what looks like a secret, which a digest may tell, that it is set."""
    counted = [name for name in environ if name not in _OF_NO_ACCOUNT and not name.startswith(_OF_NO_ACCOUNT_EITHER)]
    return {name: "set" if any(part in name.upper() for part in SECRET) else short(environ[name]) for name in counted}


def system() -> dict[str, str]:
    """Name -> text for the interpreter, the kernel, the C library and the limits of a process."""
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("AS", "DATA", "STACK", "MEMLOCK", "NPROC")}
    return {
        "python": f"{sys.version} {sys.executable}".replace("\n", " "),
        "system": f"{platform.platform()} {' '.join(platform.libc_ver())}",
        "limits": ", ".join(f"{name} {soft}" for name, (soft, _) in limits.items()),
    }
