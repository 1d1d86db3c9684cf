"""The verbs on what autofit comes with: recipes, show, schema, agents."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from autofit_launcher.cli.call import Answer, Call
from autofit_launcher.common import files
from autofit_launcher.config import yaml_text
from autofit_launcher.config.recipe_files import JOBS, NAME, recipe_files
from autofit_launcher.errors import ExitCode, did_you_mean, refusal


def recipes(call: Call) -> Answer:
    if call.words:
        return _copied(call)
    by_kind = sorted(recipe_files().items(), key=lambda one: (one[1].parent.name == JOBS, one[0]))
    found = [{"name": name, "summary": _summary(path), "file": str(path)} for name, path in by_kind]
    width, job = max((len(recipe["name"]) for recipe in found), default=0), False
    for recipe in found:
        if not job and (job := Path(recipe["file"]).parent.name == JOBS):
            call.terminal.say("", "Five jobs as they were asked for, each on its own data and card:")
        call.terminal.say(f"{recipe['name']:<{width + 2}}{recipe['summary']}")
    return Answer(status=ExitCode.DONE, record={"recipes": found})


def _summary(path: Path) -> str:
    try:
        said = (yaml_text.plain(files.read(path)) or {}).get("summary", "")
        return said if isinstance(said, str) else ""
    except (OSError, ValueError, AttributeError) as error:
        return f"(can't be read: {str(error).splitlines()[0]})"


def _copied(call: Call) -> Answer:
    said, *names = call.words
    if said != "copy" or not 1 <= len(names) <= 2:
        raise refusal(f"autofit recipes takes no {said!r}", "autofit recipes, or autofit recipes copy NAME [NEW].")
    new = Path(names[-1].removesuffix(".yaml")).name
    kept = keep(call, new, files.read(_file(names[0])), other=f"autofit recipes copy {names[0]} ANOTHER_NAME.")
    call.terminal.say(f"`autofit train recipe={shlex.quote(new)}` takes it from now on in this folder")
    return kept


def keep(call: Call, name: str, text: bytes, *, other: str) -> Answer:
    """Writes a recipe of the person's own into ./recipes, never over one that is there. ``other``: what to do in that case."""
    path = Path("recipes") / f"{name}.yaml"
    if not NAME.fullmatch(name) or not name.strip("."):
        raise refusal(f"{name!r} is no name of a recipe", "Letters, digits, blanks and . , + @ % : ' - _ make one.")
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("xb") as file:  # never through a link
            file.write(text)
    except FileExistsError:
        raise refusal(f"{path} is there already; it was not changed", other) from None
    call.terminal.say(f"written: {path}")
    return Answer(status=ExitCode.DONE, record={"status": "done", "recipe": str(path)})


def _file(name: str) -> Path:
    """A recipe's file. Raises BadInput where there is none of that name."""
    known = recipe_files()
    if name not in known:
        raise refusal(f"there is no recipe {name!r}", f"{did_you_mean(name, known)}There is: {', '.join(sorted(known))}.")
    return known[name]


def show(call: Call) -> Answer:
    said = call.word("recipe", needed=True).removeprefix("recipe=")
    name = said if said in recipe_files() else Path(said).stem
    path = _file(name)
    text = files.read(path).decode(errors="replace").rstrip("\n")
    call.terminal.complain(f"{path}:")
    call.terminal.say(text)
    return Answer(status=ExitCode.DONE, record={"name": name, "file": str(path), "text": text})


def schema(call: Call) -> Answer:
    from autofit_launcher.config import schema as of_recipes  # pydantic: a list of recipes needs none

    call.named("word", most=0)
    told = of_recipes.of_a_file()
    call.terminal.say(json.dumps(told, indent=2))
    return Answer(status=ExitCode.DONE, record=told)


def agents(call: Call) -> Answer:
    call.named("word", most=0)
    text = Path(__file__).with_name("agents.md").read_text(encoding="utf-8").rstrip()
    call.terminal.say(text)
    return Answer(status=ExitCode.DONE, record={"text": text})
