"""Does one rank a fault after an optimizer step, from outside of the training and of autofit: it stands on PYTHONPATH.

FAULT: {"fault", "rank", "step", "where": "trial" or "run", "told": the file that gets the time at which it was done}.
"""

import json
import os
import signal
import sys
import threading
import time


def happens(order):
    with open(order["told"], "w", encoding="utf-8") as file:
        json.dump({"time": time.time(), "pid": os.getpid()}, file)
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
        if len(steps) == order["step"] and not os.path.exists(order["told"]):
            happens(order)

    sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)


def main():
    order = json.loads(os.environ.get("FAULT", "{}"))
    in_run = "AUTOFIT_HELD" in os.environ
    if order and os.environ.get("RANK") == str(order["rank"]) and in_run == (order["where"] == "run"):
        threading.Thread(target=watch, args=(order,), daemon=True).start()


main()
