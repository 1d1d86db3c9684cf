"""THE list of verbs. The help, completion and what is said of an unknown verb come from it; nothing else knows them all.

A new verb is one ``Verb`` here, and its function in the module that is named for what it takes: ``recipe``, ``command``,
``folder`` (of a run) or ``about`` for what takes nothing.
"""

from __future__ import annotations

from launcher.errors import BadInput, Fault, did_you_mean
from launcher.verbs import about, command, folder, logs, plan, prune, recipe
from launcher.verbs.base import Takes, Verb
from launcher.verbs.detached import DETACH

VERBS: tuple[Verb, ...] = (
    Verb(name="recipes", usage="", help="what there is, one line each", takes=Takes.NOTHING, run=about.recipes),
    Verb(name="show", usage="RECIPE", help="a recipe as it is written, comments and all", takes=Takes.NAME, run=about.show),
    Verb(
        name="train",
        usage="recipe=NAME data=... [KEY=VALUE]",
        help="find the configuration that fits by really trying, then train with it",
        takes=Takes.RECIPE,
        run=recipe.train,
        flags=(DETACH,),
    ),
    Verb(
        name="fit",
        usage="recipe=NAME data=...",
        help="trials only: the rung that fits and the native command",
        takes=Takes.RECIPE,
        run=recipe.fit,
    ),
    Verb(
        name="ladder",
        usage="recipe=NAME",
        help="every rung it may fall back to; nothing is run",
        takes=Takes.RECIPE,
        run=recipe.ladder,
    ),
    Verb(
        name="plan",
        usage="recipe=NAME gpu=NAME[,NAME] | [gpu=NAME] -- COMMAND",
        help="which rung is predicted to fit which card; no card is needed",
        takes=Takes.EITHER,
        run=plan.plan,
    ),
    Verb(name="trial", usage="recipe=NAME data=... rung=7", help="one rung, really tried", takes=Takes.RECIPE, run=recipe.trial),
    Verb(
        name="run",
        usage=f"[{command.FIT_ONLY}] [{command.ALLOW_BATCH}] [KEY=VALUE] -- COMMAND",
        help="the same for a command line you have, without a recipe:",
        takes=Takes.COMMAND,
        run=command.run,
        flags=(command.FIT_ONLY, command.ALLOW_BATCH, DETACH),
        example="autofit run -- python train.py --batch-size 64",
    ),
    Verb(
        name="resume",
        usage="RUN [recover.KEY=VALUE]",
        help="go on with one that was interrupted or failed",
        takes=Takes.FOLDER,
        run=folder.resume,
        flags=(DETACH,),
    ),
    Verb(
        name="init",
        usage="-- COMMAND",
        help="write down what was understood of it as a recipe of your own",
        takes=Takes.COMMAND,
        run=command.init,
    ),
    Verb(
        name="runs",
        usage=f"[{folder.PEAKS}|{prune.PRUNE}] [FOLDER]",
        help="every launch: its state, rung, progress, peak, age",
        takes=Takes.FOLDER,
        run=folder.runs,
        flags=(folder.PEAKS, prune.PRUNE, prune.CHECKPOINTS, prune.YES),
    ),
    Verb(
        name="logs",
        usage=f"[-f] [{logs.TRIAL} N] [RUN]",
        help="what its trainer has said; the newest run's by itself",
        takes=Takes.FOLDER,
        run=logs.logs,
        flags=(*logs.FOLLOW, logs.TRIAL),
    ),
    Verb(
        name="fits",
        usage=f"[{about.FORGET} ID|all]",
        help="fits that are kept: the same launch again makes no trial",
        takes=Takes.NOTHING,
        run=about.fits,
        flags=(about.FORGET,),
    ),
    Verb(name="watch", usage="[RUN]", help="one live, from another terminal; the newest by itself", takes=Takes.FOLDER, run=folder.watch),
    Verb(name="stop", usage="RUN", help="end one, its checkpoint kept, and say how to go on", takes=Takes.FOLDER, run=folder.stop),
)

_HELP = """\
autofit: the training launcher that never runs out of memory

{verbs}

KEY=VALUE are Hydra overrides: ask.micro_batch=48  ladder=keep_quality  device=cpu  device.memory=16GiB
trainer.args.epochs=100 (the trainer's own arguments, in its own words).

  --detach         (train, run, resume) go on in the background when this terminal is closed; `autofit watch` shows it
  --json           end standard output with one line of JSON; everything else goes to standard error
  --cfg job        print the composed recipe and stop            (also --info, --resolve, --package)
  -m, --multirun   one launch for each combination of a,b,c values
  -sc install=bash tab completion:  eval "$(autofit -sc install=bash)"
  --help, --version

Exit status: 0 done, 1 the input can't work, 3 no rung fits, 4 the trainer crashed in a trial, 5 the full run failed,
75 stopped by SIGTERM or SIGHUP: `autofit resume RUN` goes on, 130 interrupted by Ctrl-C."""


def help_text() -> str:
    """The one page of help."""
    names = max(len(verb.name) for verb in VERBS)
    heads = {verb.name: f"  autofit {verb.name:<{names}} {verb.usage}" for verb in VERBS}
    width = max(map(len, heads.values()))
    lines = []
    for verb in VERBS:
        lines.append(f"{heads[verb.name]:<{width}} {verb.help}")
        if verb.example:
            lines.append(f"{'':<{width}} {verb.example}")
    return _HELP.format(verbs="\n".join(lines))


def find(name: str) -> Verb | None:
    """The verb of that name."""
    return next((verb for verb in VERBS if verb.name == name), None)


def named(name: str) -> Verb:
    """The verb of that name. Raises BadInput naming the known ones."""
    verb = find(name)
    if verb is None:
        known = [one.name for one in VERBS]
        cure = f"{did_you_mean(name, known)}Known: {', '.join(known)}."
        raise BadInput([Fault(key="", where="autofit", found=f"unknown verb {name!r}", cure=cure)])
    return verb


def completions(line: str) -> list[str] | None:
    """What can follow what is typed so far; None where Hydra knows it."""
    typed = line.split()
    if len(typed) < 2 or (len(typed) == 2 and not line.endswith(" ")):
        return [verb.name for verb in VERBS]
    verb = find(typed[1])
    if verb is None:
        return []
    if verb.takes is Takes.FOLDER:
        from launcher import runs

        return [*verb.flags, *sorted(path.name for path in runs.below(runs.ROOT))]
    if verb.takes is Takes.NAME:
        from launcher.places import recipe_files

        return sorted(recipe_files())
    return None if verb.takes in (Takes.RECIPE, Takes.EITHER) else list(verb.flags)
