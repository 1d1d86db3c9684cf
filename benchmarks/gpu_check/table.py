"""Rows -> docs/gpu.md. What no card has shown is said so, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu_check import checks
from benchmarks.gpu_check.cases import CASES
from benchmarks.gpu_check.play import BACKENDS, CAPS
from benchmarks.gpu_check.rows import ROOT, read

PAGE = ROOT / "docs" / "gpu.md"
NOT_YET = "not measured yet"
Row = Mapping[str, Any]
HEAD = """# What real cards have shown

Made by `make gpu-check` of `benchmarks/results/gpu-check.jsonl`; not written by hand. A played card is a larger one whose allocator is
capped: what lies outside the allocator, and cuDNN's view of free memory, are the real card's.
"""


def render(rows: Sequence[Row]) -> str:
    return "\n".join([HEAD, *_where(rows), *_facts(rows), *_cases(rows)]) + "\n"


def write() -> None:
    PAGE.write_text(render(read()), encoding="utf-8")


def _where(rows: Sequence[Row]) -> list[str]:
    seen = dict.fromkeys((row["card"], row["driver"], row["commit"], str(row["versions"].get("torch"))) for row in rows)
    lines = [f"- {card}, driver {driver}, commit {commit}, torch {torch}" for card, driver, commit, torch in seen]
    return [*(lines or [f"Cards: {NOT_YET}."]), ""]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)] + [""]


def _latest(rows: Sequence[Row], step: str) -> Row | None:
    return next((row for row in reversed(rows) if row["case"] == "A" and row["step"] == step), None)


def _facts(rows: Sequence[Row]) -> list[str]:
    outside, fragments = _latest(rows, "outside"), {name: _latest(rows, f"fragments {name}") for name in ("native", "expandable")}
    kinds = ("context", "matmul", "convolution", "fft", "attention")
    lines = [[kind, _mib(outside.get(kind)) if outside else NOT_YET] for kind in kinds]
    text = ["## A: the allocator and what lies outside it", "", *_table(["outside after", "MiB"], lines)]
    fills = [[f"{cap} GiB", *(_fill(_latest(rows, f"fill {cap} GiB {name}")) for name in BACKENDS)] for cap in CAPS]
    text += _table(["filled to a cap of", *BACKENDS], fills)
    others = [
        [f"200 random sizes over the largest alone, {name}", str(row["ratio"]) if row else NOT_YET] for name, row in fragments.items()
    ]
    cudnn, meters = _latest(rows, "cudnn"), _latest(rows, "meters")
    others.append(["allocations that cuDNN's benchmark got over", str(cudnn.get("num_ooms", cudnn["failed"])) if cudnn else NOT_YET])
    others.append(["NVML v2 free less the runtime's, bytes", _apart(meters)])
    settled = [row["settle_seconds"] for row in rows if row["case"] == "A" and row["kind"] == "fact"]
    others.append(["longest time to give memory back, s", f"{max(settled):.2f}" if settled else NOT_YET])
    return [*text, *_table(["", ""], others)]


def _mib(size: Any) -> str:
    return f"{size / 2**20:.0f}" if isinstance(size, int) else NOT_YET


def _fill(row: Row | None) -> str:
    if row is None:
        return NOT_YET
    if row.get("failed"):
        return f"refused: {row['failed'].splitlines()[-1][:80]}"
    return f"{row['verdict']} ({row['source']}), reserved and outside {row['held'] / row['cap']:.1%} of it"


def _apart(row: Row | None) -> str:
    return str(row["v2"]["free"] - row["runtime"]["free"]) if row and "v2" in row else NOT_YET


def _cases(rows: Sequence[Row]) -> list[str]:
    text = []
    for case in CASES:
        trials = [row for row in rows if row["step"] == f"{case.name}: trial"]
        chosen = next((row for row in trials if row["verdict"] == "fits"), None)
        said = f"{len(trials)} trials; rung {chosen['rung_index']} fits" if chosen else f"{len(trials)} trials" if trials else NOT_YET
        ours = [row for row in rows if row["case"] == case.letter]
        words = {None: NOT_YET, True: "holds", False: "FAILS"}
        lines = [[check.claim, words[check.holds], check.figures] for check in checks.of(case, ours)]
        text += [f"## {case.name}", "", f"Trials: {said}.", "", *_table(["claim", "", "figures"], lines)]
    return text
