"""One name, one thing: a class has a name of its own in the whole of ``launcher/``."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.rooms import PACKAGE, Tree
from tests.helpers.places import ROOT

ALIKE = {"Argument", "Collate", "Hooks", "NotCovered", "Plan", "Probe", "Refused", "TreatmentKind"}
"""The same thing in two trainers, or for two libraries: none of them may import the other's."""


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in Tree(ROOT).parsed.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.removeprefix(PACKAGE + "."))
    shared = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert shared.keys() == ALIKE, shared
    assert all(module.startswith("trainers.") for modules in shared.values() for module in modules)
