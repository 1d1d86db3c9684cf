"""Short trainings, each in a way or with a fault of its own; the first word says which."""

import argparse
import copy
import os
import pickle
import sqlite3
import sys
import time
import warnings
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from usual import Usual

parser = argparse.ArgumentParser()
parser.add_argument("way")
parser.add_argument("--chosen")
parser.add_argument("--until", help="a file that is waited for before a validation")
usual = Usual(parser)
size, accum, model = usual.args.batch_size, usual.args.accum, usual.model


def bare_next():
    """Asks an iterator for a known number of batches: an early end of it would be a crash."""
    for _ in range(3):
        batches = iter(usual.train)
        for number in range(1, len(usual.train) + 1):
            usual.step(next(batches), number)
        usual.validate()


def val_by_length():
    """Validates inside the loop, at the pass's last batch."""
    for _ in range(2):
        for number, batch in enumerate(usual.train, start=1):
            usual.step(batch, number)
            if number == len(usual.train):
                usual.validate()


def saves_in_mid_epoch():
    """Reads it back at the end of the epoch."""
    for epoch in range(2):
        for number, batch in enumerate(usual.train):
            usual.step(batch)
            if number == 8:
                torch.save(model.state_dict(), f"epoch{epoch}.pt")
        model.load_state_dict(torch.load(f"epoch{epoch}.pt"))
        usual.validate()


def validates_first():
    """In its first step alone, one batch of an endless loader: ``if step % 100 == 0`` in a training of fewer."""

    def cycle(loader):
        while True:
            yield from loader

    training, validation = cycle(usual.train), cycle(usual.val)
    for step in range(6):
        usual.step(next(training))
        if step % 100 == 0:
            model.eval()
            with torch.no_grad():
                print("validation", cross_entropy(model(next(validation)[0]), usual.data[:size][1]).item())
            model.train()


def clears_first():
    """Gradients are cleared before they are computed, so that they are there in its late validation."""
    for epoch in range(12):
        for number, (a, b) in enumerate(usual.train):
            if number % accum == 0:
                usual.optimizer.zero_grad()
            (cross_entropy(model(a), b) / accum).backward()
            if number % accum == accum - 1:
                usual.optimizer.step()
        if epoch % 6 == 5:
            usual.validate()
            assert all(one.grad is not None for one in model.parameters())


def expects_a_score():
    """Ends with an error, or a status, where nothing was learnt."""
    for _ in range(20):
        usual.one_pass()
    usual.validate()
    with torch.no_grad():
        right = float((model(usual.x).argmax(1) == usual.x[:, :4].argmax(1)).float().mean())
    assert right > 0.8 or usual.args.chosen, "it has not learnt"
    sys.exit(right < 0.8)


def trains_in_eval_mode():
    """All along (frozen statistics), and evaluates without gradients."""
    model.insert(1, nn.BatchNorm1d(usual.args.width))
    model.eval()
    for _ in range(3):
        usual.one_pass()
        with torch.inference_mode():
            print(sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in usual.train) / 640)


def evaluates_in_each_batch():
    """As ignite does: the model's mode is set, and gradients are off, within each batch."""
    val = DataLoader(usual.data, 128)
    for _ in range(3):
        usual.one_pass()
        for inputs, _ in val:
            model.eval()
            with torch.no_grad():
                model(inputs)
        model.train()


def pickles_model():
    """Saves its whole model, and a state that must load with weights_only; reads both back."""
    for _ in range(2):
        usual.one_pass()
        usual.validate()
        torch.save(model, "whole.pt")
        assert b"launcher" not in Path("whole.pt").read_bytes(), "somebody else's classes are in the pickle"
        assert b"launcher" not in pickle.dumps(model)
        assert torch.load("whole.pt", weights_only=False)(usual.x[:1]).shape == copy.deepcopy(model)(usual.x[:1]).shape == (1, 4)
        torch.save({"model": model.state_dict(), "optimizer": usual.optimizer.state_dict()}, "state.pt")
        model.load_state_dict(torch.load("state.pt", weights_only=True)["model"])


