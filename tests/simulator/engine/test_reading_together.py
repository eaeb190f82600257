"""Small bodies are read together, and each comes out as if it had been read alone."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from chakrakit import CollectiveType, Groups, Trace, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import run
from chakrakit.simulator.engine.program import Program, read_program, read_programs
from chakrakit.trace.communication import Calls, read_calls

SWITCH = {"network": [{"topology": "switch", "size": 4, "bandwidth": 1e9, "latency": 1e-6}]}


def counted_from(first_id: int, trace: Trace) -> Trace:
    """The same nodes with ids from `first_id` on."""
    ids = np.arange(first_id, first_id + len(trace), dtype=np.uint64)
    return trace.with_columns({"id": ids}).with_edges(trace.edges)


def body(seed: int, first_id: int = 0) -> Trace:
    """A random body: compute on streams or anywhere, collectives in two groups, messages."""
    rng, t = np.random.default_rng(seed), TraceBuilder()
    ids: list[int] = []
    for i in range(int(rng.integers(3, 12))):
        deps = [d for d in ids if rng.random() < 0.3]
        what = int(rng.integers(4))
        if what == 0:
            ids.append(t.comp("k", duration_ns=int(rng.integers(1, 99)), deps=deps))
        elif what == 1:
            stream = int(rng.integers(3))
            ids.append(t.comp("s", duration_ns=5, deps=deps, stream=stream))
        elif what == 2:
            group = f"g{rng.integers(2)}"
            kind = CollectiveType.ALL_REDUCE
            ids.append(t.collective("c", kind, 64 + i, deps=deps, pg_name=group))
        else:
            ids.append(t.send("m", 0, int(rng.integers(1, 4)), 10 + i, tag=int(rng.integers(2))))
    return counted_from(first_id, t.build())


def same(one: object, other: object) -> bool:
    """Whether two programs, or two lists of calls, say the same."""
    for field in fields(one):  # type: ignore[arg-type]
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            if not np.array_equal(a, b):
                return False
        elif field.name == "edges" and not same(a, b):
            return False
    return True


def named(calls: Calls) -> list[str]:
    """The group of each collective."""
    return [calls.names[role] for role in calls.role[calls.collective].tolist()]


@pytest.mark.slow
def test_a_body_read_with_others_is_the_same_as_read_alone():
    bodies = [body(seed, first_id=7 * seed) for seed in range(40)]
    together, calls = read_programs(bodies)
    assert sum(program is not None for program in together) > 30
    for place, program in enumerate(together):
        again = body(place, first_id=7 * place)
        alone, alone_calls = read_program(again), read_calls(again)
        if program is None:
            continue
        assert isinstance(program, Program)
        assert same(program, alone)
        mine = calls[place]
        for name in ("row", "id", "type", "size", "tag", "number", "peer", "peers", "bytes"):
            assert np.array_equal(getattr(mine, name), getattr(alone_calls, name)), name
        assert named(mine) == named(alone_calls)


def test_a_fault_names_the_node_of_its_own_body():
    bodies = []
    for rank in range(4):
        t = TraceBuilder()
        t.comp("fine", duration_ns=5)
        t.comp("odd" if rank == 2 else "fine", duration_ns=5, waves=0 if rank == 2 else 1)
        bodies.append(counted_from(100, t.build()))
    with pytest.raises(TraceError, match=r"node 101 \('odd'\): waves is 0"):
        run(TraceSet(bodies, None, Groups({"": range(4)})), parse_machine(SWITCH, "switch"))


def test_a_dependency_on_a_node_of_another_body_is_not_found():
    bodies = [
        Trace.from_columns({"name": ["a", "b"], "id": [10 * r, 10 * r + 1]}) for r in range(4)
    ]
    nodes = bodies[1].table
    strange = nodes.set_column(
        nodes.column_names.index("data_deps"), "data_deps", [[[], [20]]]
    ).cast(nodes.schema)
    bodies[1] = Trace(strange, bodies[1].layouts)
    with pytest.raises(
        TraceError, match="body 1: node 11 depends on node 20, which does not exist"
    ):
        run(TraceSet(bodies, None, Groups({"": range(4)})), parse_machine(SWITCH, "switch"))
