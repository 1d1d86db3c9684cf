"""autofit from Python, for notebooks and sweeps: the verbs of the command line, with their answer as a value.

    import autofit_launcher as autofit

    result = autofit.run(["python", "train.py", "--batch-size", "64"], {"device.memory": "16GiB"})
    result.rung["micro_batch"], result.accumulation, result.record["memory"]["run_peak_bytes"]

Each call is a process of the command ``autofit`` with this interpreter: nothing of Hydra's, of its signals or of its environment comes into
the calling process. What it says goes to standard error as it happens. Ctrl-C, or a
notebook's stop, is passed on once: the run saves what it has, and ``resume`` goes on with it.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher.config.hydra_overrides import quoted
from autofit_launcher.errors import Fault

__all__ = ["BadInput", "Error", "NoFit", "Result", "fit", "resume", "run", "train"]

Settings = Mapping[str, Any]
"""Keys of a recipe and their values, as on the command line: ``{"device.memory": "16GiB", "trainer.args.epochs": 3}``."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The end of a launch. Sizes are bytes."""

    status: str
    """``done``; where ``check=False`` also ``no_fit``, ``bad_input`` and the other states of a record."""
    exit_status: int
    """The command's: 0 done, 1 bad input, 3 no rung fits, 4 a trial crashed, 5 the run failed, 75 and 130 interrupted."""
    record: Mapping[str, Any]
    """All that is known, as in the run folder's ``record.json`` (docs/record.schema.json)."""

    rung: Mapping[str, Any]
    """The values of the wheels that it trains with, ``micro_batch`` among them; empty where nothing fits."""
    accumulation: int | None
    """Gradient accumulation steps."""
    effective_batch: int | None
    """Samples in an optimizer step (``record['batch_unit']`` where they are counted otherwise)."""
    command: str
    """The command that does the same without autofit."""
    folder: Path | None
    """The run's folder."""


class Error(Exception):
    """A launch didn't end as asked. ``result`` says how it ended."""

    def __init__(self, result: Result, said: str) -> None:
        super().__init__(said)
        self.result = result


class BadInput(Error):
    """The launch that was asked for can't be made, and nothing was started. The message names each key, the fault and the cure."""


class NoFit(Error):
    """No rung of the ladder fits."""


def train(recipe: Path | str, settings: Settings | None = None, *, folder: Path | str | None = None, check: bool = True) -> Result:
    """Finds what fits by really trying, then trains with it, as ``autofit train``.

    ``recipe``: a name or a file. ``folder``: where it is launched, the working folder by itself. Raises BadInput, NoFit and Error; with
    ``check=False`` nothing but for KeyboardInterrupt.
    """
    return _called(["train", f"recipe={recipe}", *_words(settings)], folder=folder, check=check)


def fit(recipe: Path | str, settings: Settings | None = None, *, folder: Path | str | None = None, check: bool = True) -> Result:
    """Trials only, as ``autofit fit``: the rung that fits, and the command that trains with it. Otherwise as ``train``."""
    return _called(["fit", f"recipe={recipe}", *_words(settings)], folder=folder, check=check)


def run(
    command: Sequence[str],
    settings: Settings | None = None,
    *,
    fit_only: bool = False,
    folder: Path | str | None = None,
    check: bool = True,
) -> Result:
    """Fits and launches a command of yours, unchanged, as ``autofit run -- COMMAND``. ``fit_only``: trials only. Otherwise as ``train``."""
    flags = ["--fit-only"] if fit_only else []
    return _called(["run", *flags, *_words(settings), "--", *command], folder=folder, check=check)


def resume(of: Path | str, *, folder: Path | str | None = None, check: bool = True) -> Result:
    """Goes on with a run that was interrupted or has failed, as ``autofit resume``. ``of``: its folder. Otherwise as ``train``."""
    return _called(["resume", str(of)], folder=folder, check=check)


def _words(settings: Settings | None) -> list[str]:
    return [f"{key}={_value(value)}" for key, value in (settings or {}).items()]


def _value(value: Any) -> str:
    """Writes a value in Hydra's grammar of overrides (hydra.cc/docs/advanced/override_grammar/basic)."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_value, value)) + "]"
    if isinstance(value, (int, float)):
        return str(value)
    return quoted(str(value))


def _called(words: Sequence[str], *, folder: Path | str | None, check: bool) -> Result:
    argv = [sys.executable, "-P", str(_ENTRY), "autofit_launcher", words[0], "--json", *words[1:]]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=_end_with_us) as child:
        try:
            said, _ = child.communicate()
        except BaseException:
            child.send_signal(signal.SIGINT)
            raise
    lines = said.decode().splitlines()
    record: dict[str, Any] = json.loads(lines[-1]) if lines else {"status": "stopped", "error": "it said nothing"}
    result = Result(
        status=record["status"],
        exit_status=child.returncode,
        record=record,
        rung=record.get("rung") or {},
        accumulation=record.get("accumulation"),
        effective_batch=record.get("effective_batch"),
        command=record.get("command") or "",
        folder=Path(record["run_dir"]) if record.get("run_dir") else None,
    )
    if check and result.exit_status:
        raise _error(result)
    return result


def _error(result: Result) -> Error:
    if result.status == "bad_input":
        return BadInput(result, "\n".join(str(Fault(**fault)) for fault in result.record["faults"]))
    kind = NoFit if result.exit_status == 3 else Error
    where = result.record.get("error") or result.folder or ""
    return kind(result, f"{result.status} (exit status {result.exit_status}) {where}".strip())


_ENTRY = Path(__file__).absolute().with_name("__main__.py")
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_us() -> None:
    """Has a launch on Linux ended, its checkpoint kept, when the thread that asked for it is gone (prctl(2))."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
