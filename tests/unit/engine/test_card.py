"""A launch on a card, on a stand-in for its driver: the walk when others come, how the run is held and watched. No GPU is needed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autofit_launcher.adapter.build import ladder_of
from autofit_launcher.adapter.commands import Command
from autofit_launcher.adapter.protocol import FIRST, RunStart
from autofit_launcher.common.files import plain
from autofit_launcher.common.orders import PLAIN, VARIABLE, ProbeSettings
from autofit_launcher.common.report import SEARCHES, Failure, PhaseUse, TrialReport
from autofit_launcher.config.schema import DeviceRules, Recipe
from autofit_launcher.engine import launch as engine
from autofit_launcher.errors import BadInput
from autofit_launcher.full_run import run as launch
from autofit_launcher.full_run.run import RunWatch
from autofit_launcher.history.records import DeviceRecord, Record, Status, TrialRecord
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Wheel, build
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine import devices, process
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.meter import Usage
from autofit_launcher.trainers.script.adapter import ScriptAdapter
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trainers.ultralytics import models
from autofit_launcher.trainers.ultralytics.adapter import WORDS, UltralyticsAdapter
from autofit_launcher.trial import trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from tests.helpers.few import Heard
from tests.helpers.nvml_stand_in import GIB, MIB, FakeCard, FakeNvml
from tests.helpers.stand_in import StandIn

RECIPE = {"name": "mine", "ask": {"micro_batch": 8}, "trainer": {"adapter": "ultralytics"}, "ladder": {"order": ("micro_batch",)}}


class Adapter(StandIn):
    """A trainer in as few words as a launch asks for."""

    words = WORDS

    def __init__(self, recipe: Recipe, argv: tuple[str, ...] = (sys.executable, "train.py")) -> None:
        self.recipe, self.argv = recipe, argv

    def command(self, rung: Any, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        return Command(argv=self.argv)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeCard:
    one = FakeCard()
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(one))
    for name in ("CUDA_VISIBLE_DEVICES", *devices.VARIABLES):
        monkeypatch.delenv(name, raising=False)
    return one


@pytest.fixture
def job(card: FakeCard, tmp_path: Path) -> Job:
    return make_job(tmp_path)


def make_job(place: Path, *, argv: tuple[str, ...] = (sys.executable, "train.py"), **device: Any) -> Job:
    recipe = Recipe.model_validate({**RECIPE, "device": DeviceRules(kind="cuda", **device)})
    ladder = build([Wheel(name="micro_batch", values=(8, 4))], effective_batch=8)
    budget = devices.find("cuda", headroom=0.1, memory_bytes=device.get("memory"))
    return Job(adapter=Adapter(recipe, argv), ladder=ladder, budget=budget, folder=RunFolder.create(place / "runs", "mine"))  # type: ignore[arg-type]


def tried(job: Job, kind: Kind, *, index: int = 0) -> Trial:
    use = PhaseUse(phase="train", seconds=1.0, reserved_bytes=9 * GIB, outside_bytes=500 * MIB)
    report = TrialReport(uses=(use,))
    verdict = Verdict(kind=kind, phase="train", why="", source="allocator")
    return Trial(rung=job.ladder.rungs[index], verdict=verdict, report=report, seconds=1.0, folder=job.folder.trial(index))


# ---- 5: the card is looked at again


def test_no_trial_is_started_on_a_card_that_others_have_come_to(job: Job, card: FakeCard) -> None:
    card.used = 8 * GIB
    outcome = trial.run(job, job.ladder.asked)
    assert outcome.verdict.kind is Kind.CARD_TAKEN
    assert "7.8 GiB of cuda:0" in outcome.verdict.why and not (outcome.folder / "orders.json").exists()


def test_a_trial_is_told_its_card_and_what_was_free_on_it(job: Job, card: FakeCard, monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, Any] = {}

    def start(argv: Any, *, env: Any, **_: Any) -> Any:
        started.update(env=env)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "start", start)
    card.used = 100 * MIB
    with pytest.raises(KeyboardInterrupt):
        trial.run(job, job.ladder.asked)
    orders = json.loads((job.folder.trial(0) / "orders.json").read_text())
    assert (orders["device_uuid"], orders["idle_free_bytes"]) == (card.uuid, job.budget.free_bytes - 100 * MIB)
    assert started["env"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert started["env"]["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize(("when", "status", "trials"), [("wait", Status.DONE, 2), ("stop", Status.CARD_TAKEN, 1)])
def test_the_walk_waits_for_a_taken_card_or_stops_as_the_recipe_says(
    card: FakeCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, status: Status, trials: int
) -> None:
    job, heard = make_job(tmp_path, when_taken=when), Heard()
    monkeypatch.setattr(devices.time, "sleep", lambda _: setattr(card, "used", 0))
    kinds = iter([Kind.CARD_TAKEN, Kind.FITS])

    def run(job: Job, rung: Any, **_: Any) -> Trial:
        card.used = 8 * GIB
        return tried(job, next(kinds), index=rung.index)

    monkeypatch.setattr(trial, "run", run)
    fit = engine.begin(job, heard)
    assert (fit.status, len(fit.trials)) == (status, trials)
    assert [one.rung.index for one in fit.trials] == [0] * trials, "a taken card says nothing of the rung"
    assert any("the card is taken" in line and "Waiting up to" in line for line in heard.lines) is (when == "wait")
    assert fit.exit_code == (0 if when == "wait" else 4)


def test_a_trial_that_crashes_beside_a_run_begun_ahead_is_made_once_more_alone(
    card: FakeCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, ended, comes = make_job(tmp_path), list[str](), ["train"]
    monkeypatch.setattr(launch, "ahead", lambda *_, **__: SimpleNamespace(end=lambda: ended.append("of a port that both would have")))

    def run(job: Job, rung: Any, **_: Any) -> Trial:
        for phase in comes:
            job.comes_to(1, phase)
        return tried(job, Kind.FITS if ended else Kind.CRASHED, index=rung.index)

    monkeypatch.setattr(trial, "run", run)
    asked = engine.Launch(job=job, show=(sys.stdout.buffer, sys.stderr.buffer))
    assert engine.make_trial(asked, job.ladder.asked).verdict.fits and len(ended) == len(asked.trials) == 1 and asked.ahead is None
    monkeypatch.setattr(launch, "ahead", lambda *_, **__: (_ for _ in ()).throw(OSError("a full disk")))
    assert engine.make_trial(asked, job.ladder.asked).verdict.fits and asked.ahead is None, "it is started when it is its turn"
    monkeypatch.setattr(launch, "ahead", lambda *_, **__: SimpleNamespace(end=lambda: comes.append("ended")))
    comes[:], ended[:] = ["train", PLAIN, "start"], []
    crashed = engine.make_trial(asked, job.ladder.asked)
    assert crashed.verdict.kind is Kind.CRASHED and comes[3:] == ["ended"] and len(asked.trials) == 3, "its own, seen alone"


def test_a_run_is_not_launched_on_a_card_that_others_have_come_to(card: FakeCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(tmp_path, when_taken="stop")
    monkeypatch.setattr(trial, "run", lambda job, rung, **_: tried(job, Kind.FITS))
    monkeypatch.setattr(launch, "start", lambda *_, **__: pytest.fail("launched"))

    heard = Heard()
    heard.hears = lambda name: setattr(card, "used", 8 * GIB) if name == "fitted" else None
    fit = engine.begin(job, heard, show=(sys.stdout.buffer, sys.stderr.buffer))
    assert fit.status is Status.CARD_TAKEN and fit.outcome is None and "not launched: the card is taken" in heard.lines[-1]


def test_a_launch_that_goes_on_is_not_held_to_less_than_its_trial_had(job: Job, card: FakeCard) -> None:
    """A browser has come since: below the smaller budget's cap the rung would never have fitted."""
    record = Record(device=DeviceRecord(**plain(job.budget)), trials=[TrialRecord(verdict="fits", peak_bytes=job.budget.cap_bytes - MIB)])
    card.used = 900 * MIB
    now = devices.find("cuda", headroom=0.1)
    assert now.cap_bytes < job.budget.cap_bytes == engine.as_tried_in(now, record).cap_bytes and not devices.taken(job.budget)
    card.used = 8 * GIB
    assert devices.taken(engine.as_tried_in(now, record)), "it waits for its room"
    small = record.model_copy(update={"trials": [TrialRecord(verdict="fits", peak_bytes=GIB)]})
    assert engine.as_tried_in(now, small) == now


