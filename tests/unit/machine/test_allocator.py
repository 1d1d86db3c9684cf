"""The environment of a trial is that of its full run, and says how memory is allocated."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from autofit_launcher.machine.devices import VARIABLE, VARIABLES, allocator_environment
from autofit_launcher.trainers.suite import cpu_budget

CARD = replace(cpu_budget(), kind="cuda", index=2, uuid="GPU-1")


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_card_is_named_by_its_uuid_and_has_segments_that_grow() -> None:
    card = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert allocator_environment(CARD) == {**card, VARIABLE: "expandable_segments:True"}


def test_a_driver_that_can_not_map_them_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """WSL below R615: CUDA driver error: device not ready (pytorch#192330)."""
    wsl = replace(CARD, may_spill=True)
    assert allocator_environment(wsl)[VARIABLE] == "expandable_segments:False"
    monkeypatch.setenv(VARIABLE, "expandable_segments:True")
    assert allocator_environment(wsl)[VARIABLE] == "expandable_segments:True", "the person says that theirs can"


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_persons_own_allocator_settings_are_kept_in_the_one_variable_that_every_torch_reads(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "max_split_size_mb:128")
    assert allocator_environment(CARD)["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:128,expandable_segments:True"
    monkeypatch.setenv(variable, "expandable_segments:False")
    assert allocator_environment(CARD)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:False"


def test_arrow_reserves_no_gibibyte_of_a_cpu_budget() -> None:
    """nanochat reads parquet: 1 GiB of its process's data was Arrow's own pool, and no rung fitted."""
    grown = (
        "import pyarrow; size = lambda: int(open('/proc/self/status').read().split('VmData:')[1].split()[0]); "
        "before = size(); pyarrow.table({'a': list(range(10000))}); print(size() - before)"
    )
    env = {**os.environ, **allocator_environment(cpu_budget())}
    said = subprocess.run([sys.executable, "-c", grown], env=env, capture_output=True, text=True, check=True).stdout
    assert int(said) < 128 * 1024, f"{int(said) // 1024} MiB"
