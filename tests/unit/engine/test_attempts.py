"""A run seen to its end over its attempts: a trainer of a few lines that fails in every way, without torch, in seconds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.commands import Checkpoint, Command
from autofit_launcher.adapter.log_line import LogLine
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.adapter.protocol import FIRST, Asked, RunStart, Saved, WheelSpec
from autofit_launcher.cli import submit
from autofit_launcher.common.report import Phase, TrialReport
from autofit_launcher.config import recipe
from autofit_launcher.config.schema import LadderRules, Recipe, RecoverRules, TrainerRules, WheelRule
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine import prepare
from autofit_launcher.engine.launch import Launch
from autofit_launcher.errors import BadInput, Interrupted
from autofit_launcher.full_run.cause import Ended
from autofit_launcher.history import runs
from autofit_launcher.history.records import AttemptRecord, LadderRecord, MoveRecord, Status
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.ladder.rungs import Rung, Wheel, build
from autofit_launcher.ladder.same_training import unproven
from autofit_launcher.ladder.verdict import Kind, Verdict
from autofit_launcher.machine.devices import Budget
from autofit_launcher.trainers.suite import cpu_budget
from autofit_launcher.trial import proof, trial
from autofit_launcher.trial.job import Job
from autofit_launcher.trial.trial import Trial
from tests.helpers.stand_in import StandIn

TRAINER = """
import json, os, signal, sys, time
from pathlib import Path
place, batch, first, faults = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
place.mkdir(exist_ok=True)
tries = place.parent / "tries"
attempt = len(tries.read_text()) if tries.exists() else 0
tries.write_text("x" * (attempt + 1))
fault = faults[attempt] if attempt < len(faults) else ""
LOSS = {"nan": "XXXX", "nan_at_the_end": "...X", "nan_from_the_middle": "..XX"}.get(fault, "....")
for epoch in range(first, 4):
    print(f"epoch {epoch} loss: {'nan' if LOSS[epoch] == 'X' else 0.5}", flush=True)
    if epoch == 1:
        if fault == "memory":
            raise MemoryError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1000 bytes.")
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hangs":
            time.sleep(600)
        if fault == "loses":
            lost = "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_3>: No space left on device (28)"
            print("Traceback (most recent call last):", lost, sep="\\n", file=sys.stderr, flush=True)
            time.sleep(600)
        if fault == "fills":
            try:
                with open(place / "weights.pt", "wb", buffering=0) as file:
                    while True:
                        file.write(bytes(65536))
            except OSError:
                print("epoch 1: nearly saved", flush=True)
                raise RuntimeError("unexpected pos 64 vs 0") from None
        if fault == "disk":
            raise OSError(28, "No space left on device")
        if fault == "crash":
            raise KeyError("typo")
    (place / f"{epoch}.json").write_text(json.dumps({"epoch": epoch, "batch": batch, "finite": LOSS[epoch] == "."}))
    if fault == "torn":
        (place / f"{epoch}.json").write_text("torn")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
