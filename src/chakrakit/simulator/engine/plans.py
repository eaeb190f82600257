"""Plans: the steps of collectives with routes on a machine, as the arrays that the core runs.

A family is one schedule for many groups of the same size: their plans differ only in the routes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError
from chakrakit.machines.device import HORIZON_PS, PS_PER_S, each_picoseconds, picoseconds, too_long
from chakrakit.machines.fabric import Machine, Routes
from chakrakit.machines.library import LibraryCost
from chakrakit.simulator.collectives import SWITCH, CollectiveSteps
from chakrakit.simulator.engine.port_prices import PortPrices, port_prices

FIGURES = ("payload", "messages", "held")
"""Arrays of plans that the core does not take: what they come to is added up afterwards."""
MOST_SECONDS = 100_000
"""Seconds that a transfer may take alone, 28 hours: shared with others it still fits the clock's days."""
MOST_TRANSFERS = 60_000_000
"""Beyond this many transfers the plans would not fit in memory."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Family:
    """Arrays of one plan (steps, positions, bytes), and the routes, which differ between copies."""

    repeat: I64
    after: list[tuple[int, ...]]
    step_of: I64
    keys: I64
    """Route keys, one row per copy: src · devices + dst, or -1 - link for a link to or from a switch."""
    bytes: F64
    wait: I64
    """Picoseconds of each transfer, added to the route's latency or, with `hop`, in place of it."""
    stretch: float = 1.0
    """Link time of a byte in the library's protocol, as a multiple of its time at full bandwidth."""
    hop: bool = False
    prices: PortPrices | None = None

    @property
    def overhead(self) -> I64 | int:
        """Picoseconds before the bytes of each transfer flow, for its messages."""
        return 0 if self.prices is None else self.prices.overhead


@dataclass(frozen=True, eq=False)
class _MessageFamily:
    """Plans of one message or storage operation each, as parallel arrays."""

    keys: I64
    """src · devices + dst; from devices² on, the route between a device and a store (`add_stored`)."""
    bytes: F64
    stretch: F64
    hop: I64
    """Picoseconds in place of the route's latency; -1 for the route's own."""
    prices: PortPrices | None = None
    request: I64 | int = 0
    """Picoseconds until the side that has the bytes knows that they are wanted."""

    @property
    def overhead(self) -> I64 | int:
        """Picoseconds before the bytes of each message flow."""
        return self.request + (0 if self.prices is None else self.prices.overhead.reshape(-1))


