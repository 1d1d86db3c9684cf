"""Takes orders whose payload is somebody's own command line; runs the command itself with the probe loaded into it from outside,
and puts together what its processes saw.

This process only watches: the command runs with its own interpreter, its own launcher (torchrun, accelerate) and its own arguments.
Where it ended without a validation pass, or broke after a pass was cut, it is tried once more with the whole length of its training
passes fast-forwarded. A crash that has nothing to do with memory is proven by running the command plainly (``plainly``).

Payload: ``argv`` (list of words), ``env`` (added), ``files`` (path -> text, written first), ``micro_batch`` (as asked),
``accumulation`` (micro-batches per optimizer step in the trial), ``validation`` ("seek" or "none"), ``whole`` (samples of a step that the
script takes in parts by itself, else None), ``apart`` (bool: each process has the budget for itself), ``goes_on`` (see ``going_on``; only
if a second process is to go on), ``base`` (library -> modules that are imported with it, before a CPU's budget is taken).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.common import procfs
from autofit_launcher.common.files import replace, tail
from autofit_launcher.common.memory_failures import ECHO
from autofit_launcher.common.orders import LOADED, PLAIN, RANKS, REPORT, RESUMED, TEMPORARY, Orders
from autofit_launcher.common.report import (
    CARD,
    HELD_AHEAD,
    HOST_BESIDE,
    HOST_GROWTH,
    NOT_EXACT,
    OTHER_CARDS,
    OWN_ACCUMULATION,
    RANK,
    SAMPLES,
    WORLD_SIZE,
    Failure,
    Phase,
    TrialReport,
)
from autofit_launcher.common.sizes import format_size
from autofit_launcher.inside import going_on, kept_checkpoint, reach
from autofit_launcher.inside.counted import PATIENCE
from autofit_launcher.inside.forks import Forked
from autofit_launcher.inside.lifeline import kill
from autofit_launcher.inside.plainly import OVERLAY, environment, proven, speaks_of_memory, started
from autofit_launcher.inside.recorder import Recorder

FORCE = 'make it validate early with trainer.args.validation: {force: "--val-every 1"} (words of the script\'s own), or say {none: true}'


class Unreached(Exception):
    """The probe has not come into the command: nothing of it can be seen or cut, and what it writes is not redirected."""


def run(orders: Orders, recorder: Recorder) -> None:
    """Runs the trial. Leaves the report in the trial's folder whatever happened; a signal that ended the script ends this process too."""
    for path, text in orders.payload.get("files", {}).items():
        replace(Path(path), text)
    procfs.name_thread(f"{procfs.WATCHES}trial")  # it only looks on: what it computes is no sign of the command's life
    began = time.monotonic()
    try:
        if orders.resumes:
            _go_on(orders)
            return
        status, reports = _attempt(orders, "cut")
    except Unreached as error:
        TrialReport(hint=str(error)).write(orders.report_path)
        return
    if _worth_following(reports, status):
        again, followed = _attempt(orders, "full")
        if again == 0 or not _done(reports):
            status, reports = again, followed
    report = judged(reports, status, orders)
    _keep(reports, Path(orders.folder))
    if report.failure is not None and not speaks_of_memory(report.failure) and NOT_EXACT not in report.failure.types:
        seconds = time.monotonic() - began
        report = proven(report, orders, environment(orders, orders.scratch / PLAIN), seconds=seconds, cure=FORCE)
    report.write(orders.report_path)
    if status < 0 and report.failure is None:
        _die_alike(-status)


def _go_on(orders: Orders) -> None:
    """The trial of a second process, which goes on from what the first has saved."""
    status = 0
    try:
        path = going_on.found(orders, overlay=orders.scratch / RESUMED / OVERLAY)
        orders = dataclasses.replace(orders, payload=going_on.from_checkpoint(orders.payload, path))
        status, reports = _attempt(orders, "cut")
        _keep(reports, Path(orders.folder))
        report = going_on.gone_on(judged(reports, status, orders), status, path, orders)
    except going_on.Untried as why:
        report = why.report()
    report.write(orders.report_path)
    if status < 0 and report.failure is None:
        _die_alike(-status)


def _keep(reports: Sequence[TrialReport], folder: Path) -> None:
    """Keeps each rank's own report, beside that of the trial."""
    for report in reports:
        if RANK in report.facts:
            report.write(folder / RANKS / str(report.facts[RANK]) / REPORT)


