"""A package's source tree -> what its modules import, start and name, by reading them (ast); nothing of it is run."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "autofit_launcher"
HEAVY = frozenset({"torch", "torchvision", "ultralytics", "transformers", "accelerate", "peft", "lightning", "pytorch_lightning"})
"""What the launcher's own process never loads."""


@dataclass(frozen=True)
class Import:
    """One imported name."""

    name: str
    """Dotted: the module of the tree where it is one, else as it is written."""
    relative: bool
    at_once: bool
    """It is imported when its module is: outside of functions and of ``if TYPE_CHECKING``."""


class Tree:
    """All modules below ``root``, which holds the package's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = sorted((root / PACKAGE).rglob("*.py"))
        self.paths: Mapping[str, Path] = {_dotted(path.relative_to(root)): path for path in paths}

    @cached_property
    def parsed(self) -> Mapping[str, ast.Module]:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.paths.items()}

    @cached_property
    def imports(self) -> Mapping[str, tuple[Import, ...]]:
        return {name: tuple(self._imports(name)) for name in self.paths}

    def _imports(self, module: str) -> Iterator[Import]:
        for node, at_once in _import_statements(self.parsed[module]):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(self._module_of(alias.name), False, at_once)
                continue
            base = self._base(module, node)
            for alias in node.names:
                yield Import(self._module_of(f"{base}.{alias.name}", base), bool(node.level), at_once)

    def _base(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = module if self.paths[module].name == "__init__.py" else module.rpartition(".")[0]
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        return ".".join([*above, *filter(None, [node.module])])

    def _module_of(self, name: str, otherwise: str | None = None) -> str:
        """The module of the tree that ``name`` is; else ``otherwise``, the module it is taken from."""
        return name if name in self.paths or otherwise is None else otherwise

    def loaded_by(self, module: str) -> set[str]:
        """Every module, of the tree or not, that is imported when ``module`` is."""
        found: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [above for above in _packages(name) if above in self.paths]
                waiting += [one.name for one in self.imports.get(name, ()) if one.at_once]
        return found - {module}


def room_of(module: str, room: str) -> str | None:
    """The dotted name of the ``room`` (inside, native) that a module stands in, or None."""
    parts = module.split(".")
    return ".".join(parts[: parts.index(room) + 1]) if room in parts else None


def outside(module: str) -> bool:
    """Whether a module is of the launcher's own process: of no inside and no native."""
    return room_of(module, "inside") is None and room_of(module, "native") is None


def _top(name: str) -> str:
    return name.split(".")[0]


def native_knows_autofit(tree: Tree) -> list[str]:
    """A relative import within the room is its neighbour in the run's folder, too."""
    return [
        f"{module} imports {one.name}"
        for module, imports in tree.imports.items()
        if (room := room_of(module, "native")) is not None
        for one in imports
        if _top(one.name) == PACKAGE and not (one.relative and (one.name == room or one.name.startswith(f"{room}.")))
    ]


def launcher_loads_a_trainer(tree: Tree) -> list[str]:
    """Directly, at the top or in a function; or by a module of the tree that does so as soon as it is imported."""
    faults = []
    for module, imports in tree.imports.items():
        if not outside(module):
            continue
        for one in imports:
            heavy = sorted({_top(name) for name in ({one.name} | tree.loaded_by(one.name))} & HEAVY)
            if heavy:
                faults.append(f"{module} imports {one.name}" + (f", which loads {', '.join(heavy)}" if one.name in tree.paths else ""))
    return faults


def a_program_needs_a_package(tree: Tree) -> list[str]:
    """A script's own interpreter has no package of autofit's: what is loaded there at once is of the standard library."""
    faults = set()
    for module in all_loaded(tree, in_a_program(tree)):
        others = {_top(name) for name in tree.loaded_by(module)} - sys.stdlib_module_names - {PACKAGE}
        faults |= {f"{module} loads {name}" for name in others}
    return sorted(faults)


