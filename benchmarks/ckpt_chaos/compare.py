"""The last weights of a run, held against the undisturbed run's: one line, the same for every run that came to the same.

python -m benchmarks.ckpt_chaos.compare TRAINING OUT

What an Ultralytics run keeps is in half precision, and the order of its images begins anew where it goes on: one that went on is held
against a run that was ended between two saves, at the same epoch, and went on.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.ckpt_chaos import trainings

EXACT = 1e-5
"""The largest difference of a weight from one run to another of the same training."""


def reference(training: str, out: Path) -> Path:
    """The folder of the run that this one is held against."""
    work = out.parents[1]
    if training == "yolo" and 0 < (intervals := trainings.went_on_from(training, out)) < trainings.EPOCHS["yolo"]:
        return work / f"ended-after-{intervals}" / "out"
    return work / "reference" / "out"


def main(training: str, place: str) -> int:
    out = Path(place)
    other = reference(training, out)
    got, wanted = trainings.weights(training, out), trainings.weights(training, other)
    if got.keys() != wanted.keys():
        print("other weights: not of the same names")
        return 0
    off = max(float((got[name] - wanted[name]).abs().max()) for name in got)
    print("the same weights" if off <= EXACT else f"other weights: {off:.3g} away")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
