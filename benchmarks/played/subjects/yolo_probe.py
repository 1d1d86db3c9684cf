"""A step of Ultralytics' AutoBatch: forward, and the outputs' sum backward, no loss and no optimizer. MODEL IMAGES PIXELS BACKWARD."""

from __future__ import annotations

import copy
import json
import sys


def main(model: str, images: int, pixels: int, backward: int) -> None:
    import torch
    from torch.utils._pytree import tree_leaves
    from ultralytics import YOLO

    own = YOLO(f"{model}.yaml").model.cuda()
    probed = copy.deepcopy(own).train()  # the trainer's own stays beside it
    batch = torch.empty(images, 3, pixels, pixels, device="cuda", requires_grad=True)
    for _ in range(3):
        with torch.autocast("cuda"):
            outputs = probed(batch)
            if backward:
                sum(one.sum() for one in tree_leaves(outputs) if isinstance(one, torch.Tensor)).backward()
    print(json.dumps({"allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
