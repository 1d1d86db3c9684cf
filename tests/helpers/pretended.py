"""Marks tests that need a card which isn't there (``autofit_launcher.pretended``): a CUDA build of PyTorch and a C compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from autofit_launcher.errors import BadInput
from autofit_launcher.pretended import cards, catalogue, libraries


def _why_not() -> str:
    """Why no card can be pretended here; empty where one can."""
    try:
        libraries.built()
    except BadInput as error:
        return str(error)
    return ""


_WHY_NOT = _why_not()
needs_a_pretended_card = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)


def played(name: str = "a100_40gb", **how: Any) -> AbstractContextManager[dict[str, str]]:
    """The environment in which such a card is there, or ``count`` of them."""
    (model,) = catalogue.named([name])
    return cards.played(cards.Cards(model=model, **how))


@pytest.fixture(scope="module")
def two() -> Iterator[dict[str, str]]:
    """The environment in which two such cards are there."""
    with played(count=2) as environment:
        yield {**environment, "OMP_NUM_THREADS": "1"}
