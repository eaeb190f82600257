"""Ranks at work: order, sharing, memory, disturbance, partial recordings, and clear errors."""

import numpy as np
import pytest

from chakrakit import (
    Binding,
    CollectiveType,
    EdgeForm,
    Groups,
    TraceBuilder,
    TraceSet,
    read,
    schedule,
    write,
)
from chakrakit.errors import ConfigError, DeadlockError, TraceError
from chakrakit.machines.load.description import parse_machine
from chakrakit.simulator.engine import native
from chakrakit.simulator.engine.disturb import Disturbance
from chakrakit.simulator.results.simulation import simulate
from chakrakit.trace.model.edges import EdgeKind
from chakrakit.trace.timing.scheduler import Reason
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


@pytest.mark.parametrize(
    "depth", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
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


def test_a_run_is_written_and_read_back(tmp_path):
    done = simulate(collective(AR, 10**6, 4), "dgx-h100")
    write(done.run(), tmp_path / "run")
    again = read(tmp_path / "run")
    assert again.makespan_ns == pytest.approx(done.makespan_ns)
    assert set(again.counters) == {"links", "collectives"}
    assert again.card.tick_ps == 1


@pytest.mark.parametrize("detail", ["summary", "classes", "full"])
def test_details(detail):
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10)
    t.collective("c", AR, 1000, pg_name="pair", deps=[work])
    groups = Groups({"p0": (0, 1), "p1": (2, 3)})
    bindings = {i: Binding(0, {"pair": f"p{i // 2}"}) for i in range(4)}
    slow = Disturbance(stragglers={1: 3.0, 3: 3.0})
    done = simulate(
        TraceSet([t.build()], bindings, groups),
        machine_of("switch", 4),
        options=native.SimulationOptions(disturbance=slow),
    )
    run = done.run(detail)
    assert done.outcome.classes.factor == 2
    if detail == "summary":
        assert run.times_of(0).reason is None
    else:
        assert run.times_of(0).binding_rank[1] == 1
        assert run.times_of(2).binding_rank[1] == (3 if detail == "full" else 1)


def test_memory_from_allocations_and_from_lifetimes():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=10, mem_alloc=100, stream=0)
    b = t.comp("b", duration_ns=10, deps=[a], mem_alloc=50, stream=0)
    t.comp("c", duration_ns=10, deps=[b], mem_alloc=30, mem_free=150, stream=0)
    done = simulate(TraceSet([t.build()]), one_device())
    assert done.summary.ranks[0].peak_bytes == 180
    assert done.run().counters["memory"]["bytes"].to_pylist()[-1] == 30
    t = TraceBuilder()
    a = t.comp("a", duration_ns=10, inputs=["w", "7"], outputs=["x", "100"])
    b = t.comp("b", duration_ns=10, deps=[a], inputs=["x", "100"], outputs=["y", "50"])
    t.comp("c", duration_ns=10, deps=[b], inputs=["y", "50"])
    done = simulate(TraceSet([t.build()]), one_device())
    assert done.summary.ranks[0].peak_bytes == 157
    assert done.summary.memory_holders == [("x", 100), ("y", 50), ("w", 7)]


def test_summary_adds_up():
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10_000, num_ops=10**9)
    t.collective("c", AR, 10**6, deps=[work])
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(8)}, Groups({"": range(8)}))
    s = simulate(traces, "dgx-h100").summary
    rank = s.ranks[3]
    assert rank.compute_ns == 10_000
    assert rank.finish_ns == pytest.approx(rank.compute_ns + rank.exposed_comm_ns + rank.idle_ns)
    assert s.mfu == pytest.approx(10**9 / (989.4e12 * s.makespan_ns * 1e-9))
    assert s.energy_joules == pytest.approx(sum(s.energy_by_class.values()))
    assert s.price == pytest.approx(8 * 6.155 * s.makespan_ns * 1e-9 / 3600)
    assert 0 < s.collectives[0].ideal_share <= 1
    assert s.fold.factor == 8


def test_missing_ranks_stand_in_only_when_asked():
    traces = collective(AR, 10**6, 4).select_ranks([0, 2])
    with pytest.raises(TraceError, match="rank 1 of group '' was not recorded"):
        native.run(traces, machine_of("ring", 4))
    done = simulate(
        traces, machine_of("ring", 4), options=native.SimulationOptions(assume_missing=True)
    )
    whole = simulate(collective(AR, 10**6, 4), machine_of("ring", 4))
    assert done.makespan_ns == whole.makespan_ns
    assert done.summary.ghosts == [1, 3]


def test_a_peer_that_was_not_recorded_stands_in_too():
    bodies = []
    for rank in (0, 1):
        t = TraceBuilder()
        t.send("s", rank, rank + 2, 10**6)
        bodies.append(t.build())
    traces = TraceSet(bodies, None, Groups({"": range(4)}))
    with pytest.raises(TraceError, match="rank 2, which was not recorded"):
        native.run(traces, machine_of("switch", 4))
    out = native.run(traces, machine_of("switch", 4), native.SimulationOptions(assume_missing=True))
    assert out.makespan_ps == 2_000_000 + 100_000_000


