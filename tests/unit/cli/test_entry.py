"""A person's own ``yaml`` or ``hydra`` on PYTHONPATH is their script's, and breaks nothing of autofit's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autofit_launcher import __main__ as entry
from autofit_launcher.machine import process

CONSOLE_SCRIPT = ("-P", "-c", "import sys; from autofit_launcher.__main__ import main; sys.exit(main())")
"""As an installer writes it: the first folder on its path is that of the programs."""


STARTS = {"script": CONSOLE_SCRIPT, "-m": ("-m", "autofit_launcher"), "detached": ("-P", str(process.ENTRY), "autofit_launcher")}


@pytest.mark.parametrize("start", STARTS)
def test_modules_named_like_autofits_dependencies_are_not_autofits(tmp_path: Path, start: str) -> None:
    """A folder with modules of the names of some that autofit imports, and torch does without; ``hydra`` is a package."""
    for name in ("yaml", "omegaconf", "pydantic", "rich", "psutil", "jinja2", "statistics"):
        (tmp_path / f"{name}.py").write_text("SETTINGS = {'out': 64}\n", encoding="utf-8")
    (tmp_path / "hydra").mkdir()
    (tmp_path / "hydra" / "__init__.py").touch()
    env = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, *STARTS[start], "recipes"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "yolo_demo" in done.stdout + done.stderr, done.stderr


def test_ctrl_c_while_autofit_is_being_loaded_is_no_traceback() -> None:
    pressed = """
import sys
from autofit_launcher.__main__ import main
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "autofit_launcher.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
main()
"""
    argv, package = (sys.executable, "-c", pressed), Path(entry.__file__).parent
    done = subprocess.run(argv, cwd=package, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, "autofit: interrupted by SIGINT\n")
