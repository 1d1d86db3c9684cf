"""Links between the documents lead somewhere, and the README names the command that runs the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(document: Path) -> Iterator[str]:
    """The links of a document that lead to no file, or to no heading of it."""
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert list(broken(document)) == []


def test_decisions_are_few_and_each_says_its_number_and_whether_it_holds() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").iterdir())
    assert [path.name[:4] for path in decisions] == [f"{number:03d}-" for number in range(1, len(decisions) + 1)] and len(decisions) <= 15
    heads = {path.name: path.read_text(encoding="utf-8").splitlines()[:3] for path in decisions}
    assert [name for name, head in heads.items() if not (head[0].startswith(f"# {name[:3]}. ") and head[2].startswith("Status: "))] == []


def test_every_attack_names_tests_that_are_there_and_marks_the_slow_ones() -> None:
    text = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    named = re.findall(r"\[(test_\w+)\]\(\.\./([^)]+)\)(\*?)", text)
    assert len(named) > 60 and text.count("](../") == len(named)
    for name, path, slow in named:
        found = re.search(rf"((?:^@.*\n(?:^[ )].*\n)*)*)def {name}\(", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert found is not None, (name, path)
        assert not slow or "pytest.mark.slow" in (ROOT / path).read_text(encoding="utf-8"), (name, path)
        assert slow or not re.search(r"^@pytest\.mark\.slow", found[1], flags=re.MULTILINE), f"{name} is a slow test"


def test_every_make_target_that_is_declared_or_documented_has_a_rule() -> None:
    """`make survival` had lost its rule and did nothing, without a word."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    declared = re.search(r"^\.PHONY: (.+)$", makefile, flags=re.MULTILINE)
    assert declared is not None
    documented = {name for document in DOCUMENTS for name in re.findall(r"`make ([a-z-]+)", document.read_text(encoding="utf-8"))}
    assert {*declared[1].split(), *documented} - rules == set()
