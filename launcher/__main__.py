"""``python -m launcher`` is ``autofit``."""

from autofit_launcher import main

main()
