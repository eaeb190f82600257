"""Communication that holds a share of its device: when it gets in, and what it leaves to compute.

Two ranks, a kernel of 1,000 µs on stream 1 and an all-reduce on stream 2 that asks 5 µs later. The links
take 100 µs for it.
"""

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import DeadlockError, TraceError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import native
from chakrakit.trace.timing import Reason

MACHINE = parse_machine({"network": [{"topology": "full", "size": 2, "bandwidth": 1e9}]}, "pair")
SIZE = 100_000  # bytes at 1 GB/s: each of the two sends half of it and then half again


def beside(kernel: dict, collective: dict, later: dict | None = None) -> TraceSet:
    t = TraceBuilder()
    t.comp("kernel", duration_ns=1_000_000, stream=1, **kernel)
    asks = t.comp("asks", duration_ns=5_000, is_cpu_op=True, tid=1)
    t.collective("reduce", CollectiveType.ALL_REDUCE, SIZE, stream=2, deps=[asks], **collective)
    if later is not None:
        t.comp("later", duration_ns=1_000_000, stream=1, **later)
    return TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": (0, 1)}))


def times(traces: TraceSet) -> dict[str, tuple[float, float]]:
    """Start and end of rank 0's rows in µs, by name."""
    out = native.run(traces, MACHINE)
    names = traces.trace(0).nodes.column("name").to_pylist()
    return {n: (out.start[i] * 1e-6, out.end[i] * 1e-6) for i, n in enumerate(names)}


def test_without_a_share_it_needs_no_room():
    assert times(beside({}, {}))["reduce"] == (5, 105)


def test_it_waits_for_a_kernel_that_came_before_it():
    found = times(beside({}, {"device_share": 0.2}))
    assert found["kernel"] == (0, 1000)
    assert found["reduce"] == (1000, 1100)


@pytest.mark.parametrize(("waves", "start"), [(1, 5), (4, 937.5), (100, 1237.5)])
def test_room_that_compute_leaves_is_for_others_once_its_last_round_has_begun(waves, start):
    found = times(beside({"device_share": 0.8, "waves": waves}, {"device_share": 0.2}))
    assert found["kernel"] == (0, 1250)
    assert found["reduce"] == (start, start + 100)


def test_with_priority_it_gets_in_where_compute_leaves_room():
    kernel = {"device_share": 0.8, "waves": 4}
    found = times(beside(kernel, {"device_share": 0.2, "comm_priority": 1}))
    assert found["kernel"] == (0, 1250)
    assert found["reduce"] == (5, 105)


@pytest.mark.parametrize(("waves", "start"), [(1, 1000), (4, 250), (100, 10)])
def test_with_priority_it_gets_in_at_the_end_of_a_round(waves, start):
    found = times(beside({"waves": waves}, {"device_share": 0.2, "comm_priority": 1}))
    assert found["reduce"] == (start, start + 100)
    if waves > 1:  # for 100 µs compute has 0.8 of the device
        assert found["kernel"][1] == pytest.approx(1020)


MEASURED = [
    (1, False, False, 1, 1.000),
    (1, False, True, 1, 1.000),
    (1, True, False, 1, 0.305),
    (1, True, True, 1, 0.305),
    (4, False, False, 1, 4.001),
    (4, False, True, 1, 1.000),
    (4, True, False, 1, 3.001),
    (4, True, True, 1, 0.308),
    (16, False, False, 1, 16.003),
    (16, False, True, 1, 1.000),
    (16, True, False, 1, 15.004),
    (16, True, True, 1, 0.304),
    (4, False, False, 4, 4.001),
    (4, False, True, 4, 1.000),
]
"""Waves of 1 ms, half of the device, higher priority, kernels; ms until the small one began on an H200, by
tests/gpu/block_scheduler.cu. It is launched 300 µs after the first large one has begun."""


@pytest.mark.parametrize(("waves", "half", "raised", "kernels", "began"), MEASURED)
def test_a_small_kernel_gets_in_when_it_does_on_an_h200(waves, half, raised, kernels, began):
    t = TraceBuilder()
    share = 0.5 if half else 1.0
    for _ in range(kernels):
        t.comp(
            "large", duration_ns=int(waves * 1e6 * share), stream=1, waves=waves, device_share=share
        )
    launch = t.comp("launch", duration_ns=304_000, is_cpu_op=True, tid=1)
    t.collective(
        "small",
        CollectiveType.ALL_REDUCE,
        SIZE,
        stream=2,
        deps=[launch],
        comm_priority=int(raised),
        device_share=16 * 512 / (132 * 2048),
    )
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": (0, 1)}))
    assert times(traces)["small"][0] / 1000 == pytest.approx(began, rel=0.02)


