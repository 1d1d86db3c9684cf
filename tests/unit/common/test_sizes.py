"""Numbers as people read them."""

from __future__ import annotations

import pytest

from autofit_launcher.common.sizes import format_number


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [(20000, 4, "20000"), (20000.0, 4, "20000"), (1234567.8, 4, "1234568"), (0.5, 4, "0.5"), (2.25, 4, "2.25"), (1 / 3, 3, "0.333"),
     (1234.5, 3, "1234"), (12.34, 3, "12.3"), (3.0, 3, "3")],
)  # fmt: skip
def test_a_number_has_no_exponent(value: float, digits: int, said: str) -> None:
    assert format_number(value, digits=digits) == said
