"""The catalogue: every card can be read, each figure has a source beside it, and an unknown one is told what is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofit_launcher.common.sizes import GIB
from autofit_launcher.errors import BadInput
from autofit_launcher.pretended import catalogue


@pytest.mark.parametrize("name", catalogue.known())
def test_a_card_of_the_catalogue_can_be_read(name: str) -> None:
    (card,) = catalogue.named([name])
    assert card.name == name and 4 * GIB < card.usable_bytes < 200 * GIB


@pytest.mark.parametrize("name", catalogue.known())
def test_every_figure_has_a_source_beside_it(name: str) -> None:
    lines = (catalogue.folder() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    figures = [line for line in lines if not line.startswith(("#", "title", "capability"))]
    assert len(figures) == 2 and all(len(line.partition("#")[2]) > 20 for line in figures)


@pytest.mark.parametrize(
    ("name", "near"),
    [("rtx4080s", "rtx_4080s"), ("RTX_3090_Ti", "rtx_3090"), ("a100_80", "a100_80gb"), ("4090", "rtx_4090")],
)
def test_an_unknown_card_is_told_what_is_near(name: str, near: str) -> None:
    with pytest.raises(BadInput) as refused:
        catalogue.named([name, "t4"])
    (fault,) = refused.value.faults
    assert name in fault.found and near in fault.cure.partition("There is:")[0]


def test_a_file_of_the_catalogue_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("title: mine\nusable: 3\n")
    with pytest.raises(BadInput, match=r"mine\.yaml.*capability"):
        catalogue.read(tmp_path / "mine.yaml")
