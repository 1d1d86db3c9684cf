"""Tests once, in a child process, what works in an installed version of a trainer, and keeps the result.

Versions that the test suite runs against need no test. For any other, the trainer's ``inside.capabilities`` tries each capability on a
tiny model and compares it with the plain run. What fails leaves the ladder; only a package that can't be used at all is refused. Results
are kept in autofit's cache folder, by version; they are redone if the package, torch or the self-test itself has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.resources
import importlib.util
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.errors import BadInput, Fault
from launcher.machine import install, process
from launcher.paths import cache_folder
from launcher.shared import files

LONGEST_S = 300
"""A self-test takes 10 to 20 seconds on two cores, most of them imports."""

RAN = "versions.json"
"""Package -> version -> the torch and Python it was run with. Written by `make versions`."""

BROKEN = "import"
"""The capability without which nothing can be tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """An installed package, found without importing it."""

    name: str
    version: str
    folder: Path
    odd: tuple[str, ...] = ()
    """Sentences about what is unusual: a fork, a pre-release, installed twice, no metadata."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What was found of one installed version."""

    installed: Installed
    failed: Mapping[str, str] = field(default_factory=dict)
    """Capability -> why it doesn't work; all others do."""
    tested: bool = False
    """False for a version that the test suite runs against."""


@lru_cache(maxsize=8)
def installed(name: str) -> Installed | None:
    """The package that ``import name`` would load; None if there is none. Raises BadInput if its version is unknown."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    all_of_it = list(importlib.metadata.distributions(name=name))
    mine = next((one for one in all_of_it if _holds(one, folder)), all_of_it[0] if all_of_it else None)
    version = (mine.version if mine is not None else None) or _said_in(folder)
    if version is None:
        found = f"{folder} has no metadata and doesn't say its version"
        raise BadInput([Fault(key="trainer.adapter", found=found, cure=f"Install it anew: {install.command('--force-reinstall', name)}.")])
    return Installed(name=name, version=version, folder=folder, odd=tuple(_odd(name, version, folder, mine, all_of_it)))


def _holds(distribution: importlib.metadata.Distribution, folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return Path(str(distribution.locate_file(folder.name))).resolve() == folder.resolve()
    return False


def _said_in(folder: Path) -> str | None:
    with contextlib.suppress(OSError):
        found = re.search(r"^__version__ *= *[\"']([^\"']+)", (folder / "__init__.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
        return found.group(1) if found else None
    return None


def _odd(
    name: str, version: str, folder: Path, mine: importlib.metadata.Distribution | None, others: Sequence[importlib.metadata.Distribution]
) -> list[str]:
    said = []
    if mine is None:
        said.append(f"{name} {version} lies in {folder} without its metadata: pip can't update it; it is checked by behaviour")
    versions = sorted({one.version or "?" for one in others})
    if len(others) > 1 and len(versions) > 1:
        said.append(f"{name} is on the path {len(others)} times ({', '.join(versions)}): {version} in {folder} is the one that counts")
    if mine is not None and (source := mine.read_text("direct_url.json")):
        with contextlib.suppress(ValueError):
            url = json.loads(source)
            said.append(f"{name} {version} comes from {url.get('url', 'a folder')}, not from a release: it is checked by behaviour")
    if re.search(r"\d(a|b|rc|\.?dev)\d*", version.partition("+")[0]):  # what stands after the plus is the builder's own
        said.append(f"{name} {version} is a pre-release: it is checked by behaviour")
    return said


def capabilities_of(name: str, *, module: str, checked: Sequence[str], prepare: Callable[[Path], Mapping[str, str]]) -> Capabilities | None:
    """What works in the installed package ``name``; None if it isn't installed.

    ``module``: the self-test. ``checked``: versions that need no test. ``prepare``: makes the child's environment in a folder.
    """
    package = installed(name)
    if package is None:
        return None
    if package.version in checked and not package.odd:
        return Capabilities(installed=package)
    return _tested(package, module, prepare)


def required(capabilities: Capabilities | None, *, checked: Sequence[str]) -> dict[str, str]:
    """What failed (capability -> why). Raises BadInput, naming a version that works, if the package can't be used at all."""
    if capabilities is None:  # whoever needs it says so
        return {}
    package = capabilities.installed
    if (why := capabilities.failed.get(BROKEN)) is not None:
        cure = _cure(package, ran(package.name), checked)
        raise BadInput([Fault(key="trainer.adapter", found=f"{package.label} can't be used here: {why}", cure=cure)])
    return dict(capabilities.failed)


