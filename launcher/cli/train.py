"""Verbs that take a recipe: train, fit, ladder, trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from launcher.cli import report, submit
from launcher.cli.call import Answer, Call, Task
from launcher.cli.detach import detached, wants_detach
from launcher.cli.terminal import Terminal
from launcher.config import compose
from launcher.errors import ExitCode

if TYPE_CHECKING:
    from launcher.config.recipe import Draft
    from launcher.engine.resumption import Resumable
    from launcher.history.run_folder import RunFolder


def train(call: Call) -> Iterator[Task]:
    return iter([partial(detached, call)]) if wants_detach(call) else _launches(call, train_draft)


def fit(call: Call) -> Iterator[Task]:
    return _launches(call, fit_draft)


def _launches(call: Call, body: Callable[[Draft, Terminal], Answer]) -> Iterator[Task]:
    """The verb's body for each recipe here; or all of them through another launcher of Hydra's, where one is chosen."""
    if not (words := compose.launcher_words(call.words)):
        return _each(call, body)
    from launcher.cli import suggestions, sweep

    drafts = compose.drafts(call.words, program=f"autofit {call.verb}", advice=suggestions)
    return iter([partial(sweep.through, words, drafts, call.terminal, fit_only=call.verb == "fit")])


def ladder(call: Call) -> Iterator[Task]:
    return _each(call, _ladder)


def trial(call: Call) -> Iterator[Task]:
    def body(draft: Draft, terminal: Terminal) -> Answer:
        submit.refuse(call, draft, by_hydra=compose.launcher_words(call.words))
        return _trial(draft, terminal)

    return _each(call, body)


def _each(call: Call, body: Callable[[Draft, Terminal], Answer]) -> Iterator[Task]:
    """The verb's body for each recipe that the words compose to."""
    from launcher.cli import suggestions

    return each_of(compose.drafts(call.words, program=f"autofit {call.verb}", advice=suggestions), call.terminal, body)


def each_of(drafts: Sequence[Draft], terminal: Terminal, body: Callable[[Draft, Terminal], Answer]) -> Iterator[Task]:
    """A job for each; where there are several, each says first by which words it came about."""

    def told(draft: Draft) -> Answer:
        if len(drafts) > 1:
            terminal.say(" ".join(word.lstrip("+") for word in draft.provenance.overrides))
        return body(draft, terminal)

    return (partial(told, draft) for draft in drafts)


def train_draft(draft: Draft, terminal: Terminal, *, folder: RunFolder | None = None) -> Answer:
    """Trials, then the full run at the rung that fits. ``folder``: of a launch that was handed to the job that this process runs in."""
    if submit.is_wanted(draft):
        return submit.draft(draft, terminal)
    from launcher.cli.launch_view import Display
    from launcher.engine import launch, prepare, resumption

    if folder is None and (begun := submit.begun_before(draft)) is not None:
        terminal.say(f"an earlier start of this SLURM job began it: {begun}")
        return go_on(resumption.resumable(begun), terminal)
    display = Display(terminal.console)
    job = prepare.prepare_search(draft, display.hear, folder=folder)
    with report.at_the_end(job.folder, terminal):
        result = launch.train(job, show=terminal.streams())
    return Answer(status=result.exit_code, record=result.as_record())


def go_on(begun: Resumable, terminal: Terminal) -> Answer:
    """Goes on with a launch. One that is done stays as it is."""
    from launcher.cli.launch_view import Display
    from launcher.engine import launch

    if begun.done:
        terminal.say(f"{begun.folder.path} has come to its end already; nothing was changed")
        return Answer(status=ExitCode.DONE, record=begun.record.written())
    if submit.is_wanted(begun.draft):
        return submit.again(begun.folder.path, begun.draft, terminal, fit_only=bool(begun.record.fit_only))
    display = Display(terminal.console)
    with report.at_the_end(begun.folder, terminal):
        result = launch.go_on(begun, display.hear, show=terminal.streams())
    if result.fit_only and result.command is not None:
        display.command(result.command.shell())
    return Answer(status=result.exit_code, record=result.as_record())


def fit_draft(draft: Draft, terminal: Terminal, *, folder: RunFolder | None = None) -> Answer:
    """Trials, and the command that they would launch."""
    if submit.is_wanted(draft):
        return submit.draft(draft, terminal, fit_only=True)
    from launcher.cli.launch_view import Display
    from launcher.engine import launch, prepare

    display = Display(terminal.console)
    result = launch.fit(prepare.prepare_search(draft, display.hear, folder=folder))
    if result.command is not None:
        display.command(result.command.shell())
    return Answer(status=result.exit_code, record=result.as_record())


def _ladder(draft: Draft, terminal: Terminal) -> Answer:
    from launcher.cli import rungs_view
    from launcher.engine import prepare

    ladder = prepare.ladder_of(draft)
    rungs_view.ladder(ladder, terminal.console)
    rungs = [one.told for one in ladder.rungs]
    return Answer(status=ExitCode.DONE, record={"status": "done", "effective_batch": ladder.effective_batch, "rungs": rungs})


def _trial(draft: Draft, terminal: Terminal) -> Answer:
    from launcher.cli.launch_view import Display
    from launcher.engine import launch

    tried, record = launch.try_one(draft, Display(terminal.console).hear)
    status = ExitCode.DONE if tried.verdict.fits else ExitCode.NO_RUNG_FITS
    if not tried.verdict.fits and not tried.verdict.lower_rung_may_help:
        status = ExitCode.TRIAL_CRASHED
    return Answer(status=status, record=record)
