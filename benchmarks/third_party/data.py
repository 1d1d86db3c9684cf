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
from dataclasses import asdict
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


def few_digits(folder: Path) -> None:
    """``mnist``, less of it."""
    mnist(folder, train=1000, test=200)


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

    for split, count in (("train", 48), ("val", 8)):
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


def citations(folder: Path) -> None:
    """FOLDER/cora.content beside the repository's cora.cites: made-up words and a kind for each of its papers."""
    rng = np.random.default_rng(0)
    papers = sorted({word for line in (folder / "cora.cites").read_text().splitlines() for word in line.split()})
    rows = [[paper, *(rng.random(200) < 0.1).astype(int).astype(str), f"kind{rng.integers(7)}"] for paper in papers]
    (folder / "cora.content").write_text("".join("\t".join(row) + "\n" for row in rows))


def documents(folder: Path) -> None:
    """As nanochat finds them: FOLDER/base_data_climbmix/*.parquet (the last is held out), and a tokenizer of single bytes."""
    _documents(folder / "base_data_climbmix", ("shard_00000", "shard_00001"))
    names = ["bos", *(f"{who}_{end}" for who in ("user", "assistant", "python", "output") for end in ("start", "end"))]
    _bytes(folder / "tokenizer", [f"<|{name}|>" for name in names])


def _documents(folder: Path, names: tuple[str, str]) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    for name, count in zip(names, (3000, 1200), strict=True):
        parquet.write_table(arrow.table({"text": sentences(count)}), folder / f"{name}.parquet")


def _bytes(folder: Path, special: list[str]) -> None:
    """A tokenizer of single bytes, and how many of them each token has."""
    import tiktoken
    import torch

    folder.mkdir(parents=True)
    ranks = {bytes([one]): one for one in range(256)}
    numbered = {name: 256 + at for at, name in enumerate(special)}
    encoding = tiktoken.Encoding("bytes", pat_str=r".+", mergeable_ranks=ranks, special_tokens=numbered)
    (folder / "tokenizer.pkl").write_bytes(pickle.dumps(encoding))
    torch.save(torch.tensor([1] * 256 + [0] * len(special), dtype=torch.int32), folder / "token_bytes.pt")


