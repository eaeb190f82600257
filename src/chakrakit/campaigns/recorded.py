"""One history as a Run: one rank per place in the job, to be looked at like any other run.

Stream 0 of a rank is what the job does (train, checkpoint, lost steps, detection, waiting, restart),
stream 1 the state of the node in that place (in service, empty, slow).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.campaigns.checkpoints import NEVER
from chakrakit.campaigns.history import JobHistory
from chakrakit.campaigns.job import CampaignJob
from chakrakit.campaigns.plan import CampaignPlan
from chakrakit.campaigns.result import DAY
from chakrakit.campaigns.telemetry import Incident, telemetry
from chakrakit.errors import ConfigError
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.sets import CAMPAIGN, Card, Run

NS = 1e9  # nanoseconds per second
MOST_ROWS = 400_000
"""More rows than this in all, and ranks whose node failed show their own state alone."""

Piece = tuple[str, float, float]
"""What, from when, to when, in seconds."""


class HistoryRecorder:
    """Keeps a history as it happens."""

    def __init__(self, plan: CampaignPlan) -> None:
        self._plan = plan
        self.job: list[Piece] = []
        self.nodes: dict[int, list[Piece]] = {}
        self.progress: list[tuple[float, float]] = [(0.0, 0.0)]

    def stage(self, kind: str, start: float, end: float, steps: float) -> None:
        """The job was in a stage; `done` steps at its end."""
        self.progress.append((end, steps))
        if end > start:
            self.job.append(("train" if kind == "run" else kind, start, end))

    def checkpoint(self, start: float, end: float) -> None:
        """The job stood for a checkpoint."""
        self.job.append(("checkpoint", start, end))

    def rolled_back(self, time: float, seconds: float) -> None:
        """What the job did in the last `seconds` is lost."""
        begin = time - seconds
        if seconds > 0:
            self.job.append(("lost steps", begin, time))

    def node(self, slot: int, kind: str, start: float, end: float) -> None:
        """A place was empty, or its node slow."""
        self.nodes.setdefault(slot, []).append((kind, start, end))


def history_run(job: CampaignJob, number: int = 0, seed: int = 0) -> Run:
    """History `number` of a campaign as a Run with times in nanoseconds."""
    plan = job.plan
    recorder = HistoryRecorder(plan)
    outcome = JobHistory(plan, f"{seed}/{number}", recorder).run()
    if outcome.seconds * NS >= 1 << 63:
        raise ConfigError(
            f"history {number} takes {outcome.seconds / DAY:,.0f} days; a timeline in nanoseconds holds "
            f"{(1 << 63) / NS / DAY:,.0f}: check repair and restart times, or leave out the timeline"
        )
    stages = _coarse(_one_at_a_time(recorder.job), MOST_ROWS // (1 + len(recorder.nodes)))
    full = len(stages) * (1 + len(recorder.nodes)) <= MOST_ROWS
    bodies = [_trace(stages, [("in service", 0.0, outcome.seconds)])]
    bindings = {slot: Binding(0) for slot in range(plan.nodes)}
    for slot, pieces in sorted(recorder.nodes.items()):
        job_stages = stages if full or slot == 0 else []
        bodies.append(_trace(job_stages, _in_service(pieces, outcome.seconds)))
        bindings[slot] = Binding(len(bodies) - 1)
    card = Card(
        name=job.name,
        tool=CAMPAIGN,
        settings={
            "history": number,
            "seed": seed,
            "nodes": plan.nodes,
            "spares": plan.spares,
            "recovery": plan.recovery.spelling,
            "step_seconds": plan.step_seconds,
            "checkpoint_interval_steps": None if plan.every == NEVER else plan.every,
        },
        measured={
            "seconds": outcome.seconds,
            "useful_seconds": outcome.useful,
            "steps": outcome.steps,
            "failures": sum(outcome.failures.values()),
            "restarts": outcome.restarts,
            "checkpoints": outcome.checkpoints,
        },
    )
    counters = {"progress": _progress(recorder), **_telemetry(job, recorder, outcome.seconds, seed)}
    return Run(bodies, bindings, None, card, counters=counters)


MOST_SAMPLES = 500_000
"""Nodes × samples of one table of telemetry, which has a row for each of six signals."""


def _telemetry(
    job: CampaignJob, recorder: HistoryRecorder, end: float, seed: int
) -> dict[str, pa.Table]:
    """What monitoring would have shown of a stretch of the history, where the job asks for it."""
    asked = job.telemetry
    if asked is None:
        return {}
    first, last = asked.hours[0] * 3600, min(asked.hours[1] * 3600, end)
    samples = int(max(last - first, 0.0) / asked.seconds)
    if not 0 < samples * job.plan.nodes <= MOST_SAMPLES:
        raise ConfigError(
            f"telemetry of {job.plan.nodes:,} nodes in {samples:,} samples; it has from 1 to "
            f"{MOST_SAMPLES:,} in all: choose other hours (the history has {end / 3600:,.1f}) or seconds"
        )
    incidents = []
    for node, pieces in sorted(recorder.nodes.items()):
        for state, start, stop in pieces:
            begin = start if state == "slow" else start - asked.ahead_minutes * 60
            kind, until = (asked.slow, stop) if state == "slow" else (asked.failure, start)
            inside = [int((t - first) / asked.seconds) for t in (begin, until)]
            if inside[1] > 0 and inside[0] < samples:
                incidents.append(Incident(node, kind, *inside))
    seen = telemetry(job.plan.nodes, samples, incidents, seed, asked.seconds)
    return {"telemetry": seen.series(first), "incidents": seen.labels(first)}


def _one_at_a_time(pieces: list[Piece]) -> list[Piece]:
    """What the job did in order of time: training outside of checkpoints, neither where steps were lost."""
    kinds: dict[str, list[Piece]] = {"lost steps": [], "checkpoint": [], "train": [], "": []}
    for piece in pieces:
        kinds[piece[0] if piece[0] in kinds else ""].append(piece)
    lost, others = kinds["lost steps"], kinds[""]
    checkpoints = _without(kinds["checkpoint"], lost)
    train = _without(_without(kinds["train"], lost), checkpoints)
    return sorted([*lost, *others, *checkpoints, *train], key=lambda piece: (piece[1], piece[2]))


def _without(pieces: list[Piece], others: list[Piece]) -> list[Piece]:
    """Pieces without what others cover."""
    out = []
    others = sorted(others, key=lambda piece: piece[1])
    begins = np.array([begin for _, begin, _ in others], np.float64)
    ends = np.array([end for _, _, end in others], np.float64)
    for name, start, end in pieces:
        for i in np.flatnonzero((ends > start) & (begins < end)).tolist():
            if begins[i] > start:
                out.append((name, start, float(begins[i])))
            start = max(start, float(ends[i]))
        if end > start:
            out.append((name, start, end))
    return out


def _coarse(stages: list[Piece], most: int) -> list[Piece]:
    """At most about so many stages: steps and checkpoints that follow each other are drawn as one of each."""
    if len(stages) <= most:
        return stages
    together = 2 * -(-len(stages) // max(most, 1))
    out: list[Piece] = []
    for begin in range(0, len(stages), together):
        run: list[Piece] = []
        for piece in stages[begin : begin + together]:
            if piece[0] in _RUNNING and (not run or run[-1][2] == piece[1]):
                run.append(piece)
                continue
            out += _as_two(run)
            run = [piece] if piece[0] in _RUNNING else []
            out += [piece] if piece[0] not in _RUNNING else []
        out += _as_two(run)
    return out


_RUNNING = ("train", "checkpoint")


def _as_two(run: list[Piece]) -> list[Piece]:
    """A run of steps and checkpoints without a break: all its steps, then all its checkpoints."""
    if len(run) < 3:
        return run
    border = run[0][1] + sum(end - start for name, start, end in run if name == "train")
    end = run[-1][2]
    return [("train", run[0][1], border), *([("checkpoint", border, end)] if end > border else [])]


def _in_service(pieces: list[Piece], end: float) -> list[Piece]:
    """The states of a place one after another; what is not said is service."""
    out, now = [], 0.0
    for kind, start, stop in sorted(pieces, key=lambda piece: piece[1]):
        start, stop = max(start, now), min(stop, end)
        if stop <= start:
            continue
        if start > now:
            out.append(("in service", now, start))
        out.append((kind, start, stop))
        now = stop
    if now < end:
        out.append(("in service", now, end))
    return out


def _trace(stages: list[Piece], states: list[Piece]) -> Trace:
    pieces = [*stages, *states]
    start = np.array([round(begin * NS) for _, begin, _ in pieces], np.int64)
    end = np.array([round(stop * NS) for _, _, stop in pieces], np.int64)
    columns: dict[str, Any] = {
        "name": [name for name, _, _ in pieces],
        "type": np.full(len(pieces), int(NodeType.COMP_NODE), np.int32),
        "start_time_micros": start // 1000,
        "duration_micros": (end - start) // 1000,
        "start_time_ns": start,
        "duration_ns": end - start,
        "is_cpu_op": np.zeros(len(pieces), np.bool_),
        "stream": np.repeat([0, 1], [len(stages), len(states)]).astype(np.int64),
    }
    return Trace.from_columns(columns)


def _progress(recorder: HistoryRecorder) -> pa.Table:
    """Steps done over time, at the ends of stages."""
    times, steps = zip(*recorder.progress, strict=True)
    return pa.table(
        {"time": np.rint(np.array(times) * NS).astype(np.int64), "steps": np.array(steps)}
    )
