"""Prints, as a line of JSON, what PyTorch and NVML say of the cards that this process finds."""

import json
import os

import pynvml
import torch

MIB = 2**20


def refused(card, size):
    """The words with which an allocation is refused."""
    try:
        torch.empty(size, dtype=torch.uint8, device=f"cuda:{card}")
    except torch.OutOfMemoryError as error:
        return str(error)
    return ""


def nvml():
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    infos = [pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2) for handle in handles]
    users = [{one.pid: one.usedGpuMemory for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)} for handle in handles]
    return {
        "uuids": [pynvml.nvmlDeviceGetUUID(handle) for handle in handles],
        "free": [info.free for info in infos],
        "used": [info.used for info in infos],
        "mine": [found.get(os.getpid(), 0) for found in users],
    }


def main():
    said = {"available": torch.cuda.is_available(), "count": torch.cuda.device_count()}
    said["properties"] = [str(torch.cuda.get_device_properties(i).uuid) for i in range(said["count"])]
    said["name"] = torch.cuda.get_device_name(0)
    said["before"] = torch.cuda.mem_get_info(0)
    last = said["count"] - 1
    held = torch.empty(100 * MIB, dtype=torch.uint8, device=f"cuda:{last}")
    said["allocated"], said["reserved"] = torch.cuda.memory_allocated(last), torch.cuda.memory_reserved(last)
    said["nvml"] = nvml()
    said["too_much"] = refused(0, 1 << 40)
    torch.cuda.set_per_process_memory_fraction(0.25, last)
    said["fraction"] = refused(last, torch.cuda.mem_get_info(last)[1] // 3)
    said["counted"] = torch.cuda.memory_stats(last)["num_ooms"]
    del held
    torch.cuda.empty_cache()
    said["reserved_after"] = torch.cuda.memory_reserved(last)
    said["segments"] = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    print(json.dumps(said))


main()
