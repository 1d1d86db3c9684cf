"""What an adapter reads of its trainer's log, and what its trainer's messages mean, reaches all that follows a run."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from autofit_launcher.adapter import LogLine, Progress, Rung, TrainerWords, log_line, registry
from autofit_launcher.common.memory_failures import lost_in
from autofit_launcher.errors import BadInput
from autofit_launcher.full_run import run
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history import series
from autofit_launcher.history.records import AttemptRecord, RunRecord
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trial.job import Job
from tests.helpers.few import Few, Launches

ROUND = re.compile(r"round (\d+) of (\d+) \| L (\S+)")


class Plugin(Few):
    """A trainer of somebody else's, that prints like nobody else."""

    words: ClassVar[TrainerWords] = TrainerWords(
        out_of_memory="the heap is exhausted", diverged="gone to pieces", deviations={"switching to small rounds": "takes smaller rounds"}
    )

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        if (said := ROUND.match(line)) is None:
            return log_line.read(line, known)
        progress = replace(known, step=int(said[1]), steps=int(said[2]))
        return LogLine(progress=progress, loss_finite=said[3] != "?")


@pytest.fixture
def ran(launches: Launches) -> Any:
    """How a full run of the plug-in's ended, and the launch it was of."""

    def launched(program: str) -> tuple[RunRecord, Job]:
        job = launches.job()
        job = replace(job, adapter=Plugin(job.recipe, fault=program), budget=replace(job.budget, emulated=False), say=launches.heard.say)
        rung, files = job.ladder.asked, job.folder.attempt(1)
        command = job.adapter.command(rung, job.budget, folder=job.folder.path)
        attempt = AttemptRecord(rung_index=rung.index, command=command.shell(), began=time.time())
        with open("/dev/null", "wb") as nobody:
            child = run.start(job, command, files, show=(nobody, nobody))
            return run.follow(job, child, attempt, base_bytes=0), job

    return launched


def test_progress_and_a_lost_loss_are_read_by_the_adapter(ran: Any) -> None:
    outcome, job = ran("for n in range(1, 10): print(f'round {n} of 9 | L ?')")
    assert outcome.ended == Ended.DIVERGED and outcome.evidence == "round 3 of 9 | L ?"
    assert [line["step"] for line in series.read(job.folder.series)][-1:] == [9]


def test_its_messages_mean_what_the_adapter_says(ran: Any, launches: Launches) -> None:
    outcome, _ = ran("print('switching to small rounds'); print('the heap is exhausted, going on'); raise SystemExit('gone to pieces')")
    assert outcome.ended == Ended.DIVERGED and "gone to pieces" in outcome.evidence
    assert outcome.lost_to_memory == ["the heap is exhausted, going on"]
    assert any(line.startswith("takes smaller rounds") for line in launches.heard.lines)


def test_a_run_at_its_limit_whose_library_has_other_words_for_no_memory_is_out_of_memory(ran: Any) -> None:
    """oneDNN's primitive would have taken 60 of the 700 MiB: what it didn't get never shows in the peak."""
    held = "import time; held = bytearray(650 << 20); time.sleep(2); raise RuntimeError('could not create a primitive')"
    assert [ran(held.replace("650", size))[0].ended for size in ("650", "300")] == [Ended.OUT_OF_MEMORY, Ended.CRASHED]


def test_a_line_over_which_the_adapter_stumbles_ends_no_training(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plugin, "read_log", lambda *_, **__: 1 / 0)
    assert ran("print('round 1 of 9 | L 3')")[0].done


def test_the_messages_of_every_trainer_are_known_of_a_command(tmp_path: Path, launches: Launches) -> None:
    words = registry.words_of(ScriptAdapter(launches.job().recipe))
    assert words.divergence("x\nTraining failed: NaN persisted for 4 epochs\n") == "Training failed: NaN persisted for 4 epochs"
    assert words.deviation("CUDA out of memory with batch=16. Reducing to batch=8") == "halved its own batch"
    said = "WARNING ⚠️ CPU out of memory with batch=16. Reducing to batch=8 and retrying (1/3)."
    (tmp_path / "log").write_text(f"{said}\nepoch 1\n")
    log = tmp_path / "log"
    assert lost_in(log, on_card=False) == () and lost_in(log, on_card=False, also=words.loses_memory) == (said,)


@pytest.mark.parametrize("named", ["autofit_launcher.adapter:Rung", "autofit_launcher.adapter:log_line"])
def test_what_is_no_adapter_is_refused_by_name(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [EntryPoint(name="odd", value=named, group=group)])
    with pytest.raises(BadInput, match=r"inherits Adapter of autofit_launcher\.adapter"):
        registry.load_adapter("odd")
