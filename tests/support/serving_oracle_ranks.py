"""The oracle with ranks of engines that fail alone."""

from __future__ import annotations

from support.serving_oracle import Oracle


class RankOracle(Oracle):
    """`rules.rank_faults` says when."""

    def begin(self) -> None:
        for i, fault in enumerate(self.rules.rank_faults):
            self.push(fault.at, "rank_fault", i)

    def rank_fault(self, which: int, _epoch: int) -> None:
        fault = self.rules.rank_faults[which]
        lost = self.workers[fault.engine]
        if lost.down:
            return
        lost.down = True
        self.paused[lost.group] = max(self.paused[lost.group], self.now + fault.pause)
        for job in (*lost.running, *lost.waiting, *lost.moving):
            job.computed, job.kept = 0, False
            job.epoch += 1
            self.push(self.now, "arrival", job.number)
        lost.running, lost.waiting, lost.moving, lost.content = [], [], [], {}
        for worker in (w for w in self.workers if w.group == lost.group):
            worker.batch = None
            if not worker.down:
                worker.free = self.paused[lost.group]
        lost.free = self.now
        self.push(self.paused[lost.group], "resumed", lost.group)
        if fault.away:
            self.push(self.now + fault.away, "rank_back", which)

    def rank_back(self, which: int, _epoch: int) -> None:
        fault = self.rules.rank_faults[which]
        group = self.workers[fault.engine].group
        self.paused[group] = max(self.paused[group], self.now + fault.back_pause)
        self.push(self.paused[group], "repaired", fault.engine)

    def resumed(self, group: int, _epoch: int) -> None:
        self.touched.add(group)

    def repaired(self, number: int, _epoch: int) -> None:
        self.workers[number].down = False
        self.touched.add(self.workers[number].group)
