"""Kinds of training command that launches are counted of: small scripts, each with something that a fork may upset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.rows import ROOT

SCRIPT = '''"""Trains a small network on noise."""

{imports}
import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

{own}


def rows() -> torch.Tensor:
    {rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = TensorDataset(rows(), torch.randint(4, (128,)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers={workers})
    {before}
    for epoch in range(3):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            {backward}
            optimizer.step()
            optimizer.zero_grad()
            print(f"loss {loss.item():.9f}", flush=True)
            {step}
    {after}
    torch.save(model.state_dict(), "last.pt")


if __name__ == "__main__":
    main()
'''
USUAL = {
    "imports": "", "own": "", "rows": "return torch.randn(128, 3, 48, 48)", "workers": "0", "before": "", "backward": "loss.backward()",
    "step": "", "after": "",
    "model": "torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.GELU(), torch.nn.Conv2d(16, 16, 3), torch.nn.GELU(), "
    "torch.nn.Conv2d(16, 8, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(8 * 42 * 42, 4))",
}  # fmt: skip
"""Marks of ``SCRIPT`` -> what stands there where a kind says nothing else."""
SPREAD = "return torch.as_tensor({}, dtype=torch.float32).reshape(128, 1, 1, 48).expand(-1, 3, 48, -1).contiguous()"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    name: str
    words: str = "{python} train.py --batch-size 64"
    """The command; ``{python}``, ``{bin}``, ``{data}`` and ``{out}`` stand for places."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Marks of ``SCRIPT`` -> what stands there."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files beside the script, ``train.py`` among them where it isn't made of ``SCRIPT``."""
    needs: str = "torch"
    """The module without which the kind is left out."""
    leaves: str = "last.pt"
    """The weights that the command leaves, as a pattern."""
    alike: tuple[str, ...] = ()
    """Files that have to be the plain command's to the byte."""
    lower: bool = False
    """True: also launched on a budget of which a fifth of its peak is missing."""
    draws: bool = False
    """True: it draws at random as it trains (dropout), so that a lower rung's weights are another draw."""

    def write(self, folder: Path) -> None:
        """Writes the script, and what lies beside it."""
        script = SCRIPT
        for mark, text in {**USUAL, **self.parts}.items():
            script = script.replace(f"{{{mark}}}", text)
        for name, text in {"train.py": script, **self.files}.items():
            (folder / name).write_text(text, encoding="utf-8")


FEEDER = """import queue
import threading

import torch

steps: queue.Queue[int] = queue.Queue(4)


def fill() -> None:
    for number in range(1000):
        steps.put(int(torch.ones(8).sum()) + number)


threading.Thread(target=fill, daemon=True).start()
"""
HOOK = "FORKED: list[int] = []\nos.register_at_fork(before=lambda: FORKED.append(os.getpid()), after_in_child=FORKED.clear)"
LINES = 'lines = ["".join(chr(97 + (7 * one + two * two) % 26) for two in range(48)) for one in range(128)]'
TRAINED = f"""{LINES}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.train_from_iterator(lines, tokenizers.trainers.BpeTrainer(vocab_size=26))
    """
CV2 = """drawn = numpy.random.default_rng(0).integers(0, 255, (128, 64, 64, 3), dtype=numpy.uint8)
    pictures = [cv2.resize(cv2.GaussianBlur(one, (3, 3), 0), (48, 48)) for one in drawn]
    return torch.stack([torch.from_numpy(one).permute(2, 0, 1).float() / 255 for one in pictures])"""
PANDAS = """drawn = numpy.random.default_rng(0).normal(size=(128, 48))
    pandas.DataFrame(drawn, columns=[str(one) for one in range(48)]).to_parquet("rows.parquet", engine="pyarrow")
    """
POLARS = """drawn = polars.DataFrame(numpy.random.default_rng(0).normal(size=(128, 48)))
    drawn = drawn.lazy().select(polars.all() * 2.0).collect()
    """
POOL = """with multiprocessing.get_context("spawn").Pool(2) as pool:
        return torch.stack(pool.map(row, range(128)))"""
ROW = "def row(number: int) -> torch.Tensor:\n    return torch.randn(3, 48, 48, generator=torch.Generator().manual_seed(number))"
LOG = """LOG = open("train.log", "a")
atexit.register(lambda: open("end.log", "w").write("ended"))"""
PLOTTED = """figure, axes = pyplot.subplots()
    axes.plot(losses)
    figure.savefig("losses.png")"""
