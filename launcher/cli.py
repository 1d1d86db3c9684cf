"""argv -> Hydra -> the verbs. The only module that prints or exits.

``autofit VERB [--json] [HYDRA'S OWN FLAGS] [OVERRIDES]``. Everything heavy is imported where it is needed: ``--help`` answers at once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher import __version__
from launcher.errors import BadInput, ExitCode, Interrupted, did_you_mean
from launcher.places import DRAFTED, home, recipe_folders

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.console import Console

    from launcher.display import Display
    from launcher.recipe import Draft, Provenance

HELP = """\
autofit: the training launcher that never runs out of memory

  autofit recipes                                 what there is, one line each
  autofit train  recipe=NAME data=... [KEY=VALUE] find the configuration that fits by really trying, then train with it
  autofit fit    recipe=NAME data=...             trials only: the rung that fits and the native command
  autofit ladder recipe=NAME                      every rung it may fall back to; nothing is run
  autofit trial  recipe=NAME data=... rung=7      one rung, really tried
  autofit run [--fit-only] [KEY=VALUE] -- COMMAND the same for a command line you have, without a recipe:
                                                  autofit run -- python train.py --batch-size 64
  autofit init -- COMMAND                         write down what was understood of it as a recipe of your own

KEY=VALUE are Hydra overrides: ask.micro_batch=48  ladder=keep_quality  device=cpu  device.memory=16GiB
trainer.args.epochs=100 (the trainer's own arguments, in its own words).

  --json           end standard output with one line of JSON; everything else goes to standard error
  --cfg job        print the composed recipe and stop            (also --info, --resolve, --package)
  -m, --multirun   one launch for each combination of a,b,c values
  -sc install=bash tab completion:  eval "$(autofit -sc install=bash)"
  --help, --version

Exit status: 0 done, 1 the input can't work, 3 no rung fits, 4 the trainer crashed in a trial, 5 the full run failed, 130 interrupted.
"""


def main() -> None:
    """The console entry point."""
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Runs one command line; returns the exit status."""
    words = list(argv)
    if words[:1] in (["run"], ["init"]):
        return _command_line(words)
    if any(word in ("-sc", "--shell-completion", "--shell_completion") for word in words):
        return _complete(words)
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    if "--version" in words:
        print(f"autofit {__version__}")
        return ExitCode.DONE
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return ExitCode.DONE
    verb, *rest = words
    if verb not in VERBS and verb != "recipes":
        known = [*VERBS, "recipes", "run", "init"]
        print(f"autofit: unknown verb {verb!r}. {did_you_mean(verb, known)}Known: {', '.join(known)}.", file=sys.stderr)
        return ExitCode.BAD_INPUT
    if {"-h", "--help"} & set(rest):
        print(HELP, end="")
        print(_groups())
        return ExitCode.DONE
    if verb == "recipes":
        return _recipes(as_json)
    return _composed(verb, rest, as_json)


def _groups() -> str:
    """The configuration groups and their options, as Hydra's own --help lists them."""
    groups = {
        folder.name: sorted(path.stem for path in folder.glob("*.yaml"))
        for folder in sorted((home() / "conf").iterdir())
        if folder.is_dir()
    }
    groups["recipe"] = sorted(_recipe_files())
    lines = [f"  {name}: {', '.join(options)}" for name, options in groups.items()]
    return "\n".join(
        ["", "Configuration groups (GROUP=OPTION):", *lines, "", "--cfg job shows the whole configuration, --hydra-help Hydra's own flags."]
    )


# -- a command line in the place of a recipe ---------------------------------------------------------------------------


def _command_line(words: Sequence[str]) -> int:
    """``run`` and ``init``: the words after ``--`` are a command of the person's, those before it are ours."""
    verb, *ours = words[: words.index("--")] if "--" in words else words
    theirs = list(words[words.index("--") + 1 :]) if "--" in words else []
    if {"-h", "--help"} & set(ours):
        print(HELP, end="")
        return ExitCode.DONE
    from launcher.commandline import draft, recognise

    as_json = "--json" in ours
    fit_only = "--fit-only" in ours
    ours = [word for word in ours if word not in ("--json", "--fit-only")]
    out = sys.stderr if as_json else sys.stdout
    try:
        understood = recognise.understand(theirs)
        recognise.refuse_doubts(understood, overrides=ours)
    except BadInput as refused:
        for fault in refused.faults:
            print(fault, file=sys.stderr)
        if as_json:
            faults = [{"key": fault.key, "found": fault.found, "cure": fault.cure, "where": fault.where} for fault in refused.faults]
            print(json.dumps({"status": "bad_input", "faults": faults}))
        return ExitCode.BAD_INPUT
    name = recognise.name_of(understood)
    print(
        f"autofit takes this for {understood.adapter}:",
        *(f"  {line}" for line in draft.beliefs(understood)),
        sep="\n",
        file=out,
        flush=True,
    )
    for doubt in understood.doubts:
        print(f"  in doubt: {doubt}", file=out, flush=True)
    text = draft.recipe(understood, name=name)
    if verb == "init":
        return _keep(text, Path("recipes") / f"{name}.yaml", as_json)
    with tempfile.TemporaryDirectory(prefix="autofit-") as folder:
        (Path(folder) / f"{name}.yaml").write_text(text, encoding="utf-8")
        DRAFTED.append(Path(folder))
        try:
            return _composed("fit" if fit_only else "train", [f"recipe={name}", *ours], as_json)
        finally:
            DRAFTED.remove(Path(folder))


def _keep(text: str, path: Path, as_json: bool) -> int:
    """Writes a new recipe; never over one that is there."""
    if path.exists():
        print(f"autofit: {path} is there already; it was not changed. Rename it, or edit it.", file=sys.stderr)
        return ExitCode.BAD_INPUT
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"written: {path}", file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(json.dumps({"status": "done", "recipe": str(path)}))
    return ExitCode.DONE


# -- Hydra ------------------------------------------------------------------------------------------------------------


def _composed(verb: str, overrides: Sequence[str], as_json: bool) -> int:
    """Composes the configuration with Hydra, then runs the verb, once for each job of a multirun. The worst exit status counts."""
    if (unknown := _unknown_recipes(overrides)) is not None:
        print(unknown, file=sys.stderr)
        return ExitCode.BAD_INPUT
    import hydra
    from hydra.core.hydra_config import HydraConfig

    _hydra_plugins()
    statuses: list[int] = []

    def task(config: DictConfig) -> None:
        statuses.append(_guarded(verb, config, HydraConfig.get(), as_json))

    launched = hydra.main(config_path=str(home() / "conf"), config_name="config", version_base="1.3")(task)
    argv = sys.argv
    sys.argv = [f"autofit {verb}", *map(_added_or_overridden, overrides)]
    try:
        launched()
    finally:
        sys.argv = argv
    return max(statuses, default=ExitCode.DONE)


def _unknown_recipes(overrides: Sequence[str]) -> str | None:
    """What to say where ``recipe=`` names none, or one that isn't there. Hydra would list its search path instead."""
    known = sorted(_recipe_files())
    said = [word.removeprefix("recipe=") for word in overrides if word.startswith("recipe=")]
    names = [name for value in said for name in value.split(",")]
    listed = f"There is: {', '.join(known)}; your own go into ./recipes/NAME.yaml."
    if not said and not any(word.startswith("-") for word in overrides):
        return f"command line: recipe: none is named. Give one: recipe=NAME. {listed}"
    for name in names:
        if re.fullmatch(r"[\w.-]+", name) and name not in known:
            return f"command line: recipe: there is no recipe {name!r}. {did_you_mean(name, known)}{listed}"
    return None


_OWN_KEY = re.compile(r"^(ask|trainer|ladder|device|trial|run|supervise)\.[^=]*=")


def _added_or_overridden(word: str) -> str:
    """``trainer.args.epochs=9`` works whether a recipe says it or not: our own gate knows the keys and says what was meant."""
    return f"++{word}" if _OWN_KEY.match(word) else word


def _hydra_plugins() -> None:
    """Makes recipes/ folders (the user's own first) the group ``recipe``, and ``${autofit:...}`` a resolver."""
    from hydra.core.plugins import Plugins
    from omegaconf import OmegaConf

    from launcher.sources import RecipeFolder, RecipePath

    Plugins.instance().register(RecipeFolder)
    Plugins.instance().register(RecipePath)
    places = {"examples": str(home() / "examples"), "python": sys.executable}
    OmegaConf.register_new_resolver("autofit", lambda name: places[name], replace=True)


def _complete(words: list[str]) -> int:
    """Tab completion: the verb by us, overrides by Hydra, which never learns of the verb."""
    line = os.environ.get("COMP_LINE", "")
    typed = line.split()
    if any(word.startswith("query=") for word in words) and not (len(typed) > 1 and typed[1] in VERBS):
        if len(typed) < 2 or (len(typed) == 2 and not line.endswith(" ")):
            print(" ".join([*VERBS, "recipes", "run", "init"]))
        return ExitCode.DONE
    if len(typed) > 1:
        os.environ["COMP_LINE"] = line.replace(f" {typed[1]}", "", 1)
    import hydra

    _hydra_plugins()
    argv = sys.argv
    sys.argv = ["autofit", *words]
    try:
        hydra.main(config_path=str(home() / "conf"), config_name="config", version_base="1.3")(lambda config: None)()
    finally:
        sys.argv = argv
    return ExitCode.DONE


def _provenance(hydra_config: Any) -> Provenance:
    from launcher.recipe import Provenance

    choices = hydra_config.runtime.choices
    recipe = _recipe_files().get(choices.get("recipe"))
    groups = [home() / "conf" / group / f"{option}.yaml" for group, option in choices.items() if "/" not in group and option]
    files = [recipe, *filter(Path.is_file, groups), home() / "conf" / "config.yaml"]
    return Provenance(overrides=tuple(hydra_config.overrides.task), files=tuple(path for path in files if path))


# -- the verbs -----------------------------------------------------------------------------------------------------------


def _guarded(verb: str, config: DictConfig, hydra_config: Any, as_json: bool) -> int:
    """Runs a verb; turns what stops autofit into words, one line of JSON and an exit status. The only such place."""
    from launcher import recipe as recipes
    from launcher.display import Display

    console = _console(stderr=as_json)
    try:
        status, answer = VERBS[verb](recipes.read(config, _provenance(hydra_config)), Display(console), as_json)
    except BadInput as refused:
        Display(_console(stderr=True)).faults(refused.faults)
        from launcher.contract.files import plain

        status, answer = refused.exit_code, {"status": "bad_input", "faults": plain(refused.faults)}
    except (Interrupted, KeyboardInterrupt) as stopped:
        print(f"autofit: {stopped or 'interrupted'}; no process is left behind", file=sys.stderr)
        status, answer = ExitCode.INTERRUPTED, {"status": "interrupted"}
    if as_json:
        from launcher.contract.files import plain

        sys.stderr.flush()
        print(json.dumps(plain(answer)), flush=True)
    return status


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 160)


