"""A case with too little of something beside its device -> a row: `autofit train` under a limit near what a launch with ample room says is
needed, each memory of the machine measured from outside while the run lasts, and what became of it. Needs root, control groups of version
1, and loop devices."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from autofit_launcher.common import procfs
from benchmarks.common.provenance import commit, machine, versions
from benchmarks.faults import inject
from benchmarks.survival import cases
from benchmarks.survival import play as common
from benchmarks.survival.play import Ended, Row, Table

ROOMY: Mapping[str, int] = {"host memory": 10 * 2**30, "/dev/shm": 2 * 2**30, "disk": 3 * 2**30}
CONTROLS = 3
"""One case in so many has its command run plainly as well, with 60 or 70 % of what is needed."""
CONTROL_S = 120.0
"""And so long: a loader that has lost a batch waits forever."""
BUDGET = 4 * 2**30
SAMPLE_S = 0.05
_GROUPS = Path("/sys/fs/cgroup")


class Machine:
    """Limits around a command."""

    def __init__(self, place: Path, limits: Mapping[str, int]) -> None:
        self.place, self.limits = place, {**ROOMY, **limits}
        self.memory = _own_group("memory") / f"autofit-beside-{os.getpid()}-{place.name}"

    @contextlib.contextmanager
    def words(self) -> Iterator[list[str]]:
        """What stands before the command; `runs` in ``place`` is a small disk while this lasts."""
        disk, image = self.place / "runs", self.place / "disk.img"
        disk.mkdir(exist_ok=True)
        with image.open("wb") as file:
            file.truncate(ROOMY["disk"])
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image], check=True)
            subprocess.run(["mount", "-o", "loop", image, disk], check=True)
            taken = shutil.disk_usage(disk).free - self.limits["disk"]
            subprocess.run(["fallocate", "-l", str(max(4096, taken)), disk / "of-others"], check=True)
            self.memory.mkdir()
            (self.memory / "memory.limit_in_bytes").write_text(str(self.limits["host memory"]))
            limited = ["sh", "-c", f'echo $$ > "{self.memory}/cgroup.procs" && exec "$@"', "sh"]
            yield [*limited, *inject.own_mount("/dev/shm", self.limits["/dev/shm"])]
        finally:
            for pid in map(int, _read(self.memory / "cgroup.procs").split()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
            with contextlib.suppress(OSError):
                self.memory.rmdir()
            subprocess.run(["umount", "--lazy", disk], check=False)
            image.unlink()

    def kills(self) -> int:
        found = re.search(r"oom_kill (\d+)", _read(self.memory / "memory.oom_control"))
        return int(found[1]) if found else 0

    def taken(self, launcher: int, trainer: int) -> dict[str, int]:
        """What the run has of each now, autofit's own process left out."""
        stat = dict(line.split() for line in _read(self.memory / "memory.stat").splitlines())
        anonymous = sum(int(stat[key]) for key in ("inactive_anon", "active_anon", "unevictable"))
        shm = os.statvfs(f"/proc/{trainer}/root/dev/shm")
        return {
            "host memory": anonymous - sum(procfs.own_bytes(launcher)),
            "/dev/shm": (shm.f_blocks - shm.f_bfree) * shm.f_frsize,
            "disk": (disk := shutil.disk_usage(self.place / "runs")).total - disk.free,
        }


def _own_group(controller: str) -> Path:
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    own = next(one for _, names, one in (line.split(":", 2) for line in lines) if controller in names.split(","))
    return _GROUPS / controller / own.lstrip("/")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def run(machine_: Machine, argv: Sequence[str], table: Table, timeout_s: float) -> tuple[Ended, dict[str, int], int]:
    """(how it ended, the most that its full run took of each, processes that the kernel killed for memory)"""
    place, most, before = machine_.place, dict[str, int](), 0
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "YOLO_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    out, err, began = place / "last.stdout", place / "last.stderr", time.monotonic()
    with machine_.words() as words, out.open("wb") as stdout, err.open("wb") as stderr:
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr, "start_new_session": True}
        process = subprocess.Popen([*words, *argv], cwd=place, env=env, **options)
        while process.poll() is None and time.monotonic() - began < timeout_s and not table.stopping.is_set():
            time.sleep(SAMPLE_S)
            with contextlib.suppress(OSError, ValueError, KeyError, StopIteration):
                if trainers := inject.trainers(process.pid, place / "runs"):
                    now = machine_.taken(process.pid, trainers[0].pid)
                    before = before or now["disk"]
                    now["disk"] -= before
                    most = {name: max(size, most.get(name, 0)) for name, size in now.items()}
        late = process.poll() is None
        if late:
            common._end(process)
        kills = machine_.kills()
        said = out.read_text(encoding="utf-8", errors="replace")
        ended = Ended(
            returncode=None if late else process.returncode, answer=common._answer(said), out=said,
            err=err.read_text(encoding="utf-8", errors="replace"), seconds=time.monotonic() - began,
        )  # fmt: skip
        weights = shutil.ignore_patterns("*.pt", "*.safetensors", "of-others")
        shutil.copytree(place / "runs", place / "kept", ignore=weights, dirs_exist_ok=True)
    if table.stopping.is_set():
        raise common.Stopped
    return ended, most, kills