class TransferPlans:
    """Collects plans and numbers them; `arrays` gives all of them, with the routes they use."""

    def __init__(self, machine: Machine, fair: bool = True) -> None:
        self.machine = machine
        self.fair = fair
        """Whether transfers share links, as they do in the `flow` network."""
        self.count = 0
        self._families: list[_Family | _MessageFamily] = []
        self._transfers = 0

    def add(
        self, moves: CollectiveSteps, devices: I64, total: float, cost: LibraryCost | None = None
    ) -> int:
        """Adds plans for groups of devices, one row per group; returns the number of the first plan.

        With a library's `cost`, a plan takes exactly that long when nothing else uses its links.
        """
        self._check_time(total)
        piece = total / moves.pieces
        counts = [np.asarray(s.count * piece, np.float64) for s in moves.steps]
        if cost is None or not len(devices):
            return self.add_bytes(moves, devices, counts)
        # Rounds of a step use the same links, so they flow as one: nothing in a library's pipeline waits
        # for a round to end.
        counts = [c * s.repeat for c, s in zip(counts, moves.steps, strict=True)]
        moves = replace(moves, steps=tuple(replace(s, repeat=1) for s in moves.steps))
        alone = self._flowing(moves, devices[:1], counts)
        stretch = cost.transfer / alone if alone else 1.0
        return self.add_bytes(moves, devices, counts, stretch, cost.latency / _depth(moves))

    def add_at_pace(
        self, moves: CollectiveSteps, devices: I64, total: float, stretch: float, hop: float
    ) -> int:
        """Adds plans in which a byte takes `stretch` times its link time, and a step `hop` seconds."""
        self._check_time(total)
        piece = total / moves.pieces
        counts = [np.asarray(s.count * piece, np.float64) for s in moves.steps]
        return self.add_bytes(moves, devices, counts, stretch, hop)

    def flowing(self, moves: CollectiveSteps, devices: I64, total: float) -> float:
        """Seconds that the busiest link needs for the bytes of all steps."""
        piece = total / moves.pieces
        counts = [np.asarray(s.count * s.repeat * piece, np.float64) for s in moves.steps]
        routes, number, _, _ = self._laid(moves, devices, counts)
        size = np.tile(np.concatenate([*counts, np.zeros(0)]), len(devices))
        return self._busiest(routes, number.reshape(-1), size)

    def fastest(self, schedules: Mapping[str, CollectiveSteps], devices: I64, total: float) -> str:
        """The name of the schedule that takes the least in all groups at once; of equal ones, the first."""
        times = {name: self.together(moves, devices, total) for name, moves in schedules.items()}
        least = min(times.values())
        return next(name for name, took in times.items() if math.isclose(took, least))

    def together(self, moves: CollectiveSteps, devices: I64, total: float) -> float:
        """Seconds that the schedule takes in all groups at once, with nothing else on the links."""
        piece = total / moves.pieces
        counts = [np.asarray(s.count * piece, np.float64) for s in moves.steps]
        routes, number, steps, prices = self._laid(moves, devices, counts)
        latency = routes.latency(self.machine.links)[number].reshape(len(devices), -1)
        if prices is not None:
            latency = latency + prices.overhead / PS_PER_S
        step = self.machine.software.step_overhead
        waits = sum(
            moves.steps[head].repeat * (float(latency[:, rows].max(initial=0.0)) + step)
            for head, rows in steps.items()
        )
        return waits + self._flowing(moves, devices, counts, priced=True)

    def _flowing(
        self, moves: CollectiveSteps, devices: I64, counts: list[F64], priced: bool = False
    ) -> float:
        """Seconds that the bytes of all steps flow, one step after another, in all groups at once.

        With `priced`, messages cost what they do at ports; in a library's time that is contained.
        """
        routes, number, steps, prices = self._laid(moves, devices, counts)
        route_of = number.reshape(len(devices), -1)
        size = np.tile(np.concatenate([*counts, np.zeros(0)]), (len(devices), 1))
        if priced and prices is not None:
            size = size + prices.held * _finite(routes.bandwidth(self.machine.links))[route_of]
        return sum(
            moves.steps[head].repeat
            * self._busiest(routes, route_of[:, rows].reshape(-1), size[:, rows].reshape(-1))
            for head, rows in steps.items()
        )

    def _laid(
        self, moves: CollectiveSteps, devices: I64, counts: list[F64]
    ) -> tuple[Routes, I64, dict[int, I64], PortPrices | None]:
        """The routes in use, each transfer's route, those that flow together by first step, port prices."""
        keys, _ = self._keys(
            np.concatenate([s.src for s in moves.steps]),
            np.concatenate([s.dst for s in moves.steps]),
            devices,
        )
        used, number = np.unique(keys, return_inverse=True)
        heads, numbers = _joined(moves)
        step_of = np.repeat(numbers, [len(s.src) for s in moves.steps])
        order = np.argsort(step_of, kind="stable")
        head_numbers = np.array([numbers[head] for head in heads], np.int64)
        first, last = (
            np.searchsorted(step_of[order], head_numbers, side) for side in ("left", "right")
        )
        ends = zip(heads, first.tolist(), last.tolist(), strict=True)
        steps = {head: order[a:b] for head, a, b in ends}
        prices = self._prices(keys, step_of, counts)
        return self._routes(used), number.reshape(-1), steps, prices

    def _busiest(self, routes: Routes, route_of: I64, size: F64) -> float:
        """Seconds until the last of these transfers has ended."""
        if not self.fair:
            most = np.zeros(len(routes))
            np.maximum.at(most, route_of, size)
            return float((most / routes.bandwidth(self.machine.links)).max(initial=0.0))
        by_route = np.bincount(route_of, size, minlength=len(routes))
        each = np.repeat(by_route, np.diff(routes.offsets))
        load = np.bincount(routes.links, each, minlength=len(self.machine.links))
        return float((load / self.machine.links.bandwidth).max(initial=0.0))

    def add_bytes(
        self,
        moves: CollectiveSteps,
        devices: I64,
        counts: list[F64],
        stretch: float = 1.0,
        hop: float | None = None,
    ) -> int:
        """Adds plans with the bytes of every transfer, one array per step; `hop` is in seconds per step."""
        copies = len(devices)
        self.check_transfers(copies * moves.transfers())
        self._transfers += copies * moves.transfers()
        steps, numbers = _joined(moves)
        src = np.concatenate([s.src for s in moves.steps] or [np.zeros(0, np.int64)])
        dst = np.concatenate([s.dst for s in moves.steps] or [np.zeros(0, np.int64)])
        step_of = np.repeat(numbers, [len(s.src) for s in moves.steps])
        keys, wait = self._keys(src, dst, devices)
        waits = np.concatenate(
            [np.full(len(s.src), picoseconds(s.wait, "a step's wait")) for s in moves.steps]
            or [wait]
        )
        family = _Family(
            repeat=np.array([moves.steps[i].repeat for i in steps], np.int64),
            after=[tuple(sorted({int(numbers[b]) for b in moves.after(i)})) for i in steps],
            step_of=step_of,
            keys=keys,
            bytes=np.concatenate([*counts, np.zeros(0)]),
            wait=(
                wait + waits if hop is None else waits + picoseconds(hop, "a step's overhead")
            ).astype(np.int64),
            stretch=stretch,
            hop=hop is not None,
            prices=None if hop is not None else self._prices(keys, step_of, counts),
        )
        self._families.append(family)
        self.count += copies
        return self.count - copies

    def _prices(self, keys: I64, step_of: I64, counts: list[F64]) -> PortPrices | None:
        """What messages cost at ports; None where nothing is known."""
        if not self.machine.messages_cost:
            return None
        payload = np.concatenate([*counts, np.zeros(0)])
        return port_prices(self.machine, keys, step_of, payload)

    def check_transfers(self, more: int) -> None:
        """Raises an error if that many more transfers exceed the limit; called before they are built."""
        if self._transfers + more > MOST_TRANSFERS:
            raise ConfigError(
                f"more than {MOST_TRANSFERS:,} transfers; choose an algorithm with fewer, such as ring "
                "or halving-doubling, or fewer ranks"
            )

    def _check_time(self, total: float) -> None:
        """Raises an error for transfers so long that times might not fit in 64 bits of picoseconds."""
        least = float(self.machine.links.bandwidth.min(initial=np.inf))
        if total / least > MOST_SECONDS:
            raise ConfigError(
                f"a collective or message of {total:,.0f} bytes takes longer than {MOST_SECONDS:,} s "
                f"at {least:,.0f} bytes/s; check comm_size and bandwidth"
            )

    def _keys(self, src: I64, dst: I64, devices: I64) -> tuple[I64, I64]:
        size = self.machine.size
        switch = (src == SWITCH) | (dst == SWITCH)
        keys = devices[:, src] * size + devices[:, dst]
        wait = np.zeros(len(src), np.int64)
        if switch.any():
            keys, wait = self._switch_keys(src, dst, devices, keys, wait)
        return keys, wait

    def _switch_keys(
        self, src: I64, dst: I64, devices: I64, keys: I64, wait: I64
    ) -> tuple[I64, I64]:
        """Keys of links to and from switches; data comes back once the first bytes have arrived there."""
        for copy, group in enumerate(devices):
            up, down = self._reduction_links(group)
            keys[copy, dst == SWITCH] = -1 - up[src[dst == SWITCH]]
            keys[copy, src == SWITCH] = -1 - down[dst[src == SWITCH]]
        latest = self.machine.links.latency[up].max() if len(devices) else 0.0
        wait[src == SWITCH] = picoseconds(float(latest), "the latency of a link")
        return keys, wait

    def _reduction_links(self, group: I64) -> tuple[I64, I64]:
        """Links to and from the switch that reduces for the group, or for its members on the same node."""
        one = self.machine.reduction_links(group)
        if one is not None:
            return one
        up, down = np.zeros_like(group), np.zeros_like(group)
        nodes = self.machine.instance(group, 0)
        for node in np.unique(nodes):
            members = nodes == node
            links = self.machine.reduction_links(group[members])
            if links is None:
                raise ConfigError("in-switch reduction needs all members on one reducing switch")
            up[members], down[members] = links
        return up, down

    def add_messages(
        self,
        src: I64,
        dst: I64,
        size: F64,
        stretch: F64 | None = None,
        hop: I64 | None = None,
        asked: bool = False,
    ) -> int:
        """Adds plans of one message each, from src[i] to dst[i]; returns the number of the first plan.

        With `asked` a request goes the other way first.
        """
        count = len(src)
        self._check_time(float(size.max(initial=0.0)))
        keys = np.asarray(src, np.int64) * self.machine.size + dst
        # A row each: nobody knows which messages a sender has under way together.
        prices = (
            None if hop is not None else self._prices(keys[:, None], np.zeros(1, np.int64), [size])
        )
        family = _MessageFamily(
            keys,
            np.asarray(size, np.float64),
            np.ones(count) if stretch is None else stretch,
            np.full(count, -1, np.int64) if hop is None else hop,
            prices,
            self._latency(dst, src) if asked else 0,
        )
        self._families.append(family)
        self._transfers += count
        self.count += count
        return self.count - count

    def _latency(self, src: I64, dst: I64) -> I64:
        """Picoseconds of the ways from src[i] to dst[i]."""
        routes = self.machine.routes(src, dst)
        return each_picoseconds(
            routes.latency(self.machine.links), lambda _: "the latency of a route"
        )

    def add_stored(self, store: int, devices: I64, writes: bool, size: int) -> int:
        """Adds plans of one operation each, between a device and its server of a store."""
        self._check_time(float(size))
        machine, count = self.machine, len(devices)
        accesses = np.full(count, store), devices, np.full(count, int(writes))
        waits = (
            machine.store_routes(*accesses).latency(machine.links) + machine.stores[store].latency
        )
        keys = (store * 2 + int(writes)) * machine.size + devices
        self._families.append(
            _MessageFamily(
                machine.size**2 + keys,
                np.full(count, float(size)),
                np.ones(count),
                each_picoseconds(waits, lambda _: f"the latency of {machine.stores[store].name}"),
            )
        )
        self._transfers += count
        self.count += count
        return self.count - count

    def add_fixed(self, seconds: float, copies: int) -> int:
        """Adds plans that take a given time and use no link."""
        wait = np.array([picoseconds(seconds, "a collective")], np.int64)
        none = np.zeros((copies, 1), np.int64)
        self._families.append(
            _Family(
                repeat=np.ones(1, np.int64),
                after=[()],
                step_of=np.zeros(1, np.int64),
                keys=none,
                bytes=np.zeros(1),
                wait=wait,
            )
        )
        self.count += copies
        return self.count - copies

    # --- arrays -------------------------------------------------------------------------------

    def arrays(self) -> tuple[dict[str, Any], dict[str, Any], Routes]:
        """The plans, the links and the routes, in the form of the core."""
        keys = np.concatenate(
            [f.keys.reshape(-1) for f in self._families] or [np.zeros(0, np.int64)]
        )
        used, number = np.unique(keys, return_inverse=True)
        routes = self._routes(used)
        latency = each_picoseconds(
            routes.latency(self.machine.links), lambda _: "the latency of a route"
        )
        latency += picoseconds(self.machine.software.step_overhead, "the overhead of a step")
        bandwidth = _finite(routes.bandwidth(self.machine.links))
        return self._plans(number, latency, bandwidth), self._links(routes), routes

    def _routes(self, keys: I64) -> Routes:
        """The routes of ascending keys. A device's message to itself has a route without links."""
        size = self.machine.size
        links = -1 - keys[keys < 0]
        pairs = keys[(keys >= 0) & (keys < size**2)]
        routed_pairs = self.machine.routes(pairs // size, pairs % size)
        first = np.arange(len(links) + 1, dtype=np.int64)
        offsets = np.concatenate([first, routed_pairs.offsets[1:] + len(links)])
        between = Routes(offsets, np.concatenate([links, routed_pairs.links]))
        stored = keys[keys >= size**2] - size**2
        if not len(stored):
            return between
        last = self.machine.store_routes(stored // size // 2, stored % size, stored // size % 2)
        return Routes(
            np.concatenate([offsets, last.offsets[1:] + offsets[-1]]),
            np.concatenate([between.links, last.links]),
        )

    def _links(self, routes: Routes) -> dict[str, Any]:
        return {
            "bandwidth": self.machine.links.bandwidth / PS_PER_S,
            "route_offsets": routes.offsets,
            "route_links": routes.links.astype(np.int32),
        }

    def _plans(self, number: I64, latency: I64, bandwidth: F64) -> dict[str, Any]:
        parts, at = [], 0
        for family in self._families:
            routes = number[at : at + family.keys.size].reshape(family.keys.shape)
            at += family.keys.size
            if isinstance(family, _MessageFamily):
                parts.append(_message_arrays(family, routes, latency))
            else:
                parts.append(_family_arrays(family, routes, latency))
            if self.machine.messages_cost:
                _with_prices(parts[-1], family, bandwidth)
        names = (
            "steps",
            "repeat",
            "transfers",
            "afters",
            "after",
            "route",
            "bytes",
            "payload",
            "delay",
            *(("messages", "held") if self.machine.messages_cost else ()),
        )
        none = np.zeros(0, np.int64)
        joined = {k: np.concatenate([none, *(p[k] for p in parts)]) for k in names}
        priced = {k: joined[k] for k in ("messages", "held") if k in joined}
        return {
            **priced,
            "plan_steps": _offsets(joined["steps"]),
            "repeat": joined["repeat"].astype(np.int64),
            "after_offsets": _offsets(joined["afters"]),
            "after": joined["after"].astype(np.int32),
            "step_transfers": _offsets(joined["transfers"]),
            "route": joined["route"].astype(np.int32),
            "bytes": joined["bytes"].astype(np.float64),
            "payload": joined["payload"].astype(np.float64),
            "delay": _in_time(joined["delay"].astype(np.int64)),
        }


def _offsets(counts: I64) -> I64:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _joined(moves: CollectiveSteps) -> tuple[list[int], I64]:
    """The steps that are not joined to the one before, and for each step the number of its joint step."""
    heads = [i for i, s in enumerate(moves.steps) if not s.joined]
    numbers = np.cumsum([not s.joined for s in moves.steps]).astype(np.int64) - 1
    return heads, numbers


def _depth(moves: CollectiveSteps) -> int:
    """The number of consecutive steps, with repetitions."""
    return max(1, sum(s.repeat for s in moves.steps if not s.joined))


def _finite(bandwidth: F64) -> F64:
    """0 where a route has no links, which bytes cross in no time."""
    return np.where(np.isfinite(bandwidth), bandwidth, 0.0)


def _message_arrays(family: _MessageFamily, routes: I64, latency: I64) -> dict[str, Any]:
    """One step of one transfer for each message."""
    count = len(family.keys)
    ones, none = np.ones(count, np.int64), np.zeros(0, np.int64)
    return {
        "steps": ones,
        "repeat": ones,
        "transfers": ones,
        "afters": np.zeros(count, np.int64),
        "after": none,
        "route": routes,
        "bytes": family.bytes * family.stretch,
        "payload": family.bytes,
        "delay": np.where(family.hop >= 0, family.hop, latency[routes]) + family.overhead,
    }


def _family_arrays(family: _Family, routes: I64, latency: I64) -> dict[str, Any]:
    """The family's plans one after another, transfers of a step sorted by delay."""
    copies, steps = len(routes), len(family.repeat)
    delay = np.where(family.hop, 0, latency[routes]) + family.wait + family.overhead
    order = (
        np.stack([np.lexsort((delay[c], family.step_of)) for c in range(copies)])
        if copies
        else delay
    )
    counts = np.bincount(family.step_of, minlength=steps)
    after = np.array([b for a in family.after for b in a], np.int64)
    return {
        "steps": np.full(copies, steps),
        "repeat": np.tile(family.repeat, copies),
        "transfers": np.tile(counts, copies),
        "afters": np.tile([len(a) for a in family.after], copies),
        "after": np.tile(after, copies),
        "route": np.take_along_axis(routes, order, 1).reshape(-1),
        "bytes": (family.bytes * family.stretch)[order].reshape(-1),
        "payload": family.bytes[order].reshape(-1),
        "delay": np.take_along_axis(delay, order, 1).reshape(-1),
        **({} if family.prices is None else _ordered_prices(family.prices, order)),
    }


def _ordered_prices(prices: PortPrices, order: I64) -> dict[str, Any]:
    columns = {"messages": prices.messages, "held": prices.held}
    return {n: np.take_along_axis(c, order, 1).reshape(-1) for n, c in columns.items()}


def _with_prices(arrays: dict[str, Any], family: _Family | _MessageFamily, bandwidth: F64) -> None:
    """Bytes grow by what their route would carry while their messages hold its port."""
    prices, count = family.prices, len(arrays["route"])
    if prices is None:
        arrays |= {"messages": np.zeros(count, np.int64), "held": np.zeros(count)}
    elif isinstance(family, _MessageFamily):
        arrays |= {"messages": prices.messages.reshape(-1), "held": prices.held.reshape(-1)}
    arrays["bytes"] = arrays["bytes"] + arrays["held"] * bandwidth[arrays["route"]]


def link_bytes(plans: dict[str, Any], routes: Routes, runs: I64, links: int) -> F64:
    """Bytes over each link when plan i ran runs[i] times."""
    per_step = np.repeat(runs, np.diff(plans["plan_steps"])) * plans["repeat"]
    moved = np.repeat(per_step, np.diff(plans["step_transfers"])) * plans["payload"]
    by_route = np.bincount(plans["route"], moved, minlength=len(routes))
    each = np.repeat(by_route, np.diff(routes.offsets))
    return np.bincount(routes.links, each, minlength=links).astype(np.float64)


def _in_time(delay: I64) -> I64:
    """The delays, which are sums of times; an error if one of them exceeds the horizon."""
    if delay.max(initial=0) > HORIZON_PS:
        raise too_long("the latency of a transfer", f"{delay.max() / PS_PER_S:g} s")
    return delay
