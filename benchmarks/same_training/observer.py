"""Loaded into every Python process of a run: writes down what its optimizers really did. Needs torch and nothing of autofit's.

Of each optimizer: the weights before its first step and after its last, the gradients of its first step before clipping, the learning
rates of every step. Of the loader that trains: every row by a hash of its content, in order, and how many there were at each step.
SAME_TRAINING_OUT: the folder for what was seen, one file for each process that stepped.
SAME_TRAINING_BALLAST: bytes of address space that each row of a training forward pass takes until it is over, so that a memory budget
decides which micro-batch fits; they are never written to, and change no figure.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import sys
from typing import Any

OUT, BALLAST = "SAME_TRAINING_OUT", "SAME_TRAINING_BALLAST"
FULL_RUN = "AUTOFIT_HELD"
"""autofit sets it for the full run alone: trials are seen, too, and told apart by it."""


class Once:
    """A finder that calls ``then`` with a module when it has been imported. One that is only looked for (as transformers does to see
    whether torch is there) is left as it is."""

    def __init__(self, name: str, then: Any) -> None:
        self._name, self._then, self._looking = name, then, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is None or spec.loader is None or self._then is None:
            return spec
        load = spec.loader.exec_module

        def loaded(module: Any) -> None:
            load(module)
            then, self._then = self._then, None
            if then is not None:
                then(module)

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


class Seen:
    """Everything that was seen in this process."""

    def __init__(self, torch: Any, out: str) -> None:
        self.torch, self.out = torch, out
        self.optimizers: dict[int, dict[str, Any]] = {}
        self.rows: dict[int, list[str]] = {}
        self.trains: int | None = None
        """The data set of which rows were fetched last when the first gradient was made."""
        self.fetched_last: int | None = None
        self.unclipped: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.rank = 0
        """Of the processes that train together, when an optimizer of this one stepped first."""

    # -- rows

    def fetched(self, dataset: Any, rows: Any) -> None:
        which = id(dataset)
        if which not in self.rows:
            self.kept.append(dataset)  # its id stays its own
        self.rows.setdefault(which, []).extend(content(self.torch, one) for one in rows)
        self.fetched_last = which

    def count(self) -> int:
        return len(self.rows.get(self.trains, ())) if self.trains is not None else 0

    # -- steps

    def before(self, optimizer: Any) -> None:
        """The gradients are there, the weights not yet changed."""
        one = self.optimizers.setdefault(id(optimizer), {"kind": type(optimizer).__name__, "rates": [], "rows": []})
        if not one["rates"]:
            self.kept.append(optimizer)
            group = self.torch.distributed
            self.rank = group.get_rank() if group.is_available() and group.is_initialized() else self.rank
            parameters = _parameters(optimizer)
            one["first"] = self.flat(parameters)
            one["gradient"] = self.flat([self.gradient(parameter) for parameter in parameters])
        one["rates"].append([float(group["lr"]) for group in optimizer.param_groups])
        one["rows"].append(self.count())
        for parameter in _parameters(optimizer):
            self.unclipped.pop(id(parameter), None)

    def gradient(self, parameter: Any) -> Any:
        """Before clipping; zeros where there is none."""
        found = self.unclipped.get(id(parameter), parameter.grad)
        return parameter.new_zeros(parameter.shape) if found is None else found

    def after(self, optimizer: Any) -> None:
        one = self.optimizers[id(optimizer)]
        if len(one["rates"]) == 1:
            one["after_first"] = self.flat(_parameters(optimizer))

    def flat(self, tensors: list[Any]) -> Any:
        parts = [one.detach().to_dense().float().reshape(-1).cpu() for one in tensors]
        return self.torch.cat(parts).clone() if parts else self.torch.zeros(0)

    def write(self) -> None:
        if not self.optimizers:
            return
        for one in self.kept:
            if id(one) in self.optimizers:
                self.optimizers[id(one)]["last"] = self.flat(_parameters(one))
        told = {
            "argv": sys.argv, "rank": self.rank, "full_run": FULL_RUN in os.environ, "optimizers": list(self.optimizers.values()),
            "rows": self.rows.get(self.trains, []) if self.trains is not None else [],
        }  # fmt: skip
        path = os.path.join(self.out, f"{os.getpid()}.pt")
        self.torch.save(told, f"{path}.part")
        os.replace(f"{path}.part", path)


def content(torch: Any, row: Any) -> str:
    """A short hash of a row's values, whatever they lie in."""
    sum_ = hashlib.sha1()

    def add(one: Any) -> None:
        if isinstance(one, torch.Tensor):
            add(one.detach().cpu().contiguous().numpy())
        elif isinstance(one, dict):
            for key in sorted(one, key=str):
                add(one[key])
        elif isinstance(one, (list, tuple)):
            for inner in one:
                add(inner)
        elif hasattr(one, "tobytes"):
            sum_.update(one.tobytes())
        elif isinstance(one, (int, float, str, bool)):
            own = os.path.basename(one) if isinstance(one, str) and os.path.isabs(one) else one  # each run has its own folder
            sum_.update(repr(own).encode())

    add(row)
    return sum_.hexdigest()[:12]


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def watch(torch: Any) -> None:
    """Hooks into torch, which has just been imported."""
    seen = Seen(torch, os.environ[OUT])
    atexit.register(seen.write)
    _steps(torch, seen)
    _clipping(torch, seen)
    _rows(torch, seen)
    _backward(torch, seen)
    if int(os.environ.get(BALLAST, "0")):
        _ballast(torch, int(os.environ[BALLAST]))


