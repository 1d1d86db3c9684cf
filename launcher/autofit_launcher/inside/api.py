"""Names that the trial of a trainer's package imports in the trainer's process: its orders, its recorder, and the memory budget."""

from launcher.inside import budget
from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.shared.report import Phase

__all__ = ["Orders", "Phase", "Recorder", "budget"]
