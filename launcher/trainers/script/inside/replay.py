"""A late out-of-memory in the backward pass of a script's own loop costs no step: what that pass had not come to is made again in parts.

A node of a graph runs once in a backward pass, and a weight gets its gradient when all that leads to it has run. So a weight that the
failed pass has reached has the gradient of all rows, and the others have nothing of them: they get it from their model, called again with
some rows at a time, and the rows of the gradient of what it gave. That gradient comes before any of the model's own, and is kept where
it is small. The rest of the loop (its loss, penalties, other models) is over by then, or the run is restarted. So it is with whatever
can't be shown to be the same training: what is drawn at random, statistics of batches, hooks, graphs that are kept.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ....worker import random_states, splitting
from ....worker.splitting import Before, CannotSplit, Splitting
from .calls import NEAR, NEAR_HALF, Whole, is_traced, no_other_error, some_of, tensors_of

LEAST_KEPT, SHARE_KEPT = 512 * 1024, 1 / 64
"""Bytes of what a model's passes give that may be kept until their backward pass is over, and as many of its gradient; the second of its
weights' bytes, where that is more. A step needs twice those at least, so it is under 2 % of it: less than a fit leaves free."""
PLACE = "autofit"
"""In what a graph's node has room for, which goes with it."""
_kept: weakref.WeakSet[ForwardPass] = weakref.WeakSet()
_models: weakref.WeakSet[Any] = weakref.WeakSet()
_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(passes: Any, optimizer: Any) -> None:
    """Backward passes of this model, ``splitting._Passes``, are seen from now on."""
    import torch

    _models.add(passes)
    _optimizers.add(optimizer)
    if not hasattr(torch.autograd.backward, "in_parts"):
        torch.autograd.backward = _watched(torch.autograd.backward)


def keep(passes: Any, plain: functools.partial[Any], given: Any, made: Any) -> None:
    """What a backward pass may need of one call of a model. What it was called with is not held, but found where it still is.

    Whatever goes wrong here, the loop goes on, and a backward pass that finds no room is restarted.
    """
    try:
        passes.why_not = _why_not(passes, plain, given, made)
    except Exception as error:
        passes.why_not = f"{type(error).__name__}: {error}"


def _why_not(passes: Any, plain: functools.partial[Any], given: Any, made: Any) -> str:
    """Keeps it; empty, or why not all of it."""
    import torch

    if torch._C._are_functorch_transforms_active() or any(tensor.requires_grad for tensor in tensors_of(given)):
        return ""  # another pass's; the model behind it is kept
    room = passes.most_kept - sum(one.size for one in list(_kept) if one.passes is passes)
    one, all_given = ForwardPass(passes, plain, given), list(tensors_of(made))
    one.gave = len(all_given)
    there = [(at, tensor) for at, tensor in enumerate(all_given) if tensor.grad_fn is not None]
    for at, tensor in sorted(there, key=lambda found: int(found[1].nbytes)):
        if one.size + tensor.nbytes > room:
            return f"what its model gives is too large to be kept ({tensor.nbytes / 2**20:.1f} MiB)"
        one.follow(at, tensor)
    return ""


