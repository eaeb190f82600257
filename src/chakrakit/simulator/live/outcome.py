"""What came of a world: figures, what programs returned, and a Run with an actor as each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

import chakrakit.core as core
from chakrakit.arrays import F64
from chakrakit.machines.device import PS_PER_S
from chakrakit.machines.fabric import Machine, Routes
from chakrakit.results import Facts, Result
from chakrakit.simulator.engine import link_bytes
from chakrakit.simulator.live.cast import Cast
from chakrakit.simulator.live.energy import energy_of
from chakrakit.simulator.live.recorded import recorded_run
from chakrakit.simulator.live.scores import rows_of
from chakrakit.simulator.live.stuck import SEND
from chakrakit.trace.sets import Card, Run, Times, run_of


class PoolSummary(Result, msgspec.Struct, kw_only=True, frozen=True):
    """What a pool did."""

    name: str
    width: int
    discipline: str
    uses: int
    refused: int
    """Tasks that came when places and line were full."""
    changes: int
    """Uses that had to make their item resident first."""
    busy_share: float
    """Of its places and the whole run."""
    mean_wait_ns: float
    longest_wait_ns: float


class LiveSummary(Result, msgspec.Struct, kw_only=True, frozen=True):
    """What came of programs on a machine."""

    machine: str
    end_ns: float
    actors: int
    verbs: int
    messages: int
    """Sent, as far as they were recorded."""
    message_bytes: float
    link_bytes: float
    """Over all links of the network."""
    events: int
    energy_joules: float | None
    """Of all devices, by the rules of `simulate`."""
    energy_unknown: str
    """Why `energy_joules` is not known; "" where it is."""
    pools: list[PoolSummary]
    faults: list[str]
    """Faults of actors that had an effect."""
    returned: dict[str, Any] = {}
    """What programs of actors returned, where they did; what JSON has no form for, as text."""


@dataclass(frozen=True, eq=False, repr=False)
class LiveResult(Facts):
    """A finished run of programs: the summary at once, the Run when it is asked for."""

    summary: LiveSummary
    returned: dict[str, Any]
    """What each actor's program returned."""
    links: dict[str, Any] = field(repr=False)
    _cast: Cast = field(repr=False)
    _records: dict[str, Any] = field(repr=False)
    _plays: Sequence[Any] = field(repr=False)

    @property
    def end_ns(self) -> float:
        """When the last thing happened, or when the run was stopped before that."""
        return self.summary.end_ns

    def facts(self) -> LiveSummary:
        """The summary that `--json` prints."""
        return self.summary

    def run(self) -> Run:
        """The actors as ranks: what each did and when, messages matched, pools as counters."""
        cast = self._cast
        settings = {
            "engine": "live",
            "machine": cast.machine.name,
            "seed": cast.seed,
            "actors": [a.name for a in cast.actors],
        }
        card = Card(tool="chakra live", settings=settings, tick_ps=1, epoch_ns=0)
        counters = {"links": _link_table(self.links, cast.machine, self.end_ns)}
        if cast.played is not None:
            return self._played_run(card, counters)
        return recorded_run(cast, self._records, card, counters)

    def _played_run(self, card: Card, counters: dict[str, Any]) -> Run:
        assert self._cast.played is not None
        score = self._cast.played
        starts, ends = (rows_of(score, values) for values in self._plays[3:5])
        times = {
            rank: Times(starts[i].copy(), ends[i].copy())
            for i, rank in enumerate(score.traces.ranks)
        }
        return run_of(
            score.traces,
            times,
            counters,
            tool=card.tool,
            settings={**score.traces.card.settings, **card.settings},
            tick_ps=1,
            epoch_ns=0,
        )


def result_of(cast: Cast, live: core.LiveWorld) -> LiveResult:
    """The result of a world that has run."""
    records, links = live.records(), live.links()
    end_ns = live.end_ps / 1000
    sent = records["op"] == SEND
    moved = _moved(links, cast.machine)
    joules, unknown = energy_of(cast, records, live.plays(), live.end_ps)
    returned = {a.name: live.returned(a.number) for a in cast.actors}
    summary = LiveSummary(
        machine=cast.machine.name,
        end_ns=end_ns,
        actors=len(cast.actors),
        verbs=live.verbs,
        messages=int(sent.sum()),
        message_bytes=float(records["size"][sent].sum()),
        link_bytes=float(moved.sum()),
        events=int(links["events"]),
        energy_joules=joules,
        energy_unknown=unknown,
        pools=[_pool(p, u, end_ns) for p, u in zip(cast.pools, live.pools(), strict=True)],
        faults=list(cast.labels),
        returned={name: _as_data(value) for name, value in returned.items() if value is not None},
    )
    return LiveResult(summary, returned, {**links, "moved": moved}, cast, records, live.plays())


def _as_data(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return str(value)


def _pool(pool: Any, use: tuple[int, ...], end_ns: float) -> PoolSummary:
    started, _, refused, changes, waited, longest, busy, _ = use
    return PoolSummary(
        name=pool.name,
        width=pool.width,
        discipline=pool.discipline,
        uses=started,
        refused=refused,
        changes=changes,
        busy_share=busy / 1000 / (end_ns * pool.width) if end_ns else 0.0,
        mean_wait_ns=waited / 1000 / started if started else 0.0,
        longest_wait_ns=longest / 1000,
    )


def _moved(links: dict[str, Any], machine: Machine) -> F64:
    routes = Routes(links["route_offsets"], links["route_links"].astype(np.int64))
    return link_bytes(links, routes, links["runs"], len(machine.links))


def _link_table(links: dict[str, Any], machine: Machine, end_ns: float) -> dict[str, Any]:
    """Every link that carried data: ends, bytes, time at full rate, share of the run."""
    names, used = machine.vertex_names(), np.flatnonzero(links["moved"] > 0)
    busy = links["moved"][used] / machine.links.bandwidth[used] * 1e9
    return {
        "link": [str(i) for i in used.tolist()],
        "src": [names[v] for v in machine.links.src[used]],
        "dst": [names[v] for v in machine.links.dst[used]],
        "bandwidth": machine.links.bandwidth[used],
        "bytes": links["moved"][used],
        "busy_ns": busy,
        "full_rate": links["full_rate"][used] * PS_PER_S,
        "full_since_ns": links["full_since"][used] / 1000,
        "utilization": busy / end_ns if end_ns else busy * 0,
    }