Answer = tuple[int, dict[str, Any]]


def _train(draft: Draft, display: Display, as_json: bool) -> Answer:
    from launcher import story

    show = (sys.stderr.buffer if as_json else sys.stdout.buffer, sys.stderr.buffer)
    sys.stdout.flush()
    result = story.train(story.prepare(draft), display, show=show)
    return result.exit_code, result.as_record()


def _fit(draft: Draft, display: Display, as_json: bool) -> Answer:
    from launcher import story

    result = story.fit(story.prepare(draft), display)
    if result.command is not None:
        display.launching(result)
    return result.exit_code, result.as_record()


def _ladder(draft: Draft, display: Display, as_json: bool) -> Answer:
    from launcher import story

    ladder = story.ladder_of(draft)
    display.ladder(ladder)
    return ExitCode.DONE, {
        "status": "done",
        "effective_batch": ladder.effective_batch,
        "rungs": [{"rung_index": one.index, "rung": dict(one.values), "accumulation": one.accumulation} for one in ladder.rungs],
    }


def _trial(draft: Draft, display: Display, as_json: bool) -> Answer:
    from launcher import story
    from launcher.errors import Fault
    from launcher.fit import trial_record
    from launcher.verdict import Kind

    ladder = story.ladder_of(draft)
    wanted = draft.recipe.rung if draft.recipe is not None else None
    if wanted is None or wanted >= len(ladder.rungs):
        found = "no rung is named" if wanted is None else f"there is no rung {wanted}"
        raise BadInput(
            [
                Fault(
                    key="rung",
                    found=found,
                    cure=f"Give one from 0 to {len(ladder.rungs) - 1}; `autofit ladder` numbers them.",
                    where="command line",
                )
            ]
        )
    job = story.prepare(draft)
    rung = job.ladder.rungs[wanted]
    display.plan(job)
    display.trying(rung, 1)
    tried = story.try_rung(job, rung)
    job.folder.forget_cache()
    display.tried(tried, job)
    display.report(tried, job)
    record = {"status": "done", **trial_record(tried), "run_dir": str(job.folder.path), "report": tried.report}
    job.folder.replace_json(job.folder.final, record)
    status = ExitCode.DONE if tried.verdict.fits else ExitCode.NO_RUNG_FITS
    return (ExitCode.TRIAL_CRASHED if tried.verdict.kind in (Kind.CRASHED, Kind.STALLED, Kind.VACUOUS) else status), record


VERBS: dict[str, Callable[[Draft, Display, bool], Answer]] = {
    "train": _train,
    "fit": _fit,
    "ladder": _ladder,
    "trial": _trial,
}


def _recipe_files() -> dict[str, Path]:
    """Recipe name -> file; the person's own hide built-in ones of the same name."""
    return {path.stem: path for folder in recipe_folders() for path in sorted(folder.glob("*.yaml"))}


def _recipes(as_json: bool) -> int:
    """One line for each recipe."""
    import yaml

    found = []
    for name, path in sorted(_recipe_files().items()):
        try:
            summary = str((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("summary", ""))
        except (OSError, yaml.YAMLError, AttributeError) as error:
            summary = f"(can't be read: {str(error).splitlines()[0]})"
        found.append({"name": name, "summary": summary, "file": str(path)})
    width = max((len(recipe["name"]) for recipe in found), default=0)
    out = sys.stderr if as_json else sys.stdout
    for recipe in found:
        print(f"{recipe['name']:<{width}}  {recipe['summary']}", file=out)
    if as_json:
        print(json.dumps({"recipes": found}))
    return ExitCode.DONE


if __name__ == "__main__":
    main()
