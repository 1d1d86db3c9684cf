"""A process that takes part in a trial."""

from __future__ import annotations

import subprocess
import sys


def test_a_script_whose_python_has_no_torch_ends_with_its_own_words() -> None:
    """At its exit a process tells its rank, and tried to import what the script had just failed to."""
    asked = "import sys; from autofit_launcher.inside import part; print(part.distributed(), part.world_size(), 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "None 1 False\n"
