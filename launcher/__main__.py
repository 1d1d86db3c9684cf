"""``python -m launcher`` is ``autofit``."""

from launcher.cli import main

main()