def in_a_program(tree: Tree) -> tuple[str, ...]:
    """What is loaded into a person's own process first; what these import is there, too."""
    hooks = (module for module in tree.paths if module.startswith(f"{PACKAGE}.trainers.") and module.endswith(".inside.hooks"))
    return (f"{PACKAGE}.inside.start", f"{PACKAGE}.trainers.script.inside.arriving", *hooks)


def a_program_finds_ours(tree: Tree) -> list[str]:
    """In a program's process our modules have a private name, so they name one another relatively; and as they are loaded the standard
    library's modules are its own, while a function's import would find the program's ``resource.py``."""
    faults = []
    for module in sorted(all_loaded(tree, in_a_program(tree))):
        for one in tree.imports[module]:
            if _top(one.name) == PACKAGE and not one.relative:
                faults.append(f"{module} imports {one.name} by its public name")
            if _top(one.name) in sys.stdlib_module_names and not one.at_once:
                faults.append(f"{module} imports {one.name} in a function")
    return faults


def all_loaded(tree: Tree, roots: Iterable[str]) -> set[str]:
    """Modules of the tree that are imported by one of the roots, sooner or later."""
    found: set[str] = set()
    waiting = [root for root in roots if root in tree.paths]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += [one.name for one in tree.imports[module] if one.name in tree.paths]
    return found


def circles(tree: Tree) -> list[str]:
    """A circle of modules that import each other as they are imported."""
    graph = {}
    for module, imports in tree.imports.items():
        wanted = {name for one in imports if one.at_once for name in (one.name, *_packages(one.name)) if name in tree.paths}
        graph[module] = wanted - {module, *_packages(module)}  # a package is there before its modules are
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" -> ".join(reversed(error.args[1]))]
    return []


ONESELF = ("self", "this", "cls", "super()")


def reaches_for_private_names(tree: Tree) -> list[str]:
    """Underscored names that another module of the tree defines, imported or asked of a value that isn't one's own."""
    own = {module: _private_names(parsed) for module, parsed in tree.parsed.items()}
    faults = []
    for module, parsed in tree.parsed.items():
        others = {name for other, names in own.items() if other != module for name in names} - own[module]
        asked = {node.attr for node in ast.walk(parsed) if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ONESELF}
        asked |= {alias.name for node, _ in _import_statements(parsed) if "_future_" not in ast.unparse(node) for alias in node.names}
        faults += [f"{module} reaches for {name}" for name in sorted(asked & others)]
    return faults


STARTERS = re.compile(r"(posix_)?spawn\w*|fork(pty)?|kill(pg)?|system|popen")
"""Functions of ``os``."""


def starts_processes(tree: Tree) -> set[str]:
    """Modules that start, signal or end a process. (Becoming another program, and leaving one's own, is neither.)"""
    return {module for module in tree.paths if _starts(tree, module)}


def _starts(tree: Tree, module: str) -> bool:
    if {_top(one.name) for one in tree.imports[module]} & {"subprocess", "multiprocessing", "pty"}:
        return True
    called = [node.func for node in ast.walk(tree.parsed[module]) if isinstance(node, ast.Call)]
    return any(_starts_or_ends(call) for call in called if isinstance(call, ast.Attribute))


def _starts_or_ends(call: ast.Attribute) -> bool:
    of_os = isinstance(call.value, ast.Name) and call.value.id == "os"
    return bool(STARTERS.fullmatch(call.attr)) if of_os else call.attr in ("kill", "terminate", "send_signal")


# ----------------------------------------------------------------------------------------------------------------------


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _packages(module: str) -> list[str]:
    """The packages that a module lies in, which are imported before it."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _import_statements(node: ast.AST, at_once: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, at_once
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) or _for_types_only(child):
            yield from _import_statements(child, False)
        else:
            yield from _import_statements(child, at_once)


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _private_names(parsed: ast.Module) -> set[str]:
    """Single underscored names that a module defines: functions, classes, constants, and attributes of its objects."""
    names = {node.name for node in ast.walk(parsed) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    names |= {node.id for node in ast.walk(parsed) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.attr for node in ast.walk(parsed) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return {name for name in names if name.startswith("_") and not name.startswith("__") and name != "_"}
