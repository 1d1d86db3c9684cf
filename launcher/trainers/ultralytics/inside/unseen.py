"""What a trial puts into Ultralytics, and whether it was really called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Hooks:
    """Of one trial. A hook that never was called makes the trial prove nothing."""

    NEEDED: Mapping[str, str] = {
        "training batches": "the training loader took its batches from elsewhere than the trial's script (DataLoader.batch_sampler)",
        "validation batches": "the validation loader took its batches from elsewhere than the trial's script (DataLoader.batch_sampler)",
        "labels": "the data set's labels went past the trial's own cache (ultralytics.data.dataset: load_ and save_dataset_cache_file)",
        "statistics": "the metrics went past the trial (validator.get_stats, validator.metrics.stats)",
        "end": "the run ended without the final validation of its checkpoint (BaseTrainer.final_eval)",
    }

    OBSERVED = ("micro_batch", "image_size", "device", "largest_val_input")
    """What a trial has always seen by its end."""

    VALIDATION = ("validation batches", "statistics", "end", "largest_val_input")

    def __init__(self) -> None:
        self._seen: dict[str, bool] = {}
        self._validates = True

    def seen(self, name: str, as_wanted: bool = True) -> None:
        """Something was called; whether it was as the trial wants it. Once otherwise is enough."""
        self._seen[name] = as_wanted and self._seen.get(name, True)

    def ends_with_training(self) -> None:
        """What only a validation calls isn't needed: an earlier process of this trial has called it."""
        self._validates = False

    def unseen(self, observed: Mapping[str, Any]) -> str:
        """What did not happen, in words, or an empty string."""
        later = () if self._validates else self.VALIDATION
        missing = [words for name, words in self.NEEDED.items() if name not in later and not self._seen.get(name)]
        missing += [f"{wheel} was never seen" for wheel in self.OBSERVED if wheel not in later and wheel not in observed]
        return f"this Ultralytics works otherwise than the trial knows it: {'; '.join(missing)}" if missing else ""
