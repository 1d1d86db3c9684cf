"""The names that a trainer's package imports: the adapter's interface, the values it is given and returns, and what adapters share.

It is the launcher's side. A trainer's trial runs in the trainer's own process and imports ``launcher.inside.api`` instead; its tests
subclass ``launcher.trainers.suite.AdapterSuite``. Other modules may move without notice; the names in ``__all__`` stay.
"""

from launcher.adapter import log_line, progress
from launcher.adapter.build import WheelSpec
from launcher.adapter.commands import Checkpoint, Command, TrialPlan, absolute, copies
from launcher.adapter.faults import destination_faults
from launcher.adapter.inputs import Inputs, package_folder
from launcher.adapter.log_line import LogLine, TrainerWords
from launcher.adapter.progress import Progress
from launcher.adapter.protocol import FIRST, Adapter, Correction, RunStart, Saved, Weights, row_by_row
from launcher.adapter.recognised import Belief, Doubt, Understood, typed
from launcher.config.schema import DeviceRules, LadderRules, Recipe, TrainerRules, TrialRules, Value, WheelRule
from launcher.errors import PLACE, BadInput, Fault, did_you_mean
from launcher.ladder.asked import Asked
from launcher.ladder.course import Length
from launcher.ladder.rungs import Ladder, Rung, halves_down
from launcher.ladder.twins import Finding
from launcher.machine.devices import Budget
from launcher.shared import checkpoint_files
from launcher.shared.report import TrialReport

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
    "Doubt",
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
    "TrialReport",
    "TrialRules",
    "Understood",
    "Value",
    "Weights",
    "WheelRule",
    "WheelSpec",
    "absolute",
    "checkpoint_files",
    "copies",
    "destination_faults",
    "did_you_mean",
    "halves_down",
    "log_line",
    "package_folder",
    "progress",
    "row_by_row",
    "typed",
]  # fmt: skip