ACCELERATED = """accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"""
BOARD = {"before": 'board = SummaryWriter("board")', "step": 'board.add_scalar("loss", loss.item())', "after": "board.close()"}
WANDB = {
    "before": 'wandb.init(project="launches", mode="offline", id="one")', "step": 'wandb.log({"loss": loss.item()})',
    "after": "wandb.finish()",
}  # fmt: skip


def _example(name: str) -> dict[str, str]:
    return {"train.py": (ROOT / "examples" / name / "train.py").read_text(encoding="utf-8")}


KINDS = {
    kind.name: kind
    for kind in (
        Kind(name="plain loop", lower=True),
        Kind(name="two workers", parts={"workers": "2"}, lower=True),
        Kind(
            name="own fork hook, two workers", lower=True,
            parts={"imports": "import os", "workers": "2", "own": HOOK, "after": 'print(f"loss {len(FORKED):.1f}")'},
        ),
        Kind(
            name="threads of its own", lower=True, files={"feeder.py": FEEDER},
            parts={"own": "from feeder import steps", "step": "steps.get()"},
        ),
        Kind(name="numpy and cv2", needs="cv2", parts={"imports": "import cv2\nimport numpy", "rows": CV2}),
        Kind(
            name="pandas and pyarrow", needs="pandas",
            parts={"imports": "import numpy\nimport pandas",
                   "rows": PANDAS + SPREAD.format('pandas.read_parquet("rows.parquet").to_numpy().copy()')},
        ),
        Kind(
            name="polars first", needs="polars",
            parts={"imports": "import polars\nimport numpy", "rows": POLARS + SPREAD.format("drawn.to_numpy().copy()")},
        ),
        Kind(
            name="tokenizers, two workers", needs="tokenizers",
            parts={"imports": "import tokenizers", "workers": "2",
                   "rows": TRAINED + SPREAD.format("[one.ids[:48] for one in tokenizer.encode_batch(lines)]")},
        ),
        Kind(
            name="Trainer", needs="transformers", lower=True, draws=True, files=_example("hf_trainer"), leaves="out/model.safetensors",
            words="{python} train.py --output_dir out --per_device_train_batch_size 64 --num_train_epochs 1 --logging_steps 1 "
            "--report_to none",
        ),
        Kind(
            name="TensorBoard", needs="tensorboard",
            parts={"own": "from torch.utils.tensorboard import SummaryWriter", **BOARD},
        ),
        Kind(name="wandb offline", needs="wandb", parts={"imports": "import wandb", **WANDB}),
        Kind(name="compiled, eager", parts={"before": 'model = torch.compile(model, backend="eager")'}),
        Kind(name="compiled", parts={"before": "model = torch.compile(model)"}),
        Kind(
            name="torchvision", needs="torchvision",
            parts={"own": "import torchvision\nfrom torchvision.transforms.v2 import functional",
                   "model": "torchvision.models.shufflenet_v2_x0_5(num_classes=4)",
                   "rows": "return functional.gaussian_blur(torch.randn(128, 3, 48, 48), 3)"},
        ),
        Kind(
            name="accelerate", needs="accelerate", lower=True,
            parts={"imports": "import accelerate", "before": ACCELERATED, "backward": "accelerator.backward(loss)"},
        ),
        Kind(
            name="Lightning", needs="lightning", files=_example("lightning"), leaves="lightning_logs/version_0/checkpoints/*.ckpt",
            words="{python} train.py --batch_size 448 --width 16 --epochs 2", lower=True,
        ),
        Kind(name="pool of spawned", parts={"imports": "import multiprocessing", "own": ROW, "rows": POOL}),
        Kind(
            name="log and atexit", alike=("train.log", "end.log"), files={"train.log": "of an earlier time\n"},
            parts={"imports": "import atexit", "own": LOG, "step": "print(loss.item(), file=LOG)"},
        ),
        Kind(name="python -u", words="{python} -u train.py --batch-size 64"),
        Kind(
            name="YOLO", needs="ultralytics", leaves="out/train/weights/last.pt", files={"train.py": ""},
            words="{bin}/yolo detect train model=yolov8n.yaml data={data} imgsz=96 batch=8 epochs=2 workers=0 plots=False "
            "project={out}",
        ),
        Kind(
            name="matplotlib", needs="matplotlib",
            parts={"imports": "from matplotlib import pyplot", "before": "losses = []", "step": "losses.append(loss.item())",
                   "after": PLOTTED},
        ),
        Kind(name="bash -c", words="bash -c '{python} train.py --batch-size 64'"),
    )
}  # fmt: skip
