"""Builds the libraries that stand in for CUDA's, for the PyTorch of an environment, and keeps them by its version and their sources.

A library's symbols and their versions are those that this PyTorch asks for: what isn't written in native/ does nothing and returns 0.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofit_launcher import paths
from autofit_launcher.errors import refusal
from autofit_launcher.machine import process
from autofit_launcher.machine.packages import Torch, torch_of

NATIVE = Path(__file__).with_name("native")
_OURS = Path(__file__).parents[1] / "inside"
INSIDE = (_OURS / "shim" / "sitecustomize.py", _OURS / "after_import.py", *sorted(Path(__file__).with_name("inside").glob("*.py")))
"""Files that are copied into the folder ``inside`` of what is built, for a program's process."""
_ASKING = ("libtorch_cuda", "libtorch_python", "libtorch_cuda_linalg", "libtorch_nvshmem", "libc10_cuda")
"""PyTorch's libraries that call CUDA's."""
_BINARIES = "import torch; print(*(name.removeprefix('sm_') for name in torch.cuda.get_arch_list() if name.startswith('sm_')))"
_KEPT_BINARIES = "binaries.txt"


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """A library that is stood in for."""

    name: str
    """Beginning of its file name; what follows is its version, which PyTorch names."""
    sources: tuple[str, ...]
    preloaded: bool = True
    """True where it is loaded before PyTorch's own; the others are found by their names."""
    prefix: str = ""
    """Beginning of its symbols, where PyTorch asks for them without a version."""
    otherwise: int = 0
    """Value that a symbol returns that no source has."""


LIBRARIES = (
    Library(name="libcudart.so", sources=("cards.c", "devices.c", "memory.c", "kernels.c", "driver.c")),
    Library(name="libcublas.so", sources=("cublas.c",)),
    Library(name="libcublasLt.so", sources=("cublaslt.c",)),
    Library(name="libcudnn.so", sources=("cudnn.c",)),
    Library(name="libcufft.so", sources=("cufft.c",)),
    Library(name="libnccl.so", sources=("ranks.c", "nccl.c"), prefix="nccl", otherwise=5),  # ncclInvalidUsage
    Library(name="libnvidia-ml.so.1", sources=("cards.c", "nvml.c"), preloaded=False),
    Library(name="libcuda.so.1", sources=("cards.c", "libcuda.c"), preloaded=False),
)


def binary_for(folder: Path, capability: int) -> int:
    """The kernels of ``folder``'s PyTorch that a card of this compute capability runs: the newest that aren't newer (90 is 9.0)."""
    there = [int(word) for word in (folder / _KEPT_BINARIES).read_text(encoding="utf-8").split() if word.isdigit()]
    return max((one for one in there if one <= capability), default=capability)


def built(python: str = sys.executable) -> Path:
    """The folder of the libraries for the PyTorch of a Python; made at its first use, in some seconds.

    Raises BadInput where there is none or a CPU build, or where it can't be compiled.
    """
    torch = torch_of(python)
    if torch is None:
        raise refusal(f"{python} has no PyTorch", "Install torch there, or name a Python that has it.", where="")
    if not torch.cuda:
        cure = "A pretended card needs a CUDA build of PyTorch (pip's usual one on Linux); it needs no card."
        raise refusal(f"torch {torch.version} is built for the CPU alone", cure, where="")
    folder = paths.cache_folder() / "pretended" / f"{torch.version}-{_sources_hash()}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as place:
        there = Path(place) / "libraries"
        there.mkdir()
        _build(torch, there)
        (there / "inside").mkdir()
        for file in INSIDE:
            shutil.copy(file, there / "inside")
        (there / _KEPT_BINARIES).write_text(_run([python, "-c", _BINARIES]), encoding="utf-8")
        try:
            os.replace(there, folder)
        except OSError:  # another process was quicker
            if not folder.is_dir():
                raise
    return folder