class ForwardPass:
    """One call of a model, until its graph is gone. It holds nothing that may hold its graph: that would never go."""

    def __init__(self, passes: Any, plain: functools.partial[Any], given: Any) -> None:
        import torch
        from torch.utils._pytree import tree_flatten

        self.passes, self.size, self.gave = passes, 0, 0
        self._call, self._model = plain.func, weakref.ref(plain.args[0])
        flat, self._form = tree_flatten(given)
        self._given: list[tuple[Any, int]] = [
            (weakref.ref(one), one._version) if isinstance(one, torch.Tensor) else (_plainly(one), -1) for one in flat
        ]
        self._gave: dict[int, tuple[Any, int]] = {}
        self.given_out: list[weakref.ref[Any]] = []
        """The very tensors that the loop got."""
        self.gradients: dict[int, tuple[Any, int]] = {}
        """Of what it gave, by its place in that; each with its version."""
        self._then = self._as_it_is()
        device = next(tensors_of(given)).device.type
        self.mixed = torch.is_autocast_enabled(device)
        self.autocast = functools.partial(torch.autocast, device, dtype=torch.get_autocast_dtype(device), enabled=self.mixed)

    def follow(self, at: int, tensor: Any) -> None:
        """Keeps one thing that it gave, and its gradient when it comes: that which goes into the model, after all hooks on the tensor."""
        node, number = tensor.grad_fn, tensor.output_nr

        def comes(gradients: Any) -> None:
            if gradients[number] is not None:
                self.gradients[at] = gradients[number].detach(), gradients[number]._version

        self.size += tensor.nbytes
        self._gave[at] = tensor.detach(), tensor._version
        self.given_out.append(weakref.ref(tensor))
        node.metadata.setdefault(PLACE, {})[number] = (self, at)
        node.register_prehook(comes)
        _kept.add(self)

    def _as_it_is(self) -> Any:
        """What must be the same when it is made again: the mode, and versions of the weights."""
        model = self._model()
        return model and (model.training, sum(weight._version for weight in self.passes.weights_of(model)))

    def found(self, at: int, *, gradient: bool = False) -> Any:
        """What it gave, or its gradient. Raises CannotSplit where that has not come, or was changed since."""
        if at not in (where := self.gradients if gradient else self._gave):
            raise CannotSplit("it failed before the gradient of what its model gave had come")
        tensor, version = where[at]
        if tensor._version != version:
            raise CannotSplit("what its model gave, or its gradient, was changed in place")
        return tensor

    def again(self) -> Whole:
        """The call, with what it was called with. Raises CannotSplit where that is gone, or anything is not as it was."""
        from torch.utils._pytree import tree_unflatten

        flat: list[Any] = [one() if version >= 0 else one for one, version in self._given]
        if any(version >= 0 and (one is None or one._version != version) for one, (_, version) in zip(flat, self._given, strict=True)):
            raise CannotSplit("the batch is gone, or was changed")
        if (model := self._model()) is None or self._as_it_is() != self._then:
            raise CannotSplit("its model is not what it was in the forward pass")
        return self.passes.whole(functools.partial(self._call, model), *tree_unflatten(flat, self._form))  # type: ignore[no-any-return]

    def same(self, one: Any, other: Any) -> bool:
        """Whether two tensors are the same to the rounding of what the pass computes with."""
        if one.shape != other.shape or not one.numel():
            return bool(one.shape == other.shape)
        near = NEAR_HALF if self.mixed or other.dtype.itemsize < 4 else NEAR
        return bool((one - other).abs().max() <= near * one.abs().max())


def _plainly(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CannotSplit(f"its model is called with a {type(value).__name__}")


def _watched(plain: Callable[..., None]) -> Callable[..., None]:
    running, nested = False, False

    @functools.wraps(plain)
    def backward(*args: Any, **named: Any) -> None:
        nonlocal running, nested
        if running or splitting.taken_care() or is_traced():
            nested = True
            return plain(*args, **named)
        running, nested = True, False
        try:
            _forget()
            before = Before([*{id(weight): weight for weight in _weights()}.values()])
            if (failed := _failed(plain, args, named)) is not None:
                with Splitting("a training pass").or_the_error(failed), no_other_error():
                    _again(inspect.signature(plain).bind(*args, **named).arguments, failed, before, nested=nested)
        finally:
            _forget()
            running = False

    backward.in_parts = True  # type: ignore[attr-defined]
    return backward


def _failed(plain: Callable[..., None], args: Any, named: Any) -> BaseException | None:
    """The error of a backward pass for which memory ran out; what it held is let go."""
    try:
        plain(*args, **named)
    except BaseException as error:
        if not splitting.of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)
        return error.with_traceback(None)
    return None


def _forget() -> None:
    for one in list(_kept):
        one.gradients.clear()


def _weights() -> Iterator[Any]:
    for passes in list(_models):
        yield from passes.weights
    for optimizer in list(_optimizers):
        for group in optimizer.param_groups:
            yield from group["params"]


def _again(asked: Mapping[str, Any], failed: BaseException, before: Before, *, nested: bool) -> None:
    """Makes what a backward pass had not come to. Raises CannotSplit where it may not be what it would have made."""
    import torch

    roots = [asked["tensors"]] if isinstance(asked["tensors"], torch.Tensor) else list(asked["tensors"])
    if not _Graph(roots).leaves & {weight for passes in _models for weight in passes.weights}:
        raise failed  # of a model that nobody trains
    if asked.get("retain_graph") or asked.get("create_graph") or asked.get("inputs") is not None:
        raise CannotSplit("its graph is kept for another backward pass, or it is one to some weights alone")
    if nested:
        raise CannotSplit("there is another backward pass within it")
    calls = [(one, places, leaves, one.again()) for one, places, leaves in _left(roots, before.reached())]
    calls.sort(key=lambda call: -call[3].rows)
    _let_go(roots, _Graph(roots).spent())
    for one, places, leaves, whole in calls:
        _Replay(one, places, leaves, whole).make(failed, before)