def test_kernels_that_come_later_are_not_in_its_way():
    found = times(beside({}, {"device_share": 0.5}, {}))
    assert found["reduce"] == (1000, 1100)
    assert found["later"] == (1000, pytest.approx(2050))


def test_a_kernel_of_the_same_priority_is_in_its_way():
    kernel = {"waves": 10, "comm_priority": 1}
    assert times(beside(kernel, {"device_share": 0.2, "comm_priority": 1}))["reduce"][0] == 1000


def test_rounds_are_counted_in_work_and_not_in_time():
    """A first collective slows the kernel to a half; its rounds of 100 µs then take 200."""
    t = TraceBuilder()
    slow = t.collective("slow", CollectiveType.ALL_REDUCE, SIZE * 3, stream=3, device_share=0.5)
    t.comp("kernel", duration_ns=1_000_000, stream=1, waves=10)
    asks = t.comp("asks", duration_ns=50_000, is_cpu_op=True)
    t.collective(
        "reduce",
        CollectiveType.ALL_REDUCE,
        SIZE,
        stream=2,
        deps=[asks],
        device_share=0.25,
        comm_priority=1,
    )
    assert slow == 0
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": (0, 1)}))
    assert times(traces)["reduce"][0] == 200


def test_shares_never_add_up_to_more_than_the_device():
    t = TraceBuilder()
    for name, stream in (("a", 1), ("b", 2), ("c", 3)):
        t.collective(name, CollectiveType.ALL_REDUCE, SIZE, stream=stream, device_share=0.5)
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": (0, 1)}))
    found = times(traces)
    assert found["a"] == found["b"] == (0, 200)  # the two share the links
    assert found["c"] == (200, 300)


def test_what_it_waited_for_is_said():
    traces = beside({}, {"device_share": 0.2})
    out = native.run(traces, MACHINE)
    assert out.reason[2] == Reason.RESOURCE
    assert out.binding[2] == 0


def test_collectives_that_keep_each_other_out_are_a_deadlock_that_says_so():
    """Each rank lets in another one first, and it holds the whole device."""
    bodies = []
    for order in (("x", "y"), ("y", "x")):
        t = TraceBuilder()
        for stream, group in enumerate(order):
            t.collective(
                group,
                CollectiveType.ALL_REDUCE,
                SIZE,
                pg_name=group,
                stream=stream,
                device_share=1.0,
            )
        bodies.append(t.build())
    traces = TraceSet(bodies, groups=Groups({"x": (0, 1), "y": (0, 1)}))
    with pytest.raises(DeadlockError, match="waits in all-reduce"):
        native.run(traces, MACHINE)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("device_share", 0.0), ("device_share", 1.5), ("device_share", float("nan")), ("waves", 0)],
)
def test_impossible_attributes_are_refused(attribute, value):
    with pytest.raises(TraceError, match=f"node 0 .'kernel'.: {attribute} is"):
        times(beside({attribute: value}, {}))


def test_a_share_that_takes_compute_beyond_the_clock_is_refused():
    t = TraceBuilder()
    t.comp("k", duration_ns=10**13, device_share=1e-6)  # 2.8 hours; ten million of them
    with pytest.raises(TraceError, match=r"more than 50 days.*device_share"):
        native.run(TraceSet([t.build()]), MACHINE)


def test_a_kernel_that_is_left_next_to_nothing_goes_on_when_it_gets_more():
    """For 100 µs it has a millionth of the device, on which it would take longer than the clock can say."""
    days = 15 * 86_400 * 10**9
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, SIZE, stream=1, device_share=0.999999)
    t.comp("k", duration_ns=days, stream=2, waves=10**9)
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": (0, 1)}))
    end = native.run(traces, MACHINE).end.tolist()
    assert end[0] == 100_000_000
    assert end[1] == pytest.approx(days * 1000 + end[0], rel=1e-9)


def test_shares_of_compute_alone_only_slow_it():
    rng = np.random.default_rng(0)
    t = TraceBuilder()
    shares = rng.choice([0.25, 0.5, 1.0], 20)
    for share in shares:
        t.comp("k", duration_ns=1000, stream=1, device_share=float(share))
    assert native.run(TraceSet([t.build()]), MACHINE).makespan_ps == int((1e6 / shares).sum())
