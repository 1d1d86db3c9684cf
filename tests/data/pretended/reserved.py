"""Allocates and frees at random on card 0. Arguments: seed, steps, and bytes that the allocator may have (0: all).

Prints, as a line of JSON, each act as [what, which, bytes, whether it was refused, bytes reserved after it], and how often it was retried.
"""

import json
import random
import sys

import torch


def main(seed, steps, cap):
    rng, live, acts = random.Random(seed), {}, []
    if cap:
        torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.mem_get_info()[1])
    for step in range(steps):
        refused = False
        if rng.random() < 0.002:
            torch.cuda.empty_cache()
            acts.append(("empty", 0, 0, False, torch.cuda.memory_reserved()))
        elif live and rng.random() < 0.48:
            acts.append(freed(live, rng.choice(list(live))))
        else:
            size = drawn(rng)
            try:
                live[step] = torch.empty(size, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                refused = True
            acts.append(("take", step, size, refused, torch.cuda.memory_reserved()))
            if refused:
                acts.extend(freed(live, one) for one in rng.sample(list(live), len(live) // 2))
    print(json.dumps({"acts": acts, "retries": torch.cuda.memory_stats()["num_alloc_retries"]}))


def freed(live, which):
    del live[which]
    return ("free", which, 0, False, torch.cuda.memory_reserved())


def drawn(rng):
    """Bytes: small, middling, large."""
    return int(2 ** rng.choice([rng.uniform(6, 20), rng.uniform(20, 23.4), rng.uniform(23.3, 27)]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
