"""THE list of verbs. The help, completion and what is said of an unknown verb come from it; nothing else knows them all.

A new verb is one ``Verb`` here, and its function in the module that says what it is about: ``train`` (a recipe), ``run`` (a command),
``runs``, ``logs`` and ``report`` (a run's folder), ``library`` (recipes and kept fits), ``explain`` (a log) or ``doctor`` (this machine).
"""

from __future__ import annotations

from collections.abc import Mapping

from autofit_launcher.cli import call, doctor, explain, library, logs, plan, prune, report, run, runs, train
from autofit_launcher.cli.call import ALLOW_BATCH, ALLOW_DIFFERENCE, CHECKPOINTING, FIT_ONLY, GIVE_UP, SET, Takes, Verb, single
from autofit_launcher.cli.detach import DETACH
from autofit_launcher.errors import BadInput, Fault, did_you_mean

VERBS: tuple[Verb, ...] = (
    Verb(
        name="recipes",
        usage=f"[{library.COPY} NAME [NEW]]",
        help="what there is, one line each; a copy of your own",
        takes=Takes.NAME,
        run=single(library.recipes),
        more="A copy goes into ./recipes, never over one that is there.",
        examples=("autofit recipes", f"autofit recipes {library.COPY} yolo_demo mine"),
    ),
    Verb(
        name="show",
        usage="RECIPE",
        help="a recipe as it is written, comments and all",
        takes=Takes.NAME,
        run=single(library.show),
        more="Where it lies goes to standard error, so that the rest can be copied.",
        examples=("autofit show yolo_demo > recipes/mine.yaml",),
    ),
    Verb(
        name="train",
        usage="recipe=NAME [data=...] [KEY=VALUE ...]",
        help="find what fits by really trying, then train with it",
        takes=Takes.RECIPE,
        run=train.train,
        flags=(DETACH,),
        more="Trials run down the ladder until a rung fits; the full run is launched there, and seen through to its end.",
        examples=("autofit train recipe=yolo_demo", "autofit train recipe=yolov8x_a100 data=datasets/all/dataset.yaml device=0"),
    ),
    Verb(
        name="fit",
        usage="recipe=NAME [data=...] [KEY=VALUE ...]",
        help="trials only: the rung that fits, the native command",
        takes=Takes.RECIPE,
        run=train.fit,
        examples=("autofit fit recipe=yolo_demo ask.micro_batch=16", "autofit fit recipe=yolo_demo device.memory=2GiB"),
    ),
    Verb(
        name="ladder",
        usage="recipe=NAME [KEY=VALUE ...]",
        help="every rung it may fall back to; nothing is run",
        takes=Takes.RECIPE,
        run=train.ladder,
        examples=("autofit ladder recipe=yolo_demo ladder=keep_quality",),
    ),
    Verb(
        name="plan",
        usage="recipe=NAME gpu=NAME[,NAME] | gpu=NAME[,NAME] -- COMMAND",
        help="which rung fits which card, played without one",
        takes=Takes.EITHER,
        run=plan.plan,
        more="No card is needed; a recipe needs no data. Short trials are played on pretended cards, about a minute for one.",
        examples=("autofit plan recipe=yolov8x_a100 gpu=a100_80gb,rtx_4090", "autofit plan gpu=t4 -- python train.py --batch-size 64"),
    ),
    Verb(
        name="trial",
        usage="recipe=NAME [data=...] rung=7",
        help="one rung, really tried, phase by phase",
        takes=Takes.RECIPE,
        run=train.trial,
        more="`autofit ladder` numbers them.",
        examples=("autofit trial recipe=yolo_demo rung=2",),
    ),
    Verb(
        name="run",
        usage="[FLAG ...] [KEY=VALUE ...] -- COMMAND",
        help="the same for a command you have, without a recipe",
        takes=Takes.COMMAND,
        run=run.run,
        flags=(FIT_ONLY, GIVE_UP, ALLOW_BATCH, ALLOW_DIFFERENCE, CHECKPOINTING, SET, DETACH),
        more="The script is not edited. What stands behind -- is yours, byte for byte.",
        examples=(
            "autofit run -- python train.py --batch-size 64",
            "autofit run device.memory=16GiB -- torchrun train.py --bs 32",
        ),
    ),
    Verb(
        name="init",
        usage="[FLAG ...] -- COMMAND",
        help="what was understood of it, as a recipe of your own",
        takes=Takes.COMMAND,
        run=single(run.init),
        flags=(GIVE_UP, CHECKPOINTING, SET),
        more="It goes into ./recipes, never over one that is there.",
        examples=("autofit init -- python train.py --batch-size 64",),
    ),
    Verb(
        name="resume",
        usage="[RUN] [recover.KEY=VALUE ...]",
        help="go on with a run that was interrupted or failed",
        takes=Takes.NAME,
        run=single(runs.resume),
        flags=(DETACH,),
        more="From its last whole checkpoint, or with its trials where no rung had been found. Without RUN, the newest.",
        examples=("autofit resume yolo_demo-20261122-101500", "autofit resume RUN recover.on_nan=roll_back"),
        keys="recover.",
    ),
    Verb(
        name="runs",
        usage=f"[{runs.PEAKS} | {prune.PRUNE}] [FOLDER]",
        help="every launch: its state, rung, progress, peak, age",
        takes=Takes.NAME,
        run=single(runs.runs),
        flags=(runs.PEAKS, prune.PRUNE, prune.CHECKPOINTS, prune.YES),
        examples=("autofit runs", f"autofit runs {prune.PRUNE} {prune.YES}"),
    ),
    Verb(
        name="logs",
        usage=f"[-f] [{call.TRIAL} N] [RUN]",
        help="what a trainer has said; the newest run's by itself",
        takes=Takes.NAME,
        run=single(logs.logs),
        flags=(*logs.FOLLOW, call.TRIAL),
        examples=("autofit logs -f", f"autofit logs {call.TRIAL} 1 yolo_demo-20261122-101500"),
    ),
    Verb(
        name="watch",
        usage="[RUN]",
        help="one live, from another terminal, until it ends",
        takes=Takes.NAME,
        run=single(runs.watch),
        more="The newest by itself. Its exit status is the run's.",
    ),
    Verb(name="stop", usage="RUN", help="end one, its checkpoint kept, and say how to go on", takes=Takes.NAME, run=single(runs.stop)),
    Verb(
        name="fits",
        usage=f"[{call.FORGET} ID|all]",
        help="fits that are kept: the same launch makes no trial",
        takes=Takes.NOTHING,
        run=single(library.fits),
        flags=(call.FORGET,),
    ),
    Verb(
        name="report",
        usage=f"[{report.OPEN}] [RUN ...]",
        help="a run as one page to look at; several side by side",
        takes=Takes.NAME,
        run=single(report.report),
        flags=(report.OPEN,),
        more="One file of HTML that needs no network: the ladder, peaks, the run over time, the native command. Every train writes one. "
        "Without RUN, the newest.",
        examples=(f"autofit report {report.OPEN}", "autofit report yolo_demo-20261122-101500 yolo_demo-20261123-090000"),
    ),
    Verb(
        name="explain",
        usage="LOG | - | RUN",
        help="what a log's failure means, and what to change",
        takes=Takes.NAME,
        run=single(explain.explain),
        more="Any PyTorch trainer's log, without a run folder: a file, - for standard input, or a run. It starts nothing. Where it can't "
        "tell, it says so.",
        examples=(
            "autofit explain train.log",
            "python train.py 2>&1 | tee train.log; autofit explain train.log",
            "kubectl logs POD | autofit explain -",
        ),
    ),
    Verb(
        name="schema",
        usage="",
        help="the JSON schema of a recipe, for editors",
        takes=Takes.NOTHING,
        run=single(library.schema),
        more="An editor completes and checks recipes by it, where their first line says # yaml-language-server: $schema=recipe.schema.json",
        examples=("autofit schema > recipe.schema.json",),
    ),
    Verb(
        name="agents",
        usage="",
        help="what a coding agent should know of autofit",
        takes=Takes.NOTHING,
        run=single(library.agents),
    ),
    Verb(
        name="doctor",
        usage="",
        help="what of this machine would stop a launch, and what to do",
        takes=Takes.NOTHING,
        run=single(doctor.doctor),
        more="Driver, cards, PyTorch's build, memory, /dev/shm, folders. Its exit status is 1 where something would stop a launch.",
        examples=("autofit doctor", "autofit doctor --json"),
    ),
)

