"""What each link carries over time.

Where transfers share links, their rates change whenever one begins or ends. Nobody writes these down while a
simulation runs: once somebody asks, its jobs run again on the network alone, from when they started. Where
transfers do not share links, the bytes of each job are spread over the time that it took.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chakrakit import core
from chakrakit.arrays import F64, I64
from chakrakit.machines.device import PICO
from chakrakit.machines.fabric import Routes
from chakrakit.simulator.engine.plans import FIGURES

_PARTS = 500
"""Parts of a run at the most: as many as half of a screen has pixels."""
_FEWEST = 16
"""With fewer parts than this, a history says no more than the sum over the run."""
_WORK = 20_000_000
"""Additions that a history may cost: a fifth of a second."""
JOBS = (
    "job_plan",
    "job_priority",
    "job_weight",
    "fault_time",
    "fault_is_link",
    "fault_target",
    "fault_factor",
)
"""What has to be known of a workload to run its jobs again on the network alone."""
_CROSSINGS = 100_000_000
"""Crossings of links by transfers that may run again: a second at the most where few of them share links."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """The plans that ran, over which links, and when."""

    plans: Mapping[str, Any]
    topology: Mapping[str, Any]
    routes: Routes
    jobs: Mapping[str, Any]
    """The columns of the workload that `JOBS` names."""
    arrays: Mapping[str, Any]
    shared: bool
    """Whether transfers share links, as they do in the `flow` network."""

    @property
    def links(self) -> int:
        """The number of links of the machine."""
        return len(self.topology["bandwidth"])

    def parts(self, most: int) -> int:
        """The number of equal parts that `rates` can tell apart in a short time; 0 if that is too few."""
        hops = max(int(np.diff(self.routes.offsets).max(initial=0)), 1)
        if self.shared:
            each = np.diff(self.plans["step_transfers"][self.plans["plan_steps"]])
            runs = self.arrays["job_runs"][: len(each)]
            parts = min(_PARTS, most) if int((each * runs).sum()) * hops <= _CROSSINGS else 0
        else:
            work = len(self._jobs[0]) + len(self.plans["route"]) * hops
            parts = min(_PARTS, most, _WORK // max(work, 1))
        return parts if parts >= _FEWEST else 0

    def rates(self, borders: I64) -> F64:
        """Mean bytes per second of each link (rows) between each two borders, in picoseconds (columns)."""
        carried = self._shared(borders) if self.shared else self._spread(borders)
        return carried / (np.diff(borders) * PICO)

    def _shared(self, borders: I64) -> F64:
        """The bytes by link and part, of transfers that share links."""
        work = self.jobs
        of_links = np.flatnonzero(work["fault_is_link"])
        carried = core.sim_link_history(
            core.SimPlans(**{k: v for k, v in self.plans.items() if k not in FIGURES}),
            core.SimTopology(**self.topology),
            payload=self.plans["payload"],
            job_plan=work["job_plan"],
            job_started=self.arrays["job_started"],
            job_priority=work["job_priority"],
            job_weight=work["job_weight"],
            fault_time=work["fault_time"][of_links],
            fault_target=work["fault_target"][of_links],
            fault_factor=work["fault_factor"][of_links],
            borders=borders,
        )
        return carried.reshape(self.links, len(borders) - 1)

    def _spread(self, borders: I64) -> F64:
        """The bytes by link and part, each job's spread over its time."""
        plan, began, ended = self._jobs
        of_plan, link, size = self._crossings
        length = np.maximum(ended - began, 1)
        out = np.zeros((self.links, len(borders) - 1))
        for number, (low, high) in enumerate(itertools.pairwise(borders)):
            inside = np.minimum(began + length, high) - np.maximum(began, low)
            share = np.maximum(inside, 0) / length
            ran = np.bincount(plan, share, minlength=len(self.plans["plan_steps"]) - 1)
            out[:, number] = np.bincount(link, size * ran[of_plan], minlength=self.links)
        return out

    @cached_property
    def _jobs(self) -> tuple[I64, I64, I64]:
        """Of every job that ended: its plan, and from when to when it ran."""
        plan = np.asarray(self.jobs["job_plan"], np.int64)
        began, ended = self.arrays["job_started"], self.arrays["job_ended"]
        done = ended >= 0
        return plan[done], began[done], ended[done]

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
