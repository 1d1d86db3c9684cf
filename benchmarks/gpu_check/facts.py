"""One question to a card, in a process of its own -> its answer as a line of JSON. Torch only; case A asks them all.

python -m benchmarks.gpu_check.facts fill --uuid GPU-... --idle 150000000000 --cap 4294967296
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from autofit_launcher.common import card_memory
from autofit_launcher.common.orders import Orders
from autofit_launcher.common.report import Phase
from autofit_launcher.common.sizes import GIB, MIB
from autofit_launcher.inside import budget
from autofit_launcher.inside.driver import VisibleCard
from autofit_launcher.inside.recorder import Recorder
from autofit_launcher.ladder.rungs import Rung
from autofit_launcher.machine.process import Ending
from autofit_launcher.trial.judge import Needs, judge

BLOCK_BYTES = 256 * MIB
DRAWN = 200
"""Random sizes that are held against the largest of them alone."""


def meters(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """What NVML's two versions and the runtime say of the same card at the same moment, with a context and 1 GiB on it."""
    import pynvml

    pynvml.nvmlInit()
    handle = card_memory.handle_of(pynvml, asked.uuid)
    torch.cuda.init()
    held = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    one, two = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    free, total = torch.cuda.mem_get_info()
    del held
    return {
        "v1": {"total": int(one.total), "free": int(one.free), "used": int(one.used)},
        "v2": {"total": int(two.total), "free": int(two.free), "used": int(two.used), "reserved": int(two.reserved)},
        "runtime": {"total": int(total), "free": int(free)},
    }


