"""Trains the separator: python training/train.py --config configs/demo.yaml [--resume CHECKPOINT]

Epochs of random segments, gradient accumulation, a validation after each, metrics.csv, and the checkpoints last.pth and best_model.pth
(by SI-SDR) in the configuration's run.out.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from model import Separator
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

STEMS = ("drums", "bass", "other", "vocals")


class Songs(Dataset[Tensor]):
    """Segments of (stems, samples): random ones for training, consecutive ones for validation."""

    def __init__(self, root: Path, *, segment: int, per_epoch: int | None, mono_rate: int) -> None:
        self.folders = sorted(path for path in root.iterdir() if path.is_dir())
        if not self.folders:
            raise FileNotFoundError(f"no songs in {root}")
        self.segment, self.per_epoch, self.rate = segment, per_epoch, mono_rate
        self.frames = [self._frames(folder / "drums.wav") for folder in self.folders]
        self.places = [(song, at) for song, frames in enumerate(self.frames) for at in range(0, max(1, frames - segment + 1), segment)]

    def _frames(self, path: Path) -> int:
        with wave.open(str(path)) as file:
            if file.getframerate() != self.rate:
                raise ValueError(f"{path} has {file.getframerate()} Hz, not {self.rate}")
            return file.getnframes()

    def __len__(self) -> int:
        return self.per_epoch or len(self.places)

    def __getitem__(self, index: int) -> Tensor:
        if self.per_epoch is None:
            song, at = self.places[index]
            picks = [(song, at)] * len(STEMS)
        else:  # stems of different songs and places: far more mixtures than songs
            songs = torch.randint(len(self.folders), (len(STEMS),)).tolist()
            picks = [(song, int(torch.randint(max(1, self.frames[song] - self.segment + 1), ()))) for song in songs]
        return torch.stack([self._read(self.folders[song] / f"{stem}.wav", at) for stem, (song, at) in zip(STEMS, picks, strict=True)])

    def _read(self, path: Path, at: int) -> Tensor:
        with wave.open(str(path)) as file:
            file.setpos(at)
            raw = np.frombuffer(file.readframes(self.segment), dtype="<i2")[:: file.getnchannels()]
        signal = torch.from_numpy(raw.astype(np.float32) / 32768)
        return torch.nn.functional.pad(signal, (0, self.segment - len(signal)))


def si_sdr(estimate: Tensor, target: Tensor) -> Tensor:
    """Scale-invariant signal-to-distortion ratio in dB over the last dimension (Le Roux et al., 2019)."""
    scaled = (estimate * target).sum(-1, keepdim=True) / (target.pow(2).sum(-1, keepdim=True) + 1e-8) * target
    return 10 * torch.log10((scaled.pow(2).sum(-1) + 1e-8) / ((estimate - scaled).pow(2).sum(-1) + 1e-8))


def validate(model: torch.nn.Module, loader: DataLoader[Tensor], device: str) -> tuple[float, float]:
    """(SI-SDR of the estimates, of the bare mixture), means over stems that sound, in dB."""
    model.eval()
    ours, bare = [], []
    with torch.no_grad():
        for stems in loader:
            stems = stems.to(device)
            mixture = stems.sum(1)
            sounds = stems.pow(2).mean(-1) > 1e-4
            ours.append(si_sdr(model(mixture), stems)[sounds])
            bare.append(si_sdr(mixture[:, None].expand_as(stems), stems)[sounds])
    return torch.cat(ours).mean().item(), torch.cat(bare).mean().item()


def memory() -> str:
    return (
        f" | {torch.cuda.memory_reserved() / 2**30:.1f} GiB, peak {torch.cuda.max_memory_reserved() / 2**30:.1f}"
        if torch.cuda.is_available()
        else ""
    )


def bar(done: int, of: int, text: str) -> None:
    """A progress bar on a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        filled = 30 * done // of
        print(
            f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{of} {text}{memory()}",
            end="\n" if done == of else "",
            file=sys.stderr,
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    args = parser.parse_args()
    config: dict[str, Any] = yaml.safe_load(args.config.read_text())
    data, training, out = config["data"], config["training"], Path(config["run"]["out"])
    torch.manual_seed(training["seed"])
    device = "cuda" if torch.cuda.is_available() else "cpu"

    root, rate = Path(data["root"]), data["sample_rate"]
    songs = Songs(root / "train", segment=data["segment"], per_epoch=training["samples_per_epoch"], mono_rate=rate)
    held = Songs(root / "valid", segment=data["segment"], per_epoch=None, mono_rate=rate)
    loader = DataLoader(songs, training["batch_size"], shuffle=True, num_workers=training["workers"], drop_last=True)
    held_loader = DataLoader(held, training["batch_size"], num_workers=training["workers"])

    model = Separator(
        stems=len(STEMS), n_fft=data["n_fft"], hop=data["hop"], checkpointing=training["checkpointing"], **config["model"]
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=training["lr"], weight_decay=0.01)
    first, best = 0, -1e9
    if args.resume:
        held_state = torch.load(args.resume, map_location=device, weights_only=True)
        model.load_state_dict(held_state["model"])
        optimizer.load_state_dict(held_state["optimizer"])
        first, best = held_state["epoch"], held_state["best"]
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters on {device}", flush=True)

    out.mkdir(parents=True, exist_ok=True)
    accumulation = training["accumulation"]
    for epoch in range(first + 1, training["epochs"] + 1):
        model.train()
        began, total = time.monotonic(), 0.0
        for number, stems in enumerate(loader, start=1):
            stems = stems.to(device)
            estimates = model(stems.sum(1))
            loss = (estimates - stems).abs().mean() * 10 - 0.05 * si_sdr(estimates, stems).clamp(max=30).mean()
            (loss / accumulation).backward()
            total += loss.item()
            if number % accumulation == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            bar(number, len(loader), f"epoch {epoch} loss {total / number:.3f}")
        quality, bare = validate(model, held_loader, device)
        row = {
            "epoch": epoch,
            "loss": total / len(loader),
            "si_sdr": quality,
            "si_sdr_improvement": quality - bare,
            "seconds": time.monotonic() - began,
        }
        print(" ".join(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()), flush=True)
        with (out / "metrics.csv").open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
        best = max(best, quality)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "best": best}
        torch.save(state, out / "last.pth")
        if quality == best:
            torch.save(state, out / "best_model.pth")


if __name__ == "__main__":
    main()
