"""Arms ckpt-chaos in the trainer's own process of a launch: not in autofit, not in a trial, not in what the trainer starts.

First on PYTHONPATH of a launch that ``benchmarks/ckpt_chaos/launch.py`` makes. Where ckpt-chaos would end the process, SIGKILL ends it,
and autofit before it where the whole job is to be killed.
"""

import os
import signal
import sys

HELD, ARMED = "AUTOFIT_HELD", "CKPT_CHAOS_ARMED"
WATCH, LAUNCHER, STRUCK = (f"AUTOFIT_CHAOS_{name}" for name in ("WATCH", "LAUNCHER", "STRUCK"))
KILLED = 137
"""What ckpt-chaos ends a process with."""


def _is_the_trainer() -> bool:
    watched = os.environ.get(WATCH)
    words = getattr(sys, "orig_argv", [])
    ours = any(word.startswith("autofit_launcher.") for word in words)  # a trial, or what becomes the trainer
    return bool(watched) and os.environ.get(HELD, "").startswith(watched or "") and not ours


def _innermost(install):  # type: ignore[no-untyped-def]
    """ckpt-chaos wraps ``torch.save`` around all that is there. What it tears is the file that is really written: autofit's own wrappers
    (``inside/whole_saves``) give ``torch.save`` another path, so it goes inside of them."""

    def installed(force_import: bool = False) -> None:
        from ckpt_chaos import inject

        save = getattr(sys.modules.get("torch"), "save", None)
        if save is not None and hasattr(save, "__wrapped__") and not getattr(save, "_ckpt_chaos", False):
            outer, inner = save, save.__wrapped__
            while hasattr(inner, "__wrapped__"):
                outer, inner = inner, inner.__wrapped__
            (cell,) = (one for one in outer.__closure__ if one.cell_contents is inner)
            cell.cell_contents = inject._wrap(inner, "torch.save", 1, "f")
            save._ckpt_chaos = True
        install(force_import)

    return installed


def _arm() -> None:
    os.environ[ARMED] = "1"
    if os.path.exists(os.environ[STRUCK]):  # once: what autofit starts again by itself is left alone
        return
    from ckpt_chaos import inject
    from ckpt_chaos.targets.common import arm_from_env

    plain = os._exit

    def end(status: int) -> None:
        if status == KILLED:
            inject._state["quiet"] = True
            os.close(os.open(os.environ[STRUCK], os.O_WRONLY | os.O_CREAT))
            if os.environ.get(LAUNCHER):
                os.kill(int(os.environ[LAUNCHER]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        plain(status)

    os._exit = end
    inject._install_native_wrappers = _innermost(inject._install_native_wrappers)
    name = os.path.relpath(os.environ[HELD], os.environ[WATCH]).split(os.sep)[1]
    os.environ["CKPT_CHAOS_WATCH"] = os.path.join(os.environ[WATCH], "runs", name, "run")
    arm_from_env(0, lazy=True)


if _is_the_trainer() and ARMED not in os.environ:
    try:
        _arm()
    except Exception as error:
        print(f"ckpt-chaos could not be armed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