# ---- once more without what it can do without


def twice(job: Job, monkeypatch: pytest.MonkeyPatch, first: Trial, *, said: str = "") -> tuple[Trial, list[Any]]:
    """The trial of rung 0 whose first try ends like that and says so, and the orders and segments of its tries."""
    made: list[Any] = []

    def finished(job: Job, rung: Any, orders: Any, plan: Any) -> Trial:
        (Path(orders.folder) / "stderr.log").write_text("" if made else said)
        made.append((orders.searches, devices.allocator_environment(job.budget)[devices.VARIABLE]))
        return first if len(made) == 1 else replace(first, verdict=tried(job, Kind.FITS).verdict)

    monkeypatch.setattr(trial, "_finished", finished)
    return trial.run(job, job.ladder.asked), made


def test_what_cudnn_takes_to_search_is_not_what_a_training_needs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tried(job, Kind.OUT_OF_MEMORY)
    uses = (replace(first.report.uses[0], retries=3, ooms=1),)
    squeezed = replace(first, verdict=replace(first.verdict, source="measured"), report=replace(first.report, uses=uses, phase="done"))
    again, made = twice(job, monkeypatch, replace(squeezed, report=replace(squeezed.report, facts={SEARCHES: True})))
    assert [searches for searches, _ in made] == [True, False] and again.verdict.fits and trial.SEARCHED in again.report.notes
    for other in ({"facts": {}}, {"facts": {SEARCHES: True}, "phase": "train"}):  # one that found no plan under its cap proves nothing
        once, made = twice(job, monkeypatch, replace(squeezed, report=replace(squeezed.report, **other)))  # type: ignore[arg-type]
        assert len(made) == 1 and not once.verdict.fits


