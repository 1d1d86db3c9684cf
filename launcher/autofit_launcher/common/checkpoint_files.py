"""Tells what is wrong with a saved file or folder, by its own checksums and lengths. Standard library only.

Nothing is unpickled, since a script may have pickled anything.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def fault(path: Path) -> str:
    """Says why ``path`` can't be used to resume; empty if nothing speaks against it."""
    try:
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.is_file()]
            return next((f"{file.name}: {wrong}" for file in files if (wrong := fault(file))), "" if files else "an empty folder")
        return _file_fault(path)
    except (OSError, ValueError, zlib.error, zipfile.BadZipFile, struct.error, EOFError) as error:
        return f"{type(error).__name__}: {error}"


_OF_TRAINER = re.compile(r"checkpoint-\d+")
_OF_ACCELERATE = re.compile(
    r"(pytorch_)?model([-_.].*)?|(optimizer|scheduler|sampler|scaler|dl_state_dict|random_states|custom_checkpoint)[_.].*|.*\.being-saved"
)
"""Names of the files that ``Accelerator.save_state`` writes (accelerate 1.15)."""


def unfinished(path: Path, *, of_trainer: bool = True, ends_with: Sequence[str] = ()) -> str:
    """Says why a folder is no checkpoint yet, by what comes into it last: Hugging Face's Trainer's state (transformers 5.23), the metadata
    of torch.distributed.checkpoint, or ``ends_with``, globs for a folder with nothing in it but accelerate's files; else empty."""
    if not path.is_dir():
        return ""
    last = [(part.parent, ".metadata") for part in path.rglob("*.distcp")]
    if of_trainer and _OF_TRAINER.fullmatch(path.name):
        last.append((path, state := "trainer_state.json"))
        if (path / state).is_file() and not (path / state).read_bytes().rstrip().endswith(b"}"):
            return f"{state} was never written to its end"
    elif all(_OF_ACCELERATE.fullmatch(file.name) for file in path.iterdir()):
        last += [(path, name) for name in ends_with]
    missing = next((name for place, name in last if not any(place.glob(name))), "")
    return f"{missing} is missing: it was never written to its end" if missing else ""


def lacking(path: Path, others: Sequence[Path]) -> str:
    """Names the file that a folder lacks and most others, at least two, have: it was never written to its end, or its removal had begun.

    Numbers in names don't count: they may be of steps, or of ranks that are fewer now.
    """
    had = [_names(other) for other in others if other != path and path.is_dir()]
    times = Counter(name for names in had for name in names)
    missing = sorted(name for name, seen in times.items() if seen > max(1, len(had) / 2) and name not in _names(path))
    return f"it has no {missing[0]}, and the others have one" if missing else ""


def _names(folder: Path) -> set[str]:
    return {re.sub(r"\d+", "N", str(file.relative_to(folder))) for file in folder.rglob("*") if file.is_file()}


def _file_fault(path: Path) -> str:
    size = path.stat().st_size
    if path.suffix == ".safetensors":
        return _safetensors_fault(path, size)
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PK\x03\x04":  # torch.save since 1.6, numpy's .npz
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        return f"its part {broken} is corrupt" if broken else ""
    if path.suffix == ".json":
        json.loads(path.read_text(encoding="utf-8"))
        return ""
    if path.suffix in (".pt", ".pth", ".ckpt", ".bin") and (size == 0 or not any(start)):
        return "it is empty" if size == 0 else "it begins with zeros: it was never written"
    if start != _LEGACY and (start[:1] == b"\x80" or (path.suffix in (".pt", ".pth") and start.isascii())):  # a pickle, or text
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return "" if file.read() == b"." else "it is no whole pickle"
    return ""


_LEGACY = b"\x80\x02\x8a\x0a"
"""The beginning of what torch.save wrote before its zip files: several pickles, and bytes behind them."""


def _safetensors_fault(path: Path, size: int) -> str:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > size:
            return "its header is cut off"
        header = json.loads(file.read(length))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    wanted = 8 + length + max(ends, default=0)
    return "" if wanted == size else f"it has {size} of {wanted} bytes"