def _steps(torch: Any, seen: Seen) -> None:
    from torch.optim import optimizer as module

    def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
        closure = args[1] if len(args) > 1 and callable(args[1]) else kwargs.get("closure")
        if closure is None:
            seen.before(optimizer)
            return None

        def called(*inner: Any, **named: Any) -> Any:
            loss = closure(*inner, **named)  # Lightning's: the gradients are made in it
            seen.before(optimizer)
            return loss

        return ((args[0], called, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": called})

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: seen.after(optimizer))


def _clipping(torch: Any, seen: Seen) -> None:
    place = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        clipped = _clipped(torch, seen, getattr(place, name))
        for module in (place, torch.nn.utils):
            setattr(module, name, clipped)


def _clipped(torch: Any, seen: Seen, clip: Any) -> Any:
    def clipped(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        seen.unclipped.update({id(one): one.grad.detach().clone() for one in parameters if one.grad is not None})
        return clip(parameters, *args, **kwargs)

    return clipped


def _rows(torch: Any, seen: Seen) -> None:
    from torch.utils.data._utils import fetch

    made = fetch._BaseDatasetFetcher.__init__

    def begun(self: Any, dataset: Any, auto_collation: Any, collate_fn: Any, drop_last: Any) -> None:
        def collated(rows: Any) -> Any:
            seen.fetched(dataset, rows if auto_collation else [rows])
            return collate_fn(rows)

        made(self, dataset, auto_collation, collated, drop_last)

    fetch._BaseDatasetFetcher.__init__ = begun


def _backward(torch: Any, seen: Seen) -> None:
    backward = torch.autograd.backward

    def watched(*args: Any, **kwargs: Any) -> Any:
        if seen.trains is None:
            seen.trains = seen.fetched_last
        return backward(*args, **kwargs)

    torch.autograd.backward = watched


def _ballast(torch: Any, each: int) -> None:
    """Address space by the rows of the outermost module's training forward pass, held until it returns."""
    call, inside = torch.nn.Module.__call__, [0]

    def heavier(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = 0 if inside[0] or not self.training or not torch.is_grad_enabled() else _leading(torch, (args, kwargs))
        held = torch.empty(rows * each, dtype=torch.uint8) if rows else None
        inside[0] += 1
        try:
            return call(self, *args, **kwargs)
        finally:
            inside[0] -= 1
            del held

    torch.nn.Module.__call__ = heavier


def _leading(torch: Any, value: Any) -> int:
    """Rows of what a module is called with: of its tensors of the most dimensions, the fewest first ones. Ultralytics' batch has targets
    beside its images, of which an image has several; a bag of words has the words of all texts beside where each text begins."""
    found = [one for one in _tensors(torch, value) if one.ndim]
    most = max((one.ndim for one in found), default=0)
    return min((int(one.shape[0]) for one in found if one.ndim == most), default=0)


def _tensors(torch: Any, value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    inner = value.values() if hasattr(value, "values") else value if isinstance(value, (list, tuple)) else ()
    return [one for part in inner for one in _tensors(torch, part)]


if os.environ.get(OUT):
    sys.meta_path.insert(0, Once("torch", watch))