def _attempt(orders: Orders, mode: str) -> tuple[int, list[TrialReport]]:
    """Runs the command once. (exit status as subprocess gives it, what each of its processes reported) What it writes stays if a second
    process may go on from that."""
    place = orders.scratch / (RESUMED if orders.resumes else mode)
    records, overlay = place / "records", place / OVERLAY
    records.mkdir(parents=True, exist_ok=True)
    # a short path: sockets in it (data loader workers share tensors by them) have 108 bytes for theirs
    with tempfile.TemporaryDirectory(dir=os.environ.get(TEMPORARY) or None, ignore_cleanup_errors=True) as temporary:
        child = started(orders, place, environment(orders, place), temporary=temporary, mode=mode)
        status = _followed(child, records, orders)
    if (broken := place / "probe.json.failed").exists():
        raise RuntimeError(f"the probe could not be loaded into the script's interpreter: {broken.read_text(encoding='utf-8').strip()}")
    more = kept_checkpoint.on_disk(overlay, orders.payload.get("goes_on"))
    reports = [dataclasses.replace(report, facts={**report.facts, **more}) for report in _reports(records)]
    if not orders.payload.get("goes_on"):
        shutil.rmtree(overlay, ignore_errors=True)
    return _signal_of_a_rank(reports, orders) or status, reports


LOOK_S = 0.1
"""Seconds between two looks at what the command's processes are at."""
LATE_S = 2.0
"""Seconds after one rank's failure at which the command is ended: until then the others may tell of theirs, which may be the cause. They
wait for the one that is gone for as long as the script's own timeout says."""
KEPT_OUT = (
    "PYTHONPATH set anew (env, export, a launcher of its own), or python -I, -E or -S, keep the probe out: set it before autofit instead"
)


def _followed(child: subprocess.Popen[bytes] | Forked, records: Path, orders: Orders) -> int:
    """Waits for the command; meanwhile the trial's report is that of the process which has come furthest. Returns its exit status; 1, as a
    launcher's is, where it was ended here for a rank that had failed."""
    shown, beat, failed_since, ended = "", 0, math.inf, False
    while True:
        try:
            status = child.wait(timeout=LOOK_S)
            return 1 if ended else status
        except subprocess.TimeoutExpired:
            if not (records / LOADED).exists() and (lives := reach.out_of(child.pid)):
                kill(child.pid)  # it writes where it likes
                child.wait()
                raise Unreached(f"autofit's probe did not come into {lives}. {KEPT_OUT}") from None
        reports = _reports(records)
        failed = any(report.failure is not None and int(report.facts.get(WORLD_SIZE, 1)) > 1 for report in reports)
        failed_since = min(failed_since, time.monotonic() if failed else math.inf)
        if time.monotonic() - failed_since > LATE_S:
            ended = True
            kill(child.pid)
        furthest = max(reports, key=lambda report: list(Phase).index(Phase(report.phase)), default=None)
        if furthest is not None and furthest.phase not in (shown, Phase.DONE):
            shown = furthest.phase
            furthest.write(orders.report_path)
        elif (now := max((path.stat().st_mtime_ns for path in records.glob("*/report.json")), default=0)) != beat:  # it trains or validates
            beat = now
            with contextlib.suppress(OSError):
                os.utime(orders.report_path)


def _reports(records: Path) -> list[TrialReport]:
    return [report for path in sorted(records.glob("*/report.json")) if (report := TrialReport.read(path)) is not None]


def _die_alike(number: int) -> None:
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)


def _trained(reports: Sequence[TrialReport]) -> list[TrialReport]:
    return [report for report in reports if report.optimizer_steps]


def _done(reports: Sequence[TrialReport]) -> bool:
    return any(report.phase in (Phase.FINISH, Phase.DONE) for report in reports)


def _worth_following(reports: Sequence[TrialReport], status: int) -> bool:
    """Tells whether the command trained, and then validated nowhere, or broke: its passes were cut, and that may be why."""
    trained = _trained(reports)
    if not trained or _done(reports):
        return False
    if status == 0:
        return not any(report.failure or report.facts.get("validated") for report in trained)
    failures = [report.failure for report in reports if report.failure is not None]
    return (
        bool(failures)
        and not any(speaks_of_memory(one) or NOT_EXACT in one.types for one in failures)
        and not any(report.swallowed for report in reports)
    )


_KILLED = re.compile(r"rank\s*:\s*\d+ \(local_rank: \d+\)\s*\n\s*exitcode\s*:\s*(-\d+)")
"""Torchrun's words of a rank that a signal ended. -15 is its own doing."""


