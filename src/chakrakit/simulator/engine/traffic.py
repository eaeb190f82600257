"""What each link carries over time: the bytes of every transfer plan, spread over the time that it took."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.machines.device import PICO
from chakrakit.machines.fabric import Routes
from chakrakit.simulator.engine.instances import Instances

_PARTS = 500
"""Parts of a run at the most: as many as half of a screen has pixels."""
_FEWEST = 16
"""With fewer parts than this, a history says no more than the sum over the run."""
_WORK = 20_000_000
"""Additions that a history may cost: a fifth of a second."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """The plans that ran, over which routes, and when."""

    plans: Mapping[str, Any]
    routes: Routes
    instances: Instances
    arrays: Mapping[str, Any]
    links: int

    def parts(self, most: int) -> int:
        """The number of equal parts that `rates` can tell apart in a short time; 0 if that is too few."""
        work = len(self._jobs[0]) + len(self.plans["route"]) * self._hops
        parts = min(_PARTS, most, _WORK // max(work, 1))
        return parts if parts >= _FEWEST else 0

    def rates(self, borders: F64) -> F64:
        """Mean bytes per second of each link (columns) between each two borders, in picoseconds (rows)."""
        plan, began, ended = self._jobs
        of_plan, link, size = self._crossings
        length = np.maximum(ended - began, 1)
        out = np.zeros((len(borders) - 1, self.links))
        for number, (low, high) in enumerate(itertools.pairwise(borders)):
            inside = np.minimum(began + length, high) - np.maximum(began, low)
            share = np.maximum(inside, 0) / length
            ran = np.bincount(plan, share, minlength=len(self.plans["plan_steps"]) - 1)
            moved = np.bincount(link, size * ran[of_plan], minlength=self.links)
            out[number] = moved / ((high - low) * PICO)
        return out

    @cached_property
    def _jobs(self) -> tuple[I64, I64, I64]:
        """Of every job that ended: its plan, and from when to when it ran."""
        jobs = self.instances.jobs
        counts = [len(each) for each in jobs]
        plan = np.concatenate([*jobs, np.zeros(0, np.int64)]).astype(np.int64)
        began = np.repeat(self.arrays["began"][: len(counts)], counts)
        ended = self.arrays["job_ended"][: len(plan)]
        done = ended >= 0
        return plan[done], began[done], ended[done]

    @property
    def _hops(self) -> int:
        return max(int(np.diff(self.routes.offsets).max(initial=0)), 1)

    @cached_property
    def _crossings(self) -> tuple[I64, I64, F64]:
        """Plan, link and bytes, once for each link that a plan uses."""
        plans = self.plans
        steps = np.diff(plans["plan_steps"])
        per_step = np.diff(plans["step_transfers"])
        plan = np.repeat(np.repeat(np.arange(len(steps)), steps), per_step)
        size = np.repeat(plans["repeat"], per_step) * plans["payload"]
        first = self.routes.offsets[:-1][plans["route"]]
        hops = np.diff(self.routes.offsets)[plans["route"]]
        nth = np.arange(int(hops.sum())) - np.repeat(np.cumsum(hops) - hops, hops)
        link = self.routes.links[np.repeat(first, hops) + nth]
        key, where = np.unique(np.repeat(plan, hops) * self.links + link, return_inverse=True)
        total = np.bincount(where, np.repeat(size, hops), minlength=len(key))
        return key // max(self.links, 1), key % max(self.links, 1), total.astype(np.float64)
