"""Sphinx's settings for `make docs`: the documents of this repository as a site, and pages made of the schema. Builds without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import pages  # noqa: E402

project = "autofit"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "build/pages/*.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/sentence_transformers_trainer/README.md"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = "autofit"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_extra_path = [str(ROOT / "build" / "pages" / "extra")]
templates_path: list[str] = []


def setup(app: Any) -> None:
    app.connect("source-read", pages.without_links_to_folders)


pages.write(ROOT / "build" / "pages")
