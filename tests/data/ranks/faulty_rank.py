"""The trial of a tiny training of several ranks over gloo; rank 1 does what the payload says, in its second step."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from launcher.inside import budget
from launcher.inside.recorder import Recorder
from launcher.shared.orders import Orders
from launcher.shared.report import Phase


def run(orders: Orders, recorder: Recorder) -> None:
    recorder.budget(budget.take(orders))
    recorder.phase(Phase.SETUP)
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder.observe(micro_batch=8, device="cpu")
    recorder.phase(Phase.TRAIN)
    for number in range(2):
        if number == 1 and orders.rank == 1:
            happens(orders.payload["fault"])
        step(model, optimizer, recorder)
    recorder.phase(Phase.VALIDATE)
    for _ in range(2):
        model(torch.ones(8, 512))
        recorder.batch()
    recorder.phase(Phase.TRAIN_AGAIN)
    step(model, optimizer, recorder)
    recorder.phase(Phase.DONE)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, recorder: Recorder) -> None:
    model(torch.ones(8, 512)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    recorder.optimizer_step()
    recorder.batch()


def happens(fault: str) -> None:
    if fault == "memory":
        torch.ones(2**30)
    elif fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "leaves":
        sys.exit(0)
    elif fault == "crashes":
        raise KeyError("rank 1's own")
    elif fault == "hangs":
        while True:
            time.sleep(1)
