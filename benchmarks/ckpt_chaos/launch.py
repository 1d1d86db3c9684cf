"""The command that ckpt-chaos tests: `autofit train` of one training in a folder of its own, or `autofit resume` of what is left there.

python -I launch.py train  TRAINING job OUT        ckpt-chaos kills trainer and autofit; OUT is made
python -I launch.py train  TRAINING trainer OUT    only the trainer: autofit goes on by itself, and what was struck ends with 137
python -I launch.py resume TRAINING job OUT

Isolated (-I), so that ckpt-chaos arms nothing here: ``boot/sitecustomize.py`` does it in the trainer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KILLED = 137
_OF_CHAOS = ("CKPT_CHAOS_WATCH", "PYTHONPATH")


def environment(out: Path, who: str) -> dict[str, str]:
    """Of a launch: one thread, and the trainer's process armed as ckpt-chaos has said."""
    kept = {name: value for name, value in os.environ.items() if name not in _OF_CHAOS}
    struck = {"AUTOFIT_CHAOS_WATCH": str(out), "AUTOFIT_CHAOS_STRUCK": str(out.parent / "struck")}
    path = {"PYTHONPATH": os.pathsep.join([str(HERE / "boot"), str(ROOT)])}
    return {**kept, **struck, **path, "AUTOFIT_CHAOS_LAUNCHER": str(os.getpid()) if who == "job" else "",
            "YOLO_OFFLINE": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip


def run_folder(out: Path) -> Path | None:
    """The run's, once it is there."""
    return next(iter((out / "runs").glob("*/record.json")), None)


def ended(out: Path) -> str:
    """How the last attempt ended."""
    record = run_folder(out)
    return str(json.loads(record.read_text(encoding="utf-8"))["attempts"][-1]["ended"]) if record is not None else ""


def main(verb: str, training: str, who: str, place: str) -> int:
    out = Path(place)
    argv = [sys.executable, "-P", "-m", "autofit_launcher"]
    sys.path[:0] = [str(ROOT)]
    from benchmarks.ckpt_chaos import trainings

    if verb == "resume":
        return _resumed(training, who, out, argv)
    trainings.make(training, out)
    if who == "trainer":
        status = _said(out, [*argv, "train", "recipe=night", "--json"], environment(out, who))
        return KILLED if (out.parent / "struck").exists() else status
    os.chdir(out)
    with (out / "said").open("ab") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
    os.execve(argv[0], [*argv, "train", "recipe=night", "--json"], environment(out, who))
    return 1  # it has become autofit


def _resumed(training: str, who: str, out: Path, argv: list[str]) -> int:
    from benchmarks.ckpt_chaos import trainings

    record = run_folder(out)
    if record is None:
        return 1
    came = trainings.came_to(training, out)
    over = who == "trainer" and ended(out) == "done"  # autofit went on by itself
    status = 0 if over else _said(out, [*argv, "resume", str(record.parent), "--json"], environment(out, who))
    intervals = trainings.went_on_from(training, out)
    (out.parent / "lost.json").write_text(json.dumps({"came_to": came, "went_on_from": intervals}), encoding="utf-8")
    print(f"resumed from step {intervals * trainings.EVERY.get(training, 1) - (training == 'script' and intervals > 0)}", flush=True)
    return status


def _said(out: Path, argv: list[str], env: dict[str, str]) -> int:
    with (out / "said").open("ab") as said:
        status = subprocess.run(argv, cwd=out, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False).returncode
    print((out / "said").read_text(encoding="utf-8", errors="replace")[-1500:])
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
