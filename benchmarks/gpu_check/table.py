"""Rows -> docs/gpu.md. What no card has shown is said so, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from autofit_launcher.pretended.cards import MARK
from benchmarks.gpu_check import checks, sent
from benchmarks.gpu_check.cases import CASES, Case
from benchmarks.gpu_check.play import BACKENDS, CAPS
from benchmarks.gpu_check.rows import ROOT, read

PAGE = ROOT / "docs" / "gpu.md"
NOT_YET = "not measured yet"
Row = Mapping[str, Any]
NOT_PLAYED = "not played yet"
HEAD = """# What real cards have shown

Made by `make gpu-check` of `benchmarks/results/gpu-check.jsonl`; not written by hand. A smaller card than the real one is the real one
whose allocator is capped: what lies outside the allocator, and cuDNN's view of free memory, are the real card's.

What stands below a card's name was measured on it. *Played*: on a card that isn't there ([how](pretended.md)): the allocator, its peaks and
its words are PyTorch's own; the context, cuDNN's workspaces and times are not a card's. What is played proves nothing of a card.
"""
KINDS = ("context", "matmul", "convolution", "fft", "attention")


@dataclass(frozen=True)
class Column:
    """One column's rows, and what stands where there is none."""

    title: str
    missing: str
    rows: Sequence[Row]

    def latest(self, step: str) -> Row | None:
        return next((row for row in reversed(self.rows) if row["case"] == "A" and row["step"] == step), None)


def render(rows: Sequence[Row]) -> str:
    walked = [row for row in rows if row["kind"] != "sent"]
    real = dict.fromkeys(row["card"] for row in walked if not row["card"].endswith(MARK)) or ["measured"]
    columns = (
        *(Column(card, NOT_YET, [row for row in walked if row["card"] == card]) for card in real),
        Column("played", NOT_PLAYED, [row for row in walked if row["card"].endswith(MARK)]),
    )
    return "\n".join([HEAD, *_where(columns), *_facts(columns), *_cases(columns), *_sent(rows)]) + "\n"


def write() -> None:
    PAGE.write_text(render(read()), encoding="utf-8")


def _where(columns: Sequence[Column]) -> list[str]:
    lines = []
    for column in columns:
        seen = dict.fromkeys((row["card"], row["driver"], row["commit"], str(row["versions"].get("torch"))) for row in column.rows)
        lines += [f"- {card}, driver {driver}, commit {commit}, torch {torch}" for card, driver, commit, torch in seen]
        lines += [] if seen else [f"- Cards: {column.missing}."]
    return [*lines, ""]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)] + [""]


def _facts(columns: Sequence[Column]) -> list[str]:
    titles = [column.title for column in columns]
    outside = [[kind, *(_outside(column, kind) for column in columns)] for kind in KINDS]
    text = ["## A: the allocator and what lies outside it", "", *_table(["outside after, MiB", *titles], outside)]
    fills = [[f"{cap} GiB, {name}", *(_fill(column, cap, name) for column in columns)] for cap in CAPS for name in BACKENDS]
    text += _table(["filled to a cap of", *titles], fills)
    others = {
        **{f"200 random sizes over the largest alone, {name}": partial(_ratio, name=name) for name in ("native", "expandable")},
        "allocations that cuDNN's benchmark got over": _got_over,
        "NVML v2 free less the runtime's, bytes": _apart,
        "longest time to give memory back, s": _settled,
    }
    return [*text, *_table(["", *titles], [[name, *(said(column) for column in columns)] for name, said in others.items()])]


def _outside(column: Column, kind: str) -> str:
    row = column.latest("outside") or {}
    if kind in row:
        return f"{row[kind] / 2**20:.0f}"
    return f"failed: {row[f'{kind}_failed'][:80]}" if f"{kind}_failed" in row else column.missing


def _fill(column: Column, cap: int, backend: str) -> str:
    row = column.latest(f"fill {cap} GiB {backend}")
    if row is None:
        return column.missing
    if row.get("failed"):
        return f"refused: {row['failed'].splitlines()[-1][:80]}"
    return f"{row['verdict']} ({row['source']}), reserved and outside {row['held'] / row['cap']:.1%} of it"


def _ratio(column: Column, name: str) -> str:
    row = column.latest(f"fragments {name}")
    return str(row["ratio"]) if row and "ratio" in row else column.missing


def _got_over(column: Column) -> str:
    row = column.latest("cudnn")
    return str(row.get("num_ooms", row["failed"])) if row else column.missing


def _apart(column: Column) -> str:
    row = column.latest("meters")
    return str(row["v2"]["free"] - row["runtime"]["free"]) if row and "v2" in row else column.missing


def _settled(column: Column) -> str:
    settled = [row["settle_seconds"] for row in column.rows if row["case"] == "A" and row["kind"] == "fact"]
    return f"{max(settled):.2f}" if settled else column.missing


def _cases(columns: Sequence[Column]) -> list[str]:
    text = []
    for case in CASES:
        claims = [_claims(column, case) for column in columns]
        lines = [[name, *(one[name] for one in claims)] for name in claims[0]]
        text += [f"## {case.name}", "", *_table(["", *(column.title for column in columns)], lines)]
    return text


def _sent(rows: Sequence[Row]) -> list[str]:
    """A line for each card of somebody's: the newest that he has sent of it with one PyTorch."""
    newest = {(row["who"], row["card"], row["versions"].get("torch")): row for row in rows if row["kind"] == "sent"}
    lines = [
        [row["card"], f"{row['versions'].get('torch', '')}, driver {row['driver']}, commit {row['commit']}", row["who"] or "nobody said"]
        + [f"{sent.WORDS[one['holds']]} {one['figures']}" if (one := row["cases"].get(name)) else NOT_YET for name in sent.CASES]
        for row in newest.values()
    ]
    text = [
        "## Five cases on anybody's card",
        "",
        "Measure yours: [a notebook](../examples/notebook/prove_on_a_card.ipynb), ten minutes.",
        "",
    ]
    return [*text, *(_table(["card", "torch", "measured by", *sent.CASES.values()], lines) if lines else ["Nobody has sent any yet.", ""])]


def _claims(column: Column, case: Case) -> dict[str, str]:
    """What a column says of a case: its trials, then each claim."""
    ours = checks.newest(case, column.rows)
    trials = [row for row in ours if row["step"] == f"{case.name}: trial"]
    chosen = next((row for row in trials if row["verdict"] == "fits"), None)
    why = next((row["why"] for row in ours if row["step"] == f"{case.name}: left out"), "")
    said = f"{len(trials)}; rung {chosen['rung_index']} fits" if chosen else str(len(trials)) if trials else why or column.missing
    words = {None: why or column.missing, True: "holds", False: "FAILS"}
    return {
        "trials": said,
        **{one.claim: f"{words[one.holds]} {one.figures and f'({one.figures})'}".strip() for one in checks.of(case, ours)},
    }
