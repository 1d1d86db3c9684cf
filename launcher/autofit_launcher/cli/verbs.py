"""THE list of verbs. The help, completion and what is said of an unknown verb come from it; nothing else knows them all.

A new verb is one ``Verb`` here, and one function in the module that says what it is about.
"""

from __future__ import annotations

from autofit_launcher.cli.call import Verb
from autofit_launcher.errors import did_you_mean, refusal

_DETACH = {"--detach": "go on in the background when this terminal is closed; `autofit watch` shows it"}
_UNDERSTOOD = {
    "--give-up NAMES": "what may be given up, by name, where nothing else fits (image_size,sequence_length,model): unasked nothing is",
    "--checkpointing": "checkpoint the model's repeated modules where less doesn't fit (slower, the same training)",
    "--set VALUE": "the value of the script's own that is its batch size, named as the source has it: \"CONFIG['batch']\"",
}
_RUN = {
    "--fit-only": "trials only, as `autofit fit`",
    "--allow-batch": "accept another effective batch than the asked one, where the command has no word for accumulation",
    "--allow-difference": "launch a rung though its update was shown to differ from the asked one, with that difference told",
    **_UNDERSTOOD,
    **_DETACH,
}
_RUNS = {
    "--peaks": "each full run's peak beside its trial's",
    "--prune": "list what of runs that are over is worth nothing; what has saved anything stays",
    "--checkpoints": "(--prune) with checkpoints, too",
    "--yes": "(--prune) and remove it",
}
_LOGS = {
    "-f": "show what comes, too, until the run ends",
    "--follow": "the same",
    "--trial N": "a trial's instead of the full run's, by the number that the launch told it by",
}
_FORGET = {"--forget ID|all": "forget one, or all: the next launch makes its trials again"}
_OPEN = {"--open": "show it in a browser"}
_RECIPE = "recipe=NAME [data=...] [KEY=VALUE ...]"

VERBS: tuple[Verb, ...] = (
    Verb("library.recipes", "[copy NAME [NEW]]", "what there is, one line each; a copy of your own"),
    Verb("library.show", "RECIPE", "a recipe as it is written, comments and all"),
    Verb("train.train", _RECIPE, "find what fits by really trying, then train with it", flags=_DETACH),
    Verb("train.fit", _RECIPE, "trials only: the rung that fits, the native command"),
    Verb("train.ladder", "recipe=NAME [KEY=VALUE ...]", "every rung it may fall back to; nothing is run"),
    Verb("plan.plan", "recipe=NAME gpu=NAME[,NAME] | gpu=NAME[,NAME] -- COMMAND", "which rung fits which card, played without one"),
    Verb("train.trial", "recipe=NAME [data=...] rung=7", "one rung, really tried, phase by phase"),
    Verb("train.run", "[FLAG ...] [KEY=VALUE ...] -- COMMAND", "the same for a command you have, without a recipe", flags=_RUN),
    Verb("train.init", "[FLAG ...] -- COMMAND", "what was understood of it, as a recipe of your own", flags=_UNDERSTOOD),
    Verb("train.resume", "[RUN] [recover.KEY=VALUE ...]", "go on with a run that was interrupted or failed", flags=_DETACH),
    Verb("runs.runs", "[--peaks | --prune] [FOLDER]", "every launch: its state, rung, progress, peak, age", flags=_RUNS),
    Verb("logs.logs", "[-f] [--trial N] [RUN]", "what a trainer has said; the newest run's by itself", flags=_LOGS),
    Verb("runs.watch", "[RUN]", "one live, from another terminal, until it ends"),
    Verb("runs.stop", "RUN", "end one, its checkpoint kept, and say how to go on"),
    Verb("runs.fits", "[--forget ID|all]", "fits that are kept: the same launch makes no trial", flags=_FORGET),
    Verb("report.report", "[--open] [RUN ...]", "a run as one page to look at; several side by side", flags=_OPEN),
    Verb("explain.explain", "LOG | - | RUN", "what a log's failure means, and what to change"),
    Verb("library.schema", "", "the JSON schema of a recipe, for editors"),
    Verb("library.agents", "", "what a coding agent should know of autofit"),
    Verb("doctor.doctor", "", "what of this machine would stop a launch, and what to do"),
)
_HELP = """\
autofit: fits a training into your GPU by really trying it, and then trains

  autofit train recipe=yolo_demo
  autofit run -- python train.py --batch-size 64

{verbs}

`autofit VERB --help` tells what a verb takes: its flags and usual keys, and
`--help all` every key. Without RUN, the newest is meant.

KEY=VALUE are Hydra overrides: ask.micro_batch=48  ladder=keep_quality
device=cpu  device.memory=16GiB  trainer.args.epochs=100 (the trainer's own
arguments, in its own words).

  -sc install=bash tab completion: eval "$(autofit -sc install=bash)"
  --help, --version

Exit status: 0 done, 1 the input can't work, 3 no rung fits, 4 the trainer
crashed in a trial, 5 the full run failed, 75 stopped by SIGTERM or SIGHUP
(`autofit resume RUN` goes on), 130 interrupted by Ctrl-C."""


def help_text() -> str:
    """Writes the one page of help."""
    width = max(len(verb.name) for verb in VERBS)
    return _HELP.format(verbs="\n".join(f"  autofit {verb.name:<{width}}  {verb.help}" for verb in VERBS))


def find(name: str) -> Verb | None:
    """The verb of that name."""
    return next((verb for verb in VERBS if verb.name == name), None)


def named(name: str) -> Verb:
    """The verb of that name. Raises BadInput naming those that are there."""
    known = [one.name for one in VERBS]
    if (verb := find(name)) is None:
        cure = f"{did_you_mean(name, known)}Known: {', '.join(known)}. A command of yours stands behind autofit run --."
        raise refusal(f"unknown verb {name!r}", cure, where="autofit")
    return verb


def completions(line: str) -> list[str] | None:
    """Lists the words that can follow what is typed so far; None where Hydra knows them."""
    typed = line.split()
    if len(typed) < 2 or (len(typed) == 2 and not line.endswith(" ")):
        return [verb.name for verb in VERBS]
    if typed[-1].startswith("recipe=") and not line[-1].isspace():
        from autofit_launcher.config.recipe_files import recipe_files

        return [word for name in sorted(recipe_files()) if (word := f"recipe={name}").startswith(typed[-1])]
    verb = find(typed[1])
    return None if verb is not None and verb.composes else list(verb.valued) if verb is not None else []
