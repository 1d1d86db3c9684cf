"""A real SLURM on this one machine, for tests: munged, slurmctld, and one slurmd for each pretended node.

Needs root, Debian's slurm-wlm and munge, and nothing else: no systemd, no cgroups, no accounting. Nodes are pretended by ports of
their own, cards by device files that are /dev/null; SLURM hands them out and sets CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "srun")
STARTS_S = 20.0
CARD = os.makedev(1, 3)
"""/dev/null's."""
CONFIGURATION = """
ClusterName=autofit
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldLogFile={place}/log/slurmctld.log
SlurmdLogFile={place}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=5,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=30
MinJobAge=300
JobRequeue=1
GresTypes=gpu
"""
PARTITIONS = """
PartitionName=main Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP DefMemPerCPU=1024
"""
"""``cred_expire``: a requeued job waits so many seconds and one more."""


def missing() -> str:
    """Why no SLURM can be started here; empty where one can."""
    absent = next((name for name in PROGRAMS if shutil.which(name) is None), None)
    if absent is not None:
        return f"SLURM isn't installed: there is no {absent}"
    return "" if os.geteuid() == 0 else "starting a SLURM takes root"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A SLURM that is up."""

    place: Path

    @property
    def env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.place / "slurm.conf")}

    def said(self, *argv: str) -> str:
        """Standard output of one of SLURM's commands."""
        done = subprocess.run(argv, env={**os.environ, **self.env}, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def state(self, job: str) -> str:
        return self.said("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")

    def queued(self) -> list[str]:
        """Ids of the jobs that wait or run."""
        return self.said("squeue", "--noheader", "--format=%i").split()


@contextmanager
def cluster(place: Path, *, nodes: int = 1, cards: int = 0) -> Iterator[Cluster]:
    """A SLURM while open; its state lies in ``place``, which must be empty. Skips nothing: ask ``missing`` first."""
    up = Cluster(place=place)
    names = _named(nodes)
    try:
        _configure(place, nodes=nodes, cards=cards)
        _munged(place)
        for argv in (["slurmctld"], *(["slurmd", "-N", f"n{number}"] for number in range(1, nodes + 1))):
            subprocess.run(argv, env={**os.environ, **up.env}, check=True, capture_output=True, timeout=60)
        _until_idle(up, nodes)
        yield up
    finally:
        _down(up)
        _unnamed(names)


def _configure(place: Path, *, nodes: int, cards: int) -> None:
    for name in ("state", "log", "munge", *(f"spool-n{number}" for number in range(1, nodes + 1))):
        (place / name).mkdir(parents=True)
    host, port = socket.gethostname().partition(".")[0], _free_ports(nodes + 1)
    for number in range(cards):
        os.mknod(place / f"gpu{number}", 0o600 | 0o020000, CARD)
    if cards:
        (place / "gres.conf").write_text(f"Name=gpu Type=pretended File={place}/gpu[0-{cards - 1}]\n")
    (place / "cgroup.conf").write_text("CgroupAutomount=no\n")
    memory = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20 * 0.9 / nodes)
    gres = f"Gres=gpu:pretended:{cards}" if cards else ""
    hosts = [
        f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + number} CPUs=2 RealMemory={memory} State=UNKNOWN {gres}"
        for number in range(1, nodes + 1)
    ]
    text = CONFIGURATION.format(host=host, port=port, place=place) + "\n".join(hosts) + PARTITIONS.format(nodes=nodes)
    (place / "slurm.conf").write_text(text)


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for first in range(20817, 60000, 100):
        with suppress(OSError):
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return first
    raise RuntimeError("no free ports")


def _munged(place: Path) -> None:
    """With a key and a socket of its own. ``--force``: it refuses folders below a world-writable one, such as /tmp."""
    key = place / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    files = {
        name: f"--{option}={place}/munge/{name}" for name, option in (("socket", "socket"), ("pid", "pid-file"), ("seed", "seed-file"))
    }
    argv = ["munged", "--force", f"--key-file={key}", f"--log-file={place}/log/munged.log", *files.values()]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


def _until_idle(up: Cluster, nodes: int) -> None:
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until:
        with suppress(subprocess.CalledProcessError):
            if len(up.said("sinfo", "--noheader", "-N", "-p", "main", "-t", "idle", "-o", "%N").split()) == nodes:
                return
        time.sleep(0.1)
    raise RuntimeError(f"SLURM isn't up: {(up.place / 'log' / 'slurmctld.log').read_text()[-2000:]}")


def _down(up: Cluster) -> None:
    """Ends its jobs, and what it started, by the ids that it has noted."""
    with suppress(subprocess.SubprocessError, OSError):
        up.said("scancel", "--quiet", "--signal=KILL", "--me")
        up.said("scancel", "--quiet", "--me")
        _wait(lambda: not up.queued(), 10.0)
    for noted in (*up.place.glob("slurmd-*.pid"), up.place / "slurmctld.pid", up.place / "munge" / "pid"):
        with suppress(OSError, ValueError):
            pid = int(noted.read_text())
            os.kill(pid, signal.SIGTERM)
            _wait(partial(_gone, pid), 15.0)


def _gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def _wait(done: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.1)


# Names that SLURM's daemons look up: this machine's own, and the nodes'

HOSTS = Path("/etc/hosts")
MARK = "# tests/helpers/slurm.py"


def _named(nodes: int) -> str:
    """Adds the names; returns the mark of the lines that were added."""
    mark = f"{MARK} {os.getpid()}"
    names = [socket.gethostname().partition(".")[0], *(f"n{number}" for number in range(1, nodes + 1))]
    lines = [f"127.0.0.1 {name} {mark}\n" for name in names]  # again where another has added them: it takes its own away
    with HOSTS.open("a") as file:
        file.writelines(lines)
    return mark


def _unnamed(mark: str) -> None:
    """In place: in a container it is a mount, and can't be replaced."""
    kept = [line for line in HOSTS.read_text().splitlines(keepends=True) if not line.rstrip().endswith(mark)]
    HOSTS.write_text("".join(kept))
