"""Names that the trial of a trainer's package imports in the trainer's process: its orders, its recorder, and the memory budget."""

from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import Phase
from autofit_launcher.inside import budget
from autofit_launcher.inside.recorder import Recorder

__all__ = ["Orders", "Phase", "Recorder", "budget"]
