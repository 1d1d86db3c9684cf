"""Trains a small model three steps on the CPU and on a card that this process finds; prints both courses of the loss as a line of JSON."""

import json

import torch
from torch import nn


class Small(nn.Module):
    """A convolution with batch norm, attention, an embedding, dropout of nothing, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.MaxPool2d(2))
        self.place = nn.Embedding(16, 16)
        self.mix = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.leave = nn.Linear(16, 5)

    def forward(self, pictures):
        found = self.picture(pictures).flatten(2).transpose(1, 2)
        found = found + self.place(torch.arange(found.shape[1], device=found.device))
        mixed, _ = self.mix(found, found, found, need_weights=False)
        return self.leave(self.norm(found + mixed).mean(1))


def course(device, half):
    torch.manual_seed(0)
    model, pictures, labels = Small(), torch.randn(8, 3, 16, 16), torch.randint(0, 5, (8,))
    model, pictures, labels = model.to(device), pictures.to(device), labels.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda", enabled=half and device == "cuda")
    losses = []
    for _ in range(4):
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(model(pictures).float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    chosen = pictures[pictures > 0.5]
    compiled = (pictures.abs() + 0.5).lgamma().abs().prod(2).sum()  # both of them by NVRTC
    chosen = [chosen.sum().item(), compiled.item()]
    return {"losses": losses, "chosen": chosen, "unique": torch.unique(labels).tolist(), "spectrum": _spectrum(device)}


def _spectrum(device):
    signal = torch.linspace(0, 1, 400, device=device).sin()
    window = torch.hann_window(64, device=device)
    there = torch.stft(signal, 64, window=window, return_complex=True)
    return (torch.istft(there, 64, window=window, length=400) - signal).abs().max().item()


def main():
    said = {f"{device}{' half' if half else ''}": course(device, half) for device in ("cpu", "cuda") for half in (False, True)}
    print(json.dumps(said))


main()
