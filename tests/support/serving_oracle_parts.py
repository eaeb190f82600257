"""Requests and engines of the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field

KINDS = (
    "arrival",
    "moved",
    "rank_fault",
    "rank_back",
    "resumed",
    "repaired",
    "scale",
    "ready",
    "source",
    "step",
)
"""What may happen, in the order in which it is taken at one time."""


@dataclass
class Job:
    """A request: what is asked for, and how far it is."""

    number: int
    at: int
    prompt: int
    output: int
    after: list[int]
    pieces: list[tuple[int, int]]
    kind: int = -1
    continues: int = -1
    engine: int = -1
    computed: int = 0
    generated: int = 0
    epoch: int = 0
    kept: bool = False
    coming: int = 0
    arrived: int = -1
    first: int = -1
    finish: int = -1


@dataclass
class Worker:
    """An engine: queue, requests that run, and the step it is in."""

    number: int
    role: str
    group: int
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    moving: list[Job] = field(default_factory=list)
    batch: list[tuple[Job, int, int]] | None = None
    end: int = -1
    free: int = 0
    down: bool = False
    on: str = "on"
    content: dict[int, int] = field(default_factory=dict)

    def load(self) -> int:
        return len(self.waiting) + len(self.running)

    def tokens(self) -> int:
        flying = {id(job): n for job, n, _ in self.batch or ()}
        held = sum(j.computed for j in self.moving)
        for j in self.running:
            begun = j.computed + flying.get(id(j), 0)
            held += max(begun, j.prompt + max(0, j.generated - 1))
        return held + sum(j.prompt + j.generated for j in self.waiting)
