"""Takes orders whose payload is somebody's own command line; runs the command itself with the probe loaded into it from outside,
and puts together what its processes saw.

This process only watches: the command runs with its own interpreter, its own launcher (torchrun, accelerate) and its own arguments.
Where it ended without a validation pass, it is tried once more with the whole length of its training passes fast-forwarded.

Payload: ``argv`` (list of words), ``env`` (added), ``files`` (path -> text, written first), ``micro_batch`` (as asked),
``accumulation`` (micro-batches per optimizer step in the trial), ``validation`` ("seek" or "none").
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.contract.orders import Orders
from launcher.contract.report import Failure, Phase, TrialReport
from launcher.trainers.script.inside.probe import settings as probe_settings
from launcher.trainers.script.inside.probe.settings import Settings
from launcher.worker.lifeline import die_with_parent
from launcher.worker.recorder import Recorder

SHIM = Path(__file__).parent / "probe" / "shim"
QUIET = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "debug",
    "MLFLOW_TRACKING_URI": "",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""No uploads, no downloads, no caches beside the person's files."""
FORCE = 'make it validate early with trainer.args.validation: {force: "--val-every 1"} (words of the script\'s own), or say {none: true}'
_TAIL_CHARACTERS = 20_000


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Leaves the report in the trial's folder whatever happened; a signal that ended the script ends this process too."""
    for path, text in orders.payload.get("files", {}).items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    status, reports = _attempt(orders, "cut")
    if status == 0 and _worth_following(reports, orders):
        again, followed = _attempt(orders, "full")
        if again == 0 or not _done(reports):
            status, reports = again, followed
    report = judged(reports, status, orders)
    report.write(orders.report_path)
    if status < 0 and report.failure is None:
        _die_alike(-status)


def _attempt(orders: Orders, mode: str) -> tuple[int, list[TrialReport]]:
    """Runs the command once. (exit status as subprocess gives it, what each of its processes reported)"""
    place = orders.scratch / mode
    records = place / "records"
    records.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="autofit-", ignore_cleanup_errors=True) as temporary:
        return _attempt_in(orders, mode, place, records, temporary)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _attempt_in(orders: Orders, mode: str, place: Path, records: Path, temporary: str) -> tuple[int, list[TrialReport]]:
    """``temporary``: a folder with a short path; sockets in it (data loader workers share tensors by them) have 108 bytes for theirs."""
    settings = place / "probe.json"
    overlay = str(place / "overlay")
    Settings(records=str(records), orders=dataclasses.asdict(orders), overlay=overlay, kept=(temporary,), mode=mode).write(settings)
    env = {
        **os.environ,
        **QUIET,
        "TMPDIR": temporary,
        "MPLBACKEND": "Agg",
        **{key: str(value) for key, value in orders.payload.get("env", {}).items()},
        **injected(settings),
    }
    child = subprocess.Popen(orders.payload["argv"], env=env, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    status = child.wait()
    broken = Path(f"{settings}.failed")
    if broken.exists():
        raise RuntimeError(f"the probe could not be loaded into the script's interpreter: {broken.read_text(encoding='utf-8').strip()}")
    reports = [report for path in sorted(records.glob("*/report.json")) if (report := TrialReport.read(path)) is not None]
    shutil.rmtree(place / "overlay", ignore_errors=True)
    return status, reports


def injected(settings: Path) -> dict[str, str]:
    """Variables that load the probe into every Python process of a command."""
    paths = [str(SHIM), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), probe_settings.VARIABLE: str(settings)}


def _die_alike(number: int) -> None:
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)


# ----------------------------------------------------------------------------------------------------------------------
# What the processes saw, put together


def _trained(reports: Sequence[TrialReport]) -> list[TrialReport]:
    return [report for report in reports if report.optimizer_steps]


def _done(reports: Sequence[TrialReport]) -> bool:
    return any(report.phase == Phase.DONE for report in reports)


def _worth_following(reports: Sequence[TrialReport], orders: Orders) -> bool:
    """Whether the command trained, ended well, and validated nowhere: its passes were cut, and that may be why."""
    trained = _trained(reports)
    return bool(trained) and not _done(reports) and not any(report.failure or report.facts.get("validated") for report in trained)


