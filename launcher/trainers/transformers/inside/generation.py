"""Forces an evaluation's generation to its full length, where its memory peaks. Loads transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from launcher.trainers.transformers.inside.guard import NotCovered
from launcher.worker.recorder import Recorder

WITHOUT_END = 1 << 20
"""``min_length`` that keeps ``generate`` from stopping early: it runs to its own maximum, where the key-value cache peaks."""


def force_full_length(model: Any, wanted: int | None, recorder: Recorder) -> list[int]:
    """Makes the model generate up to its own maximum, whatever it would say. Returns a list that fills with the lengths that were seen."""
    lengths: list[int] = []
    generation = model.generation_config
    generation.min_length = WITHOUT_END
    if (first := getattr(generation, "no_timestamps_token_id", None)) is not None:  # a timestamp would end Whisper's segment early
        generation.suppress_tokens = [*(generation.suppress_tokens or ()), *range(first + 1, model.config.vocab_size)]
    wanted = wanted or model.generation_config.max_length
    generate = model.generate

    def watched(*args: Any, stopping_criteria: Any = None, **kwargs: Any) -> Any:
        limit = Limit(generation.eos_token_id)
        tokens = generate(*args, stopping_criteria=StoppingCriteriaList([*(stopping_criteria or ()), limit]), **kwargs)
        length = int(tokens.shape[-1])
        if wanted and length < wanted and limit.cut:
            length = limit.length
        lengths.append(length)
        if wanted and length < wanted:
            raise NotCovered(f"generation stopped after {length} of {wanted} tokens, so its memory peak was not seen")
        recorder.observe(generation_length=wanted)
        return tokens

    model.generate = watched
    return lengths


class Limit(StoppingCriteria):  # type: ignore[misc]
    """Stops nothing, and sees how long a generation became, its prompt included, and whether it was cut or had ended by itself.

    Whisper gives back what it generated without the prompt; before transformers 5 the longest length counts the prompt too.
    """

    def __init__(self, ends: int | Sequence[int] | None) -> None:
        self._ends = [] if ends is None else ends
        self.length, self.cut = 0, False

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        end = torch.as_tensor(self._ends, dtype=input_ids.dtype, device=input_ids.device).reshape(-1)
        self.length = max(self.length, int(input_ids.shape[-1]))
        self.cut = not bool(torch.isin(input_ids[:, -1], end).all())
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
