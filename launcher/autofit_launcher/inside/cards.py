"""Finds the card of a process that a person's own launcher has started beside others, each on a card of its own.

A process that knows its place among them says so before it makes anything (``LOCAL_RANK``, a process group, ``set_device``). One that
doesn't is on the card of what its optimizer trains. Nothing is done to a card that isn't its own: even a context takes memory there.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import replace

from ..common.orders import Orders
from .budget import BudgetError, bare, uuid_of


def chosen() -> int | None:
    """Number of this process's card among those that it sees; None as long as it has shown no choice."""
    import torch

    count = _count()
    current = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    if count < 2 or current:
        return int(current)
    said = os.environ.get("LOCAL_RANK", "")  # by torchrun and accelerate
    rank = int(said) if said.isdecimal() else _rank()
    return rank % count if rank is not None else None


@functools.cache
def _count() -> int:
    import torch

    return int(torch.cuda.device_count())


def _rank() -> int | None:
    dist = sys.modules.get("torch.distributed")
    return int(dist.get_rank()) if dist is not None and dist.is_available() and dist.is_initialized() else None


def orders_on(orders: Orders, number: int) -> Orders:
    """The orders of the process on that card. Raises BudgetError where it is none of the launch's."""
    import torch

    if not torch.cuda.is_available():
        return replace(orders, **orders.cards[0])  # which ``budget`` refuses in its own words
    uuid = uuid_of(number)
    told = [one for one in orders.cards if bare(one["device_uuid"]) == bare(uuid)] if uuid else orders.cards[number : number + 1]
    if not told:
        cards = ", ".join(one["device_uuid"] for one in orders.cards)
        raise BudgetError(
            f"a process of the command is on the card {uuid or number}, and the budget is for {cards}: something in it sets "
            "CUDA_VISIBLE_DEVICES. Take that out and let device.cards choose the cards"
        )
    return replace(orders, **told[0])


def elsewhere(own: int) -> dict[str, int]:
    """UUID -> most bytes that this process's allocator has had, of each card but its own."""
    import torch

    others = (at for at in range(torch.cuda.device_count()) if at != own)
    return {uuid_of(at) or str(at): size for at in others if (size := int(torch.cuda.max_memory_reserved(at)))}


def same(orders: Orders, own: int | None, trains: int) -> None:
    """Raises BudgetError where this process trains on another card than the one whose budget it took; ``own``: None is the only one."""
    if own is not None and trains != own:
        raise BudgetError(
            f"this process trains on cuda:{trains}, and by its rank it was taken to be on cuda:{own} ({orders.device_uuid}), whose budget "
            "it took. Let each process call torch.cuda.set_device before it builds its model"
        )
