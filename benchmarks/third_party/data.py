"""What to make and where -> small data of the form that somebody's training script expects. Run by the script's own Python.

    python data.py KIND FOLDER

Noise throughout: what is tried is memory, not learning. Nothing is downloaded.
"""

from __future__ import annotations

import json
import pickle
import shutil
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


TWO_FILES = {
    "trainer.yaml": "trainer: {max_epochs: 2, accelerator: cpu, logger: false}\n",
    "data.yaml": "data: {batch_size: 16384}\n",
}


def mnist_and_two_files(folder: Path) -> None:
    """``twice_mnist``, and two configuration files of LightningCLI's; the batch stands in the second."""
    twice_mnist(folder)
    for name, text in TWO_FILES.items():
        (folder / name).write_text(text)


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


def masked(folder: Path) -> None:
    """``text``'s lines and words, with a small BERT's configuration."""
    from transformers import BertConfig

    text(folder)
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        (folder / "model" / name).unlink(missing_ok=True)
    words = json.loads((folder / "model" / "tokenizer_config.json").read_text())
    (folder / "model" / "tokenizer_config.json").write_text(json.dumps({**words, "mask_token": "<unk>"}))
    config = BertConfig(
        vocab_size=len(WORDS) + 2,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config.save_pretrained(folder / "model")


def sentences_in_classes(folder: Path) -> None:
    """FOLDER/{train,val}.csv, a small BERT in FOLDER/model, and the metric that `evaluate` would download: FOLDER/accuracy.py."""
    from transformers import BertConfig, BertForSequenceClassification

    masked(folder)
    for name, count in (("train", 768), ("val", 64)):
        rows = "".join(f"{one},{at % 2}\n" for at, one in enumerate(sentences(count)))
        (folder / f"{name}.csv").write_text(f"sentence,label\n{rows}")
    config = BertConfig.from_pretrained(folder / "model", num_labels=2)
    BertForSequenceClassification(config).save_pretrained(folder / "model")
    (folder / "accuracy.py").write_text(ACCURACY)


ACCURACY = """import datasets
import evaluate


class Accuracy(evaluate.Metric):
    def _info(self):
        features = datasets.Features({name: datasets.Value("int32") for name in ("predictions", "references")})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        return {"accuracy": sum(map(int.__eq__, map(int, predictions), map(int, references))) / len(references)}
"""


def captioned(folder: Path) -> None:
    """FOLDER/train.json, a picture and its caption in each row, and a small CLIP with what prepares its inputs: FOLDER/model."""
    from PIL import Image
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    text(folder)
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        (folder / "model" / name).unlink(missing_ok=True)
    (folder / "images").mkdir()
    captions = sentences(192)
    for number in range(len(captions)):
        Image.fromarray(CHANCE.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(folder / "images" / f"{number}.png")
    rows = [json.dumps({"image_path": str(folder / "images" / f"{at}.png"), "caption": one}) for at, one in enumerate(captions)]
    (folder / "train.json").write_text("\n".join(rows) + "\n")
    part = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "projection_dim": 64}
    words = {**part, "vocab_size": len(WORDS) + 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = CLIPConfig(text_config=words, vision_config={**part, "image_size": 64, "patch_size": 16}, projection_dim=64)
    CLIPModel(config).save_pretrained(folder / "model")
    CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64}).save_pretrained(folder / "model")