def ran(name: str) -> Mapping[str, str]:
    """Versions of ``name`` that passed all of `make versions`, each with what it was run with; made from its rows, none by hand."""
    try:
        text = importlib.resources.files("launcher").joinpath(RAN).read_text(encoding="utf-8")
        return {str(version): str(beside) for version, beside in json.loads(text).get(name, {}).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _cure(package: Installed, known: Mapping[str, str], checked: Sequence[str]) -> str:
    """Advice: reinstall this version if it is known to work, else install the nearest that does."""
    if package.version in (*known, *checked):
        anew = install.command("--force-reinstall", f"{package.name}=={package.version}")
        return f"It works where it is whole: {anew}, or look at its dependencies."
    near = nearest(package.version, (*known, *checked))
    beside = f"was run with {known[near]}" if near in known else "is the one that autofit's own tests run with"
    return f"Install the nearest that works: {install.command(f'{package.name}=={near}')} ({beside}; docs/versions.md lists others)."


def nearest(version: str, others: Iterable[str]) -> str:
    """The closest version in ``others``, by its numbers; of two that are equally close the newer."""
    here, known = numbers(version), sorted(others, key=numbers)
    below = [other for other in known if numbers(other) <= here][-1:]
    above = [other for other in known if numbers(other) > here][:1]
    return min(above + below, key=lambda other: [abs(one - two) for one, two in zip(here, numbers(other), strict=True)])


def numbers(version: str) -> tuple[int, int, int]:
    """Major, minor and patch; what isn't said is 0."""
    found = [int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3]]
    major, minor, patch = [*found, 0, 0, 0][:3]
    return major, minor, patch


def notes(capabilities: Capabilities | None, without: Mapping[str, str]) -> list[str]:
    """Sentences for the user. ``without``: wheels that stay as asked, each with why."""
    if capabilities is None:
        return []
    package = capabilities.installed
    said = list(package.odd)
    if capabilities.tested and not package.odd:
        said.append(f"autofit's own tests don't run with {package.label}: it is checked by behaviour")
    return said + [f"{package.label}: {wheel} stays as asked, {why}" for wheel, why in without.items()]


@lru_cache(maxsize=8)
def _tested(package: Installed, module: str, prepare: Callable[[Path], Mapping[str, str]]) -> Capabilities:
    path = cache_folder() / f"capabilities-{package.name}-{package.version}.json"
    key = _key(package, module)
    failed = _kept(path, key)
    if failed is None:
        failed, lasting = _run(package, module, prepare)
        if lasting:
            with contextlib.suppress(OSError):  # a home that can't be written: it is tested again next time
                files.replace_json(path, {"key": key, "failed": failed})
    return Capabilities(installed=package, failed=failed, tested=True)


def _key(package: Installed, module: str) -> str:
    """Another key, another self-test: of the package's place and age, torch's version and the self-test's own text."""
    spec = importlib.util.find_spec(module)
    texts = [Path(spec.origin).read_bytes()] if spec is not None and spec.origin else []
    age = (package.folder / "__init__.py").stat().st_mtime_ns
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        texts.append(importlib.metadata.version("torch").encode())
    return hashlib.sha256(b"\0".join([*texts, f"{package.folder}{age}{package.version}".encode()])).hexdigest()[:16]


def _kept(path: Path, key: str) -> dict[str, str] | None:
    """What an earlier self-test found; None where there is none, it is torn, or it was of something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["key"] != key or not all(isinstance(why, str) for why in found["failed"].values()):
            return None
        return dict(found["failed"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _run(package: Installed, module: str, prepare: Callable[[Path], Mapping[str, str]]) -> tuple[dict[str, str], bool]:
    """(what failed, whether that is worth keeping)."""
    with tempfile.TemporaryDirectory(prefix="autofit-") as place:
        out = Path(place) / "capabilities.json"
        env = {**prepare(Path(place)), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"}
        logs = Path(place) / "stdout", Path(place) / "stderr"
        child = process.start(process.python_module(module, str(out)), env=env, cwd=Path(place), stdout=logs[0], stderr=logs[1])
        with process.forward_signals(child):
            ended = process.wait(child, timeout_s=LONGEST_S, stderr=logs[1])
        if ended.timed_out:
            return {BROKEN: f"its self-test had no end after {LONGEST_S} s"}, False
        found: Any = None
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(out.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return {str(name): str(why) for name, why in found.items() if why}, True
        last = (ended.stderr_tail.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        return {BROKEN: f"its self-test failed: {last}"}, False
