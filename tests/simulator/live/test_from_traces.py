"""Traces as programs take exactly as long as `simulate` says, folded or not."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, DeadlockError
from chakrakit.machines import machine
from chakrakit.simulator import live
from chakrakit.simulator.engine import native
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet
from support.random_workloads import contended_case, crowded_case, random_case

CASES = (random_case, crowded_case, contended_case)


def simulated(traces, machine, network, share, fold):
    options = native.SimulationOptions(network=network, fold=fold, share_compute=share)
    try:
        out = native.run(traces, machine, options)
    except DeadlockError:
        return None
    rows = {r: out.rows(int(out.classes.rank[i])) for i, r in enumerate(traces.ranks)}
    return {r: (out.start[s].tolist(), out.end[s].tolist()) for r, s in rows.items()}


def played(traces, machine, network, share):
    world = live.from_traces(traces, machine, network=network, share_compute=share, compute="auto")
    try:
        run = world.run().run()
    except DeadlockError:
        return None
    return {r: (run.start(r).tolist(), run.end(r).tolist()) for r in traces.ranks}


def compare(case, seed: int) -> None:
    traces, machine, *_ = case(seed)
    how = traces, machine, "flow" if seed % 3 else "analytical", seed % 5 == 0
    alive = played(*how)
    assert alive == simulated(*how, True) == simulated(*how, False), (case.__name__, seed)


@pytest.mark.parametrize("case", CASES)
def test_every_row_begins_and_ends_to_the_picosecond(case) -> None:
    for seed in range(3):
        compare(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_on_many_more(case) -> None:
    for seed in range(3, 40):
        compare(case, seed)


def test_a_score_can_be_played_again() -> None:
    traces, machine, *_ = random_case(0)
    ends = []

    def plays(me, scores):
        for score in scores:
            yield live.play(score)
            ends.append(me.now_ps)

    world = live.World(machine, compute="auto")
    score = world.score(traces)
    world.actor(plays, [score, score, score])
    world.run()
    alone = max(max(e) for _, e in simulated(traces, machine, "flow", False, True).values())
    assert ends == [alone, 2 * alone, 3 * alone]


def test_traces_that_name_units_are_refused() -> None:
    t = TraceBuilder()
    t.comp("gemm", duration_ns=10, unit="tensor")
    with pytest.raises(ConfigError, match="name units of their device"):
        live.World().score(TraceSet.of([t]))


PLAIN = {
    "network": [{"topology": "switch", "size": 2, "bandwidth": "1 GB/s", "latency": "1 us"}],
    "device": {"name": "plain", "power": "300 W", "idle_power": "60 W"},
    "storage": {
        "disk": {"kind": "local", "bandwidth": "1 GB/s", "capacity": "10 KB", "page": 4096}
    },
}


def test_played_devices_draw_what_simulate_says() -> None:
    bodies = []
    for rank in range(2):
        t = TraceBuilder()
        first = t.comp("k", duration_ns=5_000 * (1 + rank))
        t.collective("sum", CollectiveType.ALL_REDUCE, 1_000_000, deps=[first])
        bodies.append(t.build())
    traces = TraceSet(bodies, None, Groups({"": range(2)}))
    told = ck.simulate(traces, machine(PLAIN), compute="auto").summary.energy_joules
    assert told is not None
    drawn = live.from_traces(traces, PLAIN, compute="auto").run().summary.energy_joules
    assert drawn == pytest.approx(told, rel=1e-9)


def kernels_and_a_sum(flops: float) -> TraceSet:
    bodies = []
    for _ in range(8):
        t = TraceBuilder()
        t.comp("k", num_ops=int(flops), tensor_size=int(3e8), dtype="bf16")
        t.comp("k", num_ops=int(1e9), tensor_size=int(6e9), dtype="fp32", deps=[0])
        t.comp("k", duration_ns=50_000, deps=[1])
        t.comp("h", duration_ns=1_000_000, is_cpu_op=True, deps=[2])
        t.collective("sum", CollectiveType.ALL_REDUCE, int(1e8), deps=[3])
        bodies.append(t.build())
    return TraceSet(bodies, None, Groups({"": range(8)}))


@pytest.mark.parametrize("flops", [1e11, 5e12])
@pytest.mark.parametrize("shared", [False, True])
def test_played_traces_keep_the_clocks_and_draw_the_power_that_simulate_says(
    flops: float, shared: bool
) -> None:
    traces = kernels_and_a_sum(flops)
    if shared:
        bindings = {rank: Binding(0, scale=1 + rank) for rank in range(8)}
        traces = TraceSet([traces.body_at(0)], bindings, traces.groups)
    simulated = ck.simulate(traces, "dgx-h100", compute="auto").summary
    played = live.from_traces(traces, "dgx-h100", compute="auto").run().summary
    assert played.end_ns == simulated.makespan_ns
    assert played.energy_joules == pytest.approx(simulated.energy_joules, rel=1e-9)


def test_programs_draw_what_simulate_says_of_the_same_work() -> None:
    def acts(me, group):
        yield live.compute(flops=1e9, bytes=3e8, dtype="bf16")
        yield live.compute(flops=1e9, bytes=6e9, dtype="fp32")
        yield live.compute(50_000)
        yield live.compute(1e6, host=True)
        yield live.collective("all-reduce", 1e8, group)

    world = live.World("dgx-h100", compute="auto")
    group = world.group(range(8))
    for rank in range(8):
        world.actor(acts, group, rank=rank)
    acted = world.run().summary
    simulated = ck.simulate(kernels_and_a_sum(1e9), "dgx-h100", compute="auto").summary
    assert acted.end_ns == pytest.approx(simulated.makespan_ns, rel=1e-6)
    assert acted.energy_joules == pytest.approx(simulated.energy_joules, rel=1e-6)


def test_where_energy_is_not_known_the_summary_says_why() -> None:
    def summary(machine, program, **options):
        world = live.World(machine, **options)
        world.actor(program, world)
        return world.run().summary

    def naps(me, _):
        yield live.sleep(5)

    def plays(me, world):
        t = TraceBuilder()
        t.comp("k", duration_ns=5)
        yield live.play(world.score(TraceSet([t.build()])))

    assert "does not say what its devices draw" in summary(None, naps).energy_unknown
    assert "World(record=False)" in summary("dgx-h100", naps, record=False).energy_unknown
    assert "played as one verb" in summary("dgx-h100", plays, compute="auto").energy_unknown
    assert summary("dgx-h100", naps).energy_unknown == ""


def test_stores_move_whole_pages_hold_so_much_and_refuse_by_name() -> None:
    def writes(me, times):
        for _ in range(times):
            yield live.store("disk", 100)
        return me.now

    def run(times, **changed):
        storage = {"disk": {**PLAIN["storage"]["disk"], **changed}}
        world = live.World({**PLAIN, "storage": storage})
        world.actor(writes, times, name="w")
        return world.run().returned["w"]

    assert run(2) == 2 * 4096
    with pytest.raises(ConfigError, match="12,288 bytes are written to a server of 'disk'"):
        run(3)
    with pytest.raises(ConfigError, match="'disk' refuses what finds its queue full"):
        run(1, operations=1, queue=1, when_full="refuse")
