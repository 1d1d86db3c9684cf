"""One name, one thing: a class has a name of its own; and a docstring names its subject, and says by a verb what a function does."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.rooms import PACKAGE, Tree
from tests.helpers.places import LAUNCHER

ALIKE = {"NotExact", "Probe"}
"""The same thing in two trainers, for two libraries, or on both sides of a wall: none of them may import the other's."""


CALLED = f"{PACKAGE}.api"
"""Its exceptions are of the calling process, by the names of what they tell."""


def classes() -> dict[str, list[str]]:
    """Public class -> modules that have one of that name."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in Tree(LAUNCHER).parsed.items():
        for node in ast.walk(tree) if module != CALLED else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.removeprefix(PACKAGE + "."))
    return places


def test_a_public_class_has_a_name_of_its_own() -> None:
    places = classes()
    shared = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert shared.keys() == ALIKE, shared
    assert all(module.startswith(("inside.", "trainers.")) for modules in shared.values() for module in modules)


FRAGMENT = re.compile(
    r"\(|(A(fter|lways|s|t)|Before|By|For|From|How|If|In|Its|O[fn]|Th(at|ose)|To|Wh(at|en|ere|ether|ich|ile|o|ose|y)|With(out)?)\b"
)


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Strings that stand alone: first in a module, class or function, or behind an attribute."""
    said = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    return (one.value for one in said if isinstance(one.value, str))


def test_docstrings_name_their_subject() -> None:
    parsed = Tree(LAUNCHER).parsed.items()
    assert not [(name, text[:80]) for name, tree in parsed for text in docstrings(tree) if FRAGMENT.match(text)]
