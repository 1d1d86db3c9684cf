"""Takes a model's name; brings it from the hub into its cache, where trials and the full run find it. Nothing where it is there.

python -m autofit_sentence_transformers.inside.fetch OWNER/NAME
"""

from __future__ import annotations

import sys

WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.py")


def main(argv: list[str]) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    (name,) = argv
    try:
        snapshot_download(name, allow_patterns=list(WANTED), local_files_only=True)
    except LocalEntryNotFoundError:
        snapshot_download(name, allow_patterns=list(WANTED))


if __name__ == "__main__":
    main(sys.argv[1:])
