"""What the observer wrote down of two runs -> the figures by which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A run held against the plain one."""

    start: float
    """Relative difference of the weights before the first step."""
    gradient: float
    """Of the first update's gradients before clipping, the worst optimizer's."""
    factor: float
    """What the plain run's gradients are best multiplied by."""
    residue: float
    """What is left of the difference after that."""
    weights: float
    """Of the weights at the end, over what the plain run has moved them."""
    steps: tuple[int, int]
    """Optimizer steps of the plain run, and of the other."""
    rows: tuple[int, int]
    """Rows that were fetched for training when the last step was made; (0, 0): no data loader was used."""
    same_rows: bool
    """The rows that both have fetched are the same, as a whole."""
    rates: str
    """The first learning rates that differ, in words; nothing where all are equal to the last bit."""
    kept: float | None
    """Relative difference of the file that the script left; None where it leaves none."""

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


def read(folder: Path, *, full_run: bool) -> dict[str, Any] | None:
    """What was seen of the process that trained (the most steps of them all), of each rank's together where several did; or None."""
    import torch

    seen = [torch.load(path, weights_only=False) for path in folder.glob("*.pt")]
    trained = {one.get("rank", 0): one for one in sorted(seen, key=_steps) if one["full_run"] or not full_run}
    ranks = [trained[rank] for rank in sorted(trained)]
    return _together(ranks) if ranks else None


def _together(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of several ranks as of one: the weights and gradients of all of them side by side, their rows in turn."""
    import torch

    optimizers = []
    for each in zip(*(one["optimizers"] for one in ranks), strict=True):
        rows = [sum(counts) for counts in zip(*(one["rows"] for one in each), strict=False)]
        beside = {key: torch.cat([one[key] for one in each]) for key in ("first", "gradient", "after_first", "last")}
        optimizers.append({**each[0], **beside, "rows": rows})
    rows = [row for turn in zip_longest(*(one["rows"] for one in ranks)) for row in turn if row is not None]
    return {**ranks[0], "optimizers": optimizers, "rows": rows}


def compare(plain: Mapping[str, Any], other: Mapping[str, Any], *, kept: tuple[Path, Path] | None) -> Measured:
    """``kept``: the files that the two runs left."""
    pairs = list(zip(plain["optimizers"], other["optimizers"], strict=False))
    gradients = [_apart(a["gradient"], b["gradient"]) for a, b in pairs]
    worst = max(gradients, key=lambda one: one[0])
    count = min(len(plain["rows"]), len(other["rows"]))
    return Measured(
        start=max(_apart(a["first"], b["first"])[0] for a, b in pairs),
        gradient=worst[0],
        factor=worst[1],
        residue=worst[2],
        weights=max(_moved(a, b) for a, b in pairs),
        steps=(_steps(plain), _steps(other)),
        rows=(_rows(plain), _rows(other)),
        same_rows=Counter(plain["rows"][:count]) == Counter(other["rows"][:count]),
        rates=_rates(pairs),
        kept=_files_apart(*kept) if kept is not None else None,
    )


def _steps(seen: Mapping[str, Any]) -> int:
    return sum(len(one["rates"]) for one in seen["optimizers"])


def _rows(seen: Mapping[str, Any]) -> int:
    return max(one["rows"][-1] for one in seen["optimizers"])


def _apart(one: Any, other: Any) -> tuple[float, float, float]:
    """(relative difference, best factor, what is left after it); an infinite difference where the shapes differ."""
    if one.shape != other.shape:
        return float("inf"), 0.0, float("inf")
    one, other = one.double(), other.double()
    length = max(one.norm().item(), 1e-30)
    factor = (one @ other).item() / length**2
    return (other - one).norm().item() / length, factor, (other - factor * one).norm().item() / max(other.norm().item(), 1e-30)


def _moved(plain: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    if plain["last"].shape != other["last"].shape:
        return float("inf")
    way = (plain["last"].double() - plain["first"].double()).norm().item()
    return float((other["last"].double() - plain["last"].double()).norm().item() / max(way, 1e-30))


def _rates(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    for plain, other in pairs:
        for at, (a, b) in enumerate(zip(plain["rates"], other["rates"], strict=False), start=1):
            if a != b:
                return f"step {at}: {a[0]:.6g} and {b[0]:.6g}"
    return ""


def _files_apart(one: Path, other: Path) -> float:
    import torch

    if not one.exists() or not other.exists():
        return float("inf")
    flat = [
        torch.cat([part.double().reshape(-1) for part in _tensors(torch.load(path, map_location="cpu", weights_only=True))])
        for path in (one, other)
    ]
    return _apart(*flat)[0]


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [one for key in sorted(value) for one in _tensors(value[key])]
    return [value] if hasattr(value, "reshape") else []
