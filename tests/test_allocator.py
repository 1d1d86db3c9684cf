"""The environment of a trial is that of its full run, and says how memory is allocated."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.allocator import allocator_environment, allocator_variable
from launcher.ladder import Rung
from launcher.trainers.suite import cpu_budget

PLAIN = Rung(index=0, values={"micro_batch": 8, "checkpointing": False}, position=(0, 0), accumulation=2)
CHECKPOINTED = Rung(index=1, values={"micro_batch": 8, "checkpointing": True}, position=(0, 1), accumulation=2)
CARD = replace(cpu_budget(), kind="cuda", index=2)


def test_a_cpu_budget_gives_every_tensor_back_at_once() -> None:
    assert allocator_environment(cpu_budget(), PLAIN)["MALLOC_MMAP_THRESHOLD_"] == "65536"


def test_a_card_is_numbered_as_nvml_numbers_it() -> None:
    assert allocator_environment(CARD, PLAIN) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2"}


def test_a_rung_that_checkpoints_has_expandable_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    assert "expandable_segments:True" in allocator_environment(CARD, CHECKPOINTED).values()


def test_the_persons_own_allocator_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    assert allocator_environment(CARD, CHECKPOINTED)["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:128,expandable_segments:True"
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False")
    assert allocator_environment(CARD, CHECKPOINTED)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:False"


@pytest.mark.parametrize(
    ("version", "name"), [("2.6.0", "PYTORCH_CUDA_ALLOC_CONF"), ("2.9.1+cu130", "PYTORCH_ALLOC_CONF"), ("2.15.0", "PYTORCH_ALLOC_CONF")]
)
def test_the_variable_is_the_one_that_this_torch_reads(version: str, name: str) -> None:
    assert allocator_variable({}, version) == name


def test_the_trainers_process_reads_the_same_words_with_the_standard_library_alone() -> None:
    code = "import sys; before = {*sys.modules}; import launcher.allocator; print({name.split('.')[0] for name in {*sys.modules} - before})"
    shown = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    assert ast.literal_eval(shown.stdout) <= {"launcher", *sys.stdlib_module_names}
