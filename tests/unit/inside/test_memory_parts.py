"""The bytes of weights and an optimizer's states that are in this process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

SHARED = """
import json, torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from launcher.inside.memory_parts import CountedParts
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(64, 32, bias=False)
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(2, 64)).sum().backward()
optimizer.step()
parts = CountedParts("cpu")
parts.count(optimizer)
print(json.dumps(parts.told()))
dist.destroy_process_group()
"""


def test_of_a_tensor_that_ranks_share_its_own_part_counts() -> None:
    done = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    weights = 64 * 32 * 4
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["weights"] == weights
    assert 2 * weights <= found["states"] <= 2 * weights + 64, "two moments, and a count of steps"