def judged(reports: Sequence[TrialReport], status: int, orders: Orders) -> TrialReport:
    """One report of all processes: the failing one's failure, the most memory of any, the validation of the one that validated."""
    trained = _trained(reports)
    failed = next((report for report in (*trained, *reports) if report.failure is not None), None)
    main = failed or max(trained or reports, key=lambda report: (report.phase == Phase.DONE, report.validation_batches), default=None)
    if main is None:
        nothing = "no Python process of the command built a model" if status == 0 else f"the command ended with exit status {status}"
        return TrialReport(hint=f"{nothing} (python -I, -E and -S keep the probe out)", failure=_exit_failure(status, orders))
    everyone = trained or [main]
    report = dataclasses.replace(
        main,
        uses=_most(everyone) if len(everyone) > 1 and failed is None else main.uses,
        validation_batches=max(one.validation_batches for one in everyone) if failed is None else main.validation_batches,
        swallowed=tuple(dict.fromkeys(text for one in reports for text in one.swallowed)),
        notes=tuple(dict.fromkeys(note for one in everyone for note in one.notes)),
    )
    if report.failure is None and status != 0:
        report = dataclasses.replace(report, failure=_exit_failure(status, orders))
    if report.failure is not None and report.facts.get("failed_forwarding"):
        report = dataclasses.replace(
            report, failure=None, hint=f"fast-forward broke the script ({report.failure.message.splitlines()[0]}); {FORCE}"
        )
    if report.failure is None and report.phase != Phase.DONE:
        report = _ended_early(report, orders)
    return report


def _ended_early(report: TrialReport, orders: Orders) -> TrialReport:
    """The script came to its own end: what it doesn't have needs no proof, what could not be seen is said."""
    facts = report.facts
    if facts.get("ended") == "given_up":
        return dataclasses.replace(report, hint=f"no validation came however long the script was fast-forwarded; {FORCE}")
    if not report.optimizer_steps:
        return dataclasses.replace(report, hint="the script ended before its first optimizer step")
    if facts.get("validated"):
        note = "the script ends after its validation: nothing trains after it"
        return dataclasses.replace(report, phase=Phase.DONE.value, absent=(Phase.TRAIN_AGAIN.value,), notes=(*report.notes, note))
    if facts.get("ended") == "exit" and (orders.payload.get("validation") == "none" or not facts.get("eval_signs")):
        note = "the script was followed to its end and never validates: only training is proven"
        absent = (Phase.VALIDATE.value, Phase.TRAIN_AGAIN.value)
        return dataclasses.replace(report, phase=Phase.DONE.value, absent=absent, notes=(*report.notes, note))
    return dataclasses.replace(report, hint=f"the script ended, and its validation could not be followed; {FORCE}")


def _exit_failure(status: int, orders: Orders) -> Failure | None:
    """A failure for a command that left no exception behind: its own last words, or the signal."""
    if status == 0 or status < 0:
        return None
    text = _tail(Path(orders.folder) / "stderr.log")
    last = next((line for line in reversed(text.splitlines()) if line.strip()), f"exit status {status}")
    return Failure(types=("ExitStatus",), message=f"{last}\nexit status {status}\n{text}", traceback=text)


def _tail(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:]
    except OSError:
        return ""


def _most(reports: Sequence[TrialReport]) -> tuple[Any, ...]:
    """Phase by phase the process that used most."""
    longest = max(reports, key=lambda report: len(report.uses))
    found = []
    for use in longest.uses:
        same = [other for report in reports for other in report.uses if other.phase == use.phase]
        found.append(
            dataclasses.replace(
                use,
                allocated_bytes=max(other.allocated_bytes for other in same),
                reserved_bytes=max(other.reserved_bytes for other in same),
                device_bytes=max(other.device_bytes for other in same),
                outside_bytes=max(other.outside_bytes for other in same),
                retries=max(other.retries for other in same),
                ooms=max(other.ooms for other in same),
            )
        )
    return tuple(found)
