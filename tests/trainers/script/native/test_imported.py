"""What waits for a module acts when it has been imported, whoever has asked for it before."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from autofit_launcher.trainers.script.native.imported import after_import


def test_a_module_that_is_only_looked_for_is_still_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waited_for.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    acted = []
    after_import({"waited_for": lambda module: acted.append(module.VALUE)})
    assert importlib.util.find_spec("waited_for") is not None and importlib.util.find_spec("waited_for") is not None
    assert acted == []
    import waited_for  # type: ignore[import-not-found]

    assert acted == [1] and waited_for.VALUE == 1