def _left(roots: Iterable[Any], reached: frozenset[Any]) -> list[tuple[ForwardPass, list[int], set[Any]]]:
    """The passes that a failed backward pass was not through with: which of what they gave it came from, and the weights behind that."""
    ends: dict[tuple[ForwardPass, int], Any] = {}

    def kept(node: Any, number: int) -> bool:
        if (found := node.metadata.get(PLACE, {}).get(number)) is not None:
            ends[found] = (node, number)
        return found is not None

    def other(node: Any, number: int) -> bool:
        if (node, number) in ends.values():
            raise CannotSplit("its model gives something that is computed of another thing that it gives")
        return False

    beside, left = _Graph(roots, kept).leaves, []
    for one in {one: None for one, _ in ends}:
        places = [at for pass_, at in ends if pass_ is one]
        leaves = _Graph([], other, [edge for at in places for edge in ends[one, at][0].next_functions]).leaves
        if not leaves <= reached:
            left.append((one, places, leaves))
    if not beside <= reached:
        whys = [one.why_not for one in _models if one.why_not]
        raise CannotSplit(whys[0] if whys else "its loss has to do with weights beside what their model gives")
    for one, places, leaves in left:
        if not leaves <= set(one.passes.weights) or len({leaf.device for leaf in leaves}) > 1:
            raise CannotSplit("its model computes with weights that are not its own, or are on several devices")
        if any(leaf._backward_hooks or leaf._post_accumulate_grad_hooks for leaf in leaves):
            raise CannotSplit("its weights have hooks")
        for at in places:
            one.found(at, gradient=True)
    return left


class _Graph:
    """The nodes behind some tensors, or edges, but for those behind an end."""

    def __init__(
        self, tensors: Iterable[Any], is_end: Callable[[Any, int], bool] = lambda node, number: False, edges: Iterable[Any] = ()
    ) -> None:
        self._before: dict[Any, list[Any]] = {}
        waiting = [(None, edge) for edge in edges] + [(None, (tensor.grad_fn, tensor.output_nr)) for tensor in tensors]
        self.leaves: set[Any] = {tensor for tensor in tensors if tensor.grad_fn is None}
        while waiting:
            above, (node, number) = waiting.pop()
            if node is None or is_end(node, number):
                continue
            if node not in self._before:
                waiting += [(node, edge) for edge in node.next_functions]
                if type(node).__name__ == "AccumulateGrad":
                    self.leaves.add(node.variable)
            self._before.setdefault(node, []).append(above)

    def spent(self) -> set[Any]:
        """Those from which no backward pass can start any more once this one is over: they come to one that has saved something."""
        waiting = [node for node in self._before if any(name.startswith("_raw_saved_") for name in dir(type(node)))]
        found = {*waiting, None}
        while waiting:
            above = [node for node in self._before[waiting.pop()] if node not in found]
            found.update(above)
            waiting += above
        return found - {None}

    def own(self) -> bool:
        """Whether there is a function of somebody's own among them."""
        import torch

        return any(isinstance(node, torch.autograd.function.BackwardCFunction) for node in self._before)


def _let_go(roots: Iterable[Any], spent: set[Any]) -> None:
    """Tensors of these nodes don't hold them any more. The others may: another backward pass can start from them."""
    known = [*roots, *(tensor() for one in _kept for tensor in one.given_out)]
    for one in _kept:
        one.given_out.clear()
    held = [one for one in known if _is_of(one, spent)]
    del known
    for generation in range(3):
        while held:
            _detach(held.pop())
        with contextlib.suppress(MemoryError):  # of the oldest there are many, and the list of them is large
            held = [one for one in gc.get_objects(generation) if _is_of(one, spent)]
    while held:
        _detach(held.pop())


def _is_of(one: Any, nodes: set[Any]) -> bool:
    import torch

    try:
        return issubclass(type(one), torch.Tensor) and not one.is_leaf and one.grad_fn in nodes
    except Exception:
        return False


def _detach(tensor: Any) -> None:
    import torch

    try:
        tensor.detach_()
    except RuntimeError:  # a view
        with contextlib.suppress(RuntimeError):  # one that somebody else holds, too, keeps its graph
            torch.utils.swap_tensors(tensor, tensor.detach())