FLAGS: Mapping[str, str] = {
    DETACH: "go on in the background when this terminal is closed; `autofit watch` shows it",
    FIT_ONLY: "trials only, as `autofit fit`",
    GIVE_UP: "what may be given up, by name, where nothing else fits (image_size,sequence_length,model): unasked nothing is",
    ALLOW_BATCH: "accept another effective batch than the asked one, where the command has no word for accumulation",
    runs.PEAKS: "each full run's peak beside its trial's",
    prune.PRUNE: "remove runs that are over: lists them and asks; what holds a checkpoint stays",
    prune.CHECKPOINTS: f"({prune.PRUNE}) those with checkpoints, too",
    prune.YES: f"({prune.PRUNE}) without asking",
    ALLOW_DIFFERENCE: "launch a rung though its update was shown to differ from the asked one, with that difference told",
    CHECKPOINTING: "checkpoint the model's repeated modules where less doesn't fit (slower, the same training)",
    SET: "the value of the script's own that is its batch size, named as the source has it: \"CONFIG['batch']\"",
    "-f": "show what comes, too, until the run ends",
    "--follow": "the same",
    report.OPEN: "show it in a browser",
    call.TRIAL: "a trial's instead of the full run's, by the number that the launch told it by",
    call.FORGET: "forget one, or all: the next launch makes its trials again",
}
"""The verbs' own flags: flag -> what it does."""
_EVERYWHERE = {"--json": "end standard output with one line of JSON; everything else goes to standard error"}
_HYDRAS = {
    "--cfg job": "print the composed recipe and stop (also --info, --resolve, --package)",
    "-m, --multirun": "one launch for each combination of a,b,c values",
}

