"""A separator over STFT frames: attention along time, then across bands; complex masks for every stem.

Attention along time holds a matrix of frames x frames for every band and head: memory grows with the square of the segment.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """Multi-head self-attention over the second dimension, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: list[int]) -> None:
        super().__init__()
        sizes = [width, *hidden, width]
        layers: list[nn.Module] = [nn.LayerNorm(width)]
        for inside, outside in pairwise(sizes):
            layers += [nn.Linear(inside, outside), nn.GELU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.net(x)


class Block(nn.Module):
    """Time attention and band attention, each with its feed-forward."""

    def __init__(self, width: int, heads: int, hidden: list[int]) -> None:
        super().__init__()
        self.time, self.time_ff = Attention(width, heads), FeedForward(width, hidden)
        self.band, self.band_ff = Attention(width, heads), FeedForward(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        batch, frames, bands, width = x.shape
        x = x.transpose(1, 2).reshape(batch * bands, frames, width)
        x = self.time_ff(self.time(x)).view(batch, bands, frames, width).transpose(1, 2)
        x = x.reshape(batch * frames, bands, width)
        return self.band_ff(self.band(x)).view(batch, frames, bands, width)


class Separator(nn.Module):
    """Mixture (batch, samples) -> stems (batch, stems, samples)."""

    window: Tensor

    def __init__(
        self, *, stems: int, n_fft: int, hop: int, bands: int, layers: int, width: int, heads: int, ffn: list[int], checkpointing: bool
    ) -> None:
        super().__init__()
        self.stems, self.n_fft, self.hop, self.checkpointing = stems, n_fft, hop, checkpointing
        bins = n_fft // 2 + 1
        edges = torch.unique(torch.logspace(0, torch.log10(torch.tensor(bins - 1.0)).item(), bands).round().long()).tolist()
        self.edges = [0, *edges[1:-1], bins]
        self.sizes = [high - low for low, high in pairwise(self.edges)]
        self.register_buffer("window", torch.hann_window(n_fft))
        self.enter = nn.ModuleList(nn.Sequential(nn.LayerNorm(2 * size), nn.Linear(2 * size, width)) for size in self.sizes)
        self.blocks = nn.ModuleList(Block(width, heads, ffn) for _ in range(layers))
        self.leave = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 2 * size * stems))
            for size in self.sizes
        )

    def forward(self, mixture: Tensor) -> Tensor:
        spec = torch.stft(mixture, self.n_fft, self.hop, window=self.window, return_complex=True)  # (batch, bins, frames)
        parts = torch.view_as_real(spec).transpose(1, 2).split(self.sizes, dim=2)
        x = torch.stack([enter(part.flatten(2)) for enter, part in zip(self.enter, parts, strict=True)], dim=2)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing and self.training else block(x)
        batch, frames = x.shape[:2]
        masks = [leave(x[:, :, at]).view(batch, frames, self.stems, -1, 2) for at, leave in enumerate(self.leave)]
        mask = torch.view_as_complex(torch.cat(masks, dim=3).contiguous()).permute(0, 2, 3, 1)  # (batch, stems, bins, frames)
        separated = (mask * spec[:, None]).flatten(0, 1)
        out = torch.istft(separated, self.n_fft, self.hop, window=self.window, length=mixture.shape[-1])
        return out.view(batch, self.stems, -1)