def preloaded(folder: Path) -> list[Path]:
    """Lists the libraries that must come before PyTorch's own."""
    names = tuple(library.name for library in LIBRARIES if library.preloaded)
    return sorted(file for file in folder.iterdir() if file.name.startswith(names))


def _sources_hash() -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in (*sorted(NATIVE.glob("*.[ch]")), *INSIDE):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _build(torch: Torch, there: Path) -> None:
    asking = (torch.folder / "lib" / f"{name}.so" for name in _ASKING)
    asked = dict(symbol for file in asking if file.exists() for symbol in _undefined(file))
    includes = [f"-I{folder}" for folder in _headers(torch)]
    for library in LIBRARIES:
        soname = _soname(torch, library)
        wanted = {name for name, version in asked.items() if version == soname} if library.preloaded else set()
        if library.prefix:
            wanted = {name for name in asked if name.startswith(library.prefix)}
        if library.name == "libcuda.so.1":
            wanted = {name for name, _ in _undefined(torch.folder / "lib" / "libcaffe2_nvrtc.so") if name.startswith("cu")}
        _one(there / soname, library, wanted, includes)


def _one(out: Path, library: Library, wanted: set[str], includes: Sequence[str]) -> None:
    """Compiles a library; symbols that PyTorch asks for and no source has are added."""
    work = out.parent
    objects = [work / f"{Path(source).stem}.o" for source in library.sources]
    for source, compiled in zip(library.sources, objects, strict=True):
        _run(["gcc", "-O1", "-fPIC", "-w", *includes, "-c", str(NATIVE / source), "-o", str(compiled)])
    have = {line.split()[-1] for compiled in objects for line in _run(["nm", "--defined-only", str(compiled)]).splitlines()}
    rest, versions = work / "rest.c", work / "versions.map"
    missing = (f"unsigned long {name}(void) {{ return {library.otherwise}; }}\n" for name in sorted(wanted - have))
    rest.write_text("".join(missing), encoding="utf-8")
    versions.write_text(f"{out.name} {{ global: *; }};\n", encoding="utf-8")
    named = [f"-Wl,-soname,{out.name}", *([f"-Wl,--version-script={versions}"] if wanted and not library.prefix else [])]
    _run(["gcc", "-shared", "-fPIC", "-w", "-o", str(out), *map(str, objects), str(rest), *named, "-lpthread"])
    for file in (*objects, rest, versions):
        file.unlink()


def _soname(torch: Torch, library: Library) -> str:
    """Names the library as this PyTorch does: libcudart.so.12 or libcudart.so.13."""
    if library.name[-1].isdigit():
        return library.name
    told = _run(["readelf", "-d", str(torch.folder / "lib" / "libtorch_cuda.so")])
    return next(iter(re.findall(rf"\[({re.escape(library.name)}[.\d]*)\]", told)), library.name)


def _undefined(file: Path) -> Iterator[tuple[str, str]]:
    """Yields (symbol, the version node that it is asked for with, which bears the library's name)."""
    for line in _run(["nm", "-D", "--undefined-only", str(file)]).splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version


def _headers(torch: Torch) -> list[Path]:
    """CUDA's headers, which come with PyTorch's own wheels: of its own CUDA first, then Triton's copy (crt/ isn't in all of the others)."""
    nvidia, triton = torch.folder.parent / "nvidia", torch.folder.parent / "triton"
    own = nvidia / f"cu{torch.cuda.partition('.')[0]}" / "include", nvidia / "cuda_runtime" / "include"
    return [place for place in (*own, triton / "backends" / "nvidia" / "include", nvidia / "cudnn" / "include") if place.is_dir()]


def _run(argv: Sequence[str]) -> str:
    """Runs a command of the build, and returns what it prints. Raises BadInput with its words where it fails."""
    status, said = process.output_of(argv)
    if status:
        cure = "It needs gcc and binutils (Debian and Ubuntu: apt install them), and torch from pip with its NVIDIA packages (headers)."
        raise refusal(f"a card could not be built: {argv[0]}: {said.strip()[-1000:]}", cure, where="")
    return said
