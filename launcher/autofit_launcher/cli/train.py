"""Verbs that launch: of a recipe train, fit, ladder and trial; of a command behind ``--`` run and init; of a run that was begun resume."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from autofit_launcher.adapter.recognised import free_batch
from autofit_launcher.cli import library, recognise, report, submit, suggestions
from autofit_launcher.cli.call import Answer, Call, Task
from autofit_launcher.cli.launch_view import Display
from autofit_launcher.cli.say import Terminal, table
from autofit_launcher.common.words import masked
from autofit_launcher.config.recipe import Draft
from autofit_launcher.config.recipe_files import hides
from autofit_launcher.engine import launch as engine
from autofit_launcher.engine import prepare
from autofit_launcher.engine.launch import Launch
from autofit_launcher.engine.prepare import Resumable
from autofit_launcher.errors import ExitCode, refusal
from autofit_launcher.history.run_folder import RunFolder
from autofit_launcher.history.runs import find, newest
from autofit_launcher.ladder import rungs
from autofit_launcher.paths import short


def train(call: Call) -> Iterable[Task]:
    return each(call, call.words, launch)


def fit(call: Call) -> Iterable[Task]:
    return each(call, call.words, partial(launch, fit_only=True))


def ladder(call: Call) -> Iterable[Task]:
    return each(call, call.words, _ladder)


def trial(call: Call) -> Iterable[Task]:
    return each(call, call.words, _trial)


def run(call: Call) -> Iterable[Task]:
    """Launches the command as a recipe that is written nowhere, then as with any recipe."""
    understood, words = recognise.of_call(call), call.words
    if "--allow-batch" in call.flags:
        understood, words = free_batch(understood), (*words, "ladder.keep_batch=false")
    if "--allow-difference" in call.flags:
        words = (*words, "ladder.keep_update=false")
    name = recognise.name_of(understood)
    drafted = {name: recognise.recipe(understood, name=name)}
    return each(call, (f"recipe={name}", *words), partial(launch, fit_only="--fit-only" in call.flags), drafted=drafted)


def init(call: Call) -> Answer:
    understood = recognise.of_call(call)
    name = recognise.name_of(understood)
    text = recognise.recipe(understood, name=name)
    if masked(text) != text:
        call.terminal.complain(
            "it holds what looks like a secret, as it was typed: write ${oc.env:NAME} there, which is read when it is launched"
        )
    return library.keep(call, name, text.encode(), other="Rename it, or edit it.")


def resume(call: Call) -> Answer:
    named = bool(call.words) and "=" not in call.words[0]
    if named and not call.words[0]:
        raise refusal("no run is named", "autofit resume RUN; `autofit runs` lists them.")
    folder = find(call.words[0]) if named else newest()
    words = call.words[1:] if named else call.words
    if not named:
        call.terminal.say(f"the newest run: {folder}")
    handed = submit.refuse_while_queued(folder)
    if handed is None or (folder / "record.json").exists():
        return go_on(prepare.resumable(folder, words), call.terminal)
    draft = prepare.draft_of(folder, words)  # handed to SLURM, and nobody has begun it yet: this process is in its job, or hands it in anew
    if submit.is_wanted(draft):
        return submit.hand_in(draft, call.terminal, fit_only=handed.fit_only, folder=folder)
    os.chdir(handed.cwd)
    return launch(draft, call.terminal, fit_only=handed.fit_only, folder=RunFolder(folder))


def each(
    call: Call, words: Sequence[str], body: Callable[[Draft, Terminal], Answer], *, drafted: Mapping[str, str] | None = None
) -> Iterable[Task]:
    """A job for each recipe that the words compose to; where there are several, each says first by which words it came about.

    ``drafted``: recipes that are written nowhere.
    """
    made = suggestions.drafts(words, program=f"autofit {call.verb}", drafted=drafted, show=call.terminal.say)
    for file in dict.fromkeys(draft.provenance.file for draft in made):
        if file is not None and hides(file):
            call.terminal.say(f"{short(file)} is taken in place of the built-in recipe of that name")

    def told(draft: Draft) -> Answer:
        if len(made) > 1:
            call.terminal.say(" ".join(word.lstrip("+") for word in draft.provenance.overrides))
        return body(draft, call.terminal)

    return (partial(told, draft) for draft in made)


def launch(draft: Draft, terminal: Terminal, *, fit_only: bool = False, folder: RunFolder | None = None) -> Answer:
    """Makes trials, then the full run at the rung that fits, or the command for it. ``folder``: of a launch that was handed to the SLURM
    job that this process runs in."""
    if submit.is_wanted(draft):
        return submit.hand_in(draft, terminal, fit_only=fit_only)
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


def _told(result: Launch, display: Display) -> Answer:
    """The answer, with the command of a launch that only looked for it."""
    if result.show is None and result.command is not None:
        display.launched(result.command.shell())
    return Answer(status=result.exit_code, record=result.as_record())


def go_on(begun: Resumable, terminal: Terminal) -> Answer:
    """Goes on with a launch. One that is done stays as it is."""
    if begun.done:
        terminal.say(f"{begun.folder.path} has come to its end already; nothing was changed")
        return Answer(status=ExitCode.DONE, record=begun.record.written())
    if submit.is_wanted(begun.draft):
        return submit.hand_in(begun.draft, terminal, fit_only=bool(begun.record.fit_only), folder=begun.folder.path)
    display = Display(terminal.console)
    with report.at_the_end(begun.folder, terminal):
        return _told(engine.go_on(begun, display, show=terminal.streams()), display)


def _ladder(draft: Draft, terminal: Terminal) -> Answer:
    ladder = prepare.ladder_of(draft)
    rows = []
    for rung in ladder.rungs:
        values = {name: rungs.value(value) for name, value in rung.values.items()}
        rows.append({"rung": str(rung.index), **values, "accum": str(rung.accumulation), "effective": str(rung.effective_batch)})
    table(terminal.console, rows)
    told = [one.told for one in ladder.rungs]
    return Answer(status=ExitCode.DONE, record={"status": "done", "effective_batch": ladder.effective_batch, "rungs": told})


def _trial(draft: Draft, terminal: Terminal) -> Answer:
    if submit.is_wanted(draft):
        raise refusal("launch=slurm, and `autofit trial` runs here", "Leave it out, or hand in train, fit or run.", key="launch.kind")
    display = Display(terminal.console)
    tried, record = engine.try_one(draft, display)
    display.reported(tried)
    status = ExitCode.DONE if tried.verdict.fits else ExitCode.NO_RUNG_FITS
    if not tried.verdict.fits and not tried.verdict.lower_rung_may_help:
        status = ExitCode.TRIAL_CRASHED
    return Answer(status=status, record=record)
