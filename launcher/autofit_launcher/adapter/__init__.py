"""The names that a trainer's package imports: the adapter's interface, the values it is given and returns, and what adapters share.

It is the launcher's side. A trainer's trial runs in the trainer's own process and imports ``autofit_launcher.inside.api`` instead; its
tests subclass ``autofit_launcher.trainers.suite.AdapterSuite``. Other modules may move without notice; the names in ``__all__`` stay.
"""

from autofit_launcher.adapter import log_line
from autofit_launcher.adapter.commands import Checkpoint, Command, Inputs, TrialPlan, absolute, copies, destination_faults
from autofit_launcher.adapter.log_line import LogLine, TrainerWords
from autofit_launcher.adapter.progress import Progress
from autofit_launcher.adapter.protocol import FIRST, Adapter, Asked, Correction, RunStart, Saved, Weights, WheelSpec, row_by_row
from autofit_launcher.adapter.recognised import Belief, Understood
from autofit_launcher.config.schema import DeviceRules, LadderRules, Recipe, TrainerRules, WheelRule
from autofit_launcher.errors import PLACE, BadInput, Fault, did_you_mean
from autofit_launcher.ladder.rungs import Ladder, Rung, Value, halves_down
from autofit_launcher.ladder.same_training import Length
from autofit_launcher.ladder.twins import Finding
from autofit_launcher.machine.devices import Budget
from autofit_launcher.machine.packages import package_folder

__all__ = [
    "FIRST",
    "PLACE",
    "Adapter",
    "Asked",
    "BadInput",
    "Belief",
    "Budget",
    "Checkpoint",
    "Command",
    "Correction",
    "DeviceRules",
    "Fault",
    "Finding",
    "Inputs",
    "Ladder",
    "LadderRules",
    "Length",
    "LogLine",
    "Progress",
    "Recipe",
    "RunStart",
    "Rung",
    "Saved",
    "TrainerRules",
    "TrainerWords",
    "TrialPlan",
    "Understood",
    "Value",
    "Weights",
    "WheelRule",
    "WheelSpec",
    "absolute",
    "copies",
    "destination_faults",
    "did_you_mean",
    "halves_down",
    "log_line",
    "package_folder",
    "row_by_row",
]  # fmt: skip