def _signal_of_a_rank(reports: Sequence[TrialReport], orders: Orders) -> int:
    """The exit status of a rank that a signal ended, where the others only say that it is gone: torchrun's own is always 1. 0: none was."""
    if not all(ECHO.search(report.failure.message) for report in reports if report.failure is not None):
        return 0
    return next((int(status) for status in _KILLED.findall(_said(orders)) if status != "-15"), 0)


def _cause(reports: Sequence[TrialReport]) -> TrialReport | None:
    """The process that the others' failures came of: memory first, then whoever doesn't only say that a neighbour is gone, then one that
    was ended before it could say anything."""
    failing = [(report, report.failure) for report in reports if report.failure is not None]
    memory = next((report for report, failure in failing if speaks_of_memory(failure)), None)
    own = next((report for report, failure in failing if not ECHO.search(failure.message)), None)
    if memory is not None or own is not None:
        return memory or own
    hidden = next((report for report in reports if report.swallowed), None)  # it was ended before it could say what had ended it
    if hidden is not None and failing:
        failure = Failure(types=("OutOfMemoryError",), message=hidden.swallowed[0], traceback=hidden.swallowed[0])
        return dataclasses.replace(hidden, failure=failure)
    silent = (report for report in reports if report.failure is None and RANK in report.facts and report.phase != Phase.DONE)
    return next(silent, failing[0][0]) if failing else None


def judged(reports: Sequence[TrialReport], status: int, orders: Orders) -> TrialReport:
    """Makes one report of all processes: the failing one's failure, the most memory of any, the validation of the one that validated."""
    trained = _trained(reports)
    failed = _cause((*trained, *reports))
    main = failed or max(trained or reports, key=lambda report: (report.phase == Phase.DONE, report.validation_batches), default=None)
    if main is None:
        return TrialReport(hint=_no_model(status, orders), failure=_exit_failure(status, orders))
    everyone = trained or [main]
    own = max(int(one.facts.get(OWN_ACCUMULATION, 1)) for one in everyone)
    if main.failure is None and (main.phase == Phase.DONE or (main.phase == Phase.FINISH and status >= 0)):
        status = 0  # what is owed was seen; after it, stubs may have broken the script
        main = dataclasses.replace(main, phase=Phase.DONE.value)
    elif main.failure is None and main.facts.get("validated") and main.facts.get("forwarded") and not main.swallowed and status > 0:
        status = 0  # by what it makes of a score perhaps, in which nothing was learnt
    report = dataclasses.replace(
        main,
        uses=_together(everyone, orders) if len(everyone) > 1 else main.uses,
        validation_batches=max(one.validation_batches for one in everyone) if failed is None else main.validation_batches,
        swallowed=tuple(dict.fromkeys(text for one in reports for text in one.swallowed)),
        notes=(*_notes(everyone), *_ranks(everyone), *([OF_ITSELF.format(own)] if own > 1 else [])),
        facts={**main.facts, **_summed(everyone, own)},
    )
    if report.failure is None and status != 0:
        report = dataclasses.replace(report, failure=_exit_failure(status, orders))
    if report.failure is None and report.phase != Phase.DONE:
        report = _ended_early(report, orders)
    if report.failure is None and (unheld := _unheld(everyone)):
        report = dataclasses.replace(report, phase=Phase.TRAIN.value, hint=unheld)
    return report


def _notes(everyone: Sequence[TrialReport]) -> list[str]:
    """Joins the processes' notes, once where several note the same with other numbers."""
    said = [note for one in everyone for note in one.notes]
    return list({re.sub(r"\d[\d,.]*", "#", note): note for note in reversed(said)}.values())[::-1]


def _unheld(everyone: Sequence[TrialReport]) -> str:
    """Says why nothing is proven of a command that used a card on which no process of it took a budget; empty where each did."""
    own = {report.facts.get(CARD) for report in everyone}
    more = {uuid: size for report in everyone for uuid, size in report.facts.get(OTHER_CARDS, {}).items() if uuid not in own}
    if not more:
        return ""
    held = ", ".join(f"{format_size(size)} of {uuid}" for uuid, size in more.items())
    return f"one process used several cards (beside its own {held}), and one card for each process is covered: start one for each card"


NO_STEP = (
    "the script ended before its first optimizer step; one that changes its weights without torch.optim has to train longer, for "
    f"{PATIENCE} backward passes"
)
OF_ITSELF = "the script accumulates {} micro-batches by itself, in each step that it was told to take"


