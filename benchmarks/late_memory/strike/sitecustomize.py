"""Lowers the memory limit of a full run in its own process, once, at a moment told by a file; tells what it did and each step's time.

On PYTHONPATH of a launch. Nothing of the trainer is known here: a moment is one of PyTorch's own (an optimizer's hooks,
``Tensor.backward``, ``torch.save``, ``Module.train``). Between the memory held after a step and that held where a
backward pass begins lies what a step needs; ``left`` of it stays.
"""

import json
import os
import resource
import time

TOLD, HELD = os.environ.get("LATE_MEMORY"), os.environ.get("AUTOFIT_HELD")


def _data_bytes():
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmData"))


class Strike:
    def __init__(self, folder, process):
        with open(os.path.join(folder, "strike.json")) as file:
            told = json.load(file)
        self.moment, self.step, self.left = told["moment"], told["step"], told["left"]
        self.log, self.mark, self.process = os.path.join(folder, f"log-{process}.jsonl"), os.path.join(folder, "struck"), process
        self.steps, self.floor, self.top, self.patched = 0, 0, 0, False

    def tell(self, what, **more):
        with open(self.log, "a") as file:
            file.write(json.dumps({"what": what, "steps": self.steps, "at": time.time(), **more}) + "\n")

    def at(self, moment, *, late=False):
        """The run is at a moment; ``late``: it counts at any step from the told one on."""
        here = self.steps >= self.step if late else self.steps == self.step
        if moment != self.moment or not here or not self.top or os.getpid() != self.process or os.path.exists(self.mark):
            return
        open(self.mark, "w").close()
        now = _data_bytes()
        limit = int(self.floor + self.left * (self.top - self.floor))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        self.tell("struck", now=now, floor=self.floor, top=self.top, limit=limit)

    def before_step(self, *_):
        if not self.patched:
            self.patch()
        self.at("optimizer")

    def after_step(self, *_):
        self.steps += 1
        self.floor = _data_bytes()
        self.tell("step")
        self.at("train")

    def patch(self):
        import torch

        self.patched = True

        def before(plain, look):
            def patched(*args, **named):
                look(*args, **named)
                return plain(*args, **named)

            return patched

        def at_train(_, mode=True):  # which ``eval`` calls, too
            if not mode:
                self.at("validation", late=True)

        def at_backward(*_, **__):
            if os.getpid() == self.process and not os.path.exists(self.mark):
                self.top = max(self.top, _data_bytes())
            self.at("backward")

        torch.Tensor.backward = before(torch.Tensor.backward, at_backward)
        torch.save = before(torch.save, lambda *_, **__: self.at("save", late=True))
        torch.nn.Module.train = before(torch.nn.Module.train, at_train)

    def hook(self, module):
        module.register_optimizer_step_pre_hook(self.before_step)
        module.register_optimizer_step_post_hook(self.after_step)


if TOLD and HELD and os.path.exists(os.path.join(TOLD, "strike.json")):
    from launcher.worker.after_import import after_import

    after_import({"torch.optim.optimizer": Strike(TOLD, os.getpid()).hook})
