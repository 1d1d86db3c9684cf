"""The environment in which a person's own program is tried: it sends nothing, fetches nothing, and leaves no caches beside their files."""

QUIET = {
    "WANDB_MODE": "disabled", "COMET_MODE": "disabled", "CLEARML_OFFLINE_MODE": "1", "NEPTUNE_MODE": "debug", "MLFLOW_TRACKING_URI": "",
    "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
    "OMP_WAIT_POLICY": "passive",
}  # fmt: skip
"""Variables against uploads, downloads, caches beside the person's files, and threads that compute as they wait. None changes how many
there are, or what is computed: the full run doesn't have them, and a trial must need what it needs (two threads of tokenizers: 12 MiB)."""
