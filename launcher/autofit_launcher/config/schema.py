"""The keys of a recipe: typed, frozen models with a docstring under each field. Values live in conf/ and recipes/.

Validated in one go by ``recipe.checked``; past that gate nothing is a dictionary of unknown shape any more, except the trainer's
own arguments and the wheels' values, whose meaning belongs to the adapter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, WithJsonSchema

from autofit_launcher.common.sizes import MIB, parse_size
from autofit_launcher.ladder.rungs import Value


def _budget(said: Any) -> Any:
    """A size that a trainer could start in. Raises ValueError for less: 900 is what people write who mean MiB."""
    size = parse_size(said) if isinstance(said, str) else said
    if isinstance(size, int) and size < MIB:
        raise ValueError("It is in bytes, and no trainer starts in less than a MiB; say a unit, as in 900MiB or 16GiB")
    return size


Size = Annotated[int | None, BeforeValidator(_budget), WithJsonSchema({"type": ["integer", "string", "null"]})]
"""Bytes, or a text such as ``16GiB`` or ``800MiB``; bytes after validation."""


Headroom = Annotated[float, Field(ge=0, lt=1)]


class Part(BaseModel, extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True):
    """A section of a recipe: unknown keys are faults, no silent conversions, frozen."""


class WheelRule(Part):
    """Limits within which one wheel of the ladder may be turned."""

    values: tuple[Value, ...] | None = None
    """Values to fall back to after the asked one, best first. Null: derived (divisors, a grid, smaller models)."""
    floor: Value = None
    """The last value allowed: least micro-batch, least image size, smallest model. Null: the adapter's own."""
    grid: Annotated[int, Field(gt=0)] | None = None
    """Derived sizes are multiples of this: the model's stride for images, the hop for audio."""
    ratio: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Each derived size is about this fraction of the one before."""
    argument: str | None = None
    """The trainer's own argument that the wheel turns, where the adapter doesn't know the wheel."""
    acts_in: Literal["training", "validation", "both", "host"] | None = None
    """The part of a run in which the wheel saves memory: one that acts only in validation can't cure a failure in training; host: only
    beside the device, as loader workers or a cache of images do. Null: the adapter's own."""


class LadderRules(Part):
    """The wheels that turn, their order, and how far each of them turns."""

    order: tuple[str, ...]
    """Wheels that turn, the fastest first. The first rung that fits gives up least, in this order. Empty: nothing is turned."""
    wheels: dict[str, WheelRule] = {}
    """Rules by wheel name; a wheel without one uses the adapter's defaults."""
    keep_batch: bool = True
    """The effective batch is that of the asked configuration on every rung. False: it may go down with the micro-batch, accumulation
    stays as asked; what that means for the learning rate is told."""
    keep_update: bool = True
    """A rung whose twins show another update than the asked one is left out. False: it is launched with that difference, which is told."""
    search: Literal["predicted", "walk", "exhaustive"] = "predicted"
    """walk: skip what a real failure dominates. exhaustive: really try every rung down to the first that fits (the reference). predicted:
    go where a line through measured trials points; the same rung, in fewer trials."""


class TrainerRules(Part):
    """The trainer, and its own arguments in its own words."""

    adapter: str
    """Name of the adapter, from the entry-point group ``autofit.adapters``."""
    task: str | None = None
    """The trainer's task, where it can't be told from the model (Ultralytics: detect, segment, pose, obb)."""
    args: dict[str, Any] = {}
    """The trainer's own arguments; what a wheel turns is not said here but under ``ask``."""


def _cards(said: Any) -> Any:
    """Reads all, a number of cards, or which cards. Raises ValueError for anything else."""
    if said is None or said == "all" or (isinstance(said, int) and not isinstance(said, bool) and said > 0):
        return said
    which = tuple(said) if isinstance(said, (list, tuple)) else ()
    if which and all(isinstance(one, str) or (isinstance(one, int) and not isinstance(one, bool) and one >= 0) for one in which):
        return which
    raise ValueError("It is all, a number of cards (2), or which ones ([0,1], or UUIDs)")


