"""Every command line that a document names is one that autofit takes: its verb, its flags, its recipe and keys."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from autofit_launcher.cli import main, verbs
from autofit_launcher.pretended import catalogue
from tests.helpers.places import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
LINE = re.compile(r"(?:^ {4}|`|^\$ |```sh\n)autofit ((?:'[^']*'|\"[^\"]*\"|[^`\n#|])+)", re.MULTILINE)
MINE = ("recipe=NAME", "recipe=mine", "recipe=embeddings_demo")
SAID = {**dict.fromkeys(MINE, "recipe=yolo_demo"), "data=...": "data=d.yaml", "VERB": "train", "...": ""}
"""Words that stand for a person's own, or an example's."""


def lines() -> list[str]:
    """Command lines of the documents, each once, without the parts that may be left out."""
    told = {line.strip() for document in DOCUMENTS for line in LINE.findall(document.read_text(encoding="utf-8"))}
    settings = re.findall(r"^\| `([\w.]+=[^`]+)`", (ROOT / "docs" / "settings.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    told |= {f"train recipe=yolo_demo {words}" for words in settings if ".NAME" not in words}
    return sorted({re.sub(r"\[[^]]*[ A-Z][^]]*\]|> .*|\\|^autofit ", "", line) for line in told})


@pytest.mark.parametrize("line", lines())
def test_autofit_takes_what_a_document_says(line: str, tmp_path: Path) -> None:
    Path("train.py").write_text("p.add_argument('--batch-size', type=int, default=8)\n", encoding="utf-8")
    name, *words = [said for word in shlex.split(line) if (said := SAID.get(word, word))]
    verb = verbs.find(name)
    assert verb is not None, line
    before, command = main._split(words, verb)
    _, rest = main._flagged(before, verb)
    assert not [word for word in rest if word.startswith("--") and word not in ("--json", "--help", "--cfg")]
    for cards in (word for word in rest if word.startswith("gpu=")):
        assert catalogue.named(cards.removeprefix("gpu=").split(","))
    keys = [word for word in rest if "=" in word and not word.startswith("gpu=")]
    if keys and verb.composes and not command and verb.name not in ("run", "init"):
        recipe = [] if any(word.startswith("recipe=") for word in keys) else ["recipe=yolo_demo"]
        how = ["ladder", "-m"] if "-m" in rest else ["train", "--cfg", "job"]
        assert main.run([*how, *recipe, *keys]) == 0
    elif keys and verb.commands:
        assert main.run(["run", "--cfg", "job", *keys, "--", "python", "train.py"]) == 0
