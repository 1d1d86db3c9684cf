"""A terminal's text with its colours, on standard input -> the README's picture, an SVG on standard output.

tmux capture-pane -e -p -S -400 | sed '/Creating new/,/Starting training/c ...' | python docs/picture.py > docs/demo.svg    (in 110 columns)
"""

from __future__ import annotations

import io
import re
import sys

from rich.console import Console
from rich.text import Text

WIDTH = 110


def main() -> None:
    text = Text.from_ansi(sys.stdin.read().rstrip("\n"))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(text, soft_wrap=False)
    svg = console.export_svg(title="autofit train recipe=yolo_demo")
    print(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono"))  # nothing is fetched


if __name__ == "__main__":
    main()
