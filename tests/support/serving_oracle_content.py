"""The oracle with content that is found wherever it stands in a prompt."""

from __future__ import annotations

from support.serving_oracle import Oracle
from support.serving_oracle_parts import Job, Worker


class ContentOracle(Oracle):
    """`rules.room` tokens of content for each engine, on one engine or spread over `rules.shards`."""

    def cached(self, job: Job, worker: Worker) -> tuple[int, int, int]:
        if job.generated:
            return 0, 0, 0
        found, sent = self.known(job, worker)
        return min(found - self.rules.again(found), job.prompt - 1), found, sent

    def keep(self, job: Job, worker: Worker) -> None:
        for number, size in job.pieces:
            store = self.store(number, worker)
            if size <= self.rules.room:
                store[number] = store.pop(number, size)
            while sum(store.values()) > self.rules.room:
                del store[next(iter(store))]

    def store(self, number: int, worker: Worker) -> dict[int, int]:
        shards = self.rules.shards
        return (worker if shards <= 1 else self.workers[number % shards]).content

    def known(self, job: Job, worker: Worker) -> tuple[int, int]:
        here = [(n, size) for n, size in job.pieces if n in self.store(n, worker)]
        away = [size for n, size in here if self.store(n, worker) is not worker.content]
        return sum(size for _, size in here), sum(away)
