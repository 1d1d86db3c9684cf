"""The environment in which a person's own program is tried: it sends nothing, fetches nothing, and leaves no caches beside their files."""

QUIET = {
    "WANDB_MODE": "disabled", "COMET_MODE": "disabled", "CLEARML_OFFLINE_MODE": "1", "NEPTUNE_MODE": "debug", "MLFLOW_TRACKING_URI": "",
    "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
    "OMP_WAIT_POLICY": "passive",
}  # fmt: skip
"""Variables against uploads, downloads, and caches beside the person's files. None changes how many threads a program has, or what it
computes: the full run doesn't have these variables, and a trial must need what the run needs (two threads of tokenizers: 12 MiB)."""
