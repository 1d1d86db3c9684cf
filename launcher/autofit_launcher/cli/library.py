"""The verbs on recipes and kept fits: recipes, show, schema, agents, fits."""

from __future__ import annotations

from pathlib import Path

from autofit_launcher.cli.call import Answer, Call, Takes, verb
from autofit_launcher.config.recipe_files import recipe_files
from autofit_launcher.errors import ExitCode, did_you_mean, refusal


@verb(
    "[copy NAME [NEW]]",
    "what there is, one line each; a copy of your own",
    Takes.NAME,
    more="A copy goes into ./recipes, never over one that is there.",
    examples=("autofit recipes", "autofit recipes copy yolo_demo mine"),
)
def recipes(call: Call) -> Answer:
    if call.words:
        return _copied(call)
    found = [{"name": name, "summary": _summary(path), "file": str(path)} for name, path in sorted(recipe_files().items())]
    width = max((len(recipe["name"]) for recipe in found), default=0)
    for recipe in found:
        call.terminal.say(f"{recipe['name']:<{width + 2}}{recipe['summary']}")
    return Answer(status=ExitCode.DONE, record={"recipes": found})


def _summary(path: Path) -> str:
    import yaml

    try:
        return str((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("summary", ""))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, RecursionError) as error:
        return f"(can't be read: {str(error).splitlines()[0]})"


def _copied(call: Call) -> Answer:
    said, *names = call.words
    if said != "copy" or not 1 <= len(names) <= 2:
        raise refusal(f"autofit recipes takes no {said!r}", "autofit recipes, or autofit recipes copy NAME [NEW].")
    file = _file(names[0])
    new = Path(names[-1].removesuffix(".yaml")).name
    kept = keep(call, new, file.read_bytes(), other=f"autofit recipes copy {names[0]} ANOTHER_NAME.")
    call.terminal.say(f"`autofit train recipe={new}` takes it from now on in this folder")
    return kept


def keep(call: Call, name: str, text: bytes, *, other: str) -> Answer:
    """Writes a recipe of the person's own into ./recipes, never over one that is there. ``other``: what to do in that case."""
    path = Path("recipes") / f"{name}.yaml"
    if path.exists():
        raise refusal(f"{path} is there already; it was not changed", other)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    call.terminal.say(f"written: {path}")
    return Answer(status=ExitCode.DONE, record={"status": "done", "recipe": str(path)})


def _file(name: str) -> Path:
    """A recipe's file. Raises BadInput where there is none of that name."""
    known = recipe_files()
    if name not in known:
        raise refusal(f"there is no recipe {name!r}", f"{did_you_mean(name, known)}There is: {', '.join(sorted(known))}.")
    return known[name]


@verb(
    "RECIPE",
    "a recipe as it is written, comments and all",
    Takes.NAME,
    more="Where it lies goes to standard error, so that the rest can be copied.",
    examples=("autofit show yolo_demo > recipes/mine.yaml",),
)
def show(call: Call) -> Answer:
    said = call.word("recipe").removeprefix("recipe=")
    if not said:
        raise refusal("no recipe is named", f"autofit show NAME. There is: {', '.join(sorted(recipe_files()))}.")
    name = said if said in recipe_files() else Path(said).stem
    path = _file(name)
    try:
        text = path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        raise refusal(f"can't be read: {error.strerror}", "Make it readable.", where=str(path)) from error
    call.terminal.complain(f"{path}:")
    call.terminal.say(text)
    return Answer(status=ExitCode.DONE, record={"name": name, "file": str(path), "text": text})


@verb(
    "",
    "the JSON schema of a recipe, for editors",
    Takes.NOTHING,
    more="An editor completes and checks recipes by it, where their first line says # yaml-language-server: $schema=recipe.schema.json",
    examples=("autofit schema > recipe.schema.json",),
)
def schema(call: Call) -> Answer:
    import json

    from autofit_launcher.config import json_schema

    told = json_schema.of_a_file()
    call.terminal.say(json.dumps(told, indent=2))
    return Answer(status=ExitCode.DONE, record=told)


@verb("", "what a coding agent should know of autofit", Takes.NOTHING)
def agents(call: Call) -> Answer:
    text = Path(__file__).with_name("agents.md").read_text(encoding="utf-8").rstrip()
    call.terminal.say(text)
    return Answer(status=ExitCode.DONE, record={"text": text})


@verb(
    "[--forget ID|all]",
    "fits that are kept: the same launch makes no trial",
    Takes.NOTHING,
    flags={"--forget ID|all": "forget one, or all: the next launch makes its trials again"},
)
def fits(call: Call) -> Answer:
    """Shows the fits that are kept, the newest first, and those that a run has disproved."""
    if "--forget" in call.flags:
        return _forgotten(call, call.flags["--forget"])
    from autofit_launcher.cli import runs_view
    from autofit_launcher.history import kept_fits

    known = kept_fits.everything()
    kept = sorted((one.fit for one in known if one.fit is not None), key=lambda fit: fit.id, reverse=True)
    failures = sorted((failure for one in known for failure in one.failures), key=lambda failure: failure.at, reverse=True)
    if kept or failures:
        runs_view.fits(call.terminal.console, kept, failures)
    else:
        call.terminal.say(f"no fit is kept in {kept_fits.folder()}")
    listed = [{**one.model_dump(), "trials": len(one.trials), "peak_bytes": one.peak_bytes} for one in kept]
    return Answer(status=ExitCode.DONE, record={"fits": listed, "disproved": [one.model_dump() for one in failures]})


def _forgotten(call: Call, said: str) -> Answer:
    """Forgets one fit, or all; what runs have disproved stays known."""
    from autofit_launcher.history import kept_fits

    if said != "all" and not said.isdecimal():
        raise refusal(f"{said!r} is no number of a fit", "autofit fits --forget 3, or --forget all; `autofit fits` numbers them.")
    try:
        forgotten = kept_fits.forget(None if said == "all" else int(said))
    except OSError as unusable:
        raise refusal(str(unusable), "Try again when it can be.") from unusable
    if not forgotten and said != "all":
        raise refusal(f"there is no fit {said}", "`autofit fits` numbers them.")
    call.terminal.say(f"forgotten: {forgotten} fit{'' if forgotten == 1 else 's'}; the same launches make their trials again")
    return Answer(status=ExitCode.DONE, record={"forgotten": forgotten})
