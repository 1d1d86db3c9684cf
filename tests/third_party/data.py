"""What to make and where -> small data of the form that somebody's training script expects. Run by the script's own Python.

    python data.py KIND FOLDER

Noise throughout: what is tried is memory, not learning. Nothing is downloaded.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
from pathlib import Path

import numpy as np

WORDS = ("the", "a", "cat", "dog", "tree", "river", "runs", "sleeps", "under", "small", "red", "blue", "and", "then", "slowly", "sings")
CHANCE = np.random.default_rng(0)


def mnist(folder: Path, *, train: int = 20_000, test: int = 5000) -> None:
    """The four files of MNIST, as torchvision finds them: FOLDER/MNIST/raw."""
    place = folder / "MNIST" / "raw"
    place.mkdir(parents=True)
    for name, count in (("train", train), ("t10k", test)):
        images = CHANCE.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        (place / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + images.tobytes())
        (place / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + CHANCE.integers(0, 10, count, dtype=np.uint8).tobytes()
        )


def whole_mnist(folder: Path) -> None:
    """As many as there really are, for who splits them by number."""
    mnist(folder, train=60_000, test=10_000)


def twice_mnist(folder: Path) -> None:
    """As Lightning's examples want it: in examples/Datasets, and in the data folder of where they are started."""
    whole_mnist(folder)
    (folder.parent / "pytorch" / "basics" / "data").symlink_to(folder)


def pictures(folder: Path, *, size: int = 80) -> None:
    """Folders of classes, as ImageNet has them: FOLDER/{train,val}/CLASS/*.jpg."""
    from PIL import Image

    for split, count in (("train", 96), ("val", 24)):
        for label in range(4):
            place = folder / split / f"n{label:04d}"
            place.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(CHANCE.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(place / f"{number}.jpg")


def masks(folder: Path, *, count: int = 176, size: int = 64) -> None:
    """FOLDER/imgs/*.jpg and FOLDER/masks/*.png."""
    from PIL import Image

    for name in ("imgs", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.fromarray(CHANCE.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(folder / "imgs" / f"{number:03d}.jpg")
        Image.fromarray(CHANCE.integers(0, 2, (size, size), dtype=np.uint8)).save(folder / "masks" / f"{number:03d}.png")


def characters(folder: Path) -> None:
    """FOLDER/{train,val}.bin and meta.pkl, as nanoGPT's prepare.py leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 200_000), ("val", 20_000)):
        CHANCE.integers(0, 65, count, dtype=np.uint16).tofile(folder / f"{name}.bin")
    letters = [chr(48 + at) for at in range(65)]
    (folder / "meta.pkl").write_bytes(
        pickle.dumps({"vocab_size": 65, "itos": dict(enumerate(letters)), "stoi": {letter: at for at, letter in enumerate(letters)}})
    )


def sentences(count: int) -> list[str]:
    return [" ".join(CHANCE.choice(WORDS, CHANCE.integers(8, 24))) for _ in range(count)]


def text(folder: Path) -> None:
    """FOLDER/{train,val}.txt, and a tokenizer and a small GPT-2 that know their words: FOLDER/model."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder.mkdir(parents=True)
    for name, count in (("train", 1500), ("val", 200)):
        (folder / f"{name}.txt").write_text("\n".join(sentences(count)) + "\n")
    words = {word: at for at, word in enumerate(["<|endoftext|>", *WORDS, "<unk>"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>", bos_token="<|endoftext|>", unk_token="<unk>"
    )
    fast.model_max_length = 256
    fast.save_pretrained(folder / "model")
    config = GPT2Config(vocab_size=len(words), n_positions=256, n_embd=128, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder / "model")


def prompts(folder: Path) -> None:
    """``text``, and FOLDER/set/{train,test}.jsonl with a column ``text``."""
    text(folder)
    (folder / "set").mkdir()
    for name, count in (("train", 600), ("test", 80)):
        rows = [json.dumps({"text": sentence}) for sentence in sentences(count)]
        (folder / "set" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


KINDS = {one.__name__: one for one in (mnist, whole_mnist, twice_mnist, pictures, masks, characters, text, prompts)}

if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]))
