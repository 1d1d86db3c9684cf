"""``python -m autofit_launcher.trainers.script.inside.fetch OWNER/NAME`` fetches a model of the hub into its cache, for trials."""

from __future__ import annotations

import contextlib
import sys

WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")


def main(name: str) -> None:
    """Fetches one form of the weights. Without a network what is there already will do."""
    from huggingface_hub import HfApi, snapshot_download

    safe = True
    with contextlib.suppress(OSError):
        safe = any(file.endswith(".safetensors") for file in HfApi().list_repo_files(name))
    snapshot_download(name, allow_patterns=[*WANTED, *(() if safe else ("pytorch_model*.bin",))])


if __name__ == "__main__":
    main(sys.argv[1])
