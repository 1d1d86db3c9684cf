"""Takes orders whose payload is a rung as a built-in trainer's command line; runs a truncated, real training of it on the worst data.

The very script that the full run launches is run, with the very words, through transformers' own loop, loaders, evaluation and optimizer,
and to its own end: the best checkpoint loaded, the model saved, the last evaluation. Replaced are which samples come (``worst``), how
many, and where it writes. Generation is forced to its full length. What becomes of every argument in here is in ``table``.
What it relies upon is listed in ``guard.RELIANCES``; what of it is not seen to happen makes the trial vacuous.

Payload: ``script`` (dotted module with ``main(argv)``), ``argv`` (this rung's own words), ``imports`` (modules to import
before the budget is taken), ``generates`` (bool: evaluation generates text), ``saves`` (bool: on a card, too).
"""

from __future__ import annotations

import importlib

from launcher.shared.orders import Orders
from launcher.shared.report import Phase
from launcher.trainers.transformers.environment import IMPORTS
from launcher.trainers.transformers.inside.guard import check_transformers, untried
from launcher.trainers.transformers.inside.plan import Plan
from launcher.worker import budget
from launcher.worker.recorder import Recorder


def run(orders: Orders, recorder: Recorder) -> None:
    """The trial. Returns when it went through; raises whatever ended it."""
    for name in (*IMPORTS, *orders.payload["imports"]):
        importlib.import_module(name)
    from launcher.trainers.transformers.inside.follower import Follower  # base, too: the full run has none of it

    taken = budget.take(orders)  # at the very place where the full run takes it: what comes before is base, and not needed
    recorder.budget(taken)
    check_transformers()
    if said := untried():
        recorder.note(said)
    plan = Plan.of(orders)
    script = importlib.import_module(plan.script)
    script.arguments(plan.full_argv)  # what the full run would refuse is refused now
    for complaint in budget.complaints(orders.device):
        recorder.note(complaint)
    recorder.phase(Phase.SETUP)
    follower = Follower(plan, recorder, taken.base_bytes)
    follower.install()
    script.main(plan.argv)
    if not follower.finished:
        raise RuntimeError("the trainer ended before the trial had seen its steps")
    if unseen := follower.hooks.unseen():
        recorder.hint(unseen)  # without the last phase the verdict is "vacuous", and these are its words
    else:
        recorder.phase(Phase.DONE)
