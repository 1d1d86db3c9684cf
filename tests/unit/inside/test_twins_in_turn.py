"""Twins of a pair run one after the other; a process that was begun ahead waits for its turn."""

from __future__ import annotations

import json
import signal
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

TWIN = """
import os, socket, sys, time
name, told, status = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def tell(what):  # writes are redirected
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(f"{name} {what}".encode(), ("127.0.0.1", told))
tell("trains")
time.sleep(0.5 if status < 2 else 60)
tell("ends")
os._exit(status)
"""


@pytest.mark.parametrize("status", [0, 1, 2], ids=["done", "fails", "takes too long"])
def test_the_second_twin_is_run_when_the_first_has_come_to_its_end(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twin.py").write_text(TWIN)
    told = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    told.bind(("127.0.0.1", 0))
    told.settimeout(5)
    shape, nothing = {"samples": 4, "accumulation": 1, "whole_batch": 4}, dict[str, object](env={}, files={}, base={})
    words = {"first": str(status), "other": "0"}
    twins = [
        {"name": name, "argv": [sys.executable, "twin.py", name, str(told.getsockname()[1]), word], "told": shape, **nothing}
        for name, word in words.items()
    ]
    orders = Orders(
        module="", folder=str(tmp_path / "proof"), device="cpu", cap_bytes=GIB, accumulation=1, payload={"twins": twins, "limit_s": 10.0}
    )
    orders.scratch.mkdir(parents=True)
    run.run(orders, Recorder(orders))
    heard = list(iter(lambda: told.recv(99).decode(), "other ends"))
    assert heard == ["first trains", *(["first ends"] if status < 2 else []), "other trains"]
    assert [one.parent.name for one in Path("proof").glob("*/failed")] == (["first"] if status == 1 else [])
    assert not list(Path("proof").glob("*/overlay")) and json.loads(orders.report_path.read_text())["phase"] == "done"


def test_a_process_waits_before_it_takes_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = tmp_path / "turn"
    orders = {"module": "", "folder": "", "device": "cpu", "cap_bytes": 1, "accumulation": 1, "payload": {}}
    part = TakingPart(ProbeSettings(records=str(tmp_path), orders=orders, turn=str(turn)))
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(signal, "getitimer", lambda which: (0.0, 0.0))  # pytest's own
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
