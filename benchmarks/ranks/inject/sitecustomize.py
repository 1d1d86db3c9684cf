"""Does one rank a fault after an optimizer step, from outside of the training and of autofit: it stands on PYTHONPATH.

FAULT: {"fault", "rank", "step", "where": "trial" or "run"}. When it was done is a line of the process's standard error: what a script
writes to files in its trial goes aside.
"""

import json
import os
import signal
import sys
import threading
import time


def happens(order):
    os.write(2, f"\nFAULT DONE {time.time()}\n".encode())
    fault = order["fault"]
    if fault == "memory":
        import torch

        torch.ones(1 << 36)
    elif fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "leaves":
        os._exit(0)
    elif fault == "raises":
        raise KeyError("its own")
    elif fault == "hangs":
        while True:
            time.sleep(1)


def watch(order):
    """Waits until torch is there, and then counts its steps."""
    while (
        getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None) is None
        or "torch.optim" not in sys.modules
    ):
        time.sleep(0.02)
    steps = []

    def stepped(*_):
        steps.append(None)
        if len(steps) == order["step"]:
            happens(order)

    sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)


def main():
    order = json.loads(os.environ.get("FAULT", "{}"))
    in_run = "AUTOFIT_HELD" in os.environ
    if order and os.environ.get("RANK") == str(order["rank"]) and in_run == (order["where"] == "run"):
        threading.Thread(target=watch, args=(order,), daemon=True).start()


main()
