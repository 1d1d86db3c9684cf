"""THE list of verbs. The help, completion and what is said of an unknown verb come from it; nothing else knows them all.

A new verb is one function, in the module that says what it is about: ``train`` (a recipe, a command), ``plan``, ``runs``,
``logs`` and ``report`` (a run's folder), ``library`` (recipes and kept fits), ``explain`` (a log) or ``doctor`` (this machine).
"""

from __future__ import annotations

from autofit_launcher.cli import doctor, explain, library, logs, plan, report, runs, train
from autofit_launcher.cli.call import Takes, Verb
from autofit_launcher.errors import did_you_mean, refusal

VERBS: tuple[Verb, ...] = (
    library.recipes, library.show, train.train, train.fit, train.ladder, plan.plan, train.trial, train.run, train.init, runs.resume,
    runs.runs, logs.logs, runs.watch, runs.stop, library.fits, report.report, explain.explain, library.schema, library.agents,
    doctor.doctor,
)  # fmt: skip

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


def find(name: str) -> Verb | None:
    """The verb of that name."""
    return next((verb for verb in VERBS if verb.name == name), None)


def unknown(name: str) -> Exception:
    """The refusal of a verb that isn't there, naming those that are."""
    known = [one.name for one in VERBS]
    cure = f"{did_you_mean(name, known)}Known: {', '.join(known)}. A command of yours stands behind autofit run --."
    return refusal(f"unknown verb {name!r}", cure, where="autofit")


def completions(line: str) -> list[str] | None:
    """Lists the words that can follow what is typed so far; None where Hydra knows them."""
    typed = line.split()
    if len(typed) < 2 or (len(typed) == 2 and not line.endswith(" ")):
        return [verb.name for verb in VERBS]
    verb = find(typed[1])
    if verb is not None and verb.takes in (Takes.RECIPE, Takes.EITHER):
        return None
    return list(verb.valued) if verb is not None else []
