"""A trial replaces each function of torch in one place."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from autofit_launcher.common.orders import Orders, ProbeSettings

LAYERS = """
import json, os, sys
if sys.argv[2] == "accumulated":
    os.environ["ACCUMULATE"] = "4"
    from autofit_launcher.trainers.script.native import accumulate
    accumulate.begin()
import torch, torch.utils.data.dataloader as loaders
import autofit_launcher
from autofit_launcher.inside import start
from autofit_launcher.common.orders import ProbeSettings
from torch.optim.optimizer import Optimizer
start.begin(ProbeSettings(**json.loads(sys.argv[1])))
torch.nn.Linear(2, 2)
OURS = os.path.dirname(autofit_launcher.__file__)
PLACES = {
    torch.nn.Module: ("__init__", "__call__", "train", "zero_grad", "__getstate__", "register_parameter"),
    Optimizer: ("__init__", "step", "zero_grad"), torch.optim.AdamW: ("step",), torch.autograd: ("backward", "grad"),
    torch: ("save", "load"),
    loaders.DataLoader: ("__init__", "__iter__", "__len__"),
    loaders._BaseDataLoaderIter: ("__init__", "__next__"),
    torch.amp.GradScaler: ("__init__", "scale", "unscale_", "step", "update"),
}

def ours(function, seen):
    code = getattr(function, "__code__", None)
    if code is None or id(function) in seen:
        return []
    seen.add(id(function))
    found = [os.path.relpath(code.co_filename, OURS)] if code.co_filename.startswith(OURS) else []
    inner = [cell.cell_contents for cell in function.__closure__ or () if cell.cell_contents is not function]
    name = function.__name__
    same = [one for one in inner if callable(one) and getattr(one, "__name__", "") == name]
    return found + [file for one in same for file in ours(one, seen)]

print(json.dumps({f"{getattr(owner, '__name__', owner)}.{name}": files for owner, names in PLACES.items() for name in names
                  if (files := ours(getattr(owner, name, None), set()))}))
"""


@pytest.mark.parametrize("how", ["watched", "accumulated"])
def test_each_function_of_torch_is_replaced_once(how: str, tmp_path: Path) -> None:
    """What holds a rung's steps back is in the run as well: it stands inside of what watches a trial."""
    orders = Orders(module="", folder="", device="cpu", cap_bytes=2**32, accumulation=1, payload={})
    told = dataclasses.asdict(ProbeSettings(records=str(tmp_path), orders=dataclasses.asdict(orders), overlay=str(tmp_path / "overlay")))
    said = subprocess.run([sys.executable, "-c", LAYERS, json.dumps(told), how], check=True, capture_output=True, text=True, timeout=120)
    replaced: dict[str, list[str]] = json.loads(said.stdout.splitlines()[-1])
    watching = {name: [file for file in files if "/native/" not in file] for name, files in replaced.items()}
    assert {"torch.autograd.backward", "Module.__init__", "DataLoader.__iter__", "Optimizer.__init__"} <= replaced.keys()
    assert all(len(files) <= 1 for files in watching.values()), watching
    assert all(len(files) - len(watching[name]) <= 1 for name, files in replaced.items()), replaced
    assert ("trainers/script/native/accumulate.py" in replaced["torch.autograd.backward"]) is (how == "accumulated")


SAVES = """
import io, posix, sys, tempfile
from pathlib import Path
from autofit_launcher.inside import overlaid_libraries
from autofit_launcher.inside.after_import import after_import
from autofit_launcher.inside.overlay import Overlay
place, forwarding = Path(sys.argv[1]), []
if sys.argv[2] == "late":
    import torch
overlay = Overlay(place / "overlay", kept=(place / "kept",))
overlay.install()
after_import(overlaid_libraries.hooks(overlay, forwarding=lambda: bool(forwarding)))
import torch
for number, module in enumerate((torch, torch.serialization, torch)):
    module.save(number, place / f"{module.__name__}.pt")
    forwarding += [True] if number else []
assert [torch.load(place / name) for name in ("torch.pt", "torch.serialization.pt")] == [0, 1], "nothing was trained before the third"
with tempfile.NamedTemporaryFile(dir=place / "kept") as file:
    torch.save(3, file.name)
    assert torch.load(file.name) == 3
class Own(io.FileIO):
    pass
for number, kind in enumerate((io.FileIO, Own)):  # as blobfile writes
    with kind(place / f"{number}.bin", "wb") as file:
        file.write(b"4")
    with open(place / f"{number}.bin", "rb", buffering=0) as file:
        assert file.read() == b"4" and isinstance(file, io.FileIO) and not isinstance(file, Own)
import pyarrow
with open(place / "mapped", "wb") as file:
    file.write(b"five")
assert pyarrow.memory_map(str(place / "mapped")).read() == b"five"
assert sorted(posix.listdir(str(place))) == ["kept", "overlay"]
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_what_is_saved_by_either_name_goes_aside_and_a_temporary_file_is_always_written(when: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    subprocess.run([sys.executable, "-c", SAVES, str(tmp_path), when], check=True, capture_output=True, timeout=120)


CAPTURED = """
import json, sys
from autofit_launcher.inside import instrument, start
from autofit_launcher.common.orders import ProbeSettings
heard = []
instrument.Instrument.backward_done = lambda _: heard.append(True)
start.begin(ProbeSettings(**json.loads(sys.argv[1])))
import torch
torch.cuda.is_available = lambda: True
for captured in (True, False):
    torch.cuda.is_current_stream_capturing = lambda: captured
    torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum().backward()
    print(len(heard))
"""


def test_what_is_captured_into_a_cuda_graph_is_left_alone(tmp_path: Path) -> None:
    """Waiting for the device there breaks a step that is captured whole."""
    orders = Orders(module="", folder="", device="cuda", cap_bytes=2**32, accumulation=1, payload={})
    told = dataclasses.asdict(ProbeSettings(records=str(tmp_path), orders=dataclasses.asdict(orders)))
    said = subprocess.run([sys.executable, "-c", CAPTURED, json.dumps(told)], check=True, capture_output=True, text=True, timeout=120)
    assert said.stdout.split() == ["0", "1"]


@pytest.mark.parametrize("act", ["model.cuda()", "torch.optim.SGD(model.parameters(), lr=1)"], ids=["asked for", "trained without"])
@pytest.mark.skipif(metadata.version("torch").endswith("+cpu"), reason="it has no CUDA to ask for")
def test_a_card_that_pytorch_does_not_see_is_no_crash_of_the_script(act: str, tmp_path: Path) -> None:
    """Ultralytics refuses it in words of its own, and a script may train on the CPU then."""
    orders = Orders(module="", folder="", device="cuda", cap_bytes=2**32, accumulation=1, payload={})
    told = dataclasses.asdict(ProbeSettings(records=str(tmp_path), orders=dataclasses.asdict(orders)))
    begun = CAPTURED.partition("heard")[0] + "start.begin(ProbeSettings(**json.loads(sys.argv[1])))\nimport torch\n"
    code = f"{begun}torch.cuda.is_available = lambda: False\nmodel = torch.nn.Linear(2, 1)\nprint('built')\n{act}"
    said = subprocess.run([sys.executable, "-c", code, json.dumps(told)], check=False, capture_output=True, text=True, timeout=120)
    assert said.stdout == "built\n" and "BudgetError: device 'cuda' was asked for, but PyTorch sees no CUDA device" in said.stderr
