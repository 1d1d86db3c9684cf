"""How a command says its data loader's workers, and what a run with fewer is started with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.adapter.commands import Command
from launcher.config.schema import Recipe
from launcher.trainers.script.adapter import ScriptAdapter

SOURCE = "loader = DataLoader(data, batch_size=args.batch_size, num_workers=args.{name}{more})\n"


def adapter(place: Path, *words: str, name: str = "workers", more: str = "", asked: int | None = None, **args: Any) -> ScriptAdapter:
    (place / "train.py").write_text(SOURCE.format(name=name, more=more))
    ask = {"micro_batch": 8, **({"workers": asked} if asked is not None else {})}
    said = {"command": ["python", str(place / "train.py"), *words], **args}
    trainer, ladder = {"adapter": "script", "args": said}, {"order": ("micro_batch",)}
    return ScriptAdapter(Recipe.model_validate({"name": "workers", "ask": ask, "trainer": trainer, "ladder": ladder}))


@pytest.mark.parametrize(
    ("words", "name", "fewer"),
    [
        (("--workers", "8"), "workers", ("--workers", "2")),
        (("--workers=8",), "workers", ("--workers=2",)),
        (("-j8", "--num-workers", "8"), "num_workers", ("-j8", "--num-workers", "2")),
        (("data.num_workers=8",), "data.num_workers", ("data.num_workers=2",)),
    ],
)
def test_a_word_of_the_command_that_the_source_hands_to_its_loader_is_turned(
    tmp_path: Path, words: tuple[str, ...], name: str, fewer: tuple[str, ...]
) -> None:
    said = adapter(tmp_path, *words, name=name)
    assert said.workers() == 8
    command = Command(argv=("python", str(tmp_path / "train.py"), *words, "--resume", "last.pt"))
    assert said.with_workers(command, 2).argv[2:] == (*fewer, "--resume", "last.pt")


def test_the_recipes_word_counts_and_what_it_asks(tmp_path: Path) -> None:
    said = adapter(tmp_path, "--loaders", "4", name="other", spelled={"workers": "--loaders"})
    assert said.workers() == 4
    said = adapter(tmp_path, name="other", spelled={"workers": "--loaders"}, asked=6)
    assert said.workers() == 6
    assert said.with_workers(Command(argv=("python", "train.py", "--loaders", "6")), 1).argv[2:] == ("--loaders", "1")


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ((), ""),
        (("--workers", "auto"), ""),
        (("--num-workers", "8"), ""),  # of something else: the loader gets args.workers
        (("--workers", "8"), ", persistent_workers=True"),  # PyTorch refuses that without workers
    ],
)
def test_what_is_no_number_of_a_loaders_workers_stays(tmp_path: Path, words: tuple[str, ...], more: str) -> None:
    said = adapter(tmp_path, *words, more=more)
    command = Command(argv=("python", str(tmp_path / "train.py"), *words))
    assert said.workers() is None and said.with_workers(command, 1) == command