def compiled():
    usual.model = torch.compile(model, backend="eager")
    usual.train_for(3)


def streamed():
    """Workers, and a scaler on bfloat16 autocast."""

    class Stream(IterableDataset):
        def __iter__(self):
            yield from zip(usual.x[:400], usual.x[:400, :4].argmax(1), strict=True)

    stream, scaler = DataLoader(Stream(), batch_size=size, num_workers=1), torch.amp.GradScaler("cpu")
    for _ in range(3):
        for number, batch in enumerate(stream, start=1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = cross_entropy(model(batch[0]), batch[1])
            scaler.scale(loss / accum).backward()
            if number % accum == 0:
                scaler.step(usual.optimizer)
                scaler.update()
                usual.optimizer.zero_grad()
        usual.validate()


def by_fabric():
    """Two processes, which Lightning's Fabric starts by itself; it passes on what is set on its model to the one inside."""
    from lightning import Fabric

    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    usual.model, usual.optimizer = fabric.setup(model, usual.optimizer)
    usual.train, usual.val = fabric.setup_dataloaders(usual.train, usual.val)
    for _ in range(3):
        for number, (a, b) in enumerate(usual.train, start=1):
            fabric.backward(cross_entropy(usual.model(a), b) / accum)
            if number % accum == 0:
                usual.optimizer.step()
                usual.optimizer.zero_grad()
        usual.validate()


def recomputes():
    """The reentrant way, which runs a backward pass for each block inside the one that the loop asks for."""

    class Recomputed(nn.Module):
        def __init__(self, inside):
            super().__init__()
            self.inside = inside

        def forward(self, x):
            return checkpoint(self.inside, x, use_reentrant=True)

    for at in (2, 4):
        model[at] = Recomputed(model[at])
    usual.train_for(2)


def compiles():
    """Into the compilers' own caches, of which it chooses one by itself (``--chosen``)."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = usual.args.chosen
    usual.model = torch.compile(model)
    usual.train_for(2)


def keeps_one_iterator():
    """As YOLOv5 loads its data: for all epochs, over a sampler that never ends; batches are asked for one by one."""

    class Repeated:
        def __init__(self, sampler):
            self.sampler = sampler

        def __iter__(self):
            while True:
                yield from iter(self.sampler)

    class OneIterator(DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            object.__setattr__(self, "batch_sampler", Repeated(self.batch_sampler))
            self.iterator = super().__iter__()

        def __len__(self):
            return len(self.batch_sampler.sampler)

        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

    usual.train = OneIterator(usual.data, batch_size=size, shuffle=True)
    usual.train_for(3)


def endless():
    """Steps over an endless iterator, with a scaler; validates every 300 steps."""

    def over():
        while True:
            yield from usual.train

    batches, scaler = over(), torch.amp.GradScaler("cpu", enabled=False)
    for number in range(1, 1001):
        for _ in range(accum):
            a, b = next(batches)
            scaler.scale(cross_entropy(model(a), b) / accum).backward()
        scaler.unscale_(usual.optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(usual.optimizer)
        scaler.update()
        usual.optimizer.zero_grad(set_to_none=True)
        if number % 300 == 0:
            while usual.args.until and not Path(usual.args.until).exists():
                time.sleep(0.05)
            usual.validate()


def teaches():
    """A frozen model runs without gradients before each step: a teacher, or the reference of a DPO that sees two texts to a row."""
    wide = 2 * usual.args.width
    teacher = nn.Sequential(nn.Linear(32, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 4)).eval()
    for _ in range(3):
        batches = usual.train if usual.args.way == "teaches" else [usual.data[at : at + size] for at in range(0, 640, size)]
        for number, (rows, _) in enumerate(batches, start=1):
            with torch.no_grad():
                wanted = teacher(torch.cat([rows, rows + 0.1]))[: len(rows)]
            (nn.functional.mse_loss(model(rows), wanted) / accum).backward()
            if number % accum == 0:
                usual.optimizer.step()
                usual.optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        kept = [model(rows).repeat(1, 3000) for rows, _ in usual.val]  # 3 MiB for each batch of 64
    print("right", sum(len(one) for one in kept))


teaches_without_a_loader = teaches


def thaws():
    """The layers of the middle, in the third epoch."""
    model[0].requires_grad_(False)
    model[2].requires_grad_(False)
    for epoch in range(4):
        if epoch == 2:
            model.requires_grad_(True)
        usual.one_pass()
        usual.validate()


def grows():
    """Its batch grows fourfold in the fifth epoch."""
    for epoch in range(6):
        usual.train = DataLoader(usual.data, size if epoch < 4 else 4 * size, shuffle=True)
        usual.train_for(1)


def larger_test_set():
    """Goes through after training, in one batch that is larger than any before."""
    usual.train_for(4)
    with torch.no_grad():
        for (batch,) in DataLoader(TensorDataset(torch.randn(8192, 32)), batch_size=8192):
            print("test", model(batch).shape, flush=True)


def cold_cache():
    """Is filled as Hugging Face's libraries do: folders from Python, the data from native code, and how much room there is is asked."""
    cache = Path(os.environ.get("HF_DATASETS_CACHE") or Path(os.environ["HF_HOME"]) / "datasets")
    assert (cache / "warm.txt").read_text() == "theirs"
    (cache / "json" / "0.0.0.incomplete").mkdir(parents=True)
    assert os.statvfs(cache / "json").f_bavail > 0
    with sqlite3.connect(cache / "json" / "0.0.0.incomplete" / "data.db") as base:
        base.execute("create table numbers (number integer)")
    (cache / "json" / "0.0.0.incomplete").rename(cache / "json" / "0.0.0")
    assert (cache / "json" / "0.0.0" / "data.db").stat().st_size > 0
    usual.one_pass()


def never_validates():
    for _ in range(5):
        usual.one_pass()
    torch.save(model.state_dict(), "model.pt")


def empty_validation():
    """Drops the last, incomplete batch of its validation, which is the only one."""
    usual.val = DataLoader(TensorDataset(*usual.data[:48]), batch_size=size, drop_last=True)
    usual.train_for(2)


def crashes_in_validation():
    """Takes for granted that a batch is whole, and breaks on one that is not."""
    for _ in range(2):
        usual.one_pass()
        model.eval()
        with torch.no_grad():
            for a, _ in DataLoader(TensorDataset(*usual.data[:48]), batch_size=size):
                print("shown", model(a).view(size, 4)[:8].shape, flush=True)
        model.train()


def skips_a_figure():
    """Draws one at the end that needs much memory at once; skips it, with a warning, where there is too little."""
    usual.train_for(2)
    try:
        numpy.ones((64, 1024, 1024))
    except MemoryError as error:
        warnings.warn(f"no figure: {error}", stacklevel=1)


def catches_oom():
    """Skips the batch and carries on."""
    for _ in range(3):
        for a, b in usual.train:
            try:
                (cross_entropy(model(a), b) / accum).backward()
            except RuntimeError as error:
                if "memory" not in str(error):
                    raise
                usual.optimizer.zero_grad()
                continue
            usual.optimizer.step()
            usual.optimizer.zero_grad()
        usual.validate()


def diverges():
    usual.optimizer = torch.optim.SGD(model.parameters(), lr=1e12)
    usual.train_for(2)


def ignores_flags():
    usual.train = DataLoader(usual.data, batch_size=32)
    usual.train_for(3)


def exits_early():
    sys.exit(0)


def crashes_at_import():
    import no_such_package_anywhere  # noqa: F401


def dislikes_being_watched():
    """Breaks where somebody has put something of his own in the place of the data loader."""
    assert not hasattr(DataLoader.__iter__, "__wrapped__"), "this is not the loader I know"
    usual.train_for(2)


globals()[usual.args.way]()