def play(case: cases.Case, table: Table) -> Row:
    """Raises Stopped where the person interrupts."""
    began, memory = time.monotonic(), cases.MEMORIES[(case.seed - cases.BESIDE) % len(cases.MEMORIES)]
    place = table.folder / f"case-{case.seed:04d}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    row: Row = {"seed": case.seed, "generator": cases.GENERATOR, "trainer": case.trainer, "task": case.task, "memory": memory}
    row |= {"versions": versions(), "machine": machine(), "commit": commit(), "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    row |= common._told(case) | _played(case, memory, table, place)
    row["seconds"] = round(time.monotonic() - began, 1)
    if not table.keep and row["status"] in ("done", "no_rung_fits"):
        shutil.rmtree(place, ignore_errors=True)
    return row


def _played(case: cases.Case, memory: str, table: Table, place: Path) -> Row:
    argv = [sys.executable, "-m", "benchmarks.survival.data", str(case.seed), str(place)]
    made = subprocess.run(argv, cwd=common.ROOT, capture_output=True, text=True, check=True)
    places = {"data": made.stdout.strip().splitlines()[-1], "python": sys.executable, "here": str(common.HERE), "root": str(common.ROOT)}
    (place / "recipes").mkdir()
    recipe = yaml.safe_dump(common.filled(case.recipe, places), sort_keys=False, allow_unicode=True)
    (place / "recipes" / "survival.yaml").write_text(f"# @package _global_\n{recipe}", encoding="utf-8")
    need = _needs(case, memory, place, table)
    if memory not in need:
        return {"status": "trial_failed", "words": need.get("words", ["the disk is not known"])}
    limit = _limit(memory, need[memory], case.factor)
    budget = min(BUDGET, int(0.97 * (limit - ROOMY[memory] + need[memory]["there"]))) if memory == "host memory" else BUDGET
    ended, most, kills = run(Machine(place, {memory: limit}), _words("train", budget, int(memory == "disk")), table, table.run_s)
    folder = place / "kept" / Path(str(ended.answer.get("run_dir", "none"))).name
    said, tried = common.memory_words(folder), _rooms(ended.answer)
    status = common.outcome(ended, ended.answer.get("run") or {}, peak=None, budget=1, said=said)
    again = len(ended.answer.get("attempts", ())) > 1
    if (status == "failed" and memory == "disk") or (status == "done" and (kills or again)):
        status = "died"
    row: Row = {
        "status": status, "limit": limit, "roomy_need": need[memory]["needed"], "rung": ended.answer.get("rung"), "kills": kills,
        "trials": [
            {key: one.get(key) for key in ("rung_index", "verdict", "source", "why", "seconds")} for one in ended.answer.get("trials", ())
        ],
        "rooms": {name: {"needed": one["needed"], "there": one["there"], "took": most.get(name)} for name, one in tried.items()},
    }  # fmt: skip
    if status != "done":
        row["words"] = said[-8:] or common._last_words(folder, ended)
    if status == "done" and case.seed % CONTROLS == 0:
        part = 0.6 + 0.1 * (case.seed % 2)
        least = _limit(memory, {**tried[memory], "there": need[memory]["there"]}, part)
        less = Machine(place, {memory: least})
        again_there = f'cp -r "{folder}" runs/ && exec sh "runs/{folder.name}/command.sh"'  # the small disk is made anew
        plain, _, killed = run(less, ["sh", "-c", again_there], table, CONTROL_S)
        row["control"] = {"part": part, "returncode": plain.returncode, "kills": killed, "words": plain.last_words[-2:]}
    return row


def _words(verb: str, budget: int, restarts: int) -> list[str]:
    """``restarts``: what a script saves is known only where it could go on; an attempt that was not the last is a death."""
    shown = ["trial.fresh=true", f"recover.restarts={restarts}", "run.root=runs"]
    return [common._program(), verb, "--json", "recipe=survival", f"device.memory={budget // 2**20}MiB", *shown]


def _needs(case: cases.Case, memory: str, place: Path, table: Table) -> dict[str, Any]:
    """What a launch with ample room says of each memory; one for all three cases of a training, and one for its disk."""
    number = (case.seed - cases.BESIDE) // len(cases.MEMORIES)
    kept = table.folder / "needs" / f"{commit()}-{number}-{case.trainer}{'-disk' * (memory == 'disk')}.json"
    if not kept.exists():
        roomy, _, _ = run(Machine(place, {}), _words("fit", BUDGET, int(memory == "disk")), table, table.trial_s)
        if not (found := _rooms(roomy.answer)):
            return {"words": [roomy.answer.get("status", ""), *roomy.last_words]}
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def _rooms(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Of the trial whose rung was chosen, by name."""
    chosen = answer.get("rung_index")
    tried = (one for one in answer.get("trials", ()) if one["rung_index"] == chosen and one["verdict"] == "fits")
    return {room["name"]: room for one in tried for room in one["rooms"]}


def _limit(memory: str, room: Mapping[str, Any], factor: float) -> int:
    """What leaves the trial so much: autofit itself has the rest."""
    needed = room["needed"] / (1 - room["headroom"])
    return int(ROOMY[memory] - room["there"] + factor * needed)
