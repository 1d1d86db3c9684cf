"""autofit_launcher.machine.devices (and nvml, host, sizes below it): budgets from a fake NVML with pynvml's names, and the real CPU."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from autofit_launcher.common.sizes import parse_size
from autofit_launcher.engine.launch import above_trial
from autofit_launcher.errors import BadInput, Fault
from autofit_launcher.history.records import MemoryRecord
from autofit_launcher.machine import devices, host
from autofit_launcher.machine import nvml as nvml_module
from autofit_launcher.machine.devices import VARIABLE, VARIABLES, Budget, allocator_environment, find, settle, taken, used_bytes, wait_for
from autofit_launcher.trainers.suite import cpu_budget
from tests.helpers.nvml_stand_in import GIB, MIB, FakeCard, FakeNvml

linux = pytest.mark.skipif(platform.system() != "Linux", reason="RLIMIT_DATA is Linux's")


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_module, "_card_files", lambda: False)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def on(nvml: FakeNvml, kind: str = "cuda", **options: Any) -> Budget:
    options.setdefault("environ", {})
    return find(kind, headroom=0.10, nvml=nvml, **options)


def refused(nvml: FakeNvml | None, kind: str = "cuda", **options: Any) -> list[Fault]:
    options.setdefault("headroom", 0.10)
    options.setdefault("environ", {})
    with pytest.raises(BadInput) as caught:
        find(kind, nvml=nvml, **options)
    return list(caught.value.faults)


# ---- whole cards


def test_an_idle_card_is_budgeted_whole_less_the_drivers_reserve() -> None:
    total, name = 80 * GIB, "NVIDIA A100"
    nvml = FakeNvml(FakeCard(total=total, name=name, reserved=256 * MIB))
    budget = on(nvml)
    assert (budget.kind, budget.index, budget.name) == ("cuda", 0, name)
    assert budget.total_bytes == budget.free_bytes == budget.budget_bytes == total - 256 * MIB
    assert budget.cap_bytes == int((total - 256 * MIB) * 0.9)
    assert (budget.emulated, budget.notes, budget.driver) == (False, (), "600.00")
    assert not taken(budget, nvml=nvml) and settle(budget, nvml=nvml) and used_bytes(on(nvml), (1,), nvml=nvml)[0] == 0


def test_a_driver_without_version_2_memory_counts_its_reserve_as_use() -> None:
    budget = on(FakeNvml(FakeCard(version_2=False)))
    assert budget.total_bytes == 16 * GIB
    assert budget.budget_bytes == 16 * GIB - 256 * MIB


def test_memory_emulates_a_smaller_card() -> None:
    budget = on(FakeNvml(FakeCard(total=80 * GIB, name="NVIDIA A100")), memory_bytes=16 * GIB)
    assert budget.emulated
    assert (budget.budget_bytes, budget.cap_bytes) == (16 * GIB, int(16 * GIB * 0.9))
    assert budget.notes == ("cuda:0 (NVIDIA A100) has 79.8 GiB; device.memory makes it a card of 16.0 GiB",)
    assert str(budget) == "cuda:0 (NVIDIA A100, 16.0 GiB of 79.8 GiB)"
    on_the_box = on(FakeNvml(FakeCard()), memory_bytes=16 * GIB)
    assert (on_the_box.budget_bytes, on_the_box.emulated) == (16 * GIB - 256 * MIB, False), "that size is all of the card"


# ---- neighbours


def held() -> FakeNvml:
    return FakeNvml(FakeCard(total=80 * GIB, name="NVIDIA A100", used=20 * GIB, processes=[[(os.getpid(), 20 * GIB)]]))


def test_a_held_card_is_refused_with_what_to_do() -> None:
    (fault,) = refused(held())
    assert fault.key == "device.share" and fault.found.startswith("20.0 GiB of the 79.8 GiB of cuda:0 (NVIDIA A100) are in use (nvidia-smi")
    assert "device.share=true to budget only the 59.8 GiB" in fault.cure


def test_sharing_budgets_what_is_free_and_says_so() -> None:
    budget = on(held(), share=True)
    assert budget.budget_bytes == budget.free_bytes == 60 * GIB - 256 * MIB
    assert budget.notes[0] == "the budget is the 59.8 GiB that others leave free of 79.8 GiB"
    assert "a neighbour that grows later takes memory that this budget counts on" in budget.notes[1]


@pytest.mark.parametrize(("card", "release"), [
    (FakeCard(used=3 * GIB, graphics=[(os.getpid(), 3 * GIB)]), "6.8"), (FakeCard(used=3 * GIB), "6.6-microsoft-standard-WSL2"),
], ids=["desktop", "WSL tells no list"])  # fmt: skip
def test_a_desktop_is_budgeted_around(card: FakeCard, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    budget = on(FakeNvml(card))
    assert budget.budget_bytes == 13 * GIB - 256 * MIB
    assert budget.notes[0] == "the budget is the 12.8 GiB that others leave free of 15.8 GiB"


def test_a_neighbour_that_comes_is_not_the_runs_own_use_where_the_driver_tells_who_holds_what() -> None:
    card = FakeCard(uuid="GPU-1")
    nvml = FakeNvml(card)
    budget = on(nvml)
    card.used, card.processes = 7 * GIB, [[(41, 2 * GIB), (42, GIB), (99, 4 * GIB)]]
    assert used_bytes(budget, (41, 42), nvml=nvml) == (3 * GIB, True)
    card.processes = [[(41, None), (99, None)]]
    assert used_bytes(budget, (41, 42), nvml=nvml) == (7 * GIB, False), "WSL and containers: what is in use since"


# ---- which card

TWO = (
    FakeCard(name="first", uuid="GPU-11111111-aaaa-bbbb-cccc-000000000000"),
    FakeCard(name="second", uuid="GPU-22222222-aaaa-bbbb-cccc-000000000000"),
)


ASYNC, FRACTION = ({"PYTORCH_CUDA_ALLOC_CONF": value} for value in ("backend:cudaMallocAsync", "per_process_memory_fraction:0.5"))


@pytest.mark.parametrize(("nvml", "kind", "options", "said"), [
    (FakeNvml(FakeCard()), "cuda", {"memory_bytes": 20 * GIB},
     "device.memory: 20.0 GiB is asked, but cuda:0 (NVIDIA GeForce RTX 4080 SUPER) has 15.8 GiB that programs can reach. Ask for 15.8"),
    (FakeNvml(FakeCard()), "cuda", {"environ": ASYNC}, "sets cudamallocasync, whose pool no cap holds"),
    (FakeNvml(FakeCard()), "cuda", {"environ": FRACTION}, "which autofit itself sets"),
    (FakeNvml(*TWO), "cuda", {"index": 1, "environ": {"CUDA_VISIBLE_DEVICES": "0,7"}},
     "device.index: 1 is asked, but of cards 1 can be seen (CUDA_VISIBLE_DEVICES=0,7). Use a number from 0 to 0."),
    (FakeNvml(FakeCard(slices=[])), "cuda", {}, "no card that can be opened (1 are there)"),
    (FakeNvml(FakeCard(used=5 * GIB, graphics=[(os.getpid(), 5 * GIB)])), "cuda", {}, "tells who holds it). End them if"),
    (FakeNvml(FakeCard(locked=True)), "auto", {}, "no card that can be opened (1 are there). Check nvidia-smi -L"),
    pytest.param(None, "cpu", {"memory_bytes": 2**60}, "of host memory is available", marks=linux),
])  # fmt: skip
def test_what_can_not_be_had_is_refused_with_its_key_and_what_to_ask(nvml: FakeNvml | None, kind: str, options: Any, said: str) -> None:
    (fault,) = refused(nvml, kind, **options)
    assert said in str(fault) and fault.cure, str(fault)


@pytest.mark.parametrize(
    ("wish", "index", "name"),
    [
        (None, 1, "second"),
        (" 1 , 0 ", 0, "second"),
        ("GPU-2222", 0, "second"),
        ("0,7,1", 0, "first"),  # CUDA's rule: what follows the first wrong entry doesn't count
    ],
)
def test_device_index_counts_among_the_visible_cards(wish: str | None, index: int, name: str) -> None:
    environ = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | ({} if wish is None else {"CUDA_VISIBLE_DEVICES": wish})
    budget = on(FakeNvml(*TWO), index=index, environ=environ)
    assert budget.name == name
    assert budget.index == ["first", "second"].index(name)
    assert budget.notes == ()


@pytest.mark.parametrize(("environ", "name"), [
    ({}, "second"), ({"CUDA_VISIBLE_DEVICES": "0"}, "first"), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "first"),
])  # fmt: skip
def test_of_unlike_cards_the_largest_is_taken_where_nothing_is_said(environ: dict[str, str], name: str) -> None:
    assert on(FakeNvml(TWO[0], replace(TWO[1], total=24 * GIB)), environ=environ).name == name


@pytest.mark.parametrize(("chosen", "told"), [((1,), "1"), ((1, 0), "1,0")])
def test_cards_are_told_by_numbers(chosen: tuple[int, ...], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeCard(locked=True, uuid="GPU-9"), *TWO))
    cards = nvml_module.told_to_cuda([TWO[number].uuid for number in chosen])
    assert cards == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": told}


@pytest.mark.parametrize("name", ["NVIDIA A100 MIG 1g.10gb", ""])
def test_a_slice_of_a_card_is_a_card(name: str) -> None:
    part = FakeCard(total=10 * GIB, uuid="MIG-33333333-aaaa", name=name, reserved=0)
    nvml = FakeNvml(FakeCard(total=80 * GIB, slices=[FakeCard(uuid="MIG-1"), part]))
    for environ, index in (({}, 1), ({"CUDA_VISIBLE_DEVICES": "MIG-3333"}, 0)):
        budget = on(nvml, environ=environ, index=index)
        assert (budget.uuid, budget.name, budget.budget_bytes) == (part.uuid, name or "a slice of a card", 10 * GIB)


def test_a_card_without_memory_of_its_own_has_what_a_cpu_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA GB10: NVML tells none, and what CUDA calls free leaves out the page cache."""
    monkeypatch.setattr(host, "memory", lambda: (120 * GIB, 100 * GIB, 120 * GIB))
    nvml = FakeNvml(FakeCard(total=0))
    budget = on(nvml)
    assert (budget.budget_bytes, budget.notes) == (80 * GIB, ()) and settle(budget, nvml=nvml) and not taken(budget, nvml=nvml)


