"""Tells Weights & Biases and the script itself what autofit chose, by variables of the full run. Nothing that trains reads them."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.history.records import Record
from launcher.ladder.rungs import Rung
from launcher.shared.sizes import format_size
from launcher.trial.job import Job

WANDB_TAGS = "WANDB_TAGS"

Facts = Mapping[str, int | str]


def facts(job: Job, rung: Rung) -> Facts:
    """The facts of an attempt at this rung. Sizes are bytes; without ``trial_peak_bytes`` where the rung itself was not tried."""
    record = Record.read(job.folder.record) or Record()
    tried = next((one for one in reversed(record.trials) if one.rung_index == rung.index), None)
    return {
        "rung": rung.index,
        **{name: value for name, value in rung.values.items() if isinstance(value, (int, str))},
        "accumulation": rung.accumulation,
        "effective_batch": tried.effective_batch if tried is not None else rung.effective_batch,
        **({"trial_peak_bytes": tried.peak_bytes} if tried is not None else {}),
        "cap_bytes": job.budget.cap_bytes,
        "budget_bytes": job.budget.budget_bytes,
        "run_dir": str(job.folder.path),
    }


def environment(told: Facts, theirs: Mapping[str, str]) -> dict[str, str]:
    """Variables for the full run: W&B's tags, and each fact as ``AUTOFIT_...``. ``theirs``: what the run would have without; tags stay."""
    words = {name: format_size(int(value)) if name.endswith("_bytes") else str(value) for name, value in told.items() if name != "run_dir"}
    tags = (f"autofit {name.removesuffix('_bytes').replace('_', ' ')} {word.replace(',', ' ')}"[:64] for name, word in words.items())
    own = {f"AUTOFIT_{name.upper()}": str(value) for name, value in told.items()}
    return {**own, WANDB_TAGS: ",".join(filter(None, (theirs.get(WANDB_TAGS), *tags)))}
