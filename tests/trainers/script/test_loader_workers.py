"""How a command says its data loader's workers, and what a run with fewer is started with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.adapter import Checkpoint, RunStart
from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers import script

SOURCE = "loader = DataLoader(data, batch_size=args.batch_size, num_workers=args.workers{more})\n"


def adapter(place: Path, *words: str, more: str = "", asked: int | None = None, **args: Any) -> ScriptAdapter:
    (place / "train.py").write_text(SOURCE.format(more=more))
    ask = {"micro_batch": 8, **({"workers": asked} if asked is not None else {})}
    resume = {"words": "--resume {checkpoint}", "newest": "*.pt"}
    return ScriptAdapter(script.recipe("python", str(place / "train.py"), *words, ask=ask, resume=resume, **{"spelled": {}, **args}))


def started(adapter: ScriptAdapter, place: Path, workers: int) -> tuple[str, ...]:
    """The script's words in a run that goes on from a checkpoint."""
    start = RunStart(checkpoint=Checkpoint(path=Path("last.pt"), done=1, unit="seconds"), attempt=2, workers=workers)
    return adapter.command(ladder_of(adapter).asked, cpu_budget(), folder=place, start=start).argv[2:]


@pytest.mark.parametrize(
    ("words", "fewer"),
    [
        (("--workers", "8"), ("--workers", "2")),
        (("--workers=8",), ("--workers=2",)),
        (("-j8", "--num-workers", "8"), ("-j8", "--num-workers", "2")),
        (("data.num_workers=8",), ("data.num_workers=2",)),
    ],
)
def test_a_word_of_the_command_that_is_called_so_is_turned(tmp_path: Path, words: tuple[str, ...], fewer: tuple[str, ...]) -> None:
    said = adapter(tmp_path, *words)
    assert said.asked.workers == 8
    assert started(said, tmp_path, 2) == (*fewer, "--resume", "last.pt")


def test_the_recipes_word_counts_and_what_it_asks(tmp_path: Path) -> None:
    said = adapter(tmp_path, "--loaders", "4", spelled={"workers": "--loaders"})
    assert said.asked.workers == 4
    said = adapter(tmp_path, spelled={"workers": "--loaders"}, asked=6)
    assert said.asked.workers == 6
    assert started(said, tmp_path, 1) == ("--loaders", "1", "--resume", "last.pt")


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ((), ""),
        (("--workers", "auto"), ""),
        (("--workers", "8"), ", persistent_workers=True"),  # PyTorch refuses that without workers
    ],
)
def test_what_is_no_number_of_a_loaders_workers_stays(tmp_path: Path, words: tuple[str, ...], more: str) -> None:
    said = adapter(tmp_path, *words, more=more)
    assert said.asked.workers is None and started(said, tmp_path, 1) == (*words, "--resume", "last.pt")
