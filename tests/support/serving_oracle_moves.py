"""The oracle with requests that end early, and caches that move from engine to engine."""

from __future__ import annotations

from support.serving_oracle import Oracle
from support.serving_oracle_parts import Job, Worker


class MovingOracle(Oracle):
    """`rules` has `place`, `exits`, `migrate` and `codec`, and says when a move ends."""

    def begin(self) -> None:
        self.unplaced: list[tuple[Job, int]] = []
        self.target: dict[int, int] = {}
        self.out_free, self.in_free = [0] * len(self.workers), [0] * len(self.workers)

    def ask_unplaced(self) -> None:
        placed, self.unplaced = self.unplaced, []
        for job, epoch in placed:
            if job.epoch == epoch:
                self.hand_over(job)

    def hand_over(self, job: Job) -> None:
        pick = self.rules.place(self, job, self.choice("decode"))
        if pick is None:
            self.unplaced.append((job, job.epoch))
        else:
            self.move(job, pick)

    def move(self, job: Job, target: int) -> None:
        start = max(self.now, self.out_free[job.engine], self.in_free[target])
        per_token, latency = self.rules.way(job.engine, target)
        end = self.rules.move_end(start, job.computed, self.rules.codec(job), per_token)
        self.out_free[job.engine] = self.in_free[target] = end
        self.target[job.number], job.coming = target, job.computed
        self.coming[target] += job.coming
        self.push(end + latency, "moved", job.number, job.epoch)

    def moved(self, number: int, epoch: int) -> None:
        job = self.jobs[number]
        self.coming[self.target[number]] -= job.coming
        job.coming = 0
        if job.epoch != epoch:
            return
        source, target = self.workers[job.engine], self.workers[self.target[number]]
        source.moving.remove(job)
        self.touched.add(source.group)
        if target.down:
            job.computed = 0
            self.push(self.now, "arrival", number)
        else:
            job.kept = True
            self.enter(job, target)

    def after_step(self, worker: Worker, batch: list[tuple[Job, int, int]]) -> None:
        got = [job for job, _, gives in batch if gives and job in worker.running]
        for job in [j for j in got if self.rules.exits(j)]:
            worker.running.remove(job)
            job.epoch += 1
            self.ended(job)
        for job, target in self.rules.migrate(self, worker):
            worker.running.remove(job)
            worker.moving.append(job)
            job.epoch += 1
            self.move(job, target)
