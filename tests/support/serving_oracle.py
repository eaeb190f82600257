"""A second simulator of clusters, in plain Python: the core's rules, written again from their description.

Engines form steps of running requests first, then of waiting ones, within a budget of tokens; blocks never
run short. All that happens at one time is taken by kind, then in the order in which it was announced.
"""

from __future__ import annotations

import heapq
from typing import Any

from support.serving_oracle_parts import KINDS, Job, Worker


class Oracle:
    """One run. `rules` has the functions and sizes that both simulators are given."""

    def __init__(self, jobs: list[Job], workers: list[Worker], rules: Any) -> None:
        self.jobs, self.workers, self.rules = jobs, workers, rules
        self.now = self.order = self.opened = 0
        self.of_stream = len(jobs)
        self.events: list[tuple[int, int, int, int, int]] = []
        self.held: list[Job] = []
        self.coming = [0] * len(workers)
        groups = 1 + max(w.group for w in workers)
        self.paused, self.touched, self.changed = [0] * groups, set[int](), False
        self.left = {j.number: len(j.after) for j in jobs if j.after}

    def begin(self) -> None:
        """What is announced before anything happens."""

    def push(self, at: int, kind: str, what: int, epoch: int = 0) -> None:
        heapq.heappush(self.events, (at, KINDS.index(kind), self.order, what, epoch))
        self.order += 1

    def announce(self) -> None:
        """The next request that waits for no other."""
        while self.opened < self.of_stream and self.jobs[self.opened].after:
            self.opened += 1
        if self.opened < self.of_stream:
            job = self.jobs[self.opened]
            self.opened += 1
            self.push(max(job.at, self.now), "arrival", job.number, -1)

    def run(self) -> list[Job]:
        self.begin()
        self.announce()
        while self.events and any(j.finish < 0 for j in self.jobs):
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, kind, _, what, epoch = heapq.heappop(self.events)
                getattr(self, KINDS[kind])(what, epoch)
            self.ask_source()
            if self.changed or self.touched:
                self.ask_held()
            for group in sorted(self.touched):
                self.form(group)
            self.touched.clear()
        return self.jobs

    # --- requests -------------------------------------------------------------------------------

    def arrival(self, number: int, epoch: int) -> None:
        if epoch < 0:
            self.announce()
        job = self.jobs[number]
        job.arrived = self.now if job.arrived < 0 else job.arrived
        self.send(job)

    def choice(self, *roles: str) -> list[Worker]:
        return [w for w in self.workers if w.role in roles and not w.down and w.on == "on"]

    def send(self, job: Job) -> None:
        pick = self.rules.route(self, job, self.choice("whole", "prefill"))
        if pick is None:
            self.held.append(job)
        else:
            self.enter(job, self.workers[pick])

    def enter(self, job: Job, worker: Worker) -> None:
        job.engine = worker.number
        worker.waiting.append(job)
        self.touched.add(worker.group)

    def ask_held(self) -> None:
        self.changed = False
        queue, self.held = self.held, []
        for job in queue:
            self.send(job)
        self.ask_unplaced()

    def ended(self, job: Job) -> None:
        job.finish = self.now
        for other in self.jobs:
            if job.number in other.after:
                self.left[other.number] -= other.after.count(job.number)
                if self.left[other.number] == 0:
                    self.push(self.now + other.at, "arrival", other.number)

    # --- steps ----------------------------------------------------------------------------------

    def form(self, group: int) -> None:
        ranks = [w for w in self.workers if w.group == group]
        alive = [w for w in ranks if not w.down]
        idle = alive and all(w.batch is None for w in alive) and self.paused[group] <= self.now
        if idle and ranks[0].on != "closing":
            batches = [self.batch(w) for w in alive]
            tokens = [sum(n for _, n, _ in b) for b, _, _ in batches]
            if sum(tokens):
                slowest = max(self.rules.cost(b) for b, _, _ in batches if b)
                slowest += self.rules.shared(sum(tokens), len(alive), len(ranks))
                rotated, fetched = (max(b[i] for b in batches) for i in (1, 2))
                slowest += self.rules.content(rotated, fetched)
                slowest += self.brought(alive)
                for worker, (batch, _, _) in zip(alive, batches, strict=True):
                    worker.batch, worker.end = batch, max(self.now, worker.free) + slowest
                    worker.free = worker.end
                    self.push(worker.end, "step", worker.number)

    def batch(self, worker: Worker) -> tuple[list[tuple[Job, int, int]], int, int]:
        """Requests with their tokens and the output that comes of them; content put in place, and fetched."""
        batch: list[tuple[Job, int, int]] = []
        budget, rotated, fetched = self.rules.budget, 0, 0
        for job in worker.running:
            if budget > 0:
                budget -= self.piece(batch, job, budget, worker)
        while worker.waiting and budget > 0 and len(worker.running) < self.rules.most:
            job = worker.waiting.pop(0)
            if not job.kept:
                job.computed, found, sent = self.cached(job, worker)
                rotated, fetched = rotated + found, fetched + sent
            job.kept = False
            worker.running.append(job)
            budget -= self.piece(batch, job, budget, worker)
        return batch, rotated, fetched

    def piece(
        self, batch: list[tuple[Job, int, int]], job: Job, budget: int, worker: Worker
    ) -> int:
        want = job.prompt + job.generated - job.computed
        tokens = min(want, budget)
        gives = int(tokens == want)
        if gives and not (job.generated > 0 and want == 1):
            self.keep(job, worker)
        batch.append((job, tokens, gives))
        return tokens

    def ask_source(self) -> None:
        """A source may have more, of requests that have ended."""

    def ask_unplaced(self) -> None:
        """Prefilled requests may find an engine now."""

    def hand_over(self, job: Job) -> None:
        """A request on a prefill engine has its first token."""

    def after_step(self, worker: Worker, batch: list[tuple[Job, int, int]]) -> None:
        """Requests of a step may end or leave."""

    def cached(self, job: Job, worker: Worker) -> tuple[int, int, int]:
        """Tokens that need not be computed; content put in place, and fetched."""
        return 0, 0, 0

    def keep(self, job: Job, worker: Worker) -> None:
        """The prompt is through."""

    def brought(self, workers: list[Worker]) -> int:
        """What a step waits for that comes from other tiers."""
        return 0

    def vacated(self, worker: Worker) -> None:
        """Nobody is in a step of an engine that closes."""

    def step(self, number: int, _epoch: int) -> None:
        worker = self.workers[number]
        if worker.batch is None or worker.end != self.now:
            return
        batch, worker.batch = worker.batch, None
        gave, handed = [], []
        for job, tokens, gives in batch:
            job.computed += tokens
            if not gives:
                continue
            job.first = self.now if job.first < 0 else job.first
            job.generated += 1
            if job.generated >= job.output:
                worker.running.remove(job)
                gave.append(job)
            elif worker.role == "prefill":
                worker.running.remove(job)
                worker.moving.append(job)
                handed.append(job)
        for job in gave:
            self.ended(job)
        for job in handed:
            self.hand_over(job)
        self.after_step(worker, batch)
        if worker.on == "closing":
            self.vacated(worker)
        self.touched.add(worker.group)
