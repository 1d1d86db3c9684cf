"""Names that the trial of a trainer's package imports in the trainer's process: its orders, its recorder, and the memory budget."""

from autofit_launcher.inside import budget
from autofit_launcher.inside.recorder import Recorder
from autofit_launcher.shared.orders import Orders
from autofit_launcher.shared.report import Phase

__all__ = ["Orders", "Phase", "Recorder", "budget"]
