"""Waits and communication: a trace's own schedule in real time, with a real network.

Every node has a moment at which it starts and one at which it ends, on one clock. Those of compute
follow from what it waits for, and nothing is done but arithmetic. A communication is issued when its
moment has come, in the recorded order of its group; its end is when it really ended.
"""

from __future__ import annotations

import heapq
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .collectives import MESSAGES, issue
from .groups import end_groups, start_groups
from .guard import MemoryBudget
from .limits import LONGEST_NS, ReplayError, blamed
from .measure import checked_budget, choose_device, close_walls
from .spin import wait_until

_WAITERS = 64
"""Exchanges that are waited for at the same time, a thread each. Assumed to be enough."""
FINISH_START, START_START, FINISH_FINISH = 0, 1, 2


def run_emulation(
    plan: dict[str, Any], settings: dict[str, Any], out: Path | None
) -> dict[str, Any]:
    """Emulate one rank; gives what was measured, with the times of the last iteration."""
    with blamed("the plan cannot be emulated"):
        return _emulated(plan, settings)


def _emulated(plan: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    import torch

    device = choose_device(torch, plan)
    budget = checked_budget(torch, plan, device)
    groups = start_groups(torch, plan, settings["timeout_s"])
    close_walls(plan, settings, budget, joined=bool(groups))
    try:
        return _Emulation(torch, plan, device, groups, settings, budget).result()
    finally:
        end_groups(torch)


class _Emulation:
    """One rank: its nodes, what each waits for, and the buffers all communication shares."""

    def __init__(
        self,
        torch: Any,
        plan: dict[str, Any],
        device: str,
        groups: list[Any],
        settings: dict[str, Any],
        budget: MemoryBudget,
    ) -> None:
        self.torch, self.plan, self.groups, self.settings = torch, plan, groups, settings
        self.budget = budget
        self.nodes = len(plan["durations"])
        self.exchanges = {int(k): v for k, v in plan["communication"].items()}
        self.followers: list[list[int]] = [[] for _ in range(self.nodes)]
        for node, waits in enumerate(plan["waits"]):
            for cause in {w[0] for w in waits}:
                self.followers[cause].append(node)
        self.calls = {
            node: self._prepare(exchange, device)
            for node, exchange in self.exchanges.items()
            if exchange["group"] >= 0
        }
        self.waiters = ThreadPoolExecutor(_WAITERS)

    def _prepare(self, exchange: dict[str, Any], device: str) -> Any:
        """The communication with its buffers: all share two, since nobody reads what arrives."""
        sides = [exchange.get("input", 0), exchange.get("output", 0)]
        splits = [*exchange.get("in_splits", []), *exchange.get("out_splits", [])]
        wide = all(n % 4 == 0 for n in (*sides, *splits))
        dtype = self.torch.float32 if wide else self.torch.uint8
        width = 4 if wide else 1
        shared = [self._buffer(i, n, device).view(dtype)[: n // width] for i, n in enumerate(sides)]
        step = dict(exchange)
        for side in ("in_splits", "out_splits"):
            step[side] = [n // width for n in exchange.get(side, [])]
        inputs, outputs = [shared[0]], [shared[1]]
        return self.groups[exchange["group"]], step, inputs, outputs

    def _buffer(self, side: int, size: int, device: str) -> Any:
        if not hasattr(self, "_shared"):
            sides = ("input", "output")
            most = [max((e.get(s, 0) for e in self.exchanges.values()), default=0) for s in sides]
            self.budget.ask(device, sum(most))
            self._shared = [
                self.torch.zeros(-(-n // 4) * 4 + 4, dtype=self.torch.uint8, device=device)
                for n in most
            ]
        found = self._shared[side]
        return found[: -(-size // 4) * 4]

    def result(self) -> dict[str, Any]:
        steps, cpu, times = [], [], ([0], [0], 0)
        total = self.settings["warmup"] + self.settings["iterations"]
        for i in range(total):
            self._together()
            used = time.process_time_ns()
            times = _Iteration(self).run()
            if i >= self.settings["warmup"]:
                steps.append(max(times[1], default=0))
                cpu.append(time.process_time_ns() - used)
        self.waiters.shutdown(wait=False)
        return {
            "rank": self.plan["rank"],
            "steps_ns": steps,
            "host_ns": steps,
            "cpu_ns": cpu,
            "kernel_ns": 0,
            "not_covered": [],
            "torch": self.torch.__version__,
            "start": times[0],
            "end": times[1],
            "epoch_ns": times[2],
        }

    def _together(self) -> None:
        if self.torch.distributed.is_available() and self.torch.distributed.is_initialized():
            self.torch.distributed.barrier()


class _Iteration:
    """One pass over the nodes. Times are nanoseconds since it began."""

    def __init__(self, emulation: _Emulation) -> None:
        self.what = emulation
        plan = emulation.plan
        self.durations, self.release = plan["durations"], plan["release"]
        self.lanes, self.waits = plan["lanes"], plan["waits"]
        self.start: list[int] = [-1] * emulation.nodes
        self.end: list[int] = [-1] * emulation.nodes
        self.missing = [len(w) for w in self.waits]
        self.free: dict[int, int] = {}
        self.ready: list[tuple[int, int]] = []
        self.due: list[tuple[int, int]] = []
        self.finished: queue.SimpleQueue[tuple[int, int, BaseException | None]] = (
            queue.SimpleQueue()
        )
        self.turn = _turns(plan["order"], emulation.exchanges)
        self.flying = 0

    def run(self) -> tuple[list[int], list[int], int]:
        """All nodes; gives starts, ends and when it began."""
        self.began = time.perf_counter_ns()
        for node, missing in enumerate(self.missing):
            if not missing:
                self._ready(node)
        while True:
            self._run_ready()
            if self._issue_next():
                continue
            if not self.flying:
                break
            self._land(None)
        left = next((n for n, e in enumerate(self.end) if e < 0), None)
        if left is not None:
            raise ReplayError(f"node {left} never became ready: communication in another order?")
        return self.start, self.end, self.began

    def _ready(self, node: int) -> None:
        heapq.heappush(self.ready, (self._earliest(node), node))

    def _earliest(self, node: int) -> int:
        moment = self.release[node]
        for cause, form, lag in self.waits[node]:
            if form == FINISH_START:
                moment = max(moment, self.end[cause] + lag)
            elif form == START_START:
                moment = max(moment, self.start[cause] + lag)
        return int(moment)

    def _run_ready(self) -> None:
        """Nodes whose causes are known, earliest first; communication waits for its moment."""
        while self.ready:
            moment, node = heapq.heappop(self.ready)
            if node in self.what.calls:
                heapq.heappush(self.due, (moment, node))
                continue
            lane = self.lanes[node]
            moment = max(moment, self.free.get(lane, 0)) if lane >= 0 else moment
            end = moment + self.durations[node]
            for cause, form, lag in self.waits[node]:
                if form == FINISH_FINISH:
                    end = max(end, self.end[cause] + lag)
            if lane >= 0:
                self.free[lane] = end
            self.start[node], self.end[node] = moment, end
            self._follow(node, started=True, ended=True)

    def _follow(self, node: int, *, started: bool, ended: bool) -> None:
        for follower in self.what.followers[node]:
            for cause, form, _ in self.waits[follower]:
                if cause == node and (started if form == START_START else ended):
                    self.missing[follower] -= 1
                    if not self.missing[follower]:
                        self._ready(follower)

    def _issue_next(self) -> bool:
        """Issue the earliest communication whose turn it is; False if there is none."""
        held: list[tuple[int, int]] = []
        while self.due:
            moment, node = heapq.heappop(self.due)
            if self.turn[node][0] == node:
                for other in held:
                    heapq.heappush(self.due, other)
                return self._issue(moment, node)
            held.append((moment, node))
        self.due = held
        heapq.heapify(self.due)
        return False

    def _issue(self, moment: int, node: int) -> bool:
        """Wait for its moment, or for an end that comes first and may bring something earlier."""
        if moment > LONGEST_NS:
            raise ReplayError(
                f"node {node} begins after {moment / 1e9:,.0f} s; an hour is the most"
            )
        left = self.began + moment - time.perf_counter_ns()
        if left > 0 and self.flying:
            heapq.heappush(self.due, (moment, node))
            if self._land(left):
                return True
            heapq.heappop(self.due)
        wait_until(self.began + moment)
        self.turn[node].pop(0)
        group, step, inputs, outputs = self.what.calls[node]
        self.start[node] = max(moment, time.perf_counter_ns() - self.began)
        work = issue(group, step, inputs, outputs)
        self.flying += 1
        self.what.waiters.submit(self._watch, node, work)
        self._follow(node, started=True, ended=False)
        return True

    def _watch(self, node: int, work: Any) -> None:
        """In a thread of its own: until the communication is over."""
        problem: BaseException | None = None
        try:
            if work is not None:
                work.wait()
        except BaseException as error:
            problem = error
        self.finished.put((node, time.perf_counter_ns(), problem))

    def _land(self, timeout_ns: int | None) -> bool:
        """Take in the next end; False if none came in time."""
        try:
            limit = None if timeout_ns is None else timeout_ns / 1e9
            node, when, problem = self.finished.get(timeout=limit)
        except queue.Empty:
            return False
        if problem is not None:
            raise ReplayError(f"communication of node {node} failed: {problem}")
        self.flying -= 1
        self.end[node] = max(when - self.began, self.start[node])
        self._follow(node, started=False, ended=True)
        return True


def _turns(order: list[int], exchanges: dict[int, Any]) -> dict[int, list[int]]:
    """Node → the queue it stands in: a group's collectives, or messages with one peer and tag."""
    queues: dict[tuple[Any, ...], list[int]] = {}
    out = {}
    for node in order:
        exchange = exchanges[node]
        ends = (exchange["op"], exchange.get("root", 0), exchange.get("tag", 0))
        peer = ends if exchange["op"] in MESSAGES else ()
        mine = queues.setdefault((exchange["group"], *peer), [])
        mine.append(node)
        out[node] = mine
    return out
