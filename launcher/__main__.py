"""``python -m launcher`` is ``autofit``."""

from launcher.cli.main import main

main()