def test_cards_that_may_not_be_opened_are_skipped() -> None:
    """NVML counts them, CUDA doesn't: ``device.index`` and CUDA_VISIBLE_DEVICES count the others."""
    nvml = FakeNvml(FakeCard(name="somebody else's", locked=True), *TWO)
    assert on(nvml, environ={"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).uuid == TWO[0].uuid


# ---- a card that others come to


def test_a_neighbour_who_comes_later_has_taken_the_card_and_a_desktops_drift_has_not() -> None:
    nvml = FakeNvml(FakeCard())
    budget = on(nvml)
    nvml.cards[0].used = 1500 * MIB  # it had 1.6 GiB of headroom
    assert taken(budget, nvml=nvml) == ""
    nvml.cards[0].used = 2 * GIB
    assert taken(budget, nvml=nvml).startswith("13.8 GiB of cuda:0 (NVIDIA GeForce RTX 4080 SUPER) are free and the budget needs 15.8 GiB")


def test_a_taken_card_is_waited_for_until_it_is_free_or_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FakeCard())
    budget = on(nvml)
    nvml.cards[0].used = 2 * GIB
    assert wait_for(budget, timeout_s=0.01, nvml=nvml) != ""
    monkeypatch.setattr(devices, "WAITING_S", 0.0)
    monkeypatch.setattr(devices.time, "sleep", lambda _: setattr(nvml.cards[0], "used", 0))
    assert wait_for(budget, timeout_s=60, nvml=nvml) == ""


@pytest.mark.parametrize(("freed", "settled", "waited"), [(0, False, 3), (100 * MIB, True, 9), (10 * MIB, False, 23)])
def test_memory_that_comes_back_is_waited_for_and_a_desktop_that_has_grown_is_not(
    freed: int, settled: bool, waited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, now = FakeCard(), [0.0]
    nvml = FakeNvml(card)
    budget = on(nvml)
    card.used = 900 * MIB

    def sleep(_: float) -> None:
        now[0] += 1.0
        card.used -= freed if now[0] <= 20 else 0

    monkeypatch.setattr(devices.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(devices.time, "sleep", sleep)
    assert (settle(budget, nvml=nvml), now[0]) == (settled, waited)


def test_a_driver_that_spills_gets_a_lower_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = on(FakeNvml(FakeCard()))
    monkeypatch.setattr(platform, "release", lambda: "6.6.87.2-microsoft-standard-WSL2")
    spilling = on(FakeNvml(FakeCard()))
    assert (plain.may_spill, spilling.may_spill) == (False, True)
    assert spilling.cap_bytes == spilling.ceiling_bytes == int(plain.cap_bytes * 0.9)
    assert spilling.budget_bytes == plain.budget_bytes
    held = [devices.orders_of(one, run=True)["cap_bytes"] for one in (plain, spilling)]
    assert held == [plain.budget_bytes - 256 * MIB, spilling.cap_bytes + 256 * MIB], "a run is held to where nothing was spilled"


@pytest.mark.parametrize("wish", ["7", "GPU-9"])
def test_visible_devices_that_name_no_card_are_refused(wish: str) -> None:
    for kind in ("cuda", "auto"):
        (fault,) = refused(FakeNvml(*TWO), kind, environ={"CUDA_VISIBLE_DEVICES": wish})
        found = f"{kind} is asked, but CUDA_VISIBLE_DEVICES=\"{wish}\" begins with '{wish}', which names no card of 2"
        assert (fault.key, fault.found) == ("device.kind", found)


@pytest.mark.parametrize("wish", ["", "-1"])
def test_hidden_cards_mean_the_cpu_for_auto_and_a_fault_for_cuda(wish: str) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": wish}
    (fault,) = refused(FakeNvml(*TWO), environ=environ)
    assert "hides all cards (2)" in fault.found and on(FakeNvml(*TWO), "auto", environ=environ).kind == "cpu"


# ---- no card


@pytest.mark.parametrize(("error", "found"), [
    (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "there is no NVIDIA driver (NVML Shared Library Not Found)"),
    (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "there is no NVIDIA driver (Driver Not Loaded)"),
    (None, "the NVIDIA driver has no card that can be opened (0 are there)"),
])  # fmt: skip
def test_no_card_means_the_cpu_for_auto_and_a_fault_for_cuda(error: int | None, found: str) -> None:
    (fault,) = refused(FakeNvml(error=error))
    assert (fault.key, fault.found) == ("device.kind", f"cuda is asked, but {found}")
    assert "device.kind=cpu" in fault.cure
    budget = on(FakeNvml(error=error), "auto")
    assert budget.kind == "cpu" and budget.notes[0] == f"no GPU is used: {found}"


@pytest.mark.parametrize(("error", "here", "said"), [
    (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "", "RM has detected an NVML/RM version mismatch."),
    (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "/dev/nvidia0", "NVML Shared Library Not Found"),
])  # fmt: skip
def test_a_card_whose_driver_can_not_be_asked_is_a_fault_for_auto_too(
    error: int, here: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_module, "_card_files", lambda: bool(here))
    for kind in ("cuda", "auto"):
        (fault,) = refused(FakeNvml(error=error), kind)
        assert fault.found == f"{kind} is asked, but the NVIDIA driver doesn't answer ({said})" and "--gpus all" in fault.cure


# ---- the CPU, for real


@linux
def test_a_cpu_budget_is_most_of_what_is_available_and_a_containers_limit_lowers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = find("cpu")
    assert (budget.kind, budget.index, budget.emulated) == ("cpu", 0, False)
    assert 0 < budget.budget_bytes == int(budget.free_bytes * 0.8) < budget.total_bytes
    assert budget.total_bytes <= psutil.virtual_memory().total
    assert budget.cap_bytes == int(budget.budget_bytes * 0.75)
    assert budget.notes[-1].startswith("the budget is 80% of the ")
    assert "core" in budget.name
    monkeypatch.setattr(host, "cgroup_memory", lambda: (2 * GIB, GIB // 2))
    budget = find("cpu")
    assert (budget.total_bytes, budget.free_bytes) == (2 * GIB, 2 * GIB - GIB // 2)
    assert budget.notes[0].startswith("this container or job may use 2.0 GiB of the machine's ")


@linux
def test_a_cpu_budget_of_which_nothing_would_be_left_is_refused() -> None:
    (fault,) = refused(None, "cpu", memory_bytes=64 * MIB, headroom=0.25)
    assert "64 MiB is the budget, and at least 64 MiB of a CPU's stay free" in fault.found and "device.headroom=0" in fault.cure
    assert find("cpu", memory_bytes=80 * MIB, headroom=0.25).cap_bytes == 16 * MIB


def test_a_cpu_budget_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    (fault,) = refused(None, "cpu")
    assert fault.found == "a CPU budget needs Linux's RLIMIT_DATA, and this is Darwin"


def _group(folder: Path, limit_file: str, limit: str, used_file: str, used: int, stat: str) -> None:
    folder.mkdir(parents=True)
    (folder / limit_file).write_text(f"{limit}\n")
    (folder / used_file).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


@pytest.mark.parametrize(("limit", "used", "found"), [
    ("max", GIB, (4 * GIB, 2 * GIB)), (str(3 * GIB), GIB, (4 * GIB, 2 * GIB)), (str(GIB), GIB, (GIB, GIB - 100)),
])  # fmt: skip
def test_the_version_2_group_with_least_room_counts_and_not_what_files_have_in_the_page_cache(
    limit: str, used: int, found: tuple[int, int], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.write_text("0::/user/job\n")
    cached = f"anon 1\ninactive_file {GIB // 2}\nactive_file {GIB // 2}\nshmem {GIB}\n"
    _group(tmp_path / "user", "memory.max", str(4 * GIB), "memory.current", 3 * GIB, cached)
    _group(tmp_path / "user" / "job", "memory.max", limit, "memory.current", used, "inactive_file 60\nactive_file 40\n")
    assert host.cgroup_memory(tmp_path, own) == found


def test_a_version_1_group_counts_and_its_no_limit_does_not(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n")
    files = ("memory.limit_in_bytes", str(GIB), "memory.usage_in_bytes", 1000, "total_inactive_file 400\n")
    _group(tmp_path / "memory", *files)  # in a container the path of /proc/self/cgroup isn't below the mount
    assert host.cgroup_memory(tmp_path, own) == (GIB, 600)
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert host.cgroup_memory(tmp_path, own) is None


# ---- sizes and space


@pytest.mark.parametrize(("text", "size"), [("16 GB", 16 * 10**9), (" 800MiB ", 800 * MIB), ("1.5gib", 3 * GIB // 2), ("1024", 1024)])
def test_sizes_are_read_with_their_units(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "reason"), [
    ("16G", "unit 'G' is unknown"), ("16 potatoes", "unit 'potatoes' is unknown"), ("-1GiB", "is not a size"),
    ("0GiB", "is not above zero"), (True, "is not a size"),
])  # fmt: skip
def test_what_is_no_size_is_refused_with_the_reason(text: str | int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_size(text)


# ---- what stays free, and how memory is allocated


@pytest.mark.parametrize(
    ("budget", "part", "cap"),
    [
        (1000, 0.25, 750),
        (80, 0.25, 16),  # a quarter would be less than a run may differ from its trial by
        (400, 0.05, 336),
        (100, 0.0, 100),  # none is asked
    ],
)
def test_no_less_stays_free_than_two_processes_differ_by(budget: int, part: float, cap: int) -> None:
    assert devices.cap_of(budget * MIB, part) == cap * MIB
    assert devices.budget_for(cap * MIB, part) == budget * MIB


@pytest.mark.parametrize(
    ("trial", "run", "told"), [(229, 239, False), (229, 296, True), (4000, 4070, False), (4000, 4090, True), (0, 100, False)]
)
def test_what_two_processes_that_do_the_same_may_differ_by_is_no_run_above_its_trial(trial: int, run: int, told: bool) -> None:
    memory = MemoryRecord(trial_peak_bytes=trial * MIB, run_peak_bytes=run * MIB, cap_bytes=8000 * MIB, budget_bytes=9000 * MIB)
    assert above_trial(memory) is told


CARD = replace(cpu_budget(), kind="cuda", index=2, uuid="GPU-1")


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
