"""The documents as a site: built without a warning and without a network, with every key and recipe; its first page's commands run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

NOWHERE = "http://127.0.0.1:9"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["'](https?:)?//|<link[^>]*rel=["']stylesheet["'][^>]*href=["'](https?:)?//|@import"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx")
    place = tmp_path_factory.mktemp("site")
    env = {**os.environ, "PYTHONPATH": str(ROOT), **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), NOWHERE)}
    argv = [
        sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", str(ROOT / "docs" / "site"), str(ROOT), str(place),
    ]  # fmt: skip
    built = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return place


def test_the_site_asks_nothing_of_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50 and [page.name for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []
    assert (site / "index.html").read_text(encoding="utf-8").count("docs/index.html") == 1


def test_the_pictures_are_those_that_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    import pictures  # type: ignore[import-not-found]

    monkeypatch.setattr(pictures, "PLACE", tmp_path)
    pictures.main()
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "pictures").iterdir()}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_the_first_page_run_in_their_order(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "first_training.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    commands = re.findall(r"^```sh\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(commands) == 4
    said = [subprocess.run(["sh", "-ec", one], cwd=tmp_path, env=env, capture_output=True, text=True, check=False) for one in commands]
    assert [(one.returncode, one.stderr[-2000:]) for one in said if one.returncode] == []
    assert "rung" in said[1].stdout and "report.html" in said[2].stdout and "micro_batch 128 instead of 256" in said[3].stdout
