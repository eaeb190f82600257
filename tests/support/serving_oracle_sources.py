"""The oracle for requests that a source makes of what has ended, and that continue the cache of others."""

from __future__ import annotations

from typing import Any

from support.serving_oracle import Oracle
from support.serving_oracle_parts import Job, Worker

BLOCK = 16


class SourceOracle(Oracle):
    """Blocks are found as soon as they have been scheduled; a source is asked when requests have ended."""

    def __init__(self, jobs: list[Job], workers: list[Worker], rules: Any) -> None:
        super().__init__(jobs, workers, rules)
        self.ended_now: list[int] = []
        self.named: dict[int, set[tuple[int, int]]] = {w.number: set() for w in workers}

    def begin(self) -> None:
        self.push(0, "source", 0)

    def source(self, _what: int, _epoch: int) -> None:
        self.ask()

    def ask_source(self) -> None:
        if self.ended_now:
            self.ask()

    def ask(self) -> None:
        """New requests follow those that are there, and come at a time or after others."""
        ended, self.ended_now = self.ended_now, []
        for one in self.rules.more(self.now, ended, len(self.jobs)):
            job = Job(len(self.jobs), one.at, one.prompt, one.output, list(one.after), [])
            job.continues = one.continues
            self.jobs.append(job)
            if not job.after:
                self.push(max(self.now, job.at), "arrival", job.number)
                continue
            ends = [self.jobs[parent].finish for parent in job.after]
            self.left[job.number] = sum(end < 0 for end in ends)
            if not self.left[job.number]:
                self.push(max(self.now, max(ends) + job.at), "arrival", job.number)

    def ended(self, job: Job) -> None:
        super().ended(job)
        self.ended_now.append(job.number)

    def key(self, job: Job, block: int) -> tuple[int, int]:
        """A block belongs to the earliest request whose prompt and output have its last token."""
        last = (block + 1) * BLOCK - 1
        while job.continues >= 0:
            parent = self.jobs[job.continues]
            if last >= parent.prompt + parent.output:
                break
            job = parent
        return job.number, last

    def cached(self, job: Job, worker: Worker) -> tuple[int, int, int]:
        most, found = (job.prompt + job.generated - 1) // BLOCK, 0
        while found < most and self.key(job, found) in self.named[worker.number]:
            found += 1
        return found * BLOCK, 0, 0

    def piece(
        self, batch: list[tuple[Job, int, int]], job: Job, budget: int, worker: Worker
    ) -> int:
        tokens = super().piece(batch, job, budget, worker)
        upto = (job.computed + tokens) // BLOCK
        self.named[worker.number] |= {self.key(job, b) for b in range(job.computed // BLOCK, upto)}
        return tokens