def denoised(folder: Path) -> None:
    """``pictures``, and a small U-Net's configuration: FOLDER/unet/config.json."""
    pictures(folder, size=32)
    (folder / "unet").mkdir()
    config = {
        "_class_name": "UNet2DModel", "sample_size": 32, "layers_per_block": 1, "block_out_channels": [32, 64], "norm_num_groups": 8,
        "down_block_types": ["DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
    }  # fmt: skip
    (folder / "unet" / "config.json").write_text(json.dumps(config))


def wikitext(folder: Path) -> None:
    """FOLDER/{train,valid,test}.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 16_000), ("valid", 400), ("test", 400)):
        (folder / f"{name}.txt").write_text("\n".join(sentences(count)) + "\n")


def boxes(folder: Path) -> None:
    """Images with a box each, as YOLO has them: FOLDER/{images,labels}/{train,val} and FOLDER/boxes.yaml; and the font that YOLOv5 would
    download: FOLDER/config/Arial.ttf."""
    import matplotlib
    from PIL import Image

    for split, count in (("train", 96), ("val", 16)):
        for part in ("images", "labels"):
            (folder / part / split).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(CHANCE.integers(0, 256, (128, 128, 3), dtype=np.uint8)).save(folder / "images" / split / f"{number}.jpg")
            (folder / "labels" / split / f"{number}.txt").write_text(f"{number % 3} 0.5 0.5 0.{number % 5 + 2} 0.{number % 4 + 2}\n")
    (folder / "config").mkdir()
    shutil.copy(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", folder / "config" / "Arial.ttf")
    (folder / "boxes.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: a, 1: b, 2: c}}\n")


STEMS = """audio: {chunk_size: 15360, dim_f: 512, dim_t: 16, hop_length: 1024, n_fft: 2048, num_channels: 2, sample_rate: 44100,
        min_mean_abs: 0.001}
model: {act: gelu, bottleneck_factor: 4, growth: 16, norm: InstanceNorm, num_blocks_per_scale: 2, num_channels: 32, num_scales: 2,
        num_subbands: 4, scale: [2, 2]}
training:
  batch_size: 8
  gradient_accumulation_steps: 1
  grad_clip: 0
  instruments: [vocals, other]
  lr: 9.0e-05
  patience: 2
  reduce_factor: 0.95
  target_instrument: null
  num_epochs: 2
  num_steps: 8
  q: 0.95
  coarse_loss_clip: false
  ema_momentum: 0.999
  optimizer: adam
  read_metadata_procs: 1
  other_fix: true
  use_amp: false
augmentations:
  enable: false
inference: {batch_size: 1, dim_t: 16, num_overlap: 2}
"""


def stems(folder: Path) -> None:
    """Three songs and one, of two stems each, and a configuration: FOLDER/{train,val}/NAME/*.wav, FOLDER/mine.yaml."""
    import soundfile

    for split, count in (("train", 3), ("val", 1)):
        for number in range(count):
            place = folder / split / f"song{number}"
            place.mkdir(parents=True)
            vocals, other = (CHANCE.normal(0, 0.1, (3 * 44100, 2)) for _ in range(2))
            for name, wave in (("vocals", vocals), ("other", other), ("mixture", vocals + other)):
                soundfile.write(place / f"{name}.wav", wave, 44100)
    (folder / "mine.yaml").write_text(STEMS)


def prompts(folder: Path) -> None:
    """``text``, and FOLDER/set/{train,test}.jsonl with a column ``text``."""
    text(folder)
    (folder / "set").mkdir()
    for name, count in (("train", 600), ("test", 80)):
        rows = [json.dumps({"text": sentence}) for sentence in sentences(count)]
        (folder / "set" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


SFT = """model_name_or_path: {0}/model
dataset_name: {0}/set
per_device_train_batch_size: 32
num_train_epochs: 1
max_length: 64
gradient_checkpointing: false
eval_strategy: epoch
report_to: none
use_cpu: true
bf16: false
"""


def prompts_and_file(folder: Path) -> None:
    """``prompts``, and a configuration of TRL's that names them: FOLDER/sft.yaml."""
    prompts(folder)
    (folder / "sft.yaml").write_text(SFT.format(folder))


def proteins(folder: Path, *, graphs: int = 200) -> None:
    """As PyTorch Geometric's TUDataset reads them: FOLDER/PROTEINS/raw/PROTEINS_*.txt."""
    raw = folder / "PROTEINS" / "raw"
    raw.mkdir(parents=True)
    sizes = CHANCE.integers(100, 600, graphs)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    edges = [(at + one, at + one % size + 1) for at, size in zip(first, sizes, strict=True) for one in range(1, size + 1)]
    files = {
        "A": [f"{one}, {other}" for pair in edges for one, other in (pair, pair[::-1])],
        "graph_indicator": np.repeat(np.arange(1, graphs + 1), sizes).tolist(),
        "graph_labels": CHANCE.integers(1, 3, graphs).tolist(),
        "node_labels": CHANCE.integers(0, 3, sizes.sum()).tolist(),
    }
    for name, lines in files.items():
        (raw / f"PROTEINS_{name}.txt").write_text("\n".join(map(str, lines)) + "\n")


def letters(folder: Path) -> None:
    """FOLDER/input.txt, with all the letters that chargpt.py begins its sample with."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "input.txt").write_text("O God, O God!\n" + "\n".join(sentences(2000)) + "\n")


KINDS = {
    one.__name__: one
    for one in (
        mnist, whole_mnist, twice_mnist, mnist_and_two_files, pictures, masks, characters, text, masked, sentences_in_classes,
        captioned, denoised,
        wikitext, boxes, stems, prompts, prompts_and_file, proteins, letters,
    )
}  # fmt: skip

if __name__ == "__main__":
    import torch

    torch.manual_seed(0)  # models are made anew for the plain command
    KINDS[sys.argv[1]](Path(sys.argv[2]))
