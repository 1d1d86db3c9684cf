"""What is asked of a card, step by step, worth first: an `autofit` as a person types it, or the plain script. Its row holds claims."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofit_launcher.common.memory_failures import memory_failure
from autofit_launcher.common.report import TrialReport
from autofit_launcher.common.sizes import GIB, MIB
from autofit_launcher.machine import process
from autofit_launcher.machine.devices import Budget
from autofit_launcher.pretended import catalogue
from autofit_launcher.pretended.cards import MARK
from benchmarks.gpu_check import play
from benchmarks.gpu_check.rows import ROOT

SCRIPT = str(ROOT / "benchmarks" / "gpu_hour" / "train.py")
KEPT = {"YOLO_OFFLINE": "true", "YOLO_AUTOINSTALL": "false", "COLUMNS": "160", "NO_COLOR": "1"}
FITS = re.compile(r"^ *rung +\d+ (.* )?fits ", re.MULTILINE)
MOST_APART = {"allocated": 0.01, "reserved": 0.05}
NEIGHBOUR = """
import pathlib, sys, time, torch
go, left, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
print("ready", flush=True)
while not go.exists():
    time.sleep(0.02)
torch.ones(1, device="cuda")
free = torch.cuda.mem_get_info()[0]
held = torch.empty(int(min(2**30, free / 100) if left < 0 else free - left), dtype=torch.uint8, device="cuda")
print("took", held.numel(), flush=True)
time.sleep(seconds)
"""
"""A process that comes to the card when it is told to, takes 1 % (1 GiB at most) or leaves so many bytes, and stays for so long."""
Claims = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the steps work, and on what."""

    place: Path
    log: Path
    """Takes what every command has said."""
    rows: Path
    budget: Budget
    ends: float
    """Monotonic seconds."""

    @property
    def played(self) -> bool:
        return self.budget.name.endswith(MARK)

    def command(self, title: str, *argv: str, limit_s: float, env: dict[str, str] | None = None, each: Any = None) -> tuple[int, str, str]:
        """(exit status, output, errors) of a command; 124 where its time was over."""
        out, err = self.place / f"{title}.out", self.place / f"{title}.err"
        for one in (out, err):
            one.unlink(missing_ok=True)
        most = min(limit_s * (10 if self.played else 1), self.ends - time.monotonic())
        around = {**KEPT, "PYTHONPATH": play.behind(str(ROOT)), **(env or {})}
        child = process.start(argv, env=around, cwd=self.place, stdout=out, stderr=err)
        ending = process.wait(child, timeout_s=most, stderr=err, each_poll=(lambda: each(err)) if each else None)
        said, wrong = (one.read_text(encoding="utf-8", errors="replace") for one in (out, err))
        status = 124 if ending.timed_out else ending.returncode
        self.note(f"=== {title}: {' '.join(argv)}\n{wrong}\n{said[-3000:]}\n=== {title}: {status}, {ending.seconds:.1f} s\n")
        return status, said, wrong

    def note(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(text)

    def launch(self, title: str, *words: str, limit_s: float, each: Any = None) -> dict[str, Any]:
        """The record of an `autofit` command."""
        status, said, _ = self.command(
            title, sys.executable, "-m", "autofit_launcher", words[0], "--json", *words[1:], limit_s=limit_s, each=each
        )
        lines = [line for line in said.splitlines() if line.startswith("{")]
        record: dict[str, Any] = json.loads(lines[-1]) if lines else {"status": f"exit status {status}, no record"}
        if record["status"] != "done" and record.get("run_dir"):
            for path in sorted(path for path in Path(record["run_dir"]).rglob("*") if path.name in ("log", "stderr.log", "run.stderr.log")):
                self.note(f"--- {path.relative_to(record['run_dir'])}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}\n")
        return record

    def plain(self, title: str, *words: str, limit_s: float, before: Sequence[str] = (), **env: str) -> tuple[int, dict[str, Any], str]:
        """The script by itself: exit status, its last line, what it said of an end."""
        argv = (*before, sys.executable, SCRIPT, *words)
        setting = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", **env}
        status, said, wrong = self.command(title, *argv, limit_s=limit_s, env=setting)
        lines = [line for line in said.splitlines() if line.startswith("{")]
        return status, json.loads(lines[-1]) if lines and not status else {}, wrong


@dataclass(frozen=True, kw_only=True)
class Step:
    """One row."""

    name: str
    seconds: int
    """It isn't begun where fewer are left."""
    act: Callable[[Bench], dict[str, Any]]
    """Gives the row's values, ``claims`` among them."""
    sent: bool = False
    """One of what a person sends of a card of theirs."""


def claim(holds: bool | None, figures: str) -> dict[str, Any]:
    return {"holds": holds, "figures": figures}


def summary(record: dict[str, Any]) -> dict[str, Any]:
    """Of a launch, what is nobody's secret: no paths, no commands, no texts."""
    trial = ("rung", "accumulation", "verdict", "phase", "source", "peak_bytes", "asked_bytes", "seconds")
    ended = ("rung", "accumulation", "ended", "phase", "peak_bytes", "seconds")
    device = ("total_bytes", "free_bytes", "budget_bytes", "cap_bytes", "emulated")
    return {
        "status": record["status"],
        "device": {key: record.get("device", {}).get(key) for key in device},
        "trials": [{key: one.get(key) for key in trial} for one in record.get("trials", ())],
        "same_training": {key: (record.get("same_training") or {}).get(key) for key in ("verdict", "apart", "layouts", "seconds")},
        "attempts": [{key: one.get(key) for key in ended} for one in record.get("attempts", ())],
        "memory": record.get("memory"),
    }


def of_launch(record: dict[str, Any], *, small: bool) -> Claims:
    """What is claimed of every launch: that something fits, that it is the same training, that its run ends within its cap."""
    trials, memory = record.get("trials", []), record.get("memory") or {}
    fit = next((one for one in trials if one["verdict"] == "fits"), None)
    failed = ", ".join(f"{one['rung'].get('micro_batch')} {one['verdict']}" for one in trials if one is not fit)
    layout = f"{fit['rung'].get('micro_batch')} x {fit['accumulation']}" if fit else "none"
    cap = record.get("device", {}).get("cap_bytes") or math.nan
    figures = f"{layout} fits, {(fit or {}).get('peak_bytes', 0) / GIB:.2f} of {cap / GIB:.2f} GiB; {failed or 'none failed'}"
    claims = {"fit": claim(fit is not None, figures)}
    if fit and fit["accumulation"] > 1:
        same = record.get("same_training") or {}
        parts = {key: same.get(key, "") for key in ("gradient", "steps", "schedule", "samples")}
        unproven = "; ".join(f"{key}: {said[:80]}" for key, said in parts.items() if said != "proven")
        apart = f", updates {same['apart']:.1e} apart" if same.get("apart") is not None else ""
        verdict = f"{same.get('verdict') or 'not tried'}{apart}, {same.get('seconds') or 0:.0f} s"
        claims["proof"] = claim(None if small else same.get("verdict") == "same", f"{verdict}{unproven and f' ({unproven})'}")
    ends = [one["ended"] for one in record.get("attempts", ())]
    run, tried = memory.get("run_peak_bytes") or 0, memory.get("trial_peak_bytes") or 0
    within = 0 < run <= (memory.get("cap_bytes") or 0)
    figures = f"{' then '.join(ends) or record['status']}, {run / GIB:.2f} GiB{f', {run / tried:.1%} of its trial' if tried else ''}"
    return {**claims, "run": claim(record["status"] == "done" and within, figures)}


def fit(bench: Bench) -> dict[str, Any]:
    """A GPT is asked for that 4.2 GiB can't hold: what fits, its proof, its run, and the rung above under the whole budget."""
    words = ("device=cuda", f"device.memory={min(4.2, bench.budget.total_bytes / GIB * 0.9):.2f}GiB")
    record = bench.launch("fit", "run", *words, "--", sys.executable, SCRIPT, limit_s=240)
    claims = of_launch(record, small=bench.played)
    above = [one for one in record.get("trials", ()) if one["verdict"] == "out_of_memory"]
    if record["status"] == "done" and above:
        least, outside = min(above, key=lambda one: one["rung"]["micro_batch"]), outside_of(record)
        fraction = (record["device"]["budget_bytes"] - outside) / record["device"]["total_bytes"]
        micro_batch = least["rung"]["micro_batch"]
        flags = ("--batch-size", str(micro_batch), "--accum", str(least["accumulation"]), "--fraction", f"{fraction:.6f}")
        status, said, wrong = bench.plain("above", *flags, limit_s=90)
        died = bool(status) and memory_failure(wrong, last=True) is not None
        lived = f"status {status}, {said.get('reserved', 0) / GIB:.2f} GiB, {said.get('num_alloc_retries')} retries"
        claims["above"] = claim(died, f"{micro_batch} x {least['accumulation']} {'died' if died else f'lived: {lived}'}")
    return {"claims": claims, "launch": summary(record)}


def outside_of(record: dict[str, Any]) -> int:
    """Bytes outside the allocator in the trial that fits."""
    folders = [one["folder"] for one in record["trials"] if one["verdict"] == "fits"]
    report = TrialReport.read(Path(folders[-1]) / "report.json")
    return max((use.outside_bytes for use in report.uses), default=0) if report else 0


def with_neighbour(bench: Bench, title: str, *, leave: float, seconds: float) -> dict[str, Any]:
    """A launch on the whole card, to which a neighbour comes when the fit is there."""
    go, said = bench.place / f"{title}.go", bench.place / f"{title}.neighbour"
    go.unlink(missing_ok=True)
    with said.open("wb") as file:
        argv = [sys.executable, "-c", NEIGHBOUR, str(go), str(leave), str(seconds)]
        neighbour = subprocess.Popen(argv, cwd=bench.place, env={**os.environ}, stdout=file, stderr=file)

    def each(err: Path) -> None:
        neighbour.poll()  # one that has ended and isn't waited for still has its memory, on a card that is played
        if not go.exists() and FITS.search(err.read_text(encoding="utf-8", errors="replace")):
            go.touch()

    try:
        words = ("device=cuda", "trial.resume=false", "recover.allow_restart=true")
        argv = ("--", sys.executable, SCRIPT, "--batch-size", "16", "--steps", "40")
        record = bench.launch(title, "run", *words, *argv, limit_s=180, each=each)
    finally:
        neighbour.terminate()
        neighbour.wait()
    told = said.read_text(encoding="utf-8", errors="replace").split()
    took = int(told[-1]) / GIB if "took" in told else 0.0
    run = of_launch(record, small=True)["run"]
    return {"took": took, "launch": summary(record), **run, "figures": f"{took:.2f} GiB were taken; {run['figures']}"}


def late_neighbour(bench: Bench) -> dict[str, Any]:
    """Somebody takes 1 % of the card and a context between fit and run, and stays for a minute: the run trains beside it, or after it."""
    found = with_neighbour(bench, "neighbour", leave=-1, seconds=60)
    return {"claims": {"neighbour": claim(found["holds"] and found["took"] > 0, found["figures"])}, "launch": found["launch"]}


def crowding_neighbour(bench: Bench) -> dict[str, Any]:
    """Somebody leaves 2 GiB of the card between fit and run, for 20 seconds: the run must wait or die
    of it and begin anew, and train at the same rung."""
    found = with_neighbour(bench, "crowding", leave=2 * GIB, seconds=20)
    return {"claims": {"crowding": claim(found["holds"] and found["took"] > 0, found["figures"])}, "launch": found["launch"]}


def model_of(budget: Budget) -> str:
    """The card of the catalogue that plays this one: of its name, or else of its compute capability or the one before."""
    models, name = catalogue.named(catalogue.known()), budget.name.removesuffix(MARK)
    if same := [model.name for model in models if model.title == name]:
        return same[0]
    said = subprocess.check_output([sys.executable, "-c", "import torch; print(*torch.cuda.get_device_capability())"], text=True)
    major, minor = map(int, said.split())
    older = [model for model in models if model.capability <= 10 * major + minor]
    return max(older or models[:1], key=lambda model: model.capability).name


def played(bench: Bench) -> dict[str, Any]:
    """The peaks of four plain steps, and of the same ones on a card that isn't there."""
    flags = ("--batch-size", "16", "--steps", "4")
    status, real, _ = bench.plain("measured", *flags, limit_s=60)
    card = model_of(bench.budget)
    before = (sys.executable, "-m", "benchmarks.played.on_cards", f"gpu={card}", "computed=small", "--")
    again, made, _ = bench.plain("played", *flags, before=before, limit_s=180)
    if not real or not made:
        return {"claims": {"played": claim(None if real else False, f"measured: status {status}; played: status {again}")}}
    off = {kind: made[kind] / real[kind] - 1 for kind in MOST_APART}
    figures = ", ".join(f"{kind} {real[kind] / MIB:.0f} MiB, played {part:+.2%}" for kind, part in off.items())
    holds = all(abs(part) <= MOST_APART[kind] for kind, part in off.items())
    return {"claims": {"played": claim(holds, f"{figures} (as {card})")}, "measured": real, "again": made}


def yolo(bench: Bench) -> dict[str, Any]:
    """YOLO11n at 640 px with AMP, 32 asked of a card of 4 GiB: its twins' end, and its run after them."""
    maker, data = ROOT / "examples" / "digits" / "make_digits.py", bench.place / "digits"
    bench.command("digits", sys.executable, str(maker), str(data), "--pages", "96", "--size", "640", limit_s=60)
    argv = ("--", sys.executable, str(Path(SCRIPT).with_name("detect.py")), str(data / "data.yaml"))
    record = bench.launch("yolo", "run", "device=cuda", "device.memory=4GiB", "trial.resume=false", *argv, limit_s=240)
    claims, same = of_launch(record, small=bench.played), record.get("same_training") or {}
    if not bench.played and "proof" in claims:  # its loss divides by each micro-batch's boxes: that is told, and no fault
        claims["proof"]["holds"] = same.get("verdict") in ("same", "weighted")
    return {"claims": claims, "launch": summary(record), "same": same}


def cost(bench: Bench) -> dict[str, Any]:
    """Enter -> first step of the run, autofit's beside the plain command's, where what is asked fits and one rung lower."""
    rows = bench.rows.with_name("cost.jsonl")
    argv = (sys.executable, "-m", "benchmarks.cost.first_step", "--only", "gpt on a card", "--pairs", "2", "--rows", str(rows))
    status, _, _ = bench.command("cost", *argv, limit_s=200, env={"PYTHONPATH": f"{ROOT}{os.pathsep}{play.behind(str(ROOT))}"})
    if status:
        return {"claims": {"cost": claim(False, f"exit status {status}")}}
    row = json.loads(rows.read_text(encoding="utf-8").splitlines()[-1])
    least = {way: min(seconds) for way, seconds in row["first_steps"].items()}
    times = {way: least[way] / least["plain"] for way in ("fits", "lower")}
    figures = ", ".join(f"{way} {least[way]:.1f} s ({one:.1f} x)" for way, one in times.items())
    holds = times["fits"] <= 1.6 and times["lower"] <= 3
    return {"claims": {"cost": claim(holds, f"plain {least['plain']:.1f} s, {figures}")}, "row": row}


def compiled(bench: Bench) -> dict[str, Any]:
    """A GPT under torch.compile that 80 % of what it needs can't hold: trials, twins and run, each of which compiles."""
    flags = ("--layers", "2", "--batch-size", "128", "--compile", "aot_eager" if bench.played else "inductor")
    status, real, _ = bench.plain("compiled alone", *flags, "--steps", "4", limit_s=120)
    if not real:
        return {"claims": {"compiled": claim(False, f"the plain script ends with {status}")}}
    memory = f"device.memory={0.8 * (real['reserved'] / MIB + 700):.0f}MiB"
    argv = ("--", sys.executable, SCRIPT, *flags)
    record = bench.launch("compiled", "run", "device=cuda", memory, "trial.resume=false", *argv, limit_s=240)
    return {"claims": of_launch(record, small=bench.played), "plain": real, "launch": summary(record), "same": record.get("same_training")}


def near_the_edge(bench: Bench) -> dict[str, Any]:
    """ResNet-50 with cudnn.benchmark=True on a card that has 3 % more than its plain run held: does autofit let it have what it needs?"""
    flags = ("--model", "resnet50", "--batch-size", "96", "--steps", "8", "--benchmark")
    status, real, _ = bench.plain("benchmark alone", *flags, limit_s=60)
    if not real:
        return {"claims": {"benchmark": claim(False, f"the plain script ends with {status}")}}
    memory = f"device.memory={1.03 / 0.9 * (real['reserved'] / MIB + 700):.0f}MiB"
    argv = ("--", sys.executable, SCRIPT, *flags)
    record = bench.launch("benchmark", "run", "device=cuda", memory, "trial.resume=false", *argv, limit_s=150)
    claims = of_launch(record, small=True)
    claims["fit"] |= {"holds": bool(record.get("trials")) and record["trials"][0]["verdict"] == "fits"}
    return {"claims": claims, "plain": real, "launch": summary(record)}


def machine(bench: Bench) -> dict[str, Any]:
    """What `autofit doctor` says, and whether this driver bears a fork before CUDA's first use."""
    status, said, _ = bench.command("doctor", sys.executable, "-m", "autofit_launcher", "doctor", limit_s=30)
    forks = {}
    for name, env in (("nvml check", {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}), ("plain", {})):
        answer, failed = play.ask(["forks", "--uuid", bench.budget.uuid, "--idle", "0"], env)
        forks[name] = answer or {"failed": failed[-200:]}
    bears = forks["nvml check"].get("child") == 0 and forks["nvml check"].get("parent") is True
    claims = {"doctor": claim(status == 0, f"exit status {status}"), "fork": claim(bears, json.dumps(forks))}
    return {"claims": claims, "said": said[-2000:]}


def gpu_check(letter: str, limit_s: float) -> Callable[[Bench], dict[str, Any]]:
    """A case of `make gpu-check`, whose rows go beside these; it goes on where it was cut off."""

    def act(bench: Bench) -> dict[str, Any]:
        left = min(limit_s, bench.ends - time.monotonic() - 10)
        results = ("--results", str(bench.rows.with_name("gpu-check.jsonl")), "--place", str(bench.place / "gpu-check"))
        argv = (sys.executable, "-m", "benchmarks.gpu_check", letter, *results, "--minutes", f"{left / 60:.2f}")
        status, said, _ = bench.command(f"case {letter}", *argv, limit_s=left + 10)
        told = [line for line in said.splitlines() if line.startswith(("holds", "FAILS"))]
        cut = status == 124 or "left for another" in said
        return {"claims": {f"case {letter}": claim(status == 0, f"exit status {status}")}, "told": told, "cut": cut}

    return act


STEPS = (
    Step(name="machine", seconds=20, act=machine),
    Step(name="yolo", seconds=120, act=yolo),
    Step(name="cost", seconds=60, act=cost),
    Step(name="compiled", seconds=90, act=compiled),
    Step(name="fit", seconds=60, act=fit, sent=True),
    Step(name="neighbour", seconds=30, act=late_neighbour, sent=True),
    Step(name="played", seconds=30, act=played, sent=True),
    Step(name="crowding", seconds=50, act=crowding_neighbour),
    Step(name="benchmark", seconds=40, act=near_the_edge),
    Step(name="case A", seconds=60, act=gpu_check("A", 180)),
    Step(name="case B", seconds=150, act=gpu_check("B", 540)),
)
