"""The environment in which transformers writes only where it is told and asks no network, and what it imports. Standard library only."""

from __future__ import annotations

from pathlib import Path

IMPORTS = (
    "launcher.trainers.transformers.native.hf_run",  # first: hides a folder named datasets from transformers
    "torch", "torch._dynamo", "torch._inductor", "accelerate", "transformers", "transformers.trainer_seq2seq",
    "transformers.trainer_callback", "transformers.generation", "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto", "transformers.models.auto.processing_auto", "transformers.integrations",
    "huggingface_hub", "safetensors.torch",
)  # fmt: skip
"""What a full run imports sooner or later. Imported before a CPU budget is taken, in the trial and in the full run alike
(``budgeted --imports``), so that both count the same base and a late import cannot eat the budget."""

SPEECH_IMPORTS = (
    "soundfile",
    "jiwer",
    "transformers.models.whisper.modeling_whisper",
    "transformers.models.whisper.processing_whisper",
    "transformers.models.whisper.tokenization_whisper",
    "transformers.models.whisper.feature_extraction_whisper",
    "transformers.models.whisper.english_normalizer",
)


def prepare(folder: Path) -> dict[str, str]:
    """What to add to a trial's environment. ``folder`` (the trial's own) takes what must be written.

    Models on the hub were fetched before: a trial reads the person's cache and asks no network.
    """
    (folder / "inductor").mkdir(parents=True, exist_ok=True)
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "inductor"),
    }
