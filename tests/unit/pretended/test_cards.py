"""PyTorch's real allocator on cards that aren't there: what it counts, what it refuses, its words, NVML's agreement, and true values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autofit_launcher.common.sizes import GIB, MIB
from autofit_launcher.pretended import catalogue
from tests.helpers.places import ROOT
from tests.helpers.pretended import needs_a_pretended_card, played
from tests.helpers.pretended import two as two

SCRIPTS = ROOT / "tests" / "data" / "pretended"


def said(script: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a script prints as its last line."""
    argv = [sys.executable, str(SCRIPTS / f"{script}.py")]
    done = subprocess.run(argv, env=dict(environment), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def allocator(two: dict[str, str]) -> dict[str, Any]:
    return said("allocator", two)


@pytest.fixture(scope="module")
def expandable(two: dict[str, str]) -> dict[str, Any]:
    return said("allocator", {**two, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})


@needs_a_pretended_card
def test_cards_are_there_as_the_catalogue_has_them(allocator: dict[str, Any]) -> None:
    assert allocator["available"] and allocator["count"] == 2
    assert allocator["name"] == "NVIDIA A100-SXM4-40GB (pretended)", "it never passes for a real one"
    free, total = allocator["before"]
    assert total == 40441 * MIB
    assert total - free == 450 * MIB, "the context"


@needs_a_pretended_card
def test_pytorch_and_nvml_name_the_same_cards_and_count_the_same_bytes(allocator: dict[str, Any]) -> None:
    assert [f"GPU-{uuid}" for uuid in allocator["properties"]] == allocator["nvml"]["uuids"]
    assert allocator["allocated"] == 100 * MIB == allocator["reserved"]
    assert allocator["nvml"]["mine"] == [450 * MIB, 550 * MIB] == allocator["nvml"]["used"]


@needs_a_pretended_card
def test_nvml_has_all_that_autofit_asks_of_it(two: dict[str, str]) -> None:
    asked = {name for file in (ROOT / "launcher").rglob("*.py") for name in re.findall(r"\.(nvml(?:Device|System)\w+)\(", file.read_text())}
    there = (Path(two["LD_LIBRARY_PATH"].partition(":")[0]) / "libnvidia-ml.so.1").read_bytes()  # loaded it would be this process's driver
    has = {name for name in asked if re.search(rb"\0%s(_v\d)?\0" % name.encode(), there)}
    assert has == asked and len(asked) > 10


@needs_a_pretended_card
@pytest.mark.parametrize("native", [True, False], ids=["native", "expandable"])
def test_memory_runs_out_in_pytorchs_own_words(native: bool, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue("allocator" if native else "expandable")
    assert found["segments"] is not native
    assert "CUDA out of memory. Tried to allocate 1024.00 GiB. GPU 0 has a total capacity of 39.49 GiB" in found["too_much"]
    assert "GPU 1 has a total capacity of 39.49 GiB" in found["fraction"] and "9.87 GiB allowed" in found["fraction"]
    assert found["counted"] == 1
    assert found["reserved_after"] == 0


@needs_a_pretended_card
def test_what_the_card_computes_is_what_the_cpu_computes() -> None:
    with played("h100_80gb") as environment:  # where PyTorch would take cuDNN's attention
        found = said("values", environment)
    for half, off in (("", 2e-5), (" half", 0.05)):
        there, here = found[f"cuda{half}"], found[f"cpu{half}"]
        assert there["losses"] == pytest.approx(here["losses"], abs=off), half
        assert there["losses"][-1] < there["losses"][0]
        assert there["chosen"] == pytest.approx(here["chosen"], rel=1e-5) and there["unique"] == here["unique"]
        assert there["spectrum"] < 1e-5


@needs_a_pretended_card
@pytest.mark.parametrize(
    ("gpu", "taken"),
    [
        ("t4", ["efficient", "math", "efficient", "math"]),
        ("rtx_5090", ["flash", "flash", "efficient", "efficient"]),
    ],
)
def test_attention_takes_the_kernel_that_such_a_card_takes(gpu: str, taken: list[str]) -> None:
    """As PyTorch's sdp_utils.cpp has it: bf16 has neither kernel below 8.0, heads above 192 no flash attention on 8.6, 8.9 and 12.0."""
    with played(gpu) as environment:
        assert said("attention", environment) == taken


@needs_a_pretended_card
def test_what_is_too_large_to_be_computed_leads_no_trainer_astray() -> None:
    with played("rtx_4080s", computed="small") as environment:
        found = said("left_out", environment)
    assert found["indices"] == [0, 0] and found["order"] == 0 and found["picked"] == 16
    assert found["scanned"] == 499500, "PyTorch's wheels have no kernels of this card's own capability: it runs older ones"
    assert found["finite"] and not found["not_a_number"]
    assert found["behind"] == 0 and found["sized"] == [0, 0, 0], "what comes of something unknown is unknown"
    assert found["unfinished"] == 50, "a generation goes on: what is answered of something unknown holds"
    assert found["again"] == 1225, "until it is written anew"
    assert found["fresh"] == [True, 3, 4], "what is new is known, also where something unknown was before"
    assert found["mean"] == 0 == found["divided"] and found["small"] == 10


@pytest.mark.slow
@needs_a_pretended_card
def test_a_process_that_is_killed_gives_its_memory_back(two: dict[str, str]) -> None:
    code = "import os, torch; held = torch.empty(1 << 30, device='cuda'); print('held', flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], env=two, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9 and "held" in done.stdout
    code = "import torch; free, total = torch.cuda.mem_get_info(); print(total - free)"
    done = subprocess.run([sys.executable, "-c", code], env=two, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) == 450 * MIB


@pytest.mark.parametrize("name", catalogue.known())
def test_a_card_of_the_catalogue_can_be_read_and_every_figure_has_a_source_beside_it(name: str) -> None:
    (card,) = catalogue.named([name])
    assert card.name == name and 4 * GIB < card.usable_bytes < 200 * GIB
    lines = (catalogue.folder() / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    figures = [line for line in lines if not line.startswith(("#", "title", "capability"))]
    assert len(figures) == 2 and all(len(line.partition("#")[2]) > 20 for line in figures)
