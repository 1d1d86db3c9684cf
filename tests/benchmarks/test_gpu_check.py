"""The evidence suite walks all of its code on stand-ins: a card that is a number, trials and runs that are sums. No GPU, no figures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu_check import __main__ as gpu_check
from benchmarks.gpu_check import cases, checks, facts, play, rows, table
from launcher.ladder.rungs import Rung
from launcher.ladder.verdict import Kind, Verdict
from launcher.machine import host, process
from launcher.run import start as launch
from launcher.shared.ending import Ending
from launcher.shared.probe import VARIABLE, ProbeSettings
from launcher.shared.report import PhaseUse, TrialReport
from launcher.trainers.script.adapter import ScriptAdapter
from launcher.trial import trial
from launcher.trial.job import Job
from launcher.trial.trial import Trial
from tests.helpers.nvml_stand_in import GIB, MIB, FakeCard, FakeCuda, FakeNvml, FakeTorch

OUTSIDE = 600 * MIB


class Bench:
    """A machine with four cards, on each of which a rung needs what its place in the ladder says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.card = FakeCard(total=140 * GIB, name="a card of numbers")
        self.patch = monkeypatch
        self.rung: Rung | None = None
        self.others = [FakeCard(total=140 * GIB, name=self.card.name, uuid=f"GPU-{number}") for number in (1, 2, 3)]
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(self.card, *self.others))
        monkeypatch.setattr(play, "ask", self.ask)
        monkeypatch.setattr(trial, "run", self.tried)
        monkeypatch.setattr(launch, "native_command", self.commanded(launch.native_command))
        monkeypatch.setattr(process, "start", self.start)
        monkeypatch.setattr(process, "wait", lambda child, **_: child.ending)
        monkeypatch.setattr(host, "shared_memory_free", lambda: 64 * GIB)
        monkeypatch.setattr(ScriptAdapter, "check", lambda _: [])
        monkeypatch.setattr(cases, "MAKERS", {**cases.MAKERS, "speech": lambda place, scale: None})
        for name in ("CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            monkeypatch.delenv(name, raising=False)

    def ask(self, words: Any, env: dict[str, str]) -> tuple[dict[str, Any], str]:
        cuda = FakeCuda(self.card)
        self.patch.setitem(sys.modules, "torch", FakeTorch(cuda))
        try:
            return json.loads(json.dumps(facts.answer(words, FakeTorch(cuda)))), ""
        finally:
            cuda.end()
            self.patch.delitem(sys.modules, "torch")

    def needs(self, rung: Rung, asked_bytes: int) -> int:
        return int(asked_bytes * 0.75 ** sum(rung.position))

    def tried(self, job: Job, rung: Rung, **_: Any) -> Trial:
        need, cap = self.needs(rung, 100 * GIB), job.budget.cap_bytes
        kind = Kind.FITS if need <= cap else Kind.OUT_OF_MEMORY
        use = PhaseUse(phase="train", seconds=1.0, allocated_bytes=need - OUTSIDE, reserved_bytes=need - OUTSIDE, outside_bytes=OUTSIDE)
        report = TrialReport(uses=(use,), base_bytes=OUTSIDE)
        verdict = Verdict(kind=kind, phase="train", why="", source=None if kind is Kind.FITS else "allocator", peak_bytes=need)
        return Trial(rung=rung, verdict=verdict, report=report, seconds=1.0, folder=job.folder.trial(rung.index))

    def commanded(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def native_command(job: Job, rung: Rung) -> Any:
            self.rung = rung
            return real(job, rung)

        return native_command

    def start(self, argv: Any, *, env: dict[str, str], stdout: Path, stderr: Path, **_: Any) -> Any:
        """A run that dies where it needs more than its allocator may have."""
        assert self.rung is not None
        stdout.touch()
        need = self.needs(self.rung, 100 * GIB) - OUTSIDE
        dies = need + OUTSIDE > ProbeSettings.read(Path(env[VARIABLE])).orders["cap_bytes"]
        stderr.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." if dies else "")
        told = {"allocated_bytes": need, "reserved_bytes": need, "outside_bytes": OUTSIDE, "ooms": 0, "retries": 0}
        count = int(argv[argv.index("--nproc_per_node") + 1]) if "--nproc_per_node" in argv else 1
        for rank in range(count):
            path = os.environ["GPU_CHECK_PEAKS"] + (f".{rank}" if count > 1 else "")
            Path(path).write_text(json.dumps({**told, "micro_batches": 208 + rank, "steps": 104, "sizes": [640, 1920 + rank]}))
        return SimpleNamespace(ending=Ending(returncode=int(dies), stderr_tail=stderr.read_text()))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def walked(bench: Bench, place: Path, letters: str = "ABCDEF") -> list[dict[str, Any]]:
    results = place / "rows.jsonl"
    gpu_check.measured(list(letters), place=place / "place", results=results, scale=0.01)
    return rows.read(results)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]], int]:
    """All six cases walked once: where, their rows, and what is left on the card."""
    place = tmp_path_factory.mktemp("walked")
    with pytest.MonkeyPatch.context() as patch:
        bench = Bench(patch)
        return place, walked(bench, place), bench.card.used


def test_all_six_cases_walk_on_a_stand_in_and_every_claim_about_them_holds(
    everything: tuple[Path, list[dict[str, Any]], int],
) -> None:
    _, found, left = everything
    assert {row["case"] for row in found} == set("ABCDEF")
    for case in cases.CASES:
        said = checks.of(case, [row for row in found if row["case"] == case.letter])
        assert [check.holds for check in said] == [True] * len(said), [f"{case.name}: {check}" for check in said]
    text = table.render(found)
    assert table.NOT_YET not in text and table.NOT_PLAYED in text and "FAILS" not in text and "a card of numbers, driver 600.00" in text
    assert left == 0, "nothing is left on the card"


def test_a_row_says_what_its_figures_depend_on(everything: tuple[Path, list[dict[str, Any]], int]) -> None:
    for row in everything[1]:
        assert {"case", "step", "kind", "commit", "card", "uuid", "driver", "versions"} <= row.keys()
        if row["kind"] == "trial":
            assert {"verdict", "phase", "source", "asked_bytes", "seconds", "cap_bytes", "emulated"} <= row.keys()
            assert {"allocated_bytes", "reserved_bytes", "outside_bytes", "device_bytes", "retries", "ooms"} <= row["uses"][0].keys()
        if row["kind"] == "run" and not row["returncode"]:
            assert row["run"].keys() >= {"allocated_bytes", "outside_bytes", "ooms", "retries", "sizes", "steps", "micro_batches"}


def test_the_committed_page_is_made_of_the_committed_rows() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.render(rows.read())
