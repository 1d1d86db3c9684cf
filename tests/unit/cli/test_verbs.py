"""The table of verbs: what is in it is in the help, in completion and in what is said of an unknown verb; and who may print or exit."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from autofit_launcher.cli import main, manual, verbs
from autofit_launcher.cli.call import Answer, Call, Task, Verb
from autofit_launcher.config.schema import DeviceRules, RecoverRules, RunRules, TrialRules
from autofit_launcher.errors import ExitCode

LAUNCHER = Path(main.__file__).parents[1]


def juggle(call: Call) -> Iterator[Task]:
    for _ in range(2):
        yield lambda: Answer(status=ExitCode.RUN_FAILED, record={"flags": sorted(call.flags), "words": call.words, "command": call.command})


def juggling(monkeypatch: pytest.MonkeyPatch, usage: str) -> None:
    """Makes a verb of ``juggle``, as of a function of a module of the command line's."""
    monkeypatch.setitem(sys.modules, "autofit_launcher.cli.circus", SimpleNamespace(juggle=juggle))
    new = Verb("circus.juggle", usage, "keeps three in the air", flags={"--high": "higher than that"})
    monkeypatch.setattr(verbs, "VERBS", (*verbs.VERBS, new))


def test_a_verb_added_to_the_table_is_in_help_completion_and_the_message_on_an_unknown_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    juggling(monkeypatch, "--high THINGS")
    main.run(["--help"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "autofit juggle keeps three in the air" in lines
    for words in (["juggle", "--help"], ["help", "juggle"]):
        assert main.run(words) == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == "autofit juggle --high THINGS" and lines[lines.index("--high") + 1] == "higher than that"
    monkeypatch.setenv("COMP_LINE", "autofit ")
    main.run(["-sc", "query=bash"])
    assert "juggle" in capsys.readouterr().out.split()
    monkeypatch.setenv("COMP_LINE", "autofit juggle ")
    main.run(["-sc", "query=bash"])
    assert capsys.readouterr().out.split() == ["--high"]
    assert main.run(["jugle"]) == 1
    err = capsys.readouterr().err
    assert "Did you mean 'juggle'?" in err and "juggle. A command of yours" in err


def test_a_verb_gets_its_flags_its_words_and_its_command_and_each_job_answers_for_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    juggling(monkeypatch, "-- COMMAND")
    assert main.run(["juggle", "--json", "a=b", "--high", "--", "x", "--json", "--high"]) == 5
    line = '{"flags": ["--high"], "words": ["a=b"], "command": ["x", "--json", "--high"]}\n'
    assert capsys.readouterr().out == 2 * line


def test_each_verb_has_a_line_of_the_help_and_a_page_of_its_own_within_80_columns() -> None:
    whole = verbs.help_text()
    assert all(len(line) <= 80 for line in whole.splitlines()) and len(whole.splitlines()) <= 60
    for verb in verbs.VERBS:
        page = manual.page(verb)
        assert f"  autofit {verb.name} " in whole and verb.help in whole and "\n" not in verb.help
        assert page.startswith(f"autofit {verb.name}") and verb.help in " ".join(page.split()) and all(flag in page for flag in verb.flags)
        assert [line for line in page.splitlines() if len(line) > 80] == [] and len(page.splitlines()) <= 60


def test_a_page_tells_each_key_of_a_recipe_with_its_default_and_what_the_schema_says_of_it() -> None:
    page = " ".join(manual.page(verbs.named("train"), whole=True).split())
    for name, part in {"device": DeviceRules, "recover": RecoverRules, "trial": TrialRules, "run": RunRules}.items():
        for key, field in part.model_fields.items():
            assert f"{name}.{key}" in page and " ".join(str(field.description).replace("``", "").split()) in page
    assert "recover.restarts = 5 Times that a run is started again" in page and "device.share = false True: accept a card" in page
    assert "ask.micro_batch" not in page.partition("Keys")[0] and "ultralytics: checkpointing, image_size, micro_batch" in page
    resume = manual.page(verbs.named("resume"))
    assert "recover.on_nan = stop" in resume and "device.memory" not in resume


def test_only_the_terminal_prints_and_only_cli_exits() -> None:
    """In the launcher's own process: what runs in the trainer's prints as it likes. ``__main__`` speaks where a signal comes before
    ``cli`` is loaded."""
    apart = {"inside", "native"}
    said = {
        str(path.relative_to(LAUNCHER)): names
        for path in LAUNCHER.rglob("*.py")
        if not apart & set(path.relative_to(LAUNCHER).parts) and (names := _spoken(path))
    }
    assert said.pop("__main__.py") == {"sys.stderr", "sys.exit"}
    assert {file for file, names in said.items() if names & {"print", "sys.stdout", "sys.stderr"}} == {"cli/say.py"}
    assert {file for file, names in said.items() if names & {"exit", "sys.exit", "SystemExit"}} == {"cli/main.py"}


def _spoken(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    dotted = {f"{node.value.id}.{node.attr}" for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    return (names | dotted) & {"print", "exit", "SystemExit", "sys.stdout", "sys.stderr", "sys.exit"}
