"""Loads the ``_autofit*.py`` beside it into a Python process before the program begins, which then finds what plain Python would give it.

As ``sitecustomize.py`` in a folder that stands first on PYTHONPATH. Each module that it loads has a ``begin()``, and finds
other files of the folder by relative imports.

- Theirs are private names; the folder is taken off ``sys.path`` again.
- What they import of the standard library is the library's own, whatever else of that name is on PYTHONPATH. Where the program has a module
  of the same name (``statistics.py`` beside a script), the library's is taken out of ``sys.modules`` again: the program imports its own.
- ``sitecustomize`` is the one that this file hides, or none.

Standard library only, and little of it: this runs in every Python process of a command, whatever its version.
"""

import os
import sys

bootstrap, external = sys.modules["_frozen_importlib"], sys.modules["_frozen_importlib_external"]
"""The modules that importlib is made of; importlib itself brings other modules."""
HERE = os.path.dirname(os.path.abspath(__file__))
PRIVATE = "_autofit"


def _library(path: list[str]) -> list[str]:
    """The standard library's own places; all there are where it can't be told from the rest."""
    home = os.path.dirname(os.path.realpath(os.__file__))
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    own = [place for place in path if os.path.realpath(place) == home or os.path.basename(place) in ("lib-dynload", archive)]
    return own or path


def _first() -> list[str]:
    """Returns what Python will put first on ``sys.path`` as the program begins: the script's folder, or this one for ``-m`` and ``-c``."""
    if getattr(sys.flags, "safe_path", False):
        return []
    program = (getattr(sys, "argv", None) or [""])[0]
    if program in ("", "-", "-c", "-m"):
        return [os.getcwd()]
    real = os.path.realpath(program)
    return [program if os.path.isdir(real) else os.path.dirname(real)]


def _loaded(path: list[str], program_path: list[str]) -> list[object]:
    """Our modules, loaded from the standard library and from nowhere else; what they brought doesn't stand in the program's way."""
    before = set(sys.modules)
    sys.path[:] = _library(path)
    try:
        return [_load(name[:-3]) for name in sorted(os.listdir(HERE)) if name.startswith(PRIVATE) and name.endswith(".py")]
    finally:
        sys.path[:] = program_path
        _withdraw(set(sys.modules) - before, before)


def _load(name: str) -> object:
    spec = external.spec_from_file_location(name, os.path.join(HERE, f"{name}.py"), submodule_search_locations=[HERE])
    module = sys.modules[name] = bootstrap.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _withdraw(brought: set[str], before: set[str]) -> None:
    """Takes those out of ``sys.modules`` that the program, with ``sys.path`` as it is now, would find somewhere else."""
    for top in {name.partition(".")[0] for name in brought} - before:
        if not top.startswith(PRIVATE) and _origin(top) not in (None, getattr(sys.modules[top].__spec__, "origin", None)):
            for name in [name for name in brought if name == top or name.startswith(f"{top}.")]:
                del sys.modules[name]


def _origin(name: str) -> object:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec.origin or spec.loader
    return None


def _chained() -> bool:
    """Runs the sitecustomize that this one hides, in its place; False where there is none."""
    spec = external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return False
    module = sys.modules["sitecustomize"] = bootstrap.module_from_spec(spec)
    spec.loader.exec_module(module)
    return True


def _main() -> None:
    path = [place for place in sys.path if os.path.abspath(place or os.getcwd()) != HERE]
    first = _first()
    modules = _loaded(path, [*first, *path])
    try:
        for module in modules:
            module.begin()  # type: ignore[attr-defined]
    finally:
        sys.path[: len(first)] = []  # Python puts it there itself


_main()
if not _chained():
    raise ImportError("there is no other sitecustomize", name="sitecustomize")  # as site expects it, and passes over