def outside(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """Bytes outside the allocator after the context, and after each kind of kernel has been loaded."""
    card, found = VisibleCard(asked.uuid, idle_free_bytes=asked.idle), {}
    torch.cuda.init()
    torch.cuda.synchronize()
    found["context"] = card.outside()
    matrix = torch.ones(1024, 1024, device="cuda", dtype=torch.float16)
    image = torch.ones(1, 64, 64, 64, device="cuda", dtype=torch.float16)
    heads = torch.ones(1, 8, 128, 64, device="cuda", dtype=torch.float16)
    wave = torch.ones(4, 4096, device="cuda")
    functional = torch.nn.functional
    for name, act in (
        ("matmul", lambda: matrix @ matrix),
        ("convolution", lambda: functional.conv2d(image, torch.ones(64, 64, 3, 3, device="cuda", dtype=torch.float16))),
        ("fft", lambda: torch.fft.rfft(wave)),
        ("attention", lambda: functional.scaled_dot_product_attention(heads, heads, heads)),
    ):
        try:
            act()
            torch.cuda.synchronize()
        except RuntimeError as raised:  # one kind of kernel that fails takes no other's figure with it
            found[f"{name}_failed"] = str(raised).splitlines()[0][:300]
        else:
            found[name] = card.outside()
    return found


def fill(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """Takes a budget as a trial does and fills it: where it ends, with what words, and what is made of them."""
    with tempfile.TemporaryDirectory() as place:
        orders = Orders(
            module="none", folder=place, device="cuda", device_uuid=asked.uuid, idle_free_bytes=asked.idle, cap_bytes=asked.cap,
            ceiling_bytes=asked.cap, accumulation=1, payload={},
        )  # fmt: skip
        recorder = Recorder(orders)
        recorder.budget(budget.take(orders))
        recorder.phase(Phase.TRAIN)
        held, error = [], None
        try:
            while sum(len(one) for one in held) <= 2 * asked.cap:
                held.append(torch.empty(min(BLOCK_BYTES, asked.cap // 32), dtype=torch.uint8, device="cuda"))
        except RuntimeError as raised:
            error = raised
        recorder.failed(error or AssertionError("twice the cap was given"))
        report = recorder.report()
    rung = Rung(index=0, values={"micro_batch": 1}, position=(0,), accumulation=1)
    verdict = judge(
        report, Ending(returncode=1), rung=rung, needs=Needs(optimizer_steps=1, validation_batches=1, observed={"device": "cuda"})
    )
    use = report.uses[-1]
    text = str(error).splitlines()[0][:400] if error is not None else ""
    said = {"verdict": verdict.kind.value, "source": verdict.source, "text": text, "ooms": use.ooms, "retries": use.retries}
    return {"cap": asked.cap, "reserved": use.reserved_bytes, "outside": use.outside_bytes, "held": use.held_bytes, **said}


def cudnn(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """What cuDNN's benchmark asks for and gets over, on a card whose cap is near."""
    torch.backends.cudnn.benchmark = True
    on = {"device": "cuda", "device_uuid": asked.uuid, "idle_free_bytes": asked.idle, "cap_bytes": asked.cap}
    budget.take(Orders(module="", folder="", accumulation=1, payload={}, **on))
    ballast = torch.empty(max(MIB, asked.cap - 2 * GIB), dtype=torch.uint8, device="cuda")
    weights = torch.ones(256, 256, 3, 3, device="cuda", dtype=torch.float16)
    images = 0
    try:
        for images in (1, 2, 4, 8, 16, 32):
            torch.nn.functional.conv2d(torch.ones(images, 256, 160, 160, device="cuda", dtype=torch.float16), weights)
        error = ""
    except RuntimeError as raised:
        error = str(raised).splitlines()[0][:300]
    stats = torch.cuda.memory_stats()
    del ballast
    counts = {name: int(stats.get(name, 0)) for name in ("num_ooms", "num_alloc_retries")}
    return {"cap": asked.cap, **counts, "images": images, "error": error}


def fragments(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """Reserved by batches of random sizes, over what the largest alone reserves: what variety of shapes costs."""
    rng = random.Random(0)
    largest = 4 * GIB if asked.cap >= 16 * GIB else asked.cap // 8
    most = {}
    for name, sizes in (("largest", [largest] * 4), ("random", [rng.randrange(largest // 8, largest) for _ in range(DRAWN)])):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for size in sizes:  # a batch is many tensors, of which some outlive others
            kept = [torch.empty(size // part, dtype=torch.uint8, device="cuda") for part in (2, 4, 8, 16, 16)]
            del kept[1::2]
            more = torch.empty(size // 8, dtype=torch.uint8, device="cuda")
            del kept, more
        most[name] = int(torch.cuda.max_memory_reserved())
    return {**most, "ratio": round(most["random"] / most["largest"], 4), "drawn": DRAWN}


def forks(torch: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """Whether a process that has asked for the card, but not used it, can be forked: the child's exit status, and the parent after it."""
    seen = torch.cuda.is_available()
    if (child := os.fork()) == 0:
        with contextlib.suppress(Exception):
            torch.ones(4, device="cuda").sum().item()
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return {"seen": seen, "child": os.waitstatus_to_exitcode(status), "parent": torch.ones(4, device="cuda").sum().item() == 4}


FACTS: dict[str, Callable[[Any, argparse.Namespace], dict[str, Any]]] = {
    "meters": meters,
    "outside": outside,
    "fill": fill,
    "cudnn": cudnn,
    "fragments": fragments,
    "forks": forks,
}


def answer(argv: Sequence[str], torch: Any = None) -> dict[str, Any]:
    """The answer to one question; ``torch``: None imports it."""
    parser = argparse.ArgumentParser(prog="facts", allow_abbrev=False)
    parser.add_argument("name", choices=FACTS)
    parser.add_argument("--uuid", required=True)
    parser.add_argument("--idle", type=int, required=True)
    parser.add_argument("--cap", type=int, default=4 * GIB)
    asked = parser.parse_args(argv)
    if torch is None:
        import torch
    return FACTS[asked.name](torch, asked)


if __name__ == "__main__":
    import sys

    print(json.dumps(answer(sys.argv[1:])))
