"""After its trials a run is as if nothing had been: what it prints, saves, draws and holds open is the plain command's, byte for byte."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autofit_launcher.machine.devices import MALLOC
from tests.conftest import write_yolo_dataset
from tests.helpers.command_line import answer, autofit
from tests.helpers.places import ROOT

TELLS = '''
import os
def _tell():
    """Says what the process is like when its program ends, but for its output and what holds it to its budget."""
    import gc, json, os, pathlib, random, signal, sys, threading, warnings
    import numpy, torch
    held = []
    for number in os.listdir("/proc/self/fd"):
        if int(number) > 2 and os.path.exists(f"/proc/self/fd/{number}"):
            at = pathlib.Path(f"/proc/self/fdinfo/{number}").read_text().split()[1]
            held.append([os.readlink(f"/proc/self/fd/{number}").partition(":[")[0], at])
    told = {
        "draws": repr([random.getstate(), numpy.random.get_state(), torch.get_rng_state().tolist()]), "held": sorted(held),
        "words": sys.argv, "threads": [torch.get_num_threads(), *sorted(one.name for one in threading.enumerate())],
        "signals": [repr(signal.getsignal(one)).partition(" at ")[0] for one in signal.Signals], "mask": os.umask(0o22),
        "collects": [gc.isenabled(), *gc.get_threshold(), gc.get_freeze_count()], "variables": sorted(os.environ.keys() - OURS),
        "filters": [repr(one) for one in warnings.filters if "SpecialFunction" not in repr(one) and "matrix subclass" not in repr(one)],
        "exact": [torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.allow_tf32, torch.is_grad_enabled()],
    }
    pathlib.Path(f"told-{os.environ.get('RANK', 0)}.json").write_text(json.dumps(told, indent=1))
OURS = {"TRAINER_KEPT_IN", "YOLO_EXACT", "CUDA_VISIBLE_DEVICES", *(name for name in os.environ if name.startswith("AUTOFIT_"))}
_tell()
'''
LOOP = """
import argparse, os, random
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
args = parser.parse_args()
rank = int(os.environ.get("RANK", -1))
random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Dropout(), torch.nn.Linear(64, 2))
if rank >= 0:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
log = open(f"log-{rank}.csv", "w")
for epoch in range(3):
    for (x,) in DataLoader(TensorDataset(torch.randn(96, 8)), batch_size=args.batch_size, shuffle=True):
        loss = model(x + random.random() + float(numpy.random.rand())).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(float(loss), file=log)
    if rank < 1:
        print("epoch", epoch, float(loss), flush=True)
    model.eval()
    with torch.no_grad():
        for (x,) in DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=16):
            model(x)
    model.train()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": random.getstate()}, f"last-{rank}.pt")
"""
YOLO = """
import os
from ultralytics import YOLO
here = {"project": os.path.abspath("out"), "name": "run"}
YOLO("yolov8n.yaml").train(data=os.path.abspath("data/data.yaml"), epochs=2, imgsz=64, batch=8, workers=0, device="cpu", amp=False, **here)
"""
TRAINER = """--output_dir out --per_device_train_batch_size 16 --samples 64 --num_train_epochs 2 --save_strategy epoch --report_to none
 --logging_steps 1 --use_cpu true --dataloader_num_workers 1"""
SECONDS = r"\d[\d.]*(?:±[\d.]+)? ?(?:ms|s|K?it/s|s/it|MB/s|hours)\b"
TIMES = re.compile(rf"'\w*(?:runtime|per_second)': '?[\d.e-]+|{SECONDS}|[━─╸]+|.*\r", re.MULTILINE)
"""What no two logs have alike."""
UNLIKE = ("state/", "data/labels/", "out/run/weights/")
"""Places of Ultralytics' settings, of label caches, which know their paths, and of checkpoints with a date, whose weights are compared."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["loop", "trainer", "yolo", "ranks"])
def test_what_a_run_leaves_is_the_plain_commands(kind: str, tmp_path: Path) -> None:
    source = {"trainer": (ROOT / "examples" / "hf_trainer" / "train.py").read_text(), "yolo": YOLO}.get(kind, LOOP)
    words = {"ranks": [str(Path(sys.executable).with_name("torchrun")), "--nproc_per_node", "2"]}.get(kind, [sys.executable])
    argv = [*words, "train.py", *(TRAINER.split() if kind == "trainer" else ())]
    env = {**MALLOC, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "YOLO_CONFIG_DIR": "state", "YOLO_OFFLINE": "true"}
    for place in (plain := tmp_path / "plain", ours := tmp_path / "ours"):
        (place / "state").mkdir(parents=True)
        (place / "train.py").write_text(source + TELLS)
        if kind == "yolo":
            write_yolo_dataset(place / "data", train=16)
    with (plain / "printed").open("wb") as printed:
        subprocess.run(argv, cwd=plain, check=True, env={**os.environ, **env}, stdout=printed)
    done = autofit("run", "device=cpu", "device.memory=4GiB", "run.root=../runs", "--json", "--", *argv, cwd=ours, **env)
    said = answer(done)
    assert (done.returncode, said["status"], len(said["trials"])) == (0, "done", 1), done.stderr
    (ours / "printed").write_bytes((Path(said["run_dir"]) / "run.stdout.log").read_bytes())
    assert "started anew" not in Path(said["trials"][0]["folder"], "stderr.log").read_text()
    left = [{str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()} for place in (plain, ours)]
    assert left[0] == left[1]
    assert not [name for name in left[0] if not name.startswith(UNLIKE) and written(plain, name) != written(ours, name)]
    for name in (one for one in left[0] if "weights" in one):
        first, second = (torch.load(place / name, weights_only=False)["model"].state_dict() for place in (plain, ours))
        assert all(torch.equal(first[key], second[key]) for key in first)


def written(place: Path, name: str) -> str:
    """What a file says, but for times and its place."""
    said = (
        (place / name).read_bytes().decode("latin1" if name.endswith((".pt", ".bin", ".pth", ".safetensors", ".jpg", ".png")) else "utf-8")
    )
    if name.endswith("results.csv"):
        said = "\n".join(",".join(cell for at, cell in enumerate(line.split(",")) if at != 1) for line in said.splitlines())
    return TIMES.sub("", said.replace(str(place), ""))
