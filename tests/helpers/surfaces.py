"""Invented memory: a ladder and what every rung of it would really do -> the verdicts that a search is shown."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autofit_launcher.common.report import Phase
from autofit_launcher.ladder.rungs import Ladder, Rung, Wheel, build
from autofit_launcher.ladder.search import Chosen, Move, Policy, Tried, Try, next_move
from autofit_launcher.ladder.verdict import Kind, Verdict

PHASES = (Phase.SETUP, Phase.TRAIN, Phase.VALIDATE, Phase.TRAIN_AGAIN, Phase.FINISH)


@dataclass
class Surface:
    """Need of each rung by phase, as a part of the cap, and what else happens there."""

    ladder: Ladder
    needs: Mapping[int, Mapping[str, float]]
    measured: bool = True
    """A failing trial's need is seen, as on a CPU; on a card only that it was refused."""
    crashes: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Rung -> (phase, words)."""
    broken: Mapping[int, Kind] = field(default_factory=dict)
    """Rung -> a failure that no lower rung cures."""
    refuses_accumulation: bool = False
    halves: frozenset[int] = frozenset()
    """Rungs at which the trainer goes down by itself where memory runs out."""
    ignores: str = ""
    """The setting whose word does nothing: it runs otherwise than told wherever it is turned."""

    def need(self, rung: Rung) -> float:
        return max(self.needs[rung.index].values())

    def tried(self, rung: Rung) -> Tried:
        """A real trial of a rung."""
        by_phase: dict[str, float] = {}
        for phase in PHASES:
            if (crash := self.crashes.get(rung.index)) is not None and crash[0] == phase:
                return Tried(rung=rung, verdict=Verdict(kind=Kind.CRASHED, phase=phase, why=crash[1]))
            if self.refuses_accumulation and phase is Phase.TRAIN and rung.accumulation > self.ladder.asked.accumulation:
                return Tried(rung=rung, verdict=Verdict(kind=Kind.ALTERED, phase=phase, why="", source="accumulation"))
            by_phase[phase] = self.needs[rung.index][phase]
            if by_phase[phase] > 1:
                return self._failed(rung, phase, by_phase)
            if self.ignores and phase is Phase.TRAIN and turned(self.ladder, rung, self.ignores):
                return Tried(rung=rung, verdict=Verdict(kind=Kind.ALTERED, phase=phase, why="", otherwise=(self.ignores,)))
            if rung.index in self.broken and phase is Phase.TRAIN:
                return Tried(rung=rung, verdict=Verdict(kind=self.broken[rung.index], phase=phase, why="same words"))
        return Tried(rung=rung, verdict=Verdict(kind=Kind.FITS, phase="done", why=""), need=self.need(rung), by_phase=by_phase)

    def _failed(self, rung: Rung, phase: Phase, by_phase: dict[str, float]) -> Tried:
        if rung.index in self.halves:
            return Tried(rung=rung, verdict=Verdict(kind=Kind.ALTERED, phase=phase, why=""))
        by_phase[phase] = min(by_phase[phase], 1.5) if self.measured else 1.0
        verdict = Verdict(kind=Kind.OUT_OF_MEMORY, phase=phase, why="", source="measured" if self.measured else "allocator")
        return Tried(rung=rung, verdict=verdict, need=max(by_phase.values()), by_phase=by_phase)


def turned(ladder: Ladder, rung: Rung, name: str) -> bool:
    """Whether a setting stands elsewhere than asked."""
    if name == "accumulation":
        return rung.accumulation != ladder.asked.accumulation
    return rung.values.get(name) != ladder.asked.values.get(name)


@dataclass
class Searched:
    """A search to its end."""

    move: Move
    history: list[Tried]

    @property
    def chosen(self) -> int | None:
        return self.move.rung.index if isinstance(self.move, Chosen) else None

    @property
    def trials(self) -> int:
        return sum(tried.verdict.kind is not Kind.CARD_TAKEN for tried in self.history)


def searched(surface: Surface, policy: Policy, *, taken: Callable[[], bool] = lambda: False) -> Searched:
    """The whole search. ``taken``: whether others hold the card, this time."""
    history: list[Tried] = []
    while isinstance(move := next_move(surface.ladder, history, policy=policy), Try):
        lost = Verdict(kind=Kind.CARD_TAKEN, phase=Phase.START, why="")
        history.append(Tried(rung=move.rung, verdict=lost) if taken() else surface.tried(move.rung))
        assert len(history) < 5 * len(surface.ladder.rungs) + 50, "it ends"
    return Searched(move, history)


def ladder(draw: random.Random, *, most: int = 120) -> Ladder:
    """As the built-in trainers have them: some wheels, in any order."""
    effective = draw.choice([1, 4, 12, 16, 64])
    micro = [size for size in range(effective, 0, -1) if effective % size == 0]
    wheels = [
        Wheel(name="micro_batch", values=tuple(micro[: draw.randint(1, len(micro))])),
        Wheel(name="val_micro_batch", values=(16, 8, 4, 2)[: draw.randint(1, 4)], acts_in="validation"),
        Wheel(name="image_size", values=(1280, 1024, 800, 640, 512)[: draw.randint(1, 5)]),
        Wheel(name="checkpointing", values=(False, True)[: draw.randint(1, 2)]),
        Wheel(name="model", values=("x", "l", "m", "s")[: draw.randint(1, 4)]),
    ]
    chosen = [wheels[0], *draw.sample(wheels[1:], draw.randint(0, 4))]
    draw.shuffle(chosen)
    built = build(chosen, effective_batch=effective)
    return built if len(built.rungs) <= most else ladder(draw, most=most)


def like_memory(draw: random.Random, ladder: Ladder) -> dict[int, dict[str, float]]:
    """Affine in samples times pixels, standing memory by the model, checkpointing, validation of its own."""
    model = dict(zip(("x", "l", "m", "s"), sorted((draw.uniform(0.02, 0.6) for _ in range(4)), reverse=True), strict=True))
    kept, fragments, validating = draw.uniform(0.3, 0.7), draw.uniform(1.0, 1.15), draw.uniform(0.05, 1.2)
    needs = {}
    for rung in ladder.rungs:
        values, standing = rung.values, model[str(rung.values.get("model", "x"))]
        pixels = (int(values.get("image_size") or 640) / 640) ** 2
        samples = rung.micro_batch * pixels * (kept if values.get("checkpointing") else 1.0) * (0.3 + standing)
        batch = min(int(values.get("val_micro_batch") or 64), 2 * rung.micro_batch)
        training, validation = standing + samples, 0.6 * standing + validating * batch * pixels * 0.3 * (0.3 + standing)
        again = max(training, 0.8 * training + 0.3 * validation) * fragments
        needs[rung.index] = {
            Phase.SETUP: standing, Phase.TRAIN: training, Phase.VALIDATE: validation, Phase.TRAIN_AGAIN: again,
            Phase.FINISH: 0.9 * validation,
        }  # fmt: skip
    return _scaled(draw, needs)


def anyhow_monotone(draw: random.Random, ladder: Ladder) -> dict[int, dict[str, float]]:
    """Anything that falls, or stays, with every turn of a wheel that acts there."""
    needs: dict[int, dict[str, float]] = {rung.index: {} for rung in ladder.rungs}
    for phase in PHASES:
        falls = [
            sorted((draw.choice([0.0, draw.random(), 5 * draw.random()]) for _ in wheel.values), reverse=True) for wheel in ladder.wheels
        ]
        before = phase in (Phase.SETUP, Phase.TRAIN)
        for rung in ladder.rungs:
            turned = zip(ladder.wheels, falls, rung.position, strict=True)
            needs[rung.index][phase] = 0.01 + sum(
                column[0 if before and wheel.acts_in == "validation" else at] for wheel, column, at in turned
            )
    return _scaled(draw, needs)


def _scaled(draw: random.Random, needs: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """So that the cap lies somewhere among the rungs."""
    peaks = sorted(max(by_phase.values()) for by_phase in needs.values())
    cap = draw.choice([draw.choice(peaks) * 1.0001, draw.uniform(peaks[0] * 0.8, peaks[-1] * 1.1)])
    return {index: {phase: need / cap for phase, need in by_phase.items()} for index, by_phase in needs.items()}


def noisy(draw: random.Random, needs: Mapping[int, Mapping[str, float]]) -> dict[int, dict[str, float]]:
    """The same with bumps: another process's luck, another kernel."""
    return {
        index: {phase: need * draw.choice([1.0, draw.uniform(0.7, 1.4)]) for phase, need in by_phase.items()}
        for index, by_phase in needs.items()
    }


def spoil(draw: random.Random, surface: Surface) -> None:
    """What else goes wrong in life: crashes of one rung's own or of all, failures that no rung cures, accumulation refused, halving."""
    rungs = surface.ladder.rungs
    match draw.randint(0, 6):
        case 0:
            words, phase = "ValueError: Expected more than 1 value per channel", draw.choice([Phase.SETUP, Phase.TRAIN])
            surface.crashes = {rung.index: (phase, words) for rung in rungs if rung.micro_batch == 1}
        case 1:
            surface.crashes = dict.fromkeys((rung.index for rung in rungs), (Phase.SETUP, "KeyError: 'typo'"))
        case 2:
            surface.broken = {draw.choice(rungs).index: draw.choice([Kind.DIVERGED, Kind.STALLED, Kind.VACUOUS])}
        case 3:
            surface.refuses_accumulation = True
        case 5:
            surface.ignores = draw.choice(["accumulation", *(wheel.name for wheel in surface.ladder.wheels)])
        case 4:
            surface.halves = frozenset(rung.index for rung in rungs if draw.random() < 0.5)
