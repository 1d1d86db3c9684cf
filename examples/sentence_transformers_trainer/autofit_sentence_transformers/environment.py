"""The environment in which a trial asks no network and writes only where it is told, and what a run imports. Standard library only."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from autofit_sentence_transformers.files import read_json

IMPORTS = (
    "torch",
    "torch._dynamo",
    "torch._inductor",
    "accelerate",
    "datasets",
    "safetensors.torch",
    "transformers",
    "transformers.modeling_utils",
    "transformers.trainer",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.auto.processing_auto",
    "sentence_transformers",
    "sentence_transformers.sentence_transformer.evaluation",
    "sentence_transformers.sentence_transformer.losses",
    "sentence_transformers.sentence_transformer.trainer",
)
"""What a full run imports sooner or later. Imported before a CPU's budget is taken, in the trial and in the full run alike, so that
both count the same base and a late import can't eat the budget."""


def imports(model: str) -> tuple[str, ...]:
    """``IMPORTS``, and the module of the model's architecture where ``model`` is a folder that names one."""
    kind, found = read_json(Path(model).expanduser() / "config.json").get("model_type"), importlib.util.find_spec("transformers")
    places = (
        (Path(place) / "models" / str(kind) / f"modeling_{kind}.py" for place in found.submodule_search_locations or ()) if found else ()
    )
    return (*IMPORTS, *(f"transformers.models.{kind}.modeling_{kind}" for place in places if place.is_file()))


def offline(scratch: Path) -> dict[str, str]:
    """What to add to a trial's environment. Models on the hub were fetched before; ``scratch`` takes what must be written."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(scratch / "datasets"),
        "WANDB_MODE": "disabled",
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
    }