def test_uneven_all_to_all_takes_as_long_as_its_largest_port():
    bodies = []
    for rank in range(3):
        t = TraceBuilder()
        t.collective(
            "a",
            CollectiveType.ALL_TO_ALL,
            4000,
            in_splits=[2000, 1000, 1000] if rank else [0, 3000, 1000],
        )
        bodies.append(t.build())
    out = native.run(TraceSet(bodies), machine_of("switch", 3, latency=0, bandwidth=1e12))
    assert out.makespan_ps == pytest.approx(4000, rel=1e-3)  # member 1 gets 3,000 and 1,000


class LongestFirst:
    def pick(self, ready, now_ps):
        return max(range(len(ready)), key=lambda i: ready[i].duration_ps)


def test_a_dispatch_policy_decides():
    t = TraceBuilder()
    t.comp("short", duration_ns=1)
    t.comp("long", duration_ns=100)
    traces = TraceSet([t.build()])
    assert native.run(traces, one_device()).start.tolist() == [0, 1000]
    out = native.run(traces, one_device(), native.SimulationOptions(dispatch=LongestFirst()))
    assert out.start.tolist() == [100_000, 0]


class LateFirst:
    """Lets "early" wait until "late" has run."""

    def __init__(self):
        self.late = False

    def pick(self, ready, now_ps):
        names = [row.name for row in ready]
        if "late" in names:
            self.late = True
            return names.index("late")
        return None if names == ["early"] and not self.late else 0


def test_a_dispatch_policy_may_let_a_lane_wait():
    t = TraceBuilder()
    t.comp("early", duration_ns=7)
    host = t.comp("host", duration_ns=5, is_cpu_op=True)
    t.comp("late", duration_ns=3, deps=[host])
    policy = native.SimulationOptions(dispatch=LateFirst())
    out = native.run(TraceSet([t.build()]), one_device(), policy)
    assert out.start.tolist() == [8_000, 0, 5_000]


def test_a_dispatch_policy_that_waits_for_nothing_is_a_deadlock():
    t = TraceBuilder()
    t.comp("early", duration_ns=7)
    with pytest.raises(DeadlockError, match="early"):
        native.run(
            TraceSet([t.build()]), one_device(), native.SimulationOptions(dispatch=LateFirst())
        )


@pytest.mark.parametrize("chosen", [-1, 1])
def test_a_dispatch_policy_must_choose_from_the_list(chosen):
    class Wrong:
        def pick(self, ready, now_ps):
            return chosen

    t = TraceBuilder()
    t.comp("a", duration_ns=7)
    with pytest.raises(ConfigError, match=f"Wrong.pick chose {chosen} of 1 ready rows"):
        native.run(TraceSet([t.build()]), one_device(), native.SimulationOptions(dispatch=Wrong()))


class AlwaysRing:
    def choose(self, collective, members, size, candidates):
        return "ring"


def test_a_collective_policy_decides():
    out = native.run(
        collective(AR, 10**6, 8),
        machine_of("switch", 8),
        native.SimulationOptions(collectives=AlwaysRing()),
    )
    assert out.instances.algorithm == ["ring"]
    with pytest.raises(ConfigError, match="a policy chose 'ring'"):
        native.run(
            collective(CollectiveType.BARRIER, 0, 8),
            machine_of("switch", 8),
            native.SimulationOptions(collectives=AlwaysRing()),
        )


def test_an_empty_trace_takes_no_time():
    assert simulate(TraceSet([TraceBuilder().build()]), one_device()).makespan_ns == 0


@pytest.mark.parametrize("fold", [True, False])
def test_the_root_of_a_collective_is_whom_the_rank_means(fold):
    """On a line, a broadcast from the middle is over sooner than one from the end."""
    line = machine_of("line", 5)

    def end(root, peers):
        t = TraceBuilder()
        t.collective("b", CollectiveType.BROADCAST, 10**6, comm_src=root)
        bound = {r: Binding(0, peers=peers) for r in range(5)}
        traces = TraceSet([t.build()], bound, Groups({"": range(5)}))
        options = native.SimulationOptions(
            fold=fold, algorithms=native.Algorithms({"broadcast": "direct"})
        )
        return native.run(traces, line, options).makespan_ps

    assert end(2, {}) < end(0, {})
    assert end(9, {9: 2}) == end(2, {})
    assert end(9, {9: 0}) == end(0, {})


def test_the_card_of_a_run_still_tells_the_workload_and_its_passes():
    given = collective(AR, 1000, 4)
    card = given.card.replace(settings={"model": "m", "undilate": True}, passes=["compact"])
    run = simulate(given.with_card(card), machine_of("switch", 4)).run()
    assert run.card.settings["model"] == "m"
    assert run.card.settings["engine"] == "native"
    assert "undilate" not in run.card.settings
    assert run.card.passes == ["compact"]