Cards = Annotated[
    Any,  # "all", a number, or a tuple of numbers and UUIDs
    PlainValidator(_cards),
    WithJsonSchema({"anyOf": [{"const": "all"}, {"type": "integer", "minimum": 1}, {"type": "array", "minItems": 1}, {"type": "null"}]}),
]


class DeviceRules(Part):
    """The device to train on, and how much of it may be used."""

    kind: Annotated[Literal["auto", "cuda", "cpu"], BeforeValidator(lambda said: "cuda" if said == "gpu" else said)] = "auto"
    """auto takes a CUDA card where NVML finds one, else the CPU."""
    index: Annotated[int, Field(ge=0)] = 0
    """Number of the card to use, among the visible ones and from 0."""
    cards: Cards = None
    """Cards that train together, a process on each: all (that are visible), so many (2), or which ([0,1], or UUIDs). The smallest decides.
    On a CPU so many processes, each with the budget. Null: one card, ``index``."""
    memory: Size = None
    """Budget, such as 16GiB: plays a smaller card, or limits the CPU's memory. Null: all that is there."""
    headroom: Headroom | None = None
    """Fraction of the budget that a trial must leave free. Lower is faster training, closer to a late failure. Null: 0.1 of a card, 0.25
    of a CPU's budget, of which at least 64 MiB stay free unless it is 0."""
    host_headroom: Headroom = 0.1
    """Fraction that must stay free of what the machine has beside the device: host memory, /dev/shm, disk."""
    share: bool = False
    """True: accept a card that another process holds, and budget only what is free."""
    when_taken: Literal["wait", "stop"] = "wait"
    """Answer to another launch that has the card, or to others that come to it later: wait until it is free again, or stop."""
    taken_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds to wait at most each time; then the launch stops."""
    turns: bool | None = None
    """True: launches of autofit on the same device wait for each other (``share``: those that all say so have it together). Null: on a card
    they do, on a CPU they don't."""


class TrialRules(Part):
    """Rules of trials: how long and how hard a rung is really tried."""

    steps: Annotated[int, Field(ge=2)] = 2
    """Optimizer steps before validation; two at least, since optimizer state exists only after the first."""
    validation_batches: Annotated[int, Field(ge=2)] = 2
    """Validation batches; two at least, to see what validation keeps per batch."""
    steps_after: Annotated[int, Field(ge=1)] = 1
    """Optimizer steps after validation, where fragmentation kills."""
    resume: bool = True
    """True: what fits must also be able to go on from the checkpoint that its trial has saved, in a new process and below the same cap.
    Where the trainer's trial can, and the run may be resumed (``recover.restarts``)."""
    fresh: bool = False
    """True: make the trials even where a fit of the very same launch is kept (``autofit fits``)."""
    proof_timeout_s: Annotated[float, Field(ge=0)] = 300.0
    """Seconds in which a rung with more accumulation than asked is to be proven the same training. 0: it isn't tried."""
    timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Seconds after which a trial counts as stalled and is ended with all its children."""


class RecoverRules(Part):
    """Rules of recovery: what may be done to bring a run to its end that failed on the way."""

    restarts: Annotated[int, Field(ge=0)] = 5
    """Times that a run is started again after a failure; waits for a card don't count. 0: a failure ends it."""
    allow_restart: bool = False
    """True: may begin anew where no checkpoint can be gone on from: a smaller model, a trainer that can't resume. The run so far is put
    aside, not removed."""
    whole_saves: bool = True
    """True: the run writes a checkpoint beside its place first, so that a kill leaves the one before whole, and none that is torn."""
    on_nan: Literal["stop", "go_on"] = "stop"
    """A loss that isn't finite: stop; go_on: only say so. A run whose last report is not finite has diverged and is not done, whatever is
    said here."""
    nan_reports: Annotated[int, Field(ge=1)] = 3
    """Loss reports in a row that aren't finite before that is done."""
    stall_s: Annotated[float, Field(gt=0)] = 600.0
    """Seconds without output or anything computed after which a run or a trial has stalled. A trial that computes is ended by
    ``trial.timeout_s`` alone, a run that does by its own library (NCCL's watchdog)."""


