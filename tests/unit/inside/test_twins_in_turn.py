"""Twins of a pair begin one beside the other, and are at the device one after the other."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path

import pytest
import torch

from autofit_launcher.common.orders import CAME, Orders, ProbeSettings
from autofit_launcher.common.sizes import GIB
from autofit_launcher.inside.part import TakingPart
from autofit_launcher.inside.recorder import Recorder
from autofit_launcher.inside.same import run
from autofit_launcher.inside.same.rest import Rest
from autofit_launcher.inside.same.rows import Rows, TwinOrders
from autofit_launcher.inside.same.twin import Updates

NAMES = ("first", "other")
TWIN = """
import json, os, pathlib, socket, sys, time
name, told, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
turn = pathlib.Path(json.load(open(os.environ["AUTOFIT_PROBE"]))["turn"])
def tell(what):  # writes are redirected
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(f"{name} {what}".encode(), ("127.0.0.1", told))
tell("begins")
if port:
    own = socket.create_server(("127.0.0.1", port))
turn.with_name("turn.came").touch()
while not turn.exists():
    time.sleep(0.01)
tell("trains")
time.sleep(1.5)
tell("ends")
"""


@pytest.mark.parametrize(("free", "port"), [(64 * GIB, False), (0, False), (64 * GIB, True)], ids=["beside", "no room", "a port of both"])
def test_the_next_waits_for_its_turn_and_one_is_run_again_where_the_two_meet(
    free: int, port: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twin.py").write_text(TWIN)
    told = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    told.bind(("127.0.0.1", 0))
    told.settimeout(5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = (str(told.getsockname()[1]), str(server.getsockname()[1] if port else 0))
    shape = {"samples": 4, "accumulation": 1, "whole_batch": 4}
    twins = [{"name": name, "argv": [sys.executable, "twin.py", name, *words], "env": {}, "files": {}, "told": shape} for name in NAMES]
    payload = {"twins": twins, "limit_s": 60.0, "free": free}
    orders = Orders(module="", folder=str(tmp_path / "proof"), device="cpu", cap_bytes=GIB, accumulation=1, payload=payload)
    orders.scratch.mkdir(parents=True)
    run.run(orders, Recorder(orders))
    heard = list(iter(lambda: told.recv(99).decode(), "other ends"))
    assert [one for one in heard if "begins" not in one] == ["first trains", "first ends", "other trains"]
    last = len(heard) - heard[::-1].index("other begins") - 1
    assert (last < heard.index("first ends")) is (bool(free) and not port) and (heard.count("other begins") > 1) is port
    assert not list(Path("proof").glob("*/overlay")) and json.loads(orders.report_path.read_text())["phase"] == "done"


def test_a_process_waits_before_it_takes_its_budget(tmp_path: Path) -> None:
    turn = tmp_path / "turn"
    orders = {"module": "", "folder": "", "device": "cpu", "cap_bytes": 1, "accumulation": 1, "payload": {}}
    part = TakingPart(ProbeSettings(records=str(tmp_path), orders=orders, turn=str(turn)))
    waits = threading.Thread(target=part.wait_for_turn)
    waits.start()
    waits.join(0.2)
    assert waits.is_alive() and Path(f"{turn}{CAME}").exists()
    turn.touch()
    waits.join(10)
    assert not waits.is_alive()


@pytest.mark.parametrize("shape", [(8, 8, 1, 1), (8, 4, 3, 3), (5,)])
def test_weights_move_alike_however_they_lie_in_memory(shape: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ultralytics has its layers channels last on a card: those of 1 x 1 lie so and otherwise at once, which nothing can be copied onto."""
    told, rest = TwinOrders(samples=4, accumulation=1, whole_batch=4, part=4), Rest()
    twin = Updates(told, tmp_path, Rows(rest, told), rest)
    monkeypatch.setattr(torch, "rand", lambda size, **_: torch.full((size,), 5.5))
    plain = torch.randn(shape)
    lies = plain.to(memory_format=torch.channels_last, copy=True) if len(shape) == 4 else plain.clone()
    twin._optimizer_made(torch.optim.SGD([torch.nn.Parameter(lies)], 0.1))
    twin._move()
    torch.testing.assert_close(lies, 1.5 * plain)
