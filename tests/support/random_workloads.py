"""Small random workloads: half symmetric by construction, half nearly so."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from chakrakit import Binding, CollectiveType, EdgeForm, EdgeKind, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import Machine

KINDS = [
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.BROADCAST,
    CollectiveType.BARRIER,
]


_ROOTLESS = [k for k in KINDS if k is not CollectiveType.BROADCAST]


def random_machine(rng: random.Random, n: int, symmetric: bool, even: bool) -> Machine:
    """Any machine; `even`: one in which no port is better placed than another."""
    level = {
        "bandwidth": rng.choice([1e9, 3e9, 7e9, 1e10]),
        "latency": rng.choice([0, 1e-6, 3.3e-7]),
    }
    inner = rng.choice([1, 2, 4] if n % 4 == 0 else [1, 2] if n % 2 == 0 else [1])
    outer = {"bandwidth": rng.choice([1e9, 5e8, 2.5e9]), "latency": rng.choice([0, 2e-6])}
    shapes = ["switch", "full"] if even else ["switch", "full", "ring"]
    network = [{"topology": rng.choice(shapes), "size": inner, **level}] if inner > 1 else []
    rest = n // inner
    if rest > 1:
        if not symmetric and rng.random() < 0.4 and rest % 2 == 0:
            network.append(
                {
                    "topology": "fat-tree",
                    "arity": [2, rest // 2],
                    "joins": rng.choice(["rails", "gateways"]),
                    "oversubscription": rng.choice([1, 2]),
                    **outer,
                }
            )
        else:
            network.append(
                {
                    "topology": rng.choice(shapes),
                    "size": rest,
                    **outer,
                    "reduction": rng.random() < 0.3,
                }
            )
    machine = {"network": network or [{"topology": "switch", "size": n, **level}]}
    machine["software"] = {
        "collective_overhead": rng.choice([0, 1e-6]),
        "step_overhead": rng.choice([0, 1e-7]),
    }
    machine["device"] = {"comm_slowdown": rng.choice([0, 0, 0.3])}
    return parse_machine(machine, "random")


def random_body(rng: random.Random, roles: list[str], peers: bool, length: int, kinds=KINDS):
    """Rows on streams, threads and pools, with edges back to earlier rows."""
    t = TraceBuilder()
    tags = 0
    for i in range(length):
        deps = rng.sample(range(i), min(i, rng.choice([0, 1, 1, 2])))
        what = rng.random()
        ns = rng.choice([0, 10, 100, 333, 1000, 4000])
        if what < 0.35:
            places = [
                {},
                {"stream": 1},
                {"stream": 2},
                {"is_cpu_op": True},
                {"is_cpu_op": True, "tid": 5},
            ]
            t.comp(f"c{i}", duration_ns=ns, deps=deps, **rng.choice(places))
        elif what < 0.9 or not peers:
            kind = rng.choice(kinds)
            size = 0 if kind is CollectiveType.BARRIER else rng.choice([24, 1000, 4096, 10_007])
            extra = {"stream": rng.choice([8, 9])} if rng.random() < 0.5 else {}
            t.collective(f"k{i}", kind, size, deps=deps, pg_name=rng.choice(roles), **extra)
        else:
            send = t.send(f"s{i}", -1, 1, 777, tag=tags, deps=deps)
            t.recv(f"r{i}", 2, -1, 777, tag=tags, deps=deps[:1])
            tags += 1
            del send
    add_forms(rng, t, len(t._nodes))
    return t.build()


def add_forms(rng: random.Random, t: TraceBuilder, n: int) -> None:
    """A few start→start and finish→finish edges with lags."""
    for _ in range(rng.choice([0, 0, 1, 2])):
        if n < 2:
            return
        a, b = sorted(rng.sample(range(n), 2))
        form = rng.choice([EdgeForm.START_START, EdgeForm.FINISH_FINISH])
        t.edge(a, b, EdgeKind.DATA, form=form, lag_ns=rng.choice([0, 50, 700]))


def random_case(seed: int) -> tuple[TraceSet, Machine, bool]:
    """Traces, a machine, and whether at least four ranks must fold into one.

    Symmetric ones either use one group of all ranks, in which everyone starts and ends together whatever
    the traffic, or groups and pairs that lie alike on an even machine, with collectives without a root.
    """
    rng = random.Random(seed)
    symmetric = seed % 2 == 0
    whole = symmetric and seed % 4 == 0
    n = rng.choice([4, 8, 8, 12])
    machine = random_machine(rng, n, symmetric, symmetric and not whole)
    width = machine.dimensions[0].size if symmetric else rng.choice([2, n // 2])
    groups = {"": list(range(n))}
    split = (
        [list(range(i, i + width)) for i in range(0, n, width)]
        if n % width == 0 and width > 1
        else []
    )
    cross = [list(range(i, n, width)) for i in range(width)] if split and width < n else []
    for name, parts in (("in", split), ("out", cross)):
        for k, members in enumerate(parts):
            groups[f"{name}{k}"] = members
    roles = [""] + ["in"] * bool(split) + ["out"] * bool(cross)
    roles = [""] if whole else roles
    length = rng.choice([4, 7, 10])
    body = random_body(
        rng, roles, not whole, length, _ROOTLESS if symmetric and not whole else KINDS
    )
    bodies = [body]
    bindings = {}
    for rank in range(n):
        own = {}
        if split and not whole:
            own["in"] = f"in{rank // width}"
        if cross and not whole:
            own["out"] = f"out{rank % width}"
        peers = {1: (rank + 1) % n, 2: (rank - 1) % n} if not symmetric else _block(rank, n)
        bindings[rank] = Binding(0, own, {**peers, -1: rank})
    if not symmetric:
        odd = rng.randrange(n)
        bindings[odd] = Binding(
            0, bindings[odd].groups, bindings[odd].peers, rng.choice([1.0, 1.5, 3.0])
        )
    return TraceSet(bodies, bindings, Groups(groups)), machine, symmetric


def crowded_case(seed: int) -> tuple[TraceSet, Machine, bool]:
    """A random case in which communication holds shares of devices, with priorities and rounds."""
    traces, machine, symmetric = random_case(seed)
    rng = np.random.default_rng(seed)
    body = traces.body_at(0)
    comm = body.column("comm_size", -1) >= 0
    share = np.where(
        comm, rng.choice([0.2, 0.3, 0.5, 0.7], len(body)), rng.choice([0.5, 0.8, 1.0], len(body))
    )
    body = body.with_columns(
        {
            "device_share": share,
            "comm_priority": rng.choice([0, 0, 1], len(body)).astype(np.int32),
            "waves": rng.choice([1, 3, 10], len(body)),
        }
    )
    return TraceSet([body], traces.bindings, traces.groups), machine, symmetric


def contended_case(seed: int) -> tuple[TraceSet, Machine]:
    """Equal collectives one after another, met by others at odd moments: what is skipped is put back."""
    rng = random.Random(seed)
    n = rng.choice([4, 6, 8])
    level = {"topology": rng.choice(["ring", "ring", "switch", "full"]), "size": n}
    level |= {"bandwidth": rng.choice([1e9, 3e9]), "latency": rng.choice([0, 2e-7])}
    machine = parse_machine({"network": [level]}, "contended")
    t = TraceBuilder()
    size = rng.choice([6_000, 24_000])
    for _ in range(rng.choice([3, 4, 5])):
        t.collective("same", rng.choice(KINDS[:3]), size, stream=1)
    for i in range(rng.choice([1, 2, 4])):
        wait = t.comp("w", duration_ns=rng.randrange(1, 60_000), stream=2)
        t.collective(
            f"k{i}",
            rng.choice(KINDS[:4]),
            rng.choice([100, 999, 5_000]),
            deps=[wait],
            stream=3 + i % 2,
            pg_name="half",
        )
    groups = Groups({"": range(n), "a": range(n // 2), "b": range(n // 2, n)})
    bindings = {
        r: Binding(0, {"half": "a" if r < n // 2 else "b"}, scale=rng.choice([1.0, 1.0, 1.3]))
        for r in range(n)
    }
    return TraceSet([t.build()], bindings, groups), machine


def launched_case(seed: int) -> TraceSet:
    """Ranks as recorded ones are: a host thread that launches kernels on two streams and at times waits.

    One to eight ranks, one to three steps, collectives; in half of the cases times are whole microseconds.
    """
    rng = random.Random(seed)
    ranks, steps = rng.choice([1, 2, 3, 4, 8]), rng.choice([1, 2, 3])
    unit = rng.choice([1, 1000])
    count = rng.randrange(5) if ranks > 1 else 0
    plan = [(rng.choice(_ROOTLESS), rng.randrange(1000, 1 << 22)) for _ in range(count)]
    return TraceSet([_launched_body(rng, steps, unit, plan) for _ in range(ranks)])


def _launched_body(
    rng: random.Random, steps: int, unit: int, plan: list[tuple[CollectiveType, int]]
):
    t = TraceBuilder()
    host: list[int] = []
    for step in range(steps):
        length = rng.randrange(3, 12)
        turns = sorted(rng.randrange(length) for _ in plan)
        for i in range(length):
            launch = t.comp(f"op{rng.randrange(5)}", **_hosted(rng, unit, 60_000, host, step))
            stream, ns = rng.choice([7, 7, 7, 8]), _time(rng, unit, 120_000)
            last = t.comp(f"kernel{rng.randrange(6)}", duration_ns=ns, stream=stream, step=step)
            lag = rng.choice([0, 1000, 4321])
            t.edge(launch, last, EdgeKind.LAUNCH, form=EdgeForm.START_START, lag_ns=lag)
            host = [launch]
            for kind, size in [call for turn, call in zip(turns, plan, strict=True) if turn == i]:
                size = 0 if kind is CollectiveType.BARRIER else size
                last = t.collective("sum", kind, size, deps=[last], stream=20, step=step)
            if rng.random() < 0.15:
                waits = t.comp("wait", **_hosted(rng, unit, 3_000, host, step))
                t.edge(last, waits, EdgeKind.SYNC, form=EdgeForm.FINISH_FINISH)
                host = [waits]
    return t.build()


def _hosted(
    rng: random.Random, unit: int, most: int, before: list[int], step: int
) -> dict[str, Any]:
    ns = _time(rng, unit, most)
    return {"duration_ns": ns, "deps": before, "is_cpu_op": True, "tid": 1, "step": step}


def _time(rng: random.Random, unit: int, most: int) -> int:
    return rng.randrange(most) // unit * unit


def _block(rank: int, n: int) -> dict[int, int]:
    """Everyone exchanges with the rank next to it: the same distance for all."""
    return {1: rank ^ 1, 2: rank ^ 1}


def times(traces: TraceSet, starts: dict[int, np.ndarray], ends: dict[int, np.ndarray]):
    return {r: (starts[r].tolist(), ends[r].tolist()) for r in traces.ranks}
