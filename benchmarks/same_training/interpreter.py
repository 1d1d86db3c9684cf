"""An interpreter that sees all that another one sees, and in which the observer is loaded: a light environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from benchmarks.common.rows import ROOT

HERE = Path(__file__).resolve().parent
_ASKED = "import json, sys; print(json.dumps([sys._base_executable, [one for one in sys.path if 'site-packages' in one]]))"
_YOLO = "#!{python}\nimport sys\nfrom ultralytics.cfg import entrypoint\nsys.exit(entrypoint())\n"


def made(python: str, folder: Path) -> Path:
    """Makes the environment anew and returns its interpreter. Programs that people start by name lie beside it."""
    base, places = json.loads(subprocess.run([python, "-c", _ASKED], capture_output=True, text=True, check=True).stdout)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True)
    own = next(folder.glob("lib/python3*/site-packages"))
    shutil.copy(HERE / "observer.py", own / "same_training_observer.py")
    known = next(Path(str(metadata.distribution("autofit-launcher").locate_file("."))).glob("autofit_launcher-*.dist-info"))
    shutil.copytree(known, own / known.name)  # its adapters are found by it
    lines = [str(ROOT / "launcher"), *places, "import same_training_observer"]
    (own / "same_training.pth").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = folder / "bin" / "python"
    program = folder / "bin" / "yolo"
    program.write_text(_YOLO.format(python=found), encoding="utf-8")
    program.chmod(0o755)
    return found


def has(python: Path, module: str) -> bool:
    """Whether it can import a module, which isn't imported."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([str(python), "-c", code], capture_output=True, check=False).returncode == 0
