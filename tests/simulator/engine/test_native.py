"""Ranks at work: order, sharing, memory, disturbance, partial recordings, and clear errors."""

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, EdgeForm, Groups, TraceBuilder, TraceSet, schedule
from chakrakit.errors import DeadlockError
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import Disturbance, native
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.timing import Reason
from support.simulated import collective, machine_of, one_device

AR = CollectiveType.ALL_REDUCE


def random_trace(rng, n):
    """Host threads that launch kernels on streams, with edges of all forms."""
    t = TraceBuilder()
    for i in range(n):
        host = rng.random() < 0.5
        place = {"tid": int(rng.integers(2))} if host else {"stream": int(rng.integers(2))}
        t.comp(f"n{i}", is_cpu_op=host, duration_ns=int(rng.integers(0, 50)), **place)
        for parent in rng.choice(i, min(i, int(rng.integers(0, 3))), replace=False) if i else []:
            form = EdgeForm(int(rng.integers(3)))
            kind = (
                EdgeKind.LAUNCH
                if form is EdgeForm.START_START and rng.random() < 0.5
                else EdgeKind.DATA
            )
            t.edge(int(parent), i, kind, form=form, lag_ns=int(rng.integers(0, 30)))
    return t.build()


@pytest.mark.first(1)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_without_a_network_it_agrees_with_the_scheduler(depth):
    rng = np.random.default_rng(depth)
    deadlocks = 0
    for _ in range(150):
        trace = random_trace(rng, 30)
        program = native.read_program(trace)
        lanes = np.where(
            np.isin(program.lane_kind, [0])[program.lane] & (program.lane >= 0), program.lane, -1
        )
        given = {"resource": lanes, "order": program.order, "queue_depth": depth}
        given["launch_of"] = program.launch_of
        machine = one_device(queue_depth=depth)
        try:
            expected = schedule(len(trace), trace.edges, trace.duration_ns, **given)
        except DeadlockError:
            deadlocks += 1
            with pytest.raises(DeadlockError):
                native.run(TraceSet([trace]), machine)
            continue
        found = native.run(TraceSet([trace]), machine)
        assert found.start.tolist() == (expected.start * 1000).tolist()
        assert found.end.tolist() == (expected.end * 1000).tolist()
        assert found.binding.tolist() == expected.binding.tolist()
        assert found.reason.tolist() == expected.reason.tolist()
    assert deadlocks < 100


def test_streams_run_in_order_and_collectives_on_two_streams_overlap():
    t = TraceBuilder()
    t.collective("a", AR, 10**6, stream=1, pg_name="")
    t.collective("b", AR, 10**6, stream=2, pg_name="")
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(4)}, Groups({"": range(4)}))
    both = native.run(traces, machine_of("ring", 4)).makespan_ps
    one = native.run(collective(AR, 10**6, 4), machine_of("ring", 4)).makespan_ps
    assert one < both < 2 * one


def test_compute_is_shared_and_slowed_by_communication():
    t = TraceBuilder()
    t.comp("a", duration_ns=1000, stream=1)
    t.comp("b", duration_ns=1000, stream=2)
    traces = TraceSet([t.build()])
    assert native.run(traces, one_device()).makespan_ps == 1_000_000
    assert (
        native.run(traces, one_device(), native.SimulationOptions(share_compute=True)).makespan_ps
        == 2_000_000
    )
    t = TraceBuilder()
    t.comp("a", duration_ns=10_000, stream=1)
    t.collective("c", AR, 1, stream=2)
    traces = TraceSet([t.build()], {0: Binding(0), 1: Binding(0)}, Groups({"": (0, 1)}))
    machine = parse_machine(
        {
            "network": [{"topology": "full", "size": 2, "bandwidth": 1e12, "latency": 2e-6}],
            "device": {"comm_slowdown": 0.5},
        },
        "m",
    )
    out = native.run(traces, machine)
    slow = out.end[1] * 1e-6  # us of communication, in which compute got 1/1.5 of the time done
    assert out.end[0] * 1e-6 == pytest.approx(10 + slow * (1 - 1 / 1.5), rel=1e-6)


def test_the_same_seed_gives_the_same_bytes_and_no_two_ranks_alike():
    traces = collective(AR, 10**6, 8)
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10_000)
    t.collective("c", AR, 1000, deps=[work])
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(8)}, Groups({"": range(8)}))
    machine = machine_of("switch", 8)
    options = [
        native.SimulationOptions(disturbance=Disturbance(jitter=0.1, seed=s)) for s in (1, 1, 2)
    ]
    a, b, c = (native.run(traces, machine, o) for o in options)
    assert a.end.tobytes() == b.end.tobytes() != c.end.tobytes()
    assert a.classes.factor == 1
    assert "no two ranks" in a.why


def test_a_straggler_holds_everyone_up_and_is_named():
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10_000)
    t.collective("c", AR, 1000, deps=[work])
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(8)}, Groups({"": range(8)}))
    done = simulate(
        traces,
        machine_of("switch", 8),
        options=native.SimulationOptions(disturbance=Disturbance(stragglers={5: 2.0})),
    )
    run = done.run()
    assert done.outcome.classes.count == 2
    assert run.times_of(0).reason[1] == Reason.PEER
    assert run.times_of(0).binding_rank[1] == 5
    assert run.times_of(5).reason[1] == Reason.DEPENDENCY


def test_an_empty_trace_takes_no_time():
    assert simulate(TraceSet([TraceBuilder().build()]), one_device()).makespan_ns == 0
