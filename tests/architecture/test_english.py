"""A docstring names its subject, and a function's says by a verb what the function does."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.rooms import Tree
from tests.helpers.places import LAUNCHER

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
