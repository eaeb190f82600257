"""Time at a store: of two ranks that each read 4 µs, compute 1 µs and write a checkpoint for 6 µs."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.breakdown import breakdown
from chakrakit.insight.headlines import answers
from chakrakit.simulator import live
from chakrakit.trace.sets import Times, run_of

LOAD, SAVE = ck.NodeType.MEM_LOAD_NODE, ck.NodeType.MEM_STORE_NODE


@pytest.fixture
def run() -> ck.Run:
    bodies = []
    for _ in range(2):
        t = ck.TraceBuilder()
        load = t.node("load data", LOAD, duration_ns=4_000, storage="disk", is_cpu_op=True)
        work = t.comp("product", duration_ns=1_000, deps=[load])
        t.node(
            "save checkpoint", SAVE, duration_ns=6_000, deps=[work], storage="disk", is_cpu_op=True
        )
        bodies.append(t.build())
    start, end = np.array([0, 4_000, 5_000]), np.array([4_000, 5_000, 11_000])
    return run_of(ck.TraceSet(bodies), {r: Times(start, end) for r in range(2)}, tick_ps=1000)


def test_each_use_of_a_store_is_a_resource_of_its_own(run) -> None:
    """Twice as fast, saving spares 3 of 11 µs, reading 2 and the device half of one."""
    analysis = ck.analyze(run)
    assert analysis.bound == "saving"
    assert list(analysis.bound_saves) == ["saving", "data", "device"]
    assert list(analysis.bound_saves.values()) == pytest.approx([3 / 11, 2 / 11, 0.5 / 11])
    assert analysis.critical_path.attribution == {"save": 6_000, "load": 4_000, "compute": 1_000}


def test_waiting_for_a_store_is_idle_for_that_reason(run) -> None:
    for rank in breakdown(run).ranks:
        assert rank.breakdown.idle == {"loading": 4_000, "saving": 6_000}
        parts = {part: ns for part, ns in rank.breakdown.parts().items() if ns}
        assert parts == {"compute": 1_000, "data": 4_000, "saving": 6_000}
    idle = next(x for x in answers(ck.analyze(run)) if x.question == "Why is it idle?")
    assert idle.figure == "90.9 % idle"
    assert idle.sentence == "it was saving to a store 60.0 %, it was reading from a store 40.0 %."


def test_the_disk_of_a_live_program_is_not_its_device() -> None:
    """Of 3 + 1 µs at the disk and 1 µs of computing, the disk's four are the store's."""

    def reads(me):
        yield live.load("disk", 3_000)
        yield live.compute(1_000)
        yield live.store("disk", 1_000)

    network = [{"topology": "switch", "size": 2, "bandwidth": "1 GB/s", "latency": "0 ns"}]
    disk = {"kind": "local", "bandwidth": "1 GB/s"}
    world = live.World({"name": "one", "network": network, "storage": {"disk": disk}})
    world.actor(reads)
    analysis = ck.analyze(world.run().run())
    assert analysis.bound == "data"
    assert analysis.bound_saves == pytest.approx({"data": 0.3, "device": 0.1, "saving": 0.1})
