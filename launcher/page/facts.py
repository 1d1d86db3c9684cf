"""Reads what the page says of one run from its record, its events, its series and its trials' reports. Words and figures, no markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.history.records import AttemptRecord, Record, TrialRecord
from launcher.history.runs import Run, events_of, read_json
from launcher.ladder import course
from launcher.ladder.same_training import GIVEN_UP
from launcher.shared.report import PARTS, Phase, PhaseUse, TrialReport
from launcher.shared.sizes import format_size

PHASES: Mapping[str, str] = {
    Phase.START: "start", Phase.SETUP: "set-up", Phase.TRAIN: "training", Phase.VALIDATE: "validation",
    Phase.SAVE: "saving", Phase.TRAIN_AGAIN: "training again", Phase.FINISH: "the end of the run", Phase.RESUME: "going on",
}  # fmt: skip
_LAST_LINES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class BarPart:
    """A part of a bar."""

    name: str
    kind: str
    """Its class in the page's style."""
    bytes: int
    width: float
    """The part's width in percent of the picture."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One phase's need, in parts."""

    name: str
    parts: tuple[BarPart, ...]
    bytes: int
    told: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LadderRow:
    """One rung of the ladder as the launch left it."""

    index: int
    words: str
    state: str
    """One word: chosen, fits, failed, ruled-out, untried."""
    label: str
    """The state for people."""
    peak: str = ""
    width: float = 0.0
    """The peak's width in percent of the picture."""
    why: str = ""
    seconds: float = 0.0
    gives_up: str = ""
    rung: Mapping[str, Any] = field(default_factory=dict)
    accumulation: int = 1

    @property
    def spelled(self) -> str:
        """Its words for a sentence, where no heading says what a product is."""
        return self.words.replace(" x ", ", accumulation ", 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureWords:
    """The trainer's own words about a failure."""

    title: str
    why: str
    lines: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Something that happened while it ran."""

    at: float
    """Seconds since the full run was first launched."""
    words: str


def size(told: int | float | None) -> str:
    return format_size(int(told)) if told else "-"


def words(rung: Mapping[str, Any], accumulation: int | None) -> str:
    """A rung for people: the batch first, what is off left out."""
    batch = f"micro-batch {rung.get('micro_batch', '?')} x {accumulation or 1}"
    rest = [f"{wheel(name)} {value(now)}" for name, now in rung.items() if name != "micro_batch" and now not in (None, False)]
    return ", ".join([batch, *rest])


def wheel(name: str) -> str:
    """A setting's name, for people."""
    return name.replace("micro_batch", "micro-batch").replace("_", " ")


def value(told: object) -> str:
    """One of a rung's settings, for people."""
    return "on" if told is True else "off" if told in (False, None) else str(told)


def full_scale(run: Run, record: Record) -> int:
    """The bytes at the right end of pictures of memory: the budget, or what was needed beyond it."""
    peaks = [trial.peak_bytes for trial in record.trials] + [attempt.peak_bytes for attempt in record.attempts]
    return max([run.budget_bytes, *peaks, 1]) * 21 // 20


def latest(record: Record) -> dict[int, TrialRecord]:
    """The last trial of each rung: its folder holds no other's report."""
    return {trial.rung_index: trial for trial in record.trials}


# -- the ladder


def ladder(run: Run, record: Record, scale: int) -> list[LadderRow]:
    """Every rung that is known: those of the ladder, or of an older run those that were tried."""
    trials = latest(record)
    fitted: Mapping[str, Any] = run.events.get("fitted", {})
    told = {one["rung_index"]: one for one in fitted.get("ladder", ())}
    known = {**{index: trial.model_dump() for index, trial in trials.items()}, **told}
    chosen = record.chosen_rung_index if record.chosen_rung_index is not None else record.rung_index
    last = max([index for index in (*trials, chosen) if index is not None], default=0)
    asked = known.get(0, {}).get("rung", {})
    steps = [
        _step({**known[index], "rung_index": index}, trials.get(index), chosen=index == chosen, scale=scale, asked=asked)
        for index in sorted(known)
        if index <= last + 3
    ]
    twice = {one.rung_index for one in record.trials if one is not trials[one.rung_index] and one.verdict == "fits"}
    return [replace(one, why=f"{TWICE} {one.why}") if one.index in twice else one for one in steps]


TWICE = "Tried twice: as it was, and with the correction that makes its update the asked one; this is the second trial."


def _step(told: Mapping[str, Any], trial: TrialRecord | None, *, chosen: bool, scale: int, asked: Mapping[str, Any]) -> LadderRow:
    index, said, gives_up = (
        told["rung_index"],
        words(told.get("rung", {}), told.get("accumulation")),
        _gives_up(asked, told.get("rung", {})),
    )
    if trial is None:
        by = told.get("ruled_out_by")
        state, label = ("ruled-out", f"ruled out by rung {by}") if by is not None else ("untried", "not tried")
        why = f"It asks at least as much as rung {by}, which failed: no trial was needed." if by is not None else ""
        if chosen:
            state, label, why = "chosen", "chosen", "Its fit was kept by an earlier launch."
        return LadderRow(
            index=index, words=said, state=state, label=label, why=why, gives_up=gives_up,
            rung=told.get("rung", {}), accumulation=told.get("accumulation") or 1,
        )  # fmt: skip
    fits = trial.verdict == "fits"
    state = "chosen" if fits and chosen else "fits" if fits else "failed"
    phase = PHASES.get(trial.phase, trial.phase)
    label = {"chosen": "chosen", "fits": "fits"}.get(state, f"{trial.verdict.replace('_', ' ')} in {phase}")
    why = f"Its highest point was {size(trial.peak_bytes)}." if fits else _sentence(trial.why)
    return LadderRow(
        index=index, words=said, state=state, label=label, peak=size(trial.peak_bytes), width=round(100 * trial.peak_bytes / scale, 2),
        why=why, seconds=trial.seconds, gives_up=gives_up, rung=told.get("rung", {}), accumulation=told.get("accumulation") or 1,
    )  # fmt: skip


def _gives_up(asked: Mapping[str, Any], rung: Mapping[str, Any]) -> str:
    changed = [f"{wheel(name)} {value(asked[name])} -> {value(now)}" for name, now in rung.items() if asked.get(name, now) != now]
    return "; ".join(changed)


def _sentence(text: str) -> str:
    text = re.sub(r"in phase (\w+)", lambda found: f"in {PHASES.get(found[1], found[1])}", text)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


# -- why


NO_RUNG = "no_rung_fits"
_UNCHOSEN = {
    NO_RUNG: "No rung fits.",
    "trying": "A rung is still looked for.",
    "misread": "Stopped: the command ran another batch than was read of it. Nothing was launched.",
    "card_taken": "Stopped: others hold the card. Nothing was launched.",
}
"""A launch's status without a chosen rung, in a sentence."""


def headline(run: Run, record: Record, steps: Sequence[LadderRow]) -> str:
    """The page in one sentence."""
    chosen = next((step for step in steps if step.state == "chosen"), None)
    if chosen is None:
        return _UNCHOSEN.get(
            record.status, f"Stopped before a rung was chosen: {record.status.replace('_', ' ') or 'its record says no more'}."
        )
    verb = "It trains" if record.attempts else "It would train"
    if chosen.index == 0:
        return f"{verb} as asked: that fits."
    now, asked = _settings(chosen), _settings(steps[0])
    changed = [f"{wheel(name)} {value(now[name])} in place of {value(asked.get(name))}" for name in now if asked.get(name) != now[name]]
    return f"{verb} with {' and '.join(changed) or chosen.words}, since what was asked for needs more memory than there is."


def _settings(step: LadderRow) -> dict[str, Any]:
    """A rung's wheels, and its accumulation beside the micro-batch."""
    first = {"micro_batch": step.rung.get("micro_batch"), "accumulation": step.accumulation}
    return {**first, **step.rung}


def why(run: Run, record: Record, steps: Sequence[LadderRow]) -> list[str]:
    """Why this rung, in a few sentences."""
    chosen = next((step for step in steps if step.state == "chosen"), None)
    tried = [step for step in steps if step.state in ("failed", "fits", "chosen") and (chosen is None or step.index <= chosen.index)]
    failed, out = [step for step in tried if step.state == "failed"], [step for step in steps if step.state == "ruled-out"]
    limit = f"{size(run.cap_bytes)} (the budget of {size(run.budget_bytes)}, less what must stay free)"
    said = []
    if failed and failed[0].index == 0:
        said.append(f"What was asked for ({failed[0].spelled}) was really tried and failed: {failed[0].why[:1].lower()}{failed[0].why[1:]}")
    below = [step for step in failed if step.index > 0]
    if below or out:
        said.append(_above(below, [step for step in out if chosen is None or step.index < chosen.index]))
    if chosen is None:
        near = record.nearest
        beyond = f"Beyond the ladder {words(near.rung, near.accumulation)} fits, really tried, at another effective batch." if near else ""
        return [*said, *([f"No rung was seen to stay within {limit}.", beyond] if record.status == NO_RUNG else [])]
    peak = f"its trial needed {chosen.peak} at its highest, and {limit} may be used" if chosen.peak else chosen.why
    which = "What was asked for" if chosen.index == 0 else f"Rung {chosen.index} ({chosen.spelled})"
    said.append(f"{which} is the best that fits: {peak.rstrip('.')}.")
    return [*said, _given_up(record), *_afterwards(record)]


def _above(failed: Sequence[LadderRow], out: Sequence[LadderRow]) -> str:
    tried = (
        f"{len(failed)} more rung{'s' if len(failed) > 1 else ''} failed in {'trials' if len(failed) > 1 else 'its trial'}"
        if failed
        else ""
    )
    one = len(out) == 1
    ruled = (
        f"{len(out)} ask{'s' if one else ''} at least as much as one that failed, and {'was' if one else 'were'} not tried" if out else ""
    )
    return f"{'; '.join(filter(None, (tried, ruled)))}." if tried or ruled else ""


def _given_up(record: Record) -> str:
    """Tells what is given up, settings and batch; only what was shown to be the same training is said to be that."""
    lost = [row for row in given_up(record) if row[0] not in ("micro-batch", "accumulation", "effective batch")]
    beside = {wheel(name): course.mark(pair.get("another_training")) for name, pair in (record.given_up or {}).items()}
    words = (f"{name} {asked} -> {used}{beside.get(name, '')}" for name, asked, used in lost)
    settings = f"Given up for it: {'; '.join(words)}. " if lost else ""
    used, asked = record.effective_batch, record.effective_batch_asked or record.effective_batch
    if used != asked:
        return f"{settings}The effective batch is {used} in place of {asked}: learning rate and schedule were chosen for another."
    if "micro_batch" not in (record.given_up or {}):
        return settings
    told = record.same_training.verdict if record.same_training is not None else ""
    shown = (
        ("that alone changes no update" if lost else "that is shown to be the same training")
        if told == "same"
        else f"that it is the same training: {told.replace('_', ' ') or 'not shown'}"
    )
    speed = "; nothing is given up but speed" if told == "same" and not lost else ""
    return f"{settings}The effective batch is the asked one ({used}), in smaller pieces; {shown}{speed}."


def same_training(record: Record) -> str:
    """The verdict on the run's rung being the asked training, in a word or two."""
    same = record.same_training
    return "" if same is None else "but for what is given up" if same.gradient.startswith(GIVEN_UP) else same.verdict


def given_up(record: Record) -> list[tuple[str, str, str]]:
    """(setting, as asked, as used) for each that differs; with another micro-batch also what an optimizer step is made of."""
    rows = [(wheel(name), value(pair.get("asked")), value(pair.get("used"))) for name, pair in (record.given_up or {}).items()]
    if not rows or "micro_batch" not in (record.given_up or {}):
        return rows
    asked = next((one.accumulation for one in record.trials if one.rung_index == 0), None)
    more = [("accumulation", str(asked), str(record.accumulation))] if asked else []
    return [*rows, *more, ("effective batch", str(record.effective_batch_asked), str(record.effective_batch))]


def _afterwards(record: Record) -> Iterator[str]:
    """Tells what became of the full run."""
    for attempt in record.attempts:
        if attempt.next is not None and attempt.next.why:
            yield f"After attempt {attempt.number} of the full run: {attempt.next.why}."
    if record.attempts and record.status:
        at = f" at rung {record.rung_index}" if record.rung_index != record.chosen_rung_index else ""
        yield f"The full run is {record.status.replace('_', ' ')}{at}."


# -- peaks


def bars(run: Run, record: Record, scale: int) -> list[tuple[TrialRecord, list[Bar]]]:
    """For each trial that reported its phases: what each phase needed. The chosen one first."""
    chosen = record.chosen_rung_index if record.chosen_rung_index is not None else record.rung_index
    found = []
    for trial in sorted(latest(record).values(), key=lambda one: (one.rung_index != chosen, one.rung_index)):
        report = TrialReport.read(run.folder.trials / f"{trial.rung_index:03d}" / "report.json")
        if report is not None and (drawn := _bars(report, scale, cuda=run.device.startswith("cuda"))):
            found.append((trial, drawn))
    return found


STEPPED = (Phase.VALIDATE, Phase.SAVE, Phase.TRAIN_AGAIN)
"""Phases in which the optimizer's states are there from their beginning. A training's highest point may come before its first step."""


def _bars(report: TrialReport, scale: int, *, cuda: bool) -> list[Bar]:
    uses = [use for use in report.uses if use.held_bytes]
    base = next((use.held_bytes for use in uses if use.phase == Phase.SETUP), 0)
    return [_bar(use, _parts(use, base, report.facts.get(PARTS) or {}, cuda=cuda), scale) for use in uses]


def _parts(use: PhaseUse, base: int, counted: Mapping[str, int], *, cuda: bool) -> Sequence[tuple[str, str, int]]:
    """(name, class, bytes) of what a phase held at its highest point."""
    live = min(use.reserved_bytes, use.allocated_bytes) if cuda else use.reserved_bytes
    first = min(base, live)
    weights = min(counted.get("weights", 0), first) if use.phase not in (Phase.START, Phase.SETUP) else 0
    states = min(counted.get("states", 0), live - first) if use.phase in STEPPED else 0
    return (
        ("trained weights", "weights", weights),
        ("else set up before the first step (frozen weights, loaded data)" if weights else SET_UP, "setup", first - weights),
        ("optimizer states", "states", states),
        ("else made by training (gradients, activations)" if states else MADE, "working", live - first - states),
        ("held by PyTorch, not in use at once", "idle", use.reserved_bytes - live),
        ("outside PyTorch's allocator (context, libraries)", "outside", use.outside_bytes),
    )


SET_UP, MADE = "set up before the first step (weights, loaded data)", "made by training (gradients, optimizer states, activations)"


def _bar(use: PhaseUse, parts: Sequence[tuple[str, str, int]], scale: int) -> Bar:
    drawn = tuple(
        BarPart(name=name, kind=kind, bytes=size_, width=round(100 * size_ / scale, 2)) for name, kind, size_ in parts if size_ > 0
    )
    return Bar(name=PHASES.get(use.phase, use.phase), parts=drawn, bytes=use.held_bytes, told=size(use.held_bytes))


# -- failures, moments


def failures(run: Run, record: Record) -> list[FailureWords]:
    """The trainer's own words for each failure."""
    return [
        *_of_trials(run, record),
        *(_of_attempt(run, attempt) for attempt in record.attempts if attempt.ended not in ("done", "interrupted")),
    ]


def _of_trials(run: Run, record: Record) -> Iterator[FailureWords]:
    for trial in latest(record).values():
        if trial.verdict != "fits":
            place = run.folder.trials / f"{trial.rung_index:03d}"
            verdict = read_json(place / "verdict.json").get("verdict", {})
            said = str(verdict.get("evidence") or "").strip() or _tail(place / "stderr.log")
            yield FailureWords(title=f"Trial of rung {trial.rung_index}", why=_sentence(trial.why), lines=_shortened(said))


def _of_attempt(run: Run, attempt: AttemptRecord) -> FailureWords:
    said = _tail(run.folder.attempt(attempt.number).stderr) or _tail(run.folder.attempt(attempt.number).stdout)
    why = _sentence(f"{attempt.ended.replace('_', ' ')} in {PHASES.get(attempt.phase, attempt.phase)}: {attempt.evidence}")
    return FailureWords(title=f"Attempt {attempt.number} of the full run", why=why, lines=said)


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16_384))
            return _shortened(file.read().decode("utf-8", "replace"))
    except OSError:
        return ""


def _shortened(text: str) -> str:
    return "\n".join(line[:300] for line in [one for one in text.splitlines() if one.strip()][-_LAST_LINES:])


def moments(run: Run, since: float) -> list[Moment]:
    """Moments that are marked over time: failures, recoveries, neighbours."""
    found = []
    for event in events_of(run.folder):
        if said := _moment(event):
            at = _when(event) - since
            found.append(Moment(at=max(0.0, at), words=said))
    return [one for one in found if one.at > 0]


def _moment(event: Mapping[str, Any]) -> str:
    match event.get("event"):
        case "recovering":
            return f"{event.get('move', '').replace('_', ' ')}: {event.get('why', '')}"
        case "card_taken":
            return f"others hold the card: {event.get('holder', '')}"
        case "run_otherwise":
            return f"the run {event.get('what', '')}"
        case "resumed":
            return "resumed by `autofit resume`"
        case "run_ended" if (event.get("outcome") or {}).get("ended") not in ("done", None):
            return f"the run ended: {event['outcome']['ended'].replace('_', ' ')}"
    return ""


def _when(event: Mapping[str, Any]) -> float:
    from datetime import datetime

    return datetime.fromisoformat(str(event["time"])).timestamp()
