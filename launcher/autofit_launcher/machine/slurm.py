"""Talks to SLURM by its own commands, and hands jobs to it through submitit. Works without accounting (``sacct``).

A job's script ends with ``exec autofit ...``: the job's first process is autofit itself, so that the job's state is autofit's exit status,
and SIGTERM and the warning before the time limit reach autofit and nothing else (docs/decisions/010).
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autofit_launcher.errors import Fault, refusal
from autofit_launcher.machine import process

ASKED_S = 20.0
"""A controller that hasn't answered for so long isn't there."""
KEY = "launch.slurm"


def submit(argv: Sequence[str], place: Path, flags: Mapping[str, Any], *, more: Mapping[str, Any], setup: Sequence[str]) -> str:
    """Hands a job in; returns its id. Raises BadInput with sbatch's words if it isn't taken.

    ``place``: folder for its script and output, on a disk that the nodes see; ``flags``: sbatch's, in submitit's names, None for one that
    isn't said; ``more``: sbatch's own, which have the last word; ``setup``: lines of shell before the command.
    """
    if broken := next((name for name, said in {"run.root": place, **flags, **more}.items() if len(f"{name}{said}".splitlines()) > 1), ""):
        raise refusal(f"{broken!r} has more than one line", "Give it one: it is a line of the job's script.", key=KEY)
    from submitit.core.utils import FailedJobError, FailedSubmissionError
    from submitit.helpers import CommandFunction
    from submitit.slurm.slurm import SlurmExecutor

    place.mkdir(exist_ok=True)
    executor = SlurmExecutor(place)
    executor.update_parameters(
        **flags,
        wckey=None,
        use_srun=False,
        stderr_to_stdout=True,
        setup=[*setup, f"exec {shlex.join(argv)}"],  # what submitit writes behind it is never reached
        additional_parameters=dict(more),
    )
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit says sbatch's words there, and in its exception
            return str(executor.submit(CommandFunction(["true"])).job_id)
    except (FailedJobError, FailedSubmissionError) as error:
        words = dict.fromkeys(re.findall(r"^\s*sbatch: (?:error: |fatal: )?(.+)", str(error), re.MULTILINE))
        cure = f"Correct {KEY}.*; `sinfo` says which partitions there are, and whether SLURM's controller answers."
        raise refusal(f"SLURM didn't take the job: {'; '.join(words) or str(error)}", cure, key=KEY) from error
    finally:
        for pickled in place.glob("*.pkl"):  # the function, which is never called
            pickled.unlink()


def faults() -> list[Fault]:
    """Faults that keep jobs from being handed in here."""
    if (missing := next((one for one in ("sbatch", "squeue", "srun") if shutil.which(one) is None), None)) is not None:
        cure = "Type it where SLURM's commands are (a login node), or leave launch=slurm out to train here."
        return [Fault(key="launch", found=f"there is no {missing} here, so no job can be handed to SLURM", cure=cure)]
    if importlib.util.find_spec("submitit") is None:
        return [Fault(key="launch", found="launch=slurm needs submitit, which is not installed", cure="pip install submitit.")]
    return []


def job_state(job: str, *, name: str = "") -> tuple[str, str] | None:
    """Asks for (state, reason) of a job in SLURM's words; ("", "") for one that it doesn't know any more; None where it can't be asked.

    ``name``: a job of another name is another cluster's, or another time's.
    """
    argv = ("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r|%j")
    status, said = process.output_of(argv, timeout_s=ASKED_S)
    if status:
        return ("", "") if "invalid job id" in said.lower() else None
    state, _, rest = (said.splitlines() or [""])[0].partition("|")
    reason, _, called = rest.partition("|")
    return (state, "" if reason == "None" else reason) if name in ("", called) else ("", "")


def script_of(job: str) -> str:
    """Asks for the path of a job's script; empty where it isn't told."""
    status, said = process.output_of(("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%o"), timeout_s=ASKED_S)
    return said.strip() if not status and said.startswith("/") else ""


def end(job: str, *, waits: bool) -> str:
    """Takes a job that waits out of the queue, or sends SIGTERM to its first process, autofit, alone: that has all the time it needs to
    save. A reason if that can't be done, else empty."""
    return _refused("scancel", *([] if waits else ["--batch", "--signal=TERM"]), job)


def queue_again(job: str) -> str:
    """Ends this job's processes, and puts it into the queue once more under the same id; a reason if that can't be done, else empty."""
    return _refused("scontrol", "requeue", job)


def _refused(*argv: str) -> str:
    status, said = process.output_of(argv, timeout_s=ASKED_S)
    return said.strip() if status else ""
