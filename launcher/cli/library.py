"""The verbs on recipes and kept fits: recipes, show, fits."""

from __future__ import annotations

from pathlib import Path

from launcher.cli.call import Answer, Call
from launcher.config.recipe_files import recipe_files
from launcher.errors import COMMAND_LINE, BadInput, ExitCode, Fault, did_you_mean

FORGET = "--forget"
_DIGITS = 16
"""No fit has a number that long."""


def recipes(call: Call) -> Answer:
    """One line for each recipe."""
    found = [{"name": name, "summary": _summary(path), "file": str(path)} for name, path in sorted(recipe_files().items())]
    width = max((len(recipe["name"]) for recipe in found), default=0)
    for recipe in found:
        call.terminal.labelled(recipe["name"], recipe["summary"], width=width + 2)
    return Answer(status=ExitCode.DONE, record={"recipes": found})


COPY = "copy"


def recipes_or_copy(call: Call) -> Answer:
    """The list; ``copy NAME [NEW]`` puts a recipe of one's own into ./recipes, never over one that is there."""
    if not call.words:
        return recipes(call)
    known = recipe_files()
    word, *names = call.words
    if word != COPY or not 1 <= len(names) <= 2:
        raise BadInput([_wrong(f"autofit recipes takes no {word!r}", f"autofit recipes, or autofit recipes {COPY} NAME [NEW].")])
    if names[0] not in known:
        raise BadInput(
            [_wrong(f"there is no recipe {names[0]!r}", f"{did_you_mean(names[0], known)}There is: {', '.join(sorted(known))}.")]
        )
    new = Path(names[-1].removesuffix(".yaml")).name
    path = Path("recipes") / f"{new}.yaml"
    if path.exists():
        raise BadInput([_wrong(f"{path} is there already; it was not changed", f"autofit recipes {COPY} {names[0]} ANOTHER_NAME.")])
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(known[names[0]].read_bytes())
    call.terminal.say(f"written: {path}", f"`autofit train recipe={new}` takes it from now on in this folder")
    return Answer(status=ExitCode.DONE, record={"status": "done", "recipe": str(path)})


def schema(call: Call) -> Answer:
    """The JSON schema of a recipe's file."""
    import json

    from launcher.config import json_schema

    told = json_schema.of_a_file()
    call.terminal.say(json.dumps(told, indent=2))
    return Answer(status=ExitCode.DONE, record=told)


def agents(call: Call) -> Answer:
    """What a coding agent should know before it calls autofit."""
    text = Path(__file__).with_name("agents.md").read_text(encoding="utf-8").rstrip()
    call.terminal.say(text)
    return Answer(status=ExitCode.DONE, record={"text": text})


def show(call: Call) -> Answer:
    """A recipe's file as it is, with its comments; where it lies goes to standard error, so that the rest can be copied."""
    said = [word.removeprefix("recipe=") for word in call.words]
    known = recipe_files()
    listed = f"There is: {', '.join(sorted(known))}."
    if len(said) != 1:
        found = f"these are {len(said)} recipes: {' '.join(said)}" if said else "no recipe is named"
        raise BadInput([_wrong(found, f"autofit show NAME. {listed}")])
    name = said[0] if said[0] in known else Path(said[0]).stem
    if name not in known:
        raise BadInput([_wrong(f"there is no recipe {said[0]!r}", f"{did_you_mean(said[0], known)}{listed}")])
    path = known[name]
    try:
        text = path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        raise BadInput([Fault(key="", where=str(path), found=f"can't be read: {error.strerror}", cure="Make it readable.")]) from error
    call.terminal.complain(f"{path}:")
    call.terminal.say(text)
    return Answer(status=ExitCode.DONE, record={"name": name, "file": str(path), "text": text})


def _summary(path: Path) -> str:
    import yaml

    try:
        return str((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("summary", ""))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, RecursionError) as error:
        return f"(can't be read: {str(error).splitlines()[0]})"


# ----------------------------------------------------------------------------------------------------------------------
# fits


def fits(call: Call) -> Answer:
    """The fits that are kept, the newest first, and those that a run has disproved; with ``--forget`` one or all are forgotten."""
    if FORGET in call.flags:
        return _forget(call)
    from launcher.history import kept_fits

    if call.words:
        raise BadInput([_wrong(f"autofit fits takes no {call.words[0]!r}", f"{FORGET} ID forgets one.")])
    known = kept_fits.everything()
    kept = sorted((fit for one in known for fit in one.fits), key=lambda fit: fit.id, reverse=True)
    failures = sorted((failure for one in known for failure in one.failures), key=lambda failure: failure.at, reverse=True)
    uses = {one.fits[0].digest: len(one.uses) for one in known if one.fits}
    for remark in kept_fits.remarks():
        call.terminal.say(remark)
    if kept or failures:
        call.terminal.board().fits(kept, failures, uses)
    else:
        call.terminal.say(f"no fit is kept in {kept_fits.folder()}")
    listed = [{**one.model_dump(), "trials": len(one.trials), "peak_bytes": one.peak_bytes, "uses": uses[one.digest]} for one in kept]
    return Answer(status=ExitCode.DONE, record={"fits": listed, "disproved": [one.model_dump() for one in failures]})


def _forget(call: Call) -> Answer:
    """One fit, or all; what runs have disproved stays known."""
    from launcher.history import kept_fits

    if len(call.words) != 1 or not (call.words[0] == "all" or (call.words[0].isdecimal() and len(call.words[0]) < _DIGITS)):
        found = f"{' '.join(call.words)!r} is no number of a fit" if call.words else "no fit is named"
        raise BadInput([_wrong(found, f"autofit fits {FORGET} 3, or {FORGET} all; `autofit fits` numbers them.")])
    number = None if call.words[0] == "all" else int(call.words[0])
    try:
        forgotten = kept_fits.forget(number)
    except kept_fits.FitsUnusableError as unusable:
        raise BadInput([_wrong(str(unusable), "Try again when it can be.")]) from unusable
    if not forgotten and number is not None:
        raise BadInput([_wrong(f"there is no fit {number}", "`autofit fits` numbers them.")])
    call.terminal.say(f"forgotten: {forgotten} fit{'' if forgotten == 1 else 's'}; the same launches make their trials again")
    return Answer(status=ExitCode.DONE, record={"forgotten": forgotten})


def _wrong(found: str, cure: str) -> Fault:
    return Fault(key="", where=COMMAND_LINE, found=found, cure=cure)
