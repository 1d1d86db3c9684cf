"""The run folder of a launch: the names of all its files, and how they are written.

runs/autofit/RECIPE-DATE-TIME/
  .gitignore           that git has nothing to say of this folder: the person's own status stays clean
  recipe.yaml          the composed recipe, as validated; recipe.asked.yaml, if trials have shown that another was meant, the typed one
  owner.json           which process runs this, on which machine, since when and until when; locked while it lives (``owner``)
  submission.json      the SLURM job that it was handed to (``submission``), and slurm/: that job's script, and what autofit said in it
  trials/NNN/          orders.json, report.json, stdout.log, stderr.log, verdict.json of rung NNN; fetch.log where a model was
                       downloaded for it, config/ where a script is given a changed configuration file
  trials/NNN/scratch/  what its trainer writes, only while it is tried; trials/cache/, what the trials share, until the launch ends
  native/              what the full run needs to be repeated without autofit
  command.sh           the equivalent native command, at the rung that was launched last
  native/attempt-1.sh  (2, 3, ...) what an attempt of a run that had to be started again went on with
  held/PID.json        what libraries held in a process of the full run when it took its budget; held.N/ of attempt N
  run/                 what the trainer itself wrote; run.attempt-N/ what attempt N had written where the run began anew after it
  run.stdout.log, run.stderr.log   of the first attempt; run.stdout.N.log, run.stderr.N.log of attempt N
  stalled.1.txt        (2, 3, ...) where the processes of an attempt stood when nothing had come from it for too long
  series.jsonl         what the full run used and how far it had come, over time (``series``)
  report.html          the launch as a page to look at, written at its end (``page``)
  record.json          the launch as it is, and in the end how it ended; the same that --json prints (``records``)
"""

from __future__ import annotations

import itertools
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from autofit_launcher.common import files
from autofit_launcher.errors import BadInput, Fault


@dataclass(frozen=True, slots=True)
class _Named:
    """A file or folder in a run folder, by its name there."""

    name: str

    def __get__(self, folder: RunFolder, of: type[RunFolder]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One launch's folder."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, *, now: datetime | None = None) -> RunFolder:
        """Makes a new folder, with a name that no other launch has or gets.

        Raises BadInput if the file system refuses (full, read-only, not a folder).
        """
        base = f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}-{now or datetime.now():%Y%m%d-%H%M%S}"
        try:
            root.mkdir(parents=True, exist_ok=True)
            for number in itertools.count(1):
                path = root / (base if number == 1 else f"{base}-{number}")
                with suppress(FileExistsError):
                    path.mkdir(mode=0o700)  # what is typed, and an environment, may hold secrets
                    break
            (path / "trials").mkdir()
            (path / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise BadInput([no_run_folder(root, error)]) from error
        return cls(path.resolve())

    recipe = _Named("recipe.yaml")
    asked = _Named("recipe.asked.yaml")
    native = _Named("native")
    command = _Named("command.sh")
    run = _Named("run")
    report = _Named("report.html")
    series = _Named("series.jsonl")
    record = _Named("record.json")
    trials = _Named("trials")
    cache = _Named("trials/cache")

    def launched(self) -> float:
        """Tells when its recipe was written, in seconds since 1970."""
        return self.recipe.stat().st_mtime

    def attempt(self, number: int) -> AttemptFiles:
        """The files of one attempt at the full run; the first attempt is 1."""
        return AttemptFiles(self.path, number)

    def forget_cache(self) -> None:
        """Removes the trials' shared cache; called at the launch's end."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def trial(self, rung_index: int) -> Path:
        """The folder of one rung's trial, made on first use."""
        path = self.trials / f"{rung_index:03d}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    replace, replace_json = staticmethod(files.replace), staticmethod(files.replace_json)


class AttemptFiles:
    """One attempt's own files in the run folder."""

    def __init__(self, folder: Path, number: int) -> None:
        nth = f".{number}" if number > 1 else ""
        self.number = number
        self.stdout, self.stderr = folder / f"run.stdout{nth}.log", folder / f"run.stderr{nth}.log"
        self.processes = folder / f"held{nth}"
        """Folder in which its processes write the base above which they hold themselves to the budget, and their optimizer steps."""
        self.command = folder / "native" / f"attempt-{number}.sh"


def no_run_folder(root: Path, why: OSError) -> Fault:
    """The fault if no run folder can be made in ``root``."""
    cure = "Set run.root to a folder that you can write, on a disk with room."
    return Fault(key="run.root", found=f"can't make a run folder in {root}: {why.strerror or why}", cure=cure)
