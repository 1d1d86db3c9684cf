"""Reads the catalogue of cards, conf/gpu/NAME.yaml, so that a plan needs no card. Raises BadInput for unknown names, with a similar one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from autofit_launcher import paths
from autofit_launcher.common.sizes import MIB
from autofit_launcher.errors import COMMAND_LINE, BadInput, Fault, did_you_mean


class GpuModel(BaseModel):
    """One kind of card. Each figure's source stands beside it in its file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    title: str
    """Name that NVML gives it."""
    capability: int
    """Compute capability, 86 for 8.6: by it PyTorch chooses its kernels, attention's too."""
    usable_mib: int
    """Memory that a program can use: cudaMemGetInfo's total, below the size on the box."""
    context_mib: int
    """Context, kernels and libraries, outside the allocator."""

    name: str = ""
    """Name in ``gpu=``: the file's."""

    @property
    def usable_bytes(self) -> int:
        return self.usable_mib * MIB


def folder() -> Path:
    return paths.home() / "conf" / "gpu"


def known() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.yaml"))


def named(names: Sequence[str]) -> list[GpuModel]:
    """The cards of these names, each once. Raises BadInput with all unknown names."""
    if unknown := [_unknown(name) for name in dict.fromkeys(names) if name not in known()]:
        raise BadInput(unknown)
    return [read(folder() / f"{name}.yaml") for name in dict.fromkeys(names)]


def read(path: Path) -> GpuModel:
    """Raises BadInput naming the file and what is wrong in it."""
    try:
        said: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return GpuModel.model_validate({**said, "name": path.stem})
    except (OSError, yaml.YAMLError, ValidationError, TypeError) as error:
        found = " ".join(str(error).split())
        raise BadInput([Fault(key="gpu", where=paths.short(path), found=found, cure="Compare it with the other files there.")]) from error


def _unknown(name: str) -> Fault:
    cure = f"{did_you_mean(name.lower(), known())}There is: {', '.join(known())}. Another one is a file in {paths.short(folder())}."
    return Fault(key="gpu", found=f"the catalogue has no card {name!r}", cure=cure, where=COMMAND_LINE)