_HELP = """\
autofit: fits a training into your GPU by really trying it, and then trains

  autofit train recipe=yolo_demo
  autofit run -- python train.py --batch-size 64

{verbs}

`autofit VERB --help` tells what a verb takes: its flags, examples and usual
keys; `--help all` every key.

KEY=VALUE are Hydra overrides: ask.micro_batch=48  ladder=keep_quality
device=cpu  device.memory=16GiB  trainer.args.epochs=100 (the trainer's own
arguments, in its own words).

  --json           end standard output with one line of JSON; everything else
                   goes to standard error
  --detach         (train, run, resume) go on when this terminal is closed
  --cfg job        print the composed recipe and stop
  -m, --multirun   one launch for each combination of a,b,c values
  -sc install=bash tab completion: eval "$(autofit -sc install=bash)"
  --help, --version

Exit status: 0 done, 1 the input can't work, 3 no rung fits, 4 the trainer
crashed in a trial, 5 the full run failed, 75 stopped by SIGTERM or SIGHUP
(`autofit resume RUN` goes on), 130 interrupted by Ctrl-C."""


def help_text() -> str:
    """Writes the one page of help."""
    width = max(len(verb.name) for verb in VERBS)
    return _HELP.format(verbs="\n".join(f"  autofit {verb.name:<{width}}  {verb.help}" for verb in VERBS))


def page(verb: Verb, *, whole: bool = False) -> str:
    """Writes one verb's own page of help. ``whole``: with all keys of a recipe."""
    from autofit_launcher.cli import manual
    from autofit_launcher.config import compose

    reads = verb.takes in (Takes.RECIPE, Takes.COMMAND, Takes.EITHER)
    everywhere, groups = {**_EVERYWHERE, **(_HYDRAS if reads else {})}, compose.groups() if reads and whole else {}
    return manual.page(verb, flags=FLAGS, everywhere=everywhere, groups=groups, whole=whole)


def find(name: str) -> Verb | None:
    """The verb of that name."""
    return next((verb for verb in VERBS if verb.name == name), None)


def named(name: str) -> Verb:
    """The verb of that name. Raises BadInput naming the known ones."""
    verb = find(name)
    if verb is None:
        known = [one.name for one in VERBS]
        cure = f"{did_you_mean(name, known)}Known: {', '.join(known)}. A command of yours stands behind autofit run --."
        raise BadInput([Fault(key="", where="autofit", found=f"unknown verb {name!r}", cure=cure)])
    return verb


def completions(line: str) -> list[str] | None:
    """Lists the words that can follow what is typed so far; None where Hydra knows them."""
    typed = line.split()
    if len(typed) < 2 or (len(typed) == 2 and not line.endswith(" ")):
        return [verb.name for verb in VERBS]
    verb = find(typed[1])
    if verb is not None and verb.takes in (Takes.RECIPE, Takes.EITHER):
        return None
    return list(verb.flags) if verb is not None else []