class _Replay:
    """A pass that is made again in parts, each with its backward pass."""

    def __init__(self, one: ForwardPass, places: list[int], leaves: set[Any], whole: Whole) -> None:
        self._one, self._places, self._leaves, self._whole = one, places, leaves, whole

    def make(self, failed: BaseException, before: Before) -> None:
        import torch

        one = self._one
        found = one.passes.training.again(self._whole.rows, self._part, failed, before, where=" in its backward pass")
        if set().union(*(leaves for leaves, _ in found)) != self._leaves:
            raise CannotSplit("parts compute with other weights than the whole")
        for at in found[0][1]:
            loss = one.found(at)
            if not one.same(loss.double(), torch.stack([sums[at].to(loss) for _, sums in found]).double().sum()):
                raise CannotSplit("losses of parts come to another one than the whole's")
        one.passes.found_room(of_rows=not found[0][1] and len(self._places) == one.gave)

    def _part(self, first: int, last: int) -> tuple[set[Any], dict[int, Any]]:
        """(the weights behind some rows, their part of each loss that the model gives)."""
        import torch

        with self._one.passes.taking_a_part(), torch.enable_grad(), self._nothing_drawn():
            given, seeds, sums = self._known_to_add_up(first, last)
            leaves = _Graph(given).leaves
            torch.autograd.backward(given, seeds)
        return leaves, sums

    def _known_to_add_up(self, first: int, last: int) -> tuple[list[Any], list[Any], dict[int, Any]]:
        """As ``_some``. Raises CannotSplit where gradients of rows may not add up to that of all: hooks on what is computed within, and
        functions of one's own, can do anything, so gradients of two rows are held against the sum of theirs, once."""
        with _hooks() as hooks:
            found = self._some(first, last)
        if self._one.passes.adds_up or not (hooks or _Graph(found[0]).own()):
            return found
        del found
        if last - first == 1:
            raise CannotSplit("it can't be seen that gradients of rows add up")
        both, one, other = (self._gradients(*cut) for cut in ((first, first + 2), (first, first + 1), (first + 1, first + 2)))
        if not self._one.same(both, one + other):
            raise CannotSplit("gradients of two rows are not the sum of theirs")
        self._one.passes.adds_up = True
        return self._some(first, last)

    def _some(self, first: int, last: int) -> tuple[list[Any], list[Any], dict[int, Any]]:
        """(what the pass gives for some rows, its gradients, losses among it by what they count for)."""
        one, rows, sums = self._one, self._whole.rows, {}
        share = one.passes.share(True, self._whole, first, last) if any(not one.found(at).dim() for at in self._places) else 1.0
        with one.autocast():
            given = list(tensors_of(self._whole.part(first, last)))
        seeds = []
        for at in self._places:
            gave, gradient = one.found(at), one.found(at, gradient=True)
            if gave.dim() and len(gave) == rows:
                seeds.append(some_of(gradient, first, last, rows))
                if not one.same(some_of(gave, first, last, rows), given[at].detach()):
                    raise CannotSplit("some of its rows give another result now")
            elif not gave.dim():
                seeds.append(gradient * share)
                sums[at] = given[at].detach() * share
            else:
                raise CannotSplit("what its model gives has no row for each of its batch")
        return [given[at] for at in self._places], seeds, sums

    def _gradients(self, first: int, last: int) -> Any:
        """Of as many small weights as may be kept, for some rows: one after another."""
        import torch

        chosen: list[Any] = []
        room = self._one.passes.most_kept
        for leaf in sorted(self._leaves, key=lambda leaf: int(leaf.nbytes)):
            room -= leaf.nbytes
            if room > 0 or not chosen:
                chosen.append(leaf)
        given, seeds, _ = self._some(first, last)
        found = torch.autograd.grad(given, chosen, seeds, allow_unused=True)
        dense = [torch.zeros_like(leaf) if gradient is None else gradient.to_dense() for leaf, gradient in zip(chosen, found, strict=True)]
        return torch.cat([gradient.flatten() for gradient in dense])

    @contextlib.contextmanager
    def _nothing_drawn(self) -> Iterator[None]:
        """Raises CannotSplit where a pass draws at random, or changes buffers: it did so when it was made first."""
        passes = self._one.passes
        drawn, buffers = _random(), {name: (buffer, buffer._version) for name, buffer in passes.buffers().items()}
        yield
        if _random() != drawn:
            raise CannotSplit("it draws at random, and parts would draw otherwise")
        for name, buffer in passes.buffers().items():
            if name not in buffers or buffers[name][0] is not buffer or buffers[name][1] != buffer._version:
                raise CannotSplit(f"each pass changes {name}, and what failed has the gradient of what it was")


@contextlib.contextmanager
def _hooks() -> Iterator[list[Any]]:
    """The tensors that get a hook while it is open."""
    import torch

    plain, found = torch.Tensor.register_hook, []

    def register_hook(self: Any, hook: Any) -> Any:
        found.append(self.shape)
        return plain(self, hook)

    torch.Tensor.register_hook = register_hook
    try:
        yield found
    finally:
        torch.Tensor.register_hook = plain


def _random() -> Any:
    import torch

    python, of_torch, of_numpy = random_states.states()
    of_card = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else of_torch
    return python, bytes(of_torch.numpy()), bytes(of_card.numpy()), (bytes(of_numpy[1]), of_numpy[2:]) if of_numpy else ()