class RunRules(Part):
    """Rules of runs: where their records go, and how a run is ended."""

    root: str = "runs/autofit"
    """Folder that gets one new folder for each launch."""
    grace_s: Annotated[float, Field(ge=0)] = 30.0
    """Seconds that a run has after Ctrl-C, SIGTERM or SIGHUP to save a checkpoint, before it is killed."""


class SlurmRules(Part):
    """Settings of a launch's SLURM job. Null: nothing is said of it, and the cluster's own default holds."""

    partition: str | None = None
    """sbatch --partition."""
    time: int | str | None = None
    """sbatch --time: minutes, or D-HH:MM:SS (in a file in quotes)."""
    gpus: int | str | None = None
    """sbatch --gpus-per-node, such as 1 or a100:1. Null: as many as ``device.cards`` (which counts among the job's own), and none where
    ``device.kind`` is cpu."""
    cpus: Annotated[int, Field(gt=0)] | None = None
    """sbatch --cpus-per-task."""
    mem: int | str | None = None
    """sbatch --mem, such as 16G; a number is MiB."""
    account: int | str | None = None
    """sbatch --account."""
    qos: str | None = None
    """sbatch --qos."""
    constraint: str | None = None
    """sbatch --constraint."""
    warn_s: Annotated[int, Field(gt=0)] = 120
    """Seconds before the job's time limit at which the run saves a checkpoint and ends, and its job is queued again. SLURM may warn up to a
    minute earlier."""
    setup: tuple[str, ...] = ()
    """Lines of shell before autofit starts in the job, such as module load cuda."""
    sbatch: dict[str, bool | int | float | str | None] = {}
    """Any flag of sbatch, without its dashes (mail-type, exclude, dependency); it has the last word. True: a flag without a value."""


class LaunchRules(Part):
    """The place where autofit itself runs."""

    kind: Literal["here", "slurm"] = "here"
    """here: in this process. slurm: in a SLURM job, which is handed in; autofit returns at once."""
    slurm: SlurmRules = SlurmRules()
    """Settings of that job."""


class Recipe(Part):
    """A recipe past the gate: a frozen value, everything checked that can be checked without the trainer."""

    name: str
    """Names the run folder. Default: the recipe's file name."""
    summary: str = ""
    """One line for ``autofit recipes``."""
    data: str | None = None
    """The data set, in the trainer's own form (Ultralytics: the path of a data.yaml)."""
    prepare: tuple[str, ...] | None = None
    """Command that makes ``data`` where it isn't there yet, as a list of words."""
    stand_in: tuple[str, ...] | None = None
    """Command that makes small data at its worst in the folder ``{data}``, for ``autofit plan`` where ``data`` isn't there."""
    ask: dict[str, Value]
    """The configuration asked for, rung 0: ``micro_batch``, optionally ``accumulation``, and the adapter's wheels."""
    trainer: TrainerRules
    ladder: LadderRules
    device: DeviceRules = DeviceRules()
    trial: TrialRules = TrialRules()
    recover: RecoverRules = RecoverRules()
    run: RunRules = RunRules()
    launch: LaunchRules = LaunchRules()
    rung: Annotated[int, Field(ge=0)] | None = None
    """Number of the rung that ``autofit trial`` tries."""
    _secrets: Mapping[str, str] = {}
    """Value -> variable of secrets of the environment in it."""


SECTIONS: Mapping[str, type[Part]] = {
    name: field.annotation
    for name, field in Recipe.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Part)
}
"""Name of a recipe's section -> its model. ``ask`` has none: its keys are the adapter's wheels."""


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFAULTS = {
    "type": "array",
    "description": "Groups that this recipe takes other options of: [override /ladder: keep_quality, _self_].",
    "items": {"anyOf": [{"const": "_self_"}, {"type": "object"}, {"type": "string"}]},
}


def of_a_file() -> dict[str, Any]:
    """A recipe says only what differs from the groups in conf/: no key is required of a file."""
    told = Recipe.model_json_schema()
    for part in (told, *told["$defs"].values()):
        part.pop("required", None)
    told["properties"]["defaults"] = _DEFAULTS
    return {"$schema": DIALECT, **told, "title": "A recipe of autofit's"}
