"""Takes a model's name; brings it from the hub into its cache, where trials and the full run find it.

python -m launcher.trainers.transformers.inside.fetch OWNER/NAME
"""

from __future__ import annotations

import sys

WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")


def main(argv: list[str]) -> None:
    from huggingface_hub import HfApi, snapshot_download

    (name,) = argv
    files = HfApi().list_repo_files(name)
    weights = () if any(file.endswith(".safetensors") for file in files) else ("pytorch_model*.bin",)
    snapshot_download(name, allow_patterns=[*WANTED, *weights])


if __name__ == "__main__":
    main(sys.argv[1:])