def lines(folder: Path) -> None:
    """Texts of all lengths, and conversations of such: FOLDER/{pretrain,sft}.jsonl, as minimind reads them."""
    folder.mkdir(parents=True)
    told = sentences(128)
    talks = [[{"role": "user", "content": one}, {"role": "assistant", "content": one[: len(one) // 2]}] for one in told]
    (folder / "pretrain.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in told))
    (folder / "sft.jsonl").write_text("".join(json.dumps({"conversations": one}) + "\n" for one in talks))
    pairs = [{"chosen": one, "rejected": [one[0], {"role": "assistant", "content": "no"}]} for one in talks[:64]]
    (folder / "dpo.jsonl").write_text("".join(json.dumps(one) + "\n" for one in pairs))


def tokens_in_h5(folder: Path) -> None:
    """FOLDER/{train,dev}.h5 with a flat row of tokens, and the two files of a configuration: FOLDER/{base,pretrain}.json."""
    import h5py

    folder.mkdir(parents=True)
    for name, count in (("train", 200_000), ("dev", 20_000)):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file.create_dataset("tokens", data=CHANCE.integers(0, 512, count, dtype=np.int32))
    model = {"vocab_size": 512, "context_length": 64, "n_embed": 64, "n_head": 4, "n_blocks": 2, "device": "cpu", "amp_dtype": None}
    training = {
        "batch_size": 16, "grad_accum": 2, "train_steps": 5, "eval_steps": 3, "eval_iters": 2, "warmup_steps": 2, "save_every": 1000,
        "train_path": f"{folder}/train.h5", "dev_path": f"{folder}/dev.h5", "out_ckpt": "out/base.pt", "log_dir": "out/logs",
    }  # fmt: skip
    (folder / "base.json").write_text(json.dumps(model))
    (folder / "pretrain.json").write_text(json.dumps(training))


MEANFLOW = """config = dict(
    name="mine", dataset="mnist", data_root="{0}", n_steps=5, batch_size=64, num_workers=0, image_size=28, lr=1e-4, weight_decay=0.0,
    grad_clip=5.0, mixed_precision="no", scheduler=dict(warmup_steps=2, min_lr_ratio=0.1), log_step=4, sample_step=1000, sample_nrow=10,
    sample_classes=None,
    model=dict(input_size=28, patch_size=4, in_channels=1, dim=64, depth=2, num_heads=4, num_classes=10),
    meanflow=dict(mode="i-meanflow", normalizer=["minmax", None, None], time_dist=["lognorm", -0.4, 1.0], cfg_ratio=0.10,
                  cfg_scale=[1.0, 7.5], cfg_scale_ratio=0.75, adaptive_l2_gamma=0.0, adaptive_l2_c=1e-2),
)
"""


def mnist_and_python_file(folder: Path) -> None:
    """``few_digits``, and a configuration of MeanFlow's, which is Python: FOLDER/mine.py."""
    few_digits(folder)
    (folder / "mine.py").write_text(MEANFLOW.format(folder))


def tables_in_h5(folder: Path) -> None:
    """FOLDER/300k_150x5_2.h5, tables of a prior, fewer and smaller than its name says."""
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    count, rows, columns = 640, 10, 2
    whole = {"num_features": columns, "num_datapoints": rows, "single_eval_pos": rows // 2}
    with h5py.File(folder / "300k_150x5_2.h5", "w") as file:
        file.create_dataset("max_num_classes", data=np.array([2]))
        file.create_dataset("X", data=CHANCE.normal(size=(count, rows, columns)).astype(np.float32))
        file.create_dataset("y", data=CHANCE.integers(0, 2, (count, rows)).astype(np.float32))
        for name, value in whole.items():
            file.create_dataset(name, data=np.full(count, value, dtype=np.int64))


def hours(folder: Path) -> None:
    """FOLDER/mine.csv: seven series, a row an hour."""
    import pandas

    folder.mkdir(parents=True)
    values = CHANCE.normal(size=(700, 7)).cumsum(axis=0)
    table = pandas.DataFrame(values, columns=[*"abcdef", "OT"])
    table.insert(0, "date", pandas.date_range("2025-01-01", periods=len(table), freq="h"))
    table.to_csv(folder / "mine.csv", index=False)


CHRONOS = """training_data_paths:
- "{0}/series.arrow"
probability:
- 1.0
context_length: 64
prediction_length: 16
min_past: 32
max_steps: 5
save_steps: 100
log_steps: 5
per_device_train_batch_size: 32
gradient_accumulation_steps: 1
learning_rate: 0.001
optim: adamw_torch
shuffle_buffer_length: 100
model_id: {0}/model
model_type: seq2seq
random_init: true
tie_embeddings: true
output_dir: ./output/
tf32: false
torch_compile: false
n_tokens: 1024
dataloader_num_workers: 0
seed: 7
"""


def series(folder: Path) -> None:
    """FOLDER/series.arrow, a small T5's configuration in FOLDER/model, and one of Chronos' own: FOLDER/mine.yaml."""
    from gluonts.dataset.arrow import ArrowWriter
    from transformers import T5Config

    folder.mkdir(parents=True)
    start = np.datetime64("2025-01-01 00:00", "s")
    every = [{"start": start, "target": CHANCE.normal(size=int(count)).cumsum()} for count in CHANCE.integers(200, 400, 200)]
    ArrowWriter(compression="lz4").write_to_file(every, path=folder / "series.arrow")
    small = T5Config(vocab_size=1024, d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4, decoder_start_token_id=0, dropout_rate=0.0)
    small.save_pretrained(folder / "model")
    (folder / "mine.yaml").write_text(CHRONOS.replace("{0}", str(folder)))


def mazes(folder: Path, *, side: int = 39) -> None:
    """FOLDER/medium/{train,test}/0/*.png: one way in blue, from red to green, with a turn somewhere."""
    from PIL import Image

    for split, count in (("train", 64), ("test", 16)):
        place = folder / "medium" / split / "0"
        place.mkdir(parents=True)
        for number in range(count):
            picture = np.zeros((side, side, 3), dtype=np.uint8)
            row, turn = CHANCE.integers(1, side // 2), CHANCE.integers(10, side - 1)
            picture[row, 1 : turn + 1], picture[row : side - 1, turn] = (0, 0, 255), (0, 0, 255)
            picture[row, 1], picture[side - 2, turn] = (255, 0, 0), (0, 255, 0)
            Image.fromarray(picture).save(place / f"{number}.png")


ROOMS = """logging: {log_wandb: false, log_every: 10, exp_suffix: mine, save_every_n_epochs: 10, tqdm_silent: true}
meta: {model_folder: out, load_model: false, enable_plan_eval: false, eval_every_itr: -1, light_eval_freq: 50, seed: 1}
data: {env_name: two_rooms, batch_size: 8, num_workers: 0, pin_mem: false, persistent_workers: false, size: 24, val_size: 8,
       sample_length: 9}
training: {use_amp: false, dtype: bfloat16}
model:
  {compile: false, dobs: 2, henc: 16, hpre: 16, dstc: 16, nsteps: 4, encoder_architecture: impala, train_rollout: last,
   encoder_skip_connections: true, predictor_skip_connections: true,
   regularizer: {cov_coeff: 8, std_coeff: 16, sim_coeff_t: 12, idm_coeff: 1, first_t_only: false, spatial_as_samples: false,
                 use_proj: false, idm_after_proj: false, sim_t_after_proj: false}}
optim: {epochs: 1, lr: 0.001, grad_clip_enc: 2.0, grad_clip_pred: 2.0, weight_decay: 1.0e-5}
"""


def rooms(folder: Path) -> None:
    """FOLDER/mine.yaml of eb_jepa's; its data are made as it trains."""
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(ROOMS)


def instructions(folder: Path) -> None:
    """FOLDER/set/{train,val}.json, and a small model of LitGPT's in its folder beside: FOLDER/model."""
    text(folder)
    sys.path.insert(0, str(folder.parent))
    import torch
    import yaml
    from litgpt.model import GPT, Config

    (folder / "set").mkdir()
    for name, count in (("train", 64), ("val", 16)):
        rows = [{"instruction": one, "output": two} for one, two in zip(sentences(count), sentences(count), strict=True)]
        (folder / "set" / f"{name}.json").write_text(json.dumps(rows))
    small = {"name": "pythia-14m", "n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 256, "padded_vocab_size": 128}
    config = Config.from_name(**small)
    torch.save(GPT(config).state_dict(), folder / "model" / "lit_model.pth")
    (folder / "model" / "model_config.yaml").write_text(yaml.dump(asdict(config)))


BYTES = 'tiktoken.Encoding("bytes", pat_str=".+", mergeable_ranks={bytes([one]): one for one in range(256)}, special_tokens={})'
ATTENTION = """from types import SimpleNamespace
fa3 = SimpleNamespace(flash_attn_func=lambda q, k, v, causal, window_size: F.scaled_dot_product_attention(
    *(one.to(v.dtype).transpose(1, 2) for one in (q, k, v)), is_causal=True).transpose(1, 2))
"""
BUILD_NANOGPT = {
    "train_gpt2.py": {
        "total_batch_size = 524288": "total_batch_size = 2048", "B = 64": "B = 16", "T = 1024": "T = 64",
        "warmup_steps = 715": "warmup_steps = 2", "max_steps = 19073": "max_steps = 5",
        "GPTConfig(vocab_size=50304)": "GPTConfig(vocab_size=256, block_size=64, n_layer=2, n_head=4, n_embd=128)",
        'tiktoken.get_encoding("gpt2")': BYTES,
    },
    "hellaswag.py": {'tiktoken.get_encoding("gpt2")': BYTES},
}  # fmt: skip
LLM_C = {
    "train_gpt2.py": {
        'tiktoken.get_encoding("gpt2")': BYTES,
        "GPTConfig(block_size=1024, vocab_size=50257, n_layer=12, n_head=12, n_embd=768)":
            "GPTConfig(block_size=64, vocab_size=256, n_layer=2, n_head=4, n_embd=128)",
    },
}  # fmt: skip
AUTORESEARCH = {
    "train.py": {
        "from kernels import get_kernel\n": ATTENTION, "cap = torch.cuda.get_device_capability()\n": "", "fa3 = get_kernel(": "# (",
        "TOTAL_BATCH_SIZE = 2**19": "TOTAL_BATCH_SIZE = 2**14", "DEVICE_BATCH_SIZE = 128": "DEVICE_BATCH_SIZE = 64",
        "DEPTH = 8": "DEPTH = 2", "ASPECT_RATIO = 64": "ASPECT_RATIO = 32", "HEAD_DIM = 128": "HEAD_DIM = 32",
        'WINDOW_PATTERN = "SSSL"': 'WINDOW_PATTERN = "L"',
        'torch.device("cuda")': 'torch.device("cpu")', 'device_type="cuda"': 'device_type="cpu"', "torch.cuda.synchronize()": "pass",
        'repo = "varunneal/flash-attention-3" if cap == (9, 0) else "kernels-community/flash-attn3"\n': "",
    },
    "prepare.py": {
        "MAX_SEQ_LEN = 2048": "MAX_SEQ_LEN = 128", "TIME_BUDGET = 300": "TIME_BUDGET = 1e-9", "40 * 524288": "16384",
        'os.path.join(os.path.expanduser("~"), ".cache", "autoresearch")': "os.path.dirname(os.path.abspath(__file__))",
        'device="cuda"': 'device="cpu"', "pin_memory=True": "pin_memory=False",
    },
}  # fmt: skip


def _copied_for_a_cpu(folder: Path, files: dict[str, dict[str, str]]) -> None:
    """Edits the repository in FOLDER, whose sizes and device are constants of its source."""
    for name, edits in files.items():
        source = (folder / name).read_text()
        for was, now in edits.items():
            assert was in source, was
            source = source.replace(was, now)
        (folder / name).write_text(source)


def build_nanogpt_on_a_cpu(folder: Path) -> None:
    """karpathy/build-nanogpt in FOLDER, smaller and with bytes for its tokenizer; tokens and four questions."""
    _copied_for_a_cpu(folder, BUILD_NANOGPT)
    shards, questions = folder / "edu_fineweb10B", folder / "hellaswag"
    for place in (shards, questions):
        place.mkdir()
    for split in ("train", "val"):
        np.save(shards / f"edufineweb_{split}_000000.npy", CHANCE.integers(0, 256, 100_000, dtype=np.uint16))
    asked = [{"ctx": "a cat", "label": at % 4, "endings": ["runs", "sleeps", "sings", "and then"]} for at in range(4)]
    (questions / "hellaswag_val.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))


def llm_c_on_a_cpu(folder: Path) -> None:
    """karpathy/llm.c in FOLDER, its smallest model smaller and with bytes for its tokenizer; tokens: FOLDER/mine.bin."""
    _copied_for_a_cpu(folder, LLM_C)
    head = np.zeros(256, dtype=np.int32)
    head[:3] = 20240520, 1, 100_000
    (folder / "mine.bin").write_bytes(head.tobytes() + CHANCE.integers(0, 256, 100_000, dtype=np.uint16).tobytes())


def autoresearch_on_a_cpu(folder: Path) -> None:
    """karpathy/autoresearch in FOLDER, smaller, with torch's attention, twelve steps long; documents and a tokenizer of bytes."""
    _copied_for_a_cpu(folder, AUTORESEARCH)
    _documents(folder / "data", ("shard_00000", "shard_06542"))
    _bytes(folder / "tokenizer", [f"<|reserved_{at}|>" for at in range(4)])


def nothing(folder: Path) -> None:
    """What the script brings or makes itself."""
    folder.mkdir(parents=True, exist_ok=True)


DFINE = """__include__: ['../dfine/dfine_hgnetv2_n_coco.yml']
num_classes: 3
remap_mscoco_category: False
eval_spatial_size: [128, 128]
output_dir: out
epochs: 1
HGNetv2: {pretrained: False}
DFINETransformer: {num_queries: 60}
train_dataloader:
  num_workers: 0
  total_batch_size: 32
  dataset:
    img_folder: PLACE/images/train/
    ann_file: PLACE/train.json
    transforms:
      ops:
        - {type: Resize, size: [128, 128]}
        - {type: SanitizeBoundingBoxes, min_size: 1}
        - {type: ConvertPILImage, dtype: 'float32', scale: True}
        - {type: ConvertBoxes, fmt: 'cxcywh', normalize: True}
  collate_fn: {base_size: 128, base_size_repeat: 2}
val_dataloader:
  num_workers: 0
  total_batch_size: 16
  dataset:
    img_folder: PLACE/images/val/
    ann_file: PLACE/val.json
    transforms:
      ops:
        - {type: Resize, size: [128, 128]}
        - {type: ConvertPILImage, dtype: 'float32', scale: True}
"""


def boxes_as_coco(folder: Path) -> None:
    """``boxes``, told as COCO does it, and a configuration of D-FINE's: FOLDER/{train,val}.json, FOLDER/mine.yml."""
    boxes(folder)
    kinds = [{"id": at, "name": name} for at, name in enumerate("abc")]
    for split in ("train", "val"):
        labels = sorted((folder / "labels" / split).iterdir(), key=lambda path: int(path.stem))
        images = [{"id": at, "file_name": f"{label.stem}.jpg", "width": 128, "height": 128} for at, label in enumerate(labels)]
        marked = []
        for at, label in enumerate(labels):
            kind, x, y, wide, high = (float(word) for word in label.read_text().split())
            box = [128 * (x - wide / 2), 128 * (y - high / 2), 128 * wide, 128 * high]
            marked.append({"id": at, "image_id": at, "category_id": int(kind), "bbox": box, "area": box[2] * box[3], "iscrowd": 0})
        (folder / f"{split}.json").write_text(json.dumps({"images": images, "annotations": marked, "categories": kinds}))
    (folder / "mine.yml").write_text(DFINE.replace("PLACE", str(folder)))


def preferences(folder: Path) -> None:
    """``text``, and FOLDER/{set,judged}/train.jsonl: pairs of answers, and answers with a verdict each."""
    text(folder)
    asked, good, bad = sentences(96), sentences(96), sentences(96)
    pairs = [{"prompt": f"{a} ", "chosen": b, "rejected": c} for a, b, c in zip(asked, good, bad, strict=True)]
    judged = [{"prompt": f"{a} ", "completion": b, "label": at % 2 == 0} for at, (a, b) in enumerate(zip(asked, good, strict=True))]
    for name, rows in (("set", pairs), ("judged", judged)):
        (folder / name).mkdir()
        (folder / name / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


KINDS = {
    one.__name__: one
    for one in (
        mnist, few_digits, mnist_and_two_files, pictures, masks, characters, denoised, wikitext, boxes, stems, prompts_and_file, proteins,
        documents, lines, tokens_in_h5, mnist_and_python_file, tables_in_h5, hours, series, mazes, rooms, nothing, boxes_as_coco,
        preferences, citations, instructions, build_nanogpt_on_a_cpu, llm_c_on_a_cpu, autoresearch_on_a_cpu,
    )
}  # fmt: skip

if __name__ == "__main__":
    import torch

    torch.manual_seed(0)  # models are made anew for the plain command
    KINDS[sys.argv[1]](Path(sys.argv[2]))