def test_expandable_segments_step_back_where_tensors_of_a_card_cannot_be_handed_over(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(devices.VARIABLE, "")
    said = "RuntimeError: pidfd_getfd: Operation not permitted"
    again, made = twice(job, monkeypatch, tried(job, Kind.CRASHED), said=said)
    assert [one for _, one in made] == ["expandable_segments:True", "expandable_segments:False"] and again.verdict.fits
    monkeypatch.setenv(devices.VARIABLE, "")  # another launch, which goes on with this one
    assert trial.of_record(again.record(), job.ladder).report.notes == (trial.STEPPED_BACK,)
    assert devices.allocator_environment(job.budget)[devices.VARIABLE] == "expandable_segments:False"


# ---- 16: a budget error is ours


def test_a_budget_that_cannot_be_taken_is_no_crash_of_the_trainer(job: Job) -> None:
    failure = Failure(types=("BudgetError", "RuntimeError"), message="BudgetError: this process runs on the card GPU-2", traceback="")
    fault = trial._budget_fault(TrialReport(failure=failure), job.folder.trial(0))
    assert isinstance(fault, BadInput)
    assert "the budget could not be taken: this process runs on the card GPU-2" in str(fault)


# ---- 3: the run is held to what was proven


@pytest.mark.parametrize("memory", [None, 8 * GIB], ids=["whole card", "played card"])
@pytest.mark.parametrize("python", [sys.executable, "/opt/other/bin/python"], ids=["ours", "another"])
def test_every_run_on_a_card_is_held_by_a_probe_that_knows_the_card(
    card: FakeCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int | None, python: str
) -> None:
    job = make_job(tmp_path, memory=memory, argv=(python, "train.py"))
    card.used = 100 * MIB
    started: dict[str, Any] = {}
    monkeypatch.setattr(process, "start", lambda argv, *, env, **_: started.update(argv=argv, env=env))
    launch.start(job, launch.native_command(job, job.ladder.asked), job.folder.attempt(1), show=(sys.stdout.buffer, sys.stderr.buffer))
    told = ProbeSettings.read(Path(started["env"][VARIABLE])).orders
    assert {name: told[name] for name in ("device", "device_uuid", "idle_free_bytes", "cap_bytes")} == {
        "device": "cuda", "device_uuid": card.uuid, "idle_free_bytes": job.budget.free_bytes - 100 * MIB,
        "cap_bytes": job.budget.budget_bytes - 256 * MIB,  # a kernel that is loaded late has room
    }  # fmt: skip
    assert started["argv"] == (python, "train.py") and started["env"]["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


# ---- 3: and watched

HALVED = "WARNING ⚠️ CUDA out of memory with batch=16. Reducing to batch=8 and retrying (1/3)."
BACKEND = "WARNING ⚠️ CUDA backend memory error with batch=16. Reducing to batch=8 and retrying (2/3)."
ASSIGNER = "WARNING ⚠️ CUDA out of memory in TaskAlignedAssigner with batch_size=16 and max_num_obj=300; retrying assignment one image"
AMP = "AMP: checks failed ❌. AMP training on NVIDIA GeForce may lead to NaN losses"


def test_what_ultralytics_does_otherwise_is_known_by_its_words() -> None:
    told = {BACKEND: "halved", AMP: "fp32", "epoch 1/300": ""}
    assert all(what in WORDS.deviation(line) and bool(what) == bool(WORDS.deviation(line)) for line, what in told.items())


def test_a_run_that_goes_on_otherwise_is_told_the_moment_it_says_so(job: Job) -> None:
    heard: list[str] = []
    job = replace(job, say=lambda words, style: heard.append(words.partition(":")[0]))
    usage = Usage(os.getpid(), job.budget, job.folder.attempt(1).processes, base_bytes=0)
    child = process.Child(process=SimpleNamespace(pid=os.getpid()), token="")  # type: ignore[arg-type]
    job.folder.attempt(1).stdout.touch()
    watch = RunWatch(child, job, job.ladder.asked, usage, files=job.folder.attempt(1))
    watch.look()
    with job.folder.attempt(1).stderr.open("w", encoding="utf-8") as file:
        for text in ("epoch 1\r  10%", "\r 20%\n", HALVED[:30], HALVED[30:] + "\n", HALVED + "\n", ASSIGNER + "\n"):
            file.write(text)
            file.flush()
            watch.look()
    assert heard == ["halved its own batch", "assigns labels image by image, many times slower"]


# ---- 13: processes


@pytest.mark.parametrize(
    ("kind", "cards", "words", "said"),
    [
        ("cuda", None, "torchrun --nproc_per_node=2", "each with a card of its own, and it gets 1 of 2"),
        ("cuda", (0, 1), "torchrun --nproc_per_node=3", "and it gets 2 of 2"),
        ("cuda", 2, "torchrun --nproc_per_node=2 --nnodes=2", "it starts 4 processes on 2 machines"),
        ("cpu", 2, "torchrun --nproc_per_node=2", "2, on a CPU"),
        ("cuda", 2, "torchrun --nproc_per_node=2", ""),
        ("cuda", (0, 1), "python", ""),  # it starts its processes itself
        ("cuda", None, "torchrun", ""),
    ],
)
def test_a_command_gets_a_card_for_each_process_or_is_refused(
    card: FakeCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, cards: Any, words: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(card, FakeCard(uuid="GPU-00000000-0000-4000-8000-000000000002")))
    (tmp_path / "train.py").touch()
    trainer = {"adapter": "script", "args": {"command": [*words.split(), str(tmp_path / "train.py")], "spelled": {"micro_batch": "-b"}}}
    recipe = Recipe.model_validate({**RECIPE, "trainer": trainer, "device": {"kind": kind, "cards": cards}})
    found = [fault.found for fault in ScriptAdapter(recipe).check() if "card" in fault.found or "CPU" in fault.found]
    assert len(found) == bool(said) and said in "".join(found)


# ---- 12, 14, 16: Ultralytics


def yolo(**device: Any) -> Any:
    ask = {"micro_batch": 8, "image_size": 640, "model": "yolov8n.yaml"}
    return UltralyticsAdapter(Recipe.model_validate({**RECIPE, "ask": ask, "device": device}))


def test_every_ultralytics_run_on_a_card_runs_what_it_was_told_or_fails(job: Job, tmp_path: Path) -> None:
    """A plain ``yolo`` halves its batch by itself in the first epoch."""
    adapter = yolo(kind="cuda")
    rung = ladder_of(adapter).asked
    command = adapter.command(rung, job.budget, folder=tmp_path)
    assert command.argv[:4] == (sys.executable, str(Path(sys.executable).with_name("yolo")), "detect", "train")
    assert command.env["YOLO_EXACT"] and any(path.name == "_autofit_yolo.py" for path in command.files)


def test_what_amp_is_checked_with_is_fetched_before_a_trial_on_a_card(
    card: FakeCard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(models, "weights_dir", lambda: tmp_path)
    monkeypatch.delenv("YOLO_OFFLINE", raising=False)

    def fetched(kind: str) -> Command | None:
        adapter = yolo(kind=kind)
        return adapter.trial(ladder_of(adapter).asked, cpu_budget(), folder=tmp_path, cache=tmp_path).fetch

    command = fetched("cuda")
    assert command is not None and command.argv[-2:] == ("", str(tmp_path / "yolo26n.pt"))
    assert fetched("cpu") is None
    (tmp_path / "yolo26n.pt").touch()
    assert fetched("cuda") is None


def test_what_a_neighbour_holds_before_and_after_the_runs_own_context_is_no_use_of_the_run(job: Job, card: FakeCard) -> None:
    usage = Usage(os.getpid(), job.budget, job.folder.attempt(1).processes, base_bytes=0)
    for mine, expected in ((0, 7), (2, 2), (0, 0)):
        card.used, card.processes = 7 * GIB, [[(10**8, 7 * GIB), *([(os.getpid(), mine * GIB)] if mine else [])]]
        usage._look_at_card()
        assert usage.now_bytes == expected * GIB
    assert usage.peak_bytes == 2 * GIB
