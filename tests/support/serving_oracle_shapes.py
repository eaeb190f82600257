"""The oracle with engines that take over the devices of others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from support.serving_oracle import Oracle
from support.serving_oracle_parts import Worker


class ShapeOracle(Oracle):
    """`rules.pairs` share devices, and `rules.plan(now)` says which engines are on."""

    def begin(self) -> None:
        self.opening, self.turn = set[int](), Counter[int]()
        self.carried: list[list[Any]] = []  # request, whence, and whither where that is known
        for worker in self.workers:
            worker.on = "off" if any(o < worker.number for o in self.shares(worker)) else "on"
        self.push(0, "scale", 0)

    def shares(self, worker: Worker) -> list[int]:
        return [a + b - worker.number for a, b in self.rules.pairs if worker.number in (a, b)]

    def scale(self, _what: int, _epoch: int) -> None:
        wanted = self.rules.plan(self.now)
        for worker in self.workers:
            gives = any(o in wanted for o in self.shares(worker))
            if worker.number in wanted:
                self.want(worker)
            elif worker.on in ("on", "starting") or (worker.on == "off" and gives):
                self.let_go(worker, gives)
        for one in list(self.carried):
            one[2] = one[2] if one[2] in wanted else None
            if not self.reached(one[1], wanted):
                self.carried.remove(one)
                one[0].computed = 0
                self.push(self.now, "arrival", one[0].number)
        self.open_where_free()
        self.push(self.now + self.rules.interval, "scale", 0)

    def want(self, worker: Worker) -> None:
        if worker.on == "closing":
            worker.on, self.changed = "on", True
        elif worker.on == "off":
            self.turn[worker.number] += 1
            free = worker.load() or not self.now
            worker.on, self.changed = ("on", True) if free else ("starting", self.changed)

    def let_go(self, worker: Worker, gives: bool) -> None:
        self.turn[worker.number] += worker.on != "off"
        self.opening.discard(worker.number)
        leaves = gives and (worker.load() or worker.batch is not None)
        worker.on = "closing" if leaves else "off"
        if leaves and worker.batch is None:
            self.vacated(worker)

    def reached(self, source: int, wanted: list[int]) -> bool:
        return source in wanted or any(o in wanted for o in self.shares(self.workers[source]))

    def had(self, worker: Worker, source: int) -> bool:
        return source == worker.number or source in self.shares(worker)

    def vacated(self, worker: Worker) -> None:
        for job in worker.waiting:
            job.computed, job.kept = 0, False
            self.push(self.now, "arrival", job.number)
        for job in worker.running:
            job.epoch += 1
            self.carried.append([job, worker.number, None])
        worker.waiting, worker.running, worker.on = [], [], "off"
        self.open_where_free()

    def open_where_free(self) -> None:
        turns = Counter[int]()
        for one in (c for c in self.carried if c[2] is None):
            heirs = [w for w in self.workers if w.on in ("on", "starting") and self.had(w, one[1])]
            if heirs:
                one[2] = heirs[turns[one[1]] % len(heirs)].number
                turns[one[1]] += 1
        for worker in self.workers:
            others = [self.workers[o] for o in self.shares(worker)]
            busy = any(o.on != "off" or o.load() for o in others)
            if worker.on == "starting" and worker.number not in self.opening and not busy:
                self.opening.add(worker.number)
                kept = sum(j.computed for j, _, heir in self.carried if heir == worker.number)
                self.push(
                    self.now + self.rules.open(worker.number, kept),
                    "ready",
                    worker.number,
                    self.turn[worker.number],
                )

    def ready(self, number: int, turn: int) -> None:
        worker = self.workers[number]
        if turn != self.turn[worker.number]:
            return
        worker.on, self.changed = "on", True
        self.opening.discard(number)
        mine = [j for j, _, heir in self.carried if heir == number]
        self.carried = [c for c in self.carried if c[2] != number]
        for job in mine:
            job.kept = job.computed > 0
            self.enter(job, worker)
        self.touched.add(worker.group)
