"""What the trial of a trainer's package imports in the trainer's process: its orders, what it reports with, and the memory budget."""

from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.worker import budget
from launcher.worker.recorder import Recorder

__all__ = ["Orders", "Phase", "Recorder", "budget"]
