"""Verbs that launch: of a recipe train, fit, ladder and trial; of a command behind ``--`` run and init."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from autofit_launcher.cli import library, report, submit
from autofit_launcher.cli.call import Answer, Call, Takes, Task, verb
from autofit_launcher.cli.detach import DETACH, detached, wants_detach
from autofit_launcher.cli.say import Terminal
from autofit_launcher.errors import ExitCode

if TYPE_CHECKING:
    from autofit_launcher.cli.launch_view import Display
    from autofit_launcher.config.recipe import Draft
    from autofit_launcher.engine.launch import Fit
    from autofit_launcher.engine.prepare import Resumable
    from autofit_launcher.history.run_folder import RunFolder


@verb(
    "recipe=NAME [data=...] [KEY=VALUE ...]",
    "find what fits by really trying, then train with it",
    Takes.RECIPE,
    flags=DETACH,
    more="Trials run down the ladder until a rung fits; the full run is launched there, and seen through to its end.",
    examples=("autofit train recipe=yolo_demo", "autofit train recipe=yolov8x_a100 data=datasets/all/dataset.yaml device=0"),
)
def train(call: Call) -> Iterable[Task]:
    return [partial(detached, call)] if wants_detach(call) else each(call, call.words, launch)


@verb(
    "recipe=NAME [data=...] [KEY=VALUE ...]",
    "trials only: the rung that fits, the native command",
    Takes.RECIPE,
    examples=("autofit fit recipe=yolo_demo ask.micro_batch=16", "autofit fit recipe=yolo_demo device.memory=2GiB"),
)
def fit(call: Call) -> Iterable[Task]:
    return each(call, call.words, partial(launch, fit_only=True))


@verb(
    "recipe=NAME [KEY=VALUE ...]",
    "every rung it may fall back to; nothing is run",
    Takes.RECIPE,
    examples=("autofit ladder recipe=yolo_demo ladder=keep_quality",),
)
def ladder(call: Call) -> Iterable[Task]:
    return each(call, call.words, _ladder)


@verb(
    "recipe=NAME [data=...] rung=7",
    "one rung, really tried, phase by phase",
    Takes.RECIPE,
    more="`autofit ladder` numbers them.",
    examples=("autofit trial recipe=yolo_demo rung=2",),
)
def trial(call: Call) -> Iterable[Task]:
    return each(call, call.words, _trial)


_GIVE_UP = {
    "--give-up NAMES": "what may be given up, by name, where nothing else fits (image_size,sequence_length,model): unasked nothing is"
}
_UNDERSTOOD = {
    "--checkpointing": "checkpoint the model's repeated modules where less doesn't fit (slower, the same training)",
    "--set VALUE": "the value of the script's own that is its batch size, named as the source has it: \"CONFIG['batch']\"",
}


@verb(
    "[FLAG ...] [KEY=VALUE ...] -- COMMAND",
    "the same for a command you have, without a recipe",
    Takes.COMMAND,
    flags={
        "--fit-only": "trials only, as `autofit fit`",
        **_GIVE_UP,
        "--allow-batch": "accept another effective batch than the asked one, where the command has no word for accumulation",
        "--allow-difference": "launch a rung though its update was shown to differ from the asked one, with that difference told",
        **_UNDERSTOOD,
        **DETACH,
    },
    more="The script is not edited. What stands behind -- is yours, byte for byte.",
    examples=("autofit run -- python train.py --batch-size 64", "autofit run device.memory=16GiB -- torchrun train.py --bs 32"),
)
def run(call: Call) -> Iterable[Task]:
    """Launches the command as a recipe that is written nowhere, then as with any recipe."""
    from autofit_launcher.adapter.recognised import free_batch
    from autofit_launcher.cli import recognise

    if wants_detach(call):
        return [partial(detached, call)]
    understood, words = recognise.of_call(call), call.words
    if "--allow-batch" in call.flags:
        understood, words = free_batch(understood), (*words, "ladder.keep_batch=false")
    if "--allow-difference" in call.flags:
        words = (*words, "ladder.keep_update=false")
    name = recognise.name_of(understood)
    drafted = {name: recognise.recipe(understood, name=name)}
    return each(call, (f"recipe={name}", *words), partial(launch, fit_only="--fit-only" in call.flags), drafted=drafted)


@verb(
    "[FLAG ...] -- COMMAND",
    "what was understood of it, as a recipe of your own",
    Takes.COMMAND,
    flags={**_GIVE_UP, **_UNDERSTOOD},
    more="It goes into ./recipes, never over one that is there.",
    examples=("autofit init -- python train.py --batch-size 64",),
)
def init(call: Call) -> Answer:
    from autofit_launcher.cli import recognise

    understood = recognise.of_call(call)
    name = recognise.name_of(understood)
    return library.keep(call, name, recognise.recipe(understood, name=name).encode(), other="Rename it, or edit it.")


# -- launches


def each(
    call: Call, words: Sequence[str], body: Callable[[Draft, Terminal], Answer], *, drafted: Mapping[str, str] | None = None
) -> Iterable[Task]:
    """A job for each recipe that the words compose to; where there are several, each says first by which words it came about.

    ``drafted``: recipes that are written nowhere.
    """
    from autofit_launcher.cli import suggestions

    made = suggestions.drafts(words, program=f"autofit {call.verb}", drafted=drafted)

    def told(draft: Draft) -> Answer:
        if len(made) > 1:
            call.terminal.say(" ".join(word.lstrip("+") for word in draft.provenance.overrides))
        return body(draft, call.terminal)

    return (partial(told, draft) for draft in made)


def launch(draft: Draft, terminal: Terminal, *, fit_only: bool = False, folder: RunFolder | None = None) -> Answer:
    """Makes trials, then the full run at the rung that fits, or the command for it. ``folder``: of a launch that was handed to the SLURM
    job that this process runs in."""
    if submit.is_wanted(draft):
        return submit.draft(draft, terminal, fit_only=fit_only)
    from autofit_launcher.cli.launch_view import Display
    from autofit_launcher.engine import launch as engine
    from autofit_launcher.engine import prepare

    if folder is None and not fit_only and (begun := submit.begun_before(draft)) is not None:
        terminal.say(f"an earlier start of this SLURM job began it: {begun}")
        return go_on(prepare.resumable(begun), terminal)
    display = Display(terminal.console)
    prepare.refuse_a_rung(draft)
    job = prepare.prepare(draft, display.say, folder=folder)
    if fit_only:
        return _told(engine.begin(job, display), display)
    with report.at_the_end(job.folder, terminal):
        return _told(engine.begin(job, display, show=terminal.streams()), display)


def _told(result: Fit, display: Display) -> Answer:
    """The answer, with the command of a launch that only looked for it."""
    if result.fit_only and result.command is not None:
        display.launched(result.command.shell())
    return Answer(status=result.exit_code, record=result.as_record())


def go_on(begun: Resumable, terminal: Terminal) -> Answer:
    """Goes on with a launch. One that is done stays as it is."""
    from autofit_launcher.cli.launch_view import Display
    from autofit_launcher.engine import launch as engine

    if begun.done:
        terminal.say(f"{begun.folder.path} has come to its end already; nothing was changed")
        return Answer(status=ExitCode.DONE, record=begun.record.written())
    if submit.is_wanted(begun.draft):
        return submit.again(begun.folder.path, begun.draft, terminal, fit_only=bool(begun.record.fit_only))
    display = Display(terminal.console)
    with report.at_the_end(begun.folder, terminal):
        return _told(engine.go_on(begun, display, show=terminal.streams()), display)


def _ladder(draft: Draft, terminal: Terminal) -> Answer:
    from autofit_launcher.cli.say import table
    from autofit_launcher.engine import prepare
    from autofit_launcher.ladder import rungs

    ladder = prepare.ladder_of(draft)
    rows = []
    for rung in ladder.rungs:
        values = {name: rungs.value(value) for name, value in rung.values.items()}
        rows.append({"rung": str(rung.index), **values, "accum": str(rung.accumulation), "effective": str(rung.effective_batch)})
    table(terminal.console, rows)
    told = [one.told for one in ladder.rungs]
    return Answer(status=ExitCode.DONE, record={"status": "done", "effective_batch": ladder.effective_batch, "rungs": told})


def _trial(draft: Draft, terminal: Terminal) -> Answer:
    from autofit_launcher.cli import outcome_view
    from autofit_launcher.cli.launch_view import Display
    from autofit_launcher.engine import launch

    submit.refuse(draft, "trial")
    tried, record = launch.try_one(draft, Display(terminal.console))
    outcome_view.phases(terminal.console, tried)
    status = ExitCode.DONE if tried.verdict.fits else ExitCode.NO_RUNG_FITS
    if not tried.verdict.fits and not tried.verdict.lower_rung_may_help:
        status = ExitCode.TRIAL_CRASHED
    return Answer(status=status, record=record)