def _no_model(status: int, orders: Orders) -> str:
    """Says why nothing was seen of a command: it has no training to be seen, or the probe was kept out of it."""
    if any(orders.scratch.glob(f"*/records/{LOADED}")):
        return f"the command came to its end (exit status {status}) without building a model: as it stands it trains nothing"
    nothing = "no Python process of the command built a model" if status == 0 else f"the command ended with exit status {status}"
    return f"{nothing} ({KEPT_OUT})"


def _ended_early(report: TrialReport, orders: Orders) -> TrialReport:
    """The script came to its own end: what it doesn't have needs no proof, what could not be seen is said."""
    facts = report.facts
    if orders.resumes and report.optimizer_steps:  # what comes after its first steps was proven by the process before it
        return dataclasses.replace(report, phase=Phase.DONE.value, absent=(Phase.VALIDATE.value, Phase.TRAIN_AGAIN.value))
    if facts.get("ended") == "given_up":
        return dataclasses.replace(report, hint=f"no validation came however long the script was fast-forwarded; {FORCE}")
    if not report.optimizer_steps:
        return dataclasses.replace(report, hint=NO_STEP)
    if facts.get("validated"):
        note = "the script ends after its validation: nothing trains after it"
        return dataclasses.replace(report, phase=Phase.DONE.value, absent=(Phase.TRAIN_AGAIN.value,), notes=(*report.notes, note))
    if facts.get("ended") == "exit" and (orders.payload.get("validation") == "none" or not facts.get("eval_signs")):
        early = "validates in its first steps alone; that was measured, and training after it is"
        shown = early if facts.get("validated_early") else "never validates: only training is"
        note = f"the script was followed to its end and {shown} proven"
        absent = (Phase.VALIDATE.value, Phase.TRAIN_AGAIN.value)
        return dataclasses.replace(report, phase=Phase.DONE.value, absent=absent, notes=(*report.notes, note))
    return dataclasses.replace(report, hint=f"the script ended, and its validation could not be followed; {FORCE}")


def _exit_failure(status: int, orders: Orders) -> Failure | None:
    """A failure for a command that left no exception behind: its own last words, or the signal."""
    if status == 0 or status < 0:
        return None
    text = _said(orders)
    last = next((line for line in reversed(text.splitlines()) if line.strip()), f"exit status {status}")
    return Failure(types=("ExitStatus",), message=f"{last}\nexit status {status}\n{text}", traceback=text)


def _said(orders: Orders) -> str:
    return tail(Path(orders.folder) / "stderr.log", most_bytes=20_000)


def _summed(everyone: Sequence[TrialReport], own: int) -> dict[str, int]:
    """Adds up what all processes take of the machine beside their device, and what they put into an optimizer step for each micro-batch
    that the script was told to accumulate."""
    sums = {name: sum(int(one.facts.get(name, 0)) for one in everyone) for name in (HELD_AHEAD, HOST_BESIDE, HOST_GROWTH)}
    each = [one.facts.get("samples") for one in everyone]
    samples = sum(one for one in each if isinstance(one, int)) * own if all(isinstance(one, int) for one in each) else 0
    return {name: size for name, size in {**sums, SAMPLES: samples}.items() if size}


def _ranks(trained: Sequence[TrialReport]) -> list[str]:
    if len(trained) < 2:
        return []
    samples = [report.observed.get("micro_batch") for report in trained]
    total = f"{sum(samples)} samples" if all(isinstance(one, int) for one in samples) else "their batches"  # type: ignore[arg-type]
    return [f"{len(trained)} processes train together: {total} in each step of theirs, times accumulation"]


_SUMMED = ("allocated_bytes", "reserved_bytes", "device_bytes", "outside_bytes", "retries", "ooms")
"""Figures that are added up over processes that share a memory."""


def _together(reports: Sequence[TrialReport], orders: Orders) -> tuple[Any, ...]:
    """Phase by phase what the processes used: on a CPU whose budget they share all of them together; else the one with most.
    Of a phase that a process came to more than once, the time with most counts: they needn't have come to it at the same times."""
    longest = max(reports, key=lambda report: len(report.uses))
    join = sum if orders.device == "cpu" and not orders.payload.get("apart") else max
    found = []
    for use in longest.uses:
        same = [[other for other in report.uses if other.phase == use.phase] for report in reports]
        sizes = {name: join(max(getattr(other, name) for other in ones) for ones in same if ones) for name in _SUMMED}
        found.append(dataclasses.replace(use, **sizes))
    return tuple(found)
