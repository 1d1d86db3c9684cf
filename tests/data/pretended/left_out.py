"""Prints, as a line of JSON, what operators on tensors that are too large to be computed leave behind, in memory that had other values."""

import json

import torch

LARGE = 4_000_000


def main():
    dirty = [torch.full((1000,), 7.5e8, device="cuda") for _ in range(64)]
    dirty_large = torch.empty(LARGE, dtype=torch.int64, device="cuda")
    dirty_large[:4096] = 77
    del dirty, dirty_large
    large = torch.empty(LARGE, device="cuda")
    where = large.view(2000, -1).argmax(1)
    order = large.argsort()
    behind = torch.linspace(0, 1, 50, device="cuda") + large.mean() + 5
    again = large[:50] * 1
    again.copy_(torch.arange(50.0, device="cuda"))
    unknown = large[:2] * 2
    where_it_was = unknown.data_ptr()
    del unknown
    fresh = torch.tensor([3.0, 4.0], device="cuda")
    said = {
        "fresh": [fresh.data_ptr() == where_it_was, *fresh.tolist()],
        "behind": behind.sum().item(),
        "sized": [behind.nonzero().shape[0], torch.isin(where, where.new_tensor([1, 2])).sum().item(), behind[behind > 1].shape[0]],
        "unfinished": int((torch.ones(50, dtype=torch.int64, device="cuda") & ~(behind > 1)).sum()),
        "again": again.sum().item(),
        "indices": [int(where.max()), int(where.min())],
        "order": int(order[:4096].max()),
        "picked": large[order[:16]].shape[0],
        "mean": large.mean().item(),
        "finite": bool(torch.isfinite(large).all()) and bool(large.sum().isfinite()),
        "not_a_number": bool(torch.isnan(large).any()),
        "divided": (large.mean() / large.sum()).item(),
        "scanned": torch.arange(1000, device="cuda").cumsum(0)[-1].item(),
        "small": torch.arange(5, device="cuda").sum().item(),
    }
    print(json.dumps(said))


main()