"""


class Few(StandIn):
    """Its checkpoints are files of a few bytes."""

    name: ClassVar[str] = "few"
    wheels: ClassVar[Mapping[str, WheelSpec]] = {
        "micro_batch": WheelSpec(type=int, help="samples"),
        "val_micro_batch": WheelSpec(type=int, help="samples", rule=WheelRule(values=(4, 2)), acts_in="validation"),
    }
    asked = Asked(keeps=frozenset({"micro_batch", "val_micro_batch"}))
    edited_so: tuple[str, ...] = ()

    def __init__(self, recipe: Recipe, faults: Sequence[str]) -> None:
        self.recipe, self.faults = recipe, list(faults)

    def command(self, rung: Rung, budget: Budget, *, folder: Path, start: RunStart = FIRST) -> Command:
        first = int(start.checkpoint.done) if start.checkpoint is not None else 0
        words = (str(folder / "run"), str(rung.micro_batch), str(first), json.dumps(self.faults))
        env = {"WORKERS": str(start.workers)} if start.workers is not None else {}
        return Command(argv=(sys.executable, "-c", TRAINER, *words), env=env)

    def read_log(self, line: str, known: Progress, *, rung: Rung) -> LogLine:
        said = log_line.read(line, known)
        return replace(said, progress=replace(said.progress, epochs=4)) if line.startswith("epoch") else replace(said, progress=known)

    def results(self, *, folder: Path) -> Mapping[str, Any]:
        return {"epochs": [json.loads(path.read_text()) for path in sorted((folder / "run").glob("*.json"))]}

    def saved(self, folder: Path) -> Saved:
        return Saved(place=folder / "run", files=sorted((folder / "run").glob("*.json"), reverse=True), look=looked)

    def edited(self, *, since: float) -> Sequence[str]:
        assert time.time() - 60 < since < time.time()
        return self.edited_so


def looked(files: Sequence[Path]) -> dict[Path, Checkpoint | str]:
    def told(path: Path) -> Checkpoint | str:
        if path.read_text() == "torn":
            return "it is torn"
        finite = json.loads(path.read_text())["finite"]
        return Checkpoint(path=path, done=int(path.stem) + 1, unit="epochs") if finite else "its weights are not finite"

    return {path: told(path) for path in files}


LADDER = build(
    [Wheel(name="micro_batch", values=(8, 4, 2)), Wheel(name="val_micro_batch", values=(4, 2), acts_in="validation")], effective_batch=8
)


def prepared(tmp_path: Path, *faults: str, keep_update: bool = True, **rules: Any) -> Job:
    few = Recipe(
        name="few",
        ask={"micro_batch": 8, "val_micro_batch": 4},
        trainer=TrainerRules(adapter="few"),
        ladder=LadderRules(order=tuple(Few.wheels), wheels={"micro_batch": WheelRule(values=(4, 2))}, keep_update=keep_update),
        recover=RecoverRules(**{"nan_reports": 2, **rules}),
    )
    adapter: Any = Few(few, faults)
    folder = RunFolder.create(tmp_path, "few")
    folder.replace(folder.recipe, recipe.as_yaml(few))
    return Job(adapter=adapter, ladder=LADDER, budget=replace(cpu_budget(), emulated=False), folder=folder)


def fitted(fit: Launch) -> None:
    """What trials come to that fit as asked."""
    verdict = Verdict(kind=Kind.FITS, phase=Phase.DONE, why="fits", peak_bytes=2**20)
    fit.chosen = Trial(rung=LADDER.asked, verdict=verdict, report=TrialReport(), seconds=60.0, folder=fit.job.folder.path)
    fit.trials.append(fit.chosen)
    fit.command = fit.job.adapter.command(LADDER.asked, fit.job.budget, folder=fit.job.folder.path)
    fit.status = Status.DONE


def run(tmp_path: Path, *faults: str, workers: int | None = None, **rules: Any) -> Launch:
    job = prepared(tmp_path, *faults, **rules)
    adapter: Any = job.adapter
    adapter.asked = Asked(keeps=Few.asked.keeps, workers=workers)
    with (tmp_path / "out").open("wb") as out:
        fit = Launch(job=job, show=(out, out))
        fitted(fit)
        engine.see_through(fit)
    fit.write()
    return fit


def told(fit: Launch) -> list[str]:
    return [f"{made.ended} {made.rung['micro_batch']}" for made in fit.attempts]


def next_of(fit: Launch) -> dict[str, Any]:
    """What was done after the first attempt, as the record has it."""
    move = fit.attempts[0].next
    assert move is not None
    return move.written()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of one MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_every_failure_is_answered_and_all_of_it_is_written_down(tmp_path: Path) -> None:
    fit = run(tmp_path, "memory", "killed")
    assert fit.status is Status.DONE and told(fit) == ["out_of_memory 8", "killed 4", "done 4"]
    assert [one["batch"] for one in fit.results["epochs"]] == [8, 4, 4, 4], "epochs that were done are not done again"
    folder = fit.job.folder.path
    record = json.loads((folder / "record.json").read_text())
    assert [one["effective_batch"] for one in record["attempts"]] == [8, 8, 8]
    assert all(set(AttemptRecord.model_fields) == set(one) for one in record["attempts"]), "whoever reads it meets every key"
    assert set(record["attempts"][1]["checkpoint"]) == {"path", "done", "unit", "finished"}
    assert record["attempts"][0]["next"]["why"].startswith("out of memory in train") and record["rung"]["micro_batch"] == 4
    assert record["memory"]["run_peak_bytes"] and not record["memory"]["trial_peak_bytes"], "the rung at which it ended was never tried"
    kept = [AttemptRecord.model_validate(one).model_copy(update={"same_training": None}) for one in record["attempts"]]
    assert kept == fit.attempts
    assert "MemoryError" in (folder / "run.stderr.log").read_text() and (folder / "run.stdout.3.log").read_text().startswith("epoch 1")
    assert (folder / "native" / "attempt-3.sh").exists() and "'0'" not in (folder / "native" / "attempt-3.sh").read_text()


@pytest.mark.parametrize(("keep_update", "attempts"), [(True, ["out_of_memory 8"]), (False, ["out_of_memory 8", "done 4"])])
def test_a_run_goes_on_one_rung_lower_only_where_that_is_the_asked_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_update: bool, attempts: list[str]
) -> None:
    """The rung that was chosen accumulated as asked, so nothing was proven before the run."""
    proofs: list[Rung] = []

    def halved(self: Any) -> proof.Proof:
        proofs.append(self._rung)
        return proof.Proof(same=unproven("a factor of 2"), refused="its gradients are halved")

    monkeypatch.setattr(proof._Proving, "proof", halved)
    fit = run(tmp_path, "memory", keep_update=keep_update)
    assert told(fit) == attempts and [one.index for one in proofs] == [1]
    assert fit.refused == ("its gradients are halved" if keep_update else "")


def test_a_cure_is_taken_and_tried_before_a_run_goes_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cured(self: Any) -> proof.Proof:
        return proof.Proof(same=replace(unproven(""), cure={"update": "times"}), job=proof.with_cure(self._job, {"update": "times"}))

    monkeypatch.setattr(proof._Proving, "proof", cured)
    monkeypatch.setattr(proof, "with_cure", lambda job, cure: replace(job, budget=replace(job.budget, budget_bytes=1)))
    monkeypatch.setattr(engine, "card_is_back", lambda result, holder, waits=0: True)
    trials: list[Job] = []

    def tried(job: Job, rung: Rung) -> Trial:
        trials.append(job)
        verdict = Verdict(kind=Kind.FITS if len(trials) > 1 else Kind.CARD_TAKEN, phase=Phase.DONE, why="a neighbour")
        return Trial(rung=rung, verdict=verdict, report=TrialReport(), seconds=1.0, folder=tmp_path)

    monkeypatch.setattr(trial, "run", tried)
    assert told(run(tmp_path, "memory")) == ["out_of_memory 8", "done 4"]
    assert [one.budget.budget_bytes for one in trials] == [1, 1], "others had come to the card meanwhile: that says nothing of the rung"


def test_a_run_whose_training_was_edited_is_not_gone_on_with_as_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Few, "edited_so", ("train.py",))
    fit = run(tmp_path, "killed")
    last = next_of(fit)
    assert told(fit) == ["killed 8"] and "edited since the launch: train.py" in last["why"] and last["checkpoint"]["done"] == 1
    assert told(gone_on(fit.job, tmp_path, monkeypatch)) == ["killed 8", "done 8"]


def test_a_run_that_stands_still_is_ended_and_resumed_once(tmp_path: Path) -> None:
    fit = run(tmp_path, "hangs", "hangs", stall_s=1.5)
    assert told(fit) == ["stalled 8", "stalled 8"] and fit.status is Status.FAILED


def test_a_run_that_waits_for_what_a_worker_has_lost_goes_on_with_fewer_workers(tmp_path: Path) -> None:
    fit = run(tmp_path, "loses", workers=4, stall_s=1.5)
    assert told(fit) == ["host_memory 8", "done 8"] and "1 loader workers instead of 4" in next_of(fit)["why"]


def test_a_run_whose_last_report_is_not_finite_is_not_done(tmp_path: Path) -> None:
    fit = run(tmp_path, "nan_at_the_end", nan_reports=3)
    assert told(fit) == ["diverged 8"] and fit.status is Status.DIVERGED and fit.exit_code == 5
    assert fit.outcome is not None and fit.outcome.returncode == 0 and not fit.outcome.done
    record = json.loads(fit.job.folder.record.read_text())
    assert record["status"] == "diverged" and record["attempts"][0]["evidence"] == "epoch 3 loss: nan"
    state = runs.run_in(fit.job.folder.path)
    assert state.state == "diverged" and submit.status_of(state) == 5
    allowed = run(tmp_path, "nan_at_the_end", on_nan="go_on")
    assert allowed.status is Status.DIVERGED, "that it may go on does not make it done"


def test_weights_that_are_not_finite_are_not_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = run(tmp_path, "nan_from_the_middle", nan_reports=9)
    assert told(fit) == ["diverged 8"] and [one.done for one in fit.attempts[0].left] == [2, 1]
    assert next_of(fit)["checkpoint"]["done"] == 2, "what is advised"
    fit = gone_on(fit.job, tmp_path, monkeypatch)
    assert told(fit) == ["diverged 8", "done 8"] and fit.attempts[1].checkpoint is not None and fit.attempts[1].checkpoint.done == 2


def test_a_torn_only_checkpoint_is_not_taken_for_none_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = run(tmp_path, "torn")
    why = next_of(fit)["why"]
    assert told(fit) == ["killed 8"] and fit.status is Status.FAILED
    assert "0.json: it is torn" in why and "recover.allow_restart=true would begin anew" in why
    assert told(gone_on(fit.job, tmp_path, monkeypatch)) == ["killed 8"], "on a person's word neither"
    anew = gone_on(fit.job, tmp_path, monkeypatch, "recover.allow_restart=true")
    assert told(anew) == ["killed 8", "done 8"] and anew.attempts[1].checkpoint is None
    assert (fit.job.folder.path / "run.attempt-1" / "0.json").read_text() == "torn", "nothing is removed"


@pytest.mark.parametrize(("fault", "words"), [("crash", "not for want of memory"), ("disk", "its files can't be written")])
def test_what_starting_again_would_not_cure_stops_with_a_report(tmp_path: Path, fault: str, words: str) -> None:
    fit = run(tmp_path, fault)
    last = next_of(fit)
    assert len(fit.attempts) == 1 and fit.status is Status.FAILED and words in last["why"] and last["checkpoint"]["done"] == 1


def test_a_full_disk_is_named_though_no_word_of_the_trainers_says_so(small_disk: Path, tmp_path: Path) -> None:
    fit = run(small_disk, "fills")
    (made,) = fit.attempts
    assert (made.ended, fit.status) == (Ended.UNWRITABLE, Status.FAILED)
    assert made.evidence.startswith(f"no room is left on the disk of its run folder, {fit.job.folder.path}")
    assert "unexpected pos 64 vs 0" in made.evidence, "its last words are known though its log could not take them"
    assert "free space there" in next_of(fit)["why"]


def gone_on(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Launch:
    """``autofit resume``, with the same trainer."""
    faults = job.adapter.faults  # type: ignore[attr-defined]
    monkeypatch.setattr(engine, "load_adapter", lambda name: lambda asked: Few(asked, faults))
    with (tmp_path / "out").open("ab") as out:
        return engine.go_on(prepare.resumable(job.folder.path, words), show=(out, out))


def test_an_interrupted_fit_is_gone_on_with_to_its_fit_and_never_becomes_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(fit: Launch) -> None:
        raise Interrupted("SIGTERM")

    job = prepared(tmp_path)
    monkeypatch.setattr(engine, "walk", stopped)
    with pytest.raises(Interrupted):
        engine.begin(job)
    monkeypatch.setattr(engine, "walk", fitted)
    fit = gone_on(job, tmp_path, monkeypatch)
    assert fit.status is Status.DONE and fit.attempts == [] and not (job.folder.path / "run").exists()
    with pytest.raises(BadInput, match="only trials were asked of it"):
        prepare.resumable(job.folder.path)


def test_a_failed_run_is_gone_on_with_from_its_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(tmp_path, "killed", "killed", restarts=1)
    assert before.status is Status.FAILED and told(before) == ["killed 8", "killed 8"]
    before.ladder, before.trial_seconds, before.refused = [LadderRecord(rung_index=0)], 60.0, "it differs"
    before.same = unproven("another rung was taken")
    before.write()
    fit = gone_on(before.job, tmp_path, monkeypatch)
    assert fit.status is Status.DONE and told(fit) == ["killed 8", "killed 8", "done 8"], "a person's word gives new restarts"
    assert fit.attempts[2].checkpoint is not None and fit.attempts[2].checkpoint.done == 1
    record = json.loads((before.job.folder.path / "record.json").read_text())
    assert record["status"] == "done" and len(record["attempts"]) == 3 and prepare.resumable(before.job.folder.path).done
    assert (record["ladder"], record["trial_seconds"], record["same_training"]["refused"]) == ([{"rung_index": 0}], 60.0, "it differs")


@pytest.mark.parametrize("cure", [{}, {"update": "targets"}])
def test_a_rung_that_was_tried_before_the_cure_was_known_is_tried_again_before_a_run_goes_on_there(cure: dict[str, Any]) -> None:
    lower, higher = (Rung(index=index, values={"micro_batch": 8 // index}, accumulation=index, position=(index,)) for index in (2, 1))
    fits = Verdict(kind=Kind.FITS, phase=Phase.DONE, why="fits")
    trials = [
        Trial(rung=rung, verdict=fits, report=TrialReport(), seconds=1.0, folder=Path(name))
        for rung, name in ((lower, "000"), (higher, "001"), (higher, "002"))
    ]
    result: Any = SimpleNamespace(
        trials=trials,
        chosen=trials[-1],
        same=replace(unproven("not looked at"), cure=cure),
        attempts=[AttemptRecord(rung_index=higher.index, seconds=900.0)],
    )
    move = MoveRecord(rung_index=lower.index, unproven=True)
    assert engine._needs_a_trial(result, move) is bool(cure)
