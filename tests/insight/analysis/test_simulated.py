"""Simulated runs: the path is the makespan, nothing is unexplained, and the model gives the run back."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.insight import analyze, analyze_rows
from chakrakit.simulator.astra import AstraOptions, make_config, simulate, to_run
from chakrakit.trace.sets import run_of

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def pipeline(stages: int, wide: int, batches: int) -> ck.TraceSet:
    """Stages of `wide` tensor-parallel ranks each: forward through the stages, then back, then a sum."""
    bodies = []
    for rank in range(stages * wide):
        stage, groups = rank // wide, str(1 + rank // wide)
        t = ck.TraceBuilder()
        last: list[int] = []
        for way in (1, -1):
            for batch in range(batches):
                tag = batch * 2 + (way < 0)
                before, after = rank - way * wide, rank + way * wide
                received = []
                if 0 <= before < stages * wide:
                    received = [t.recv(f"get {batch}", before, rank, 1 << 16, tag)]
                last = [
                    t.comp(
                        f"layer {way} {batch}",
                        num_ops=(stage + 2) * 10**9,
                        tensor_size=1 << 20,
                        deps=[*received, *last],
                    )
                ]
                if wide > 1:
                    last = [
                        t.collective(
                            f"tp {way} {batch}",
                            ck.CollectiveType.ALL_REDUCE,
                            1 << 18,
                            pg_name=groups,
                            deps=last,
                        )
                    ]
                if 0 <= after < stages * wide:
                    t.send(f"give {batch}", rank, after, 1 << 16, tag, deps=last)
        t.collective("gradients", ck.CollectiveType.ALL_REDUCE, 1 << 20, pg_name="99", deps=last)
        bodies.append(t.build())
    groups = {str(1 + s): list(range(s * wide, (s + 1) * wide)) for s in range(stages) if wide > 1}
    return ck.TraceSet(bodies, groups=ck.Groups({**groups, "99": range(stages * wide)}))


def simulated(traces: ck.TraceSet) -> ck.Run:
    system = {
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        "roofline-enabled": 1,
        "peak-perf": 900,
        **{f"{c}-implementation": ["ring"] for c in COLLECTIVES},
    }
    network = {
        "topology": ["Ring"],
        "npus_count": [len(traces)],
        "bandwidth": [50.0],
        "latency": [500.0],
    }
    groups = {name: list(ranks) for name, ranks in traces.groups.items()}
    config = make_config(system, network, {"memory-type": "NO_MEMORY_EXPANSION"}, groups)
    return to_run(simulate(traces, config, AstraOptions()), traces)


@pytest.fixture(scope="module", params=[(1, 4, 3), (2, 2, 4), (4, 1, 6)])
def result(request):
    run = simulated(pipeline(*request.param))
    return run, analyze(run)


def test_the_path_is_as_long_as_the_run(result):
    run, analysis = result
    assert analysis.critical_path.length_ns == run.makespan_ns
    assert analysis.critical_path.unexplained_ns == 0
    assert set(analysis.critical_path.attribution) <= {"compute", "communication"}


def test_breakdowns_sum_to_the_span(result):
    _, analysis = result
    for rank in analysis.ranks:
        b = rank.breakdown
        assert b.compute_ns + b.exposed_comm_ns + b.exposed_copy_ns + b.idle_ns == analysis.span_ns


def test_scheduled_again_it_takes_as_long(result):
    _, analysis = result
    assert analysis.what_if.scheduled_ns == analysis.what_if.measured_ns
    assert all(g.saved_ns > 0 for g in analysis.what_if.gains)


def test_pipelines_have_bubbles():
    analysis = analyze(simulated(pipeline(4, 1, 6)))
    assert sum(r.breakdown.bubble_ns for r in analysis.ranks) > 0.1 * analysis.span_ns


def unfolded(run: ck.Run) -> ck.Run:
    """The same with times of its own for every rank."""
    times = [ck.Times(run.start(r).copy(), run.end(r).copy()) for r in run.ranks]
    timing = {r: i for i, r in enumerate(run.ranks)}
    return ck.Run(run.bodies, run.bindings, run.groups, run.card, times=times, timing=timing)


@pytest.mark.parametrize("shape", [(1, 4, 3), (2, 2, 4)])
def test_ranks_that_share_times_are_looked_at_once(shape):
    """Tensor-parallel ranks that share a body and times: all figures are those of looking at each."""
    traces = pipeline(*shape)
    wide = shape[1]
    # Rank r of a stage runs the program of the stage's first rank; only its peers differ.
    bindings = {
        r: ck.Binding(r - r % wide, peers={p: p + r % wide for p in range(len(traces))})
        for r in traces.ranks
    }
    apart = simulated(ck.TraceSet(traces.bodies, bindings, traces.groups))
    run = run_of(apart, {r: apart.times_of(r) for r in apart.ranks}, tick_ps=1000)
    assert len(run.times) < len(run)
    once, each = analyze(run), analyze(unfolded(run))
    assert any("run the program of another" in n for n in once.notes)
    for name in (
        "span_ns",
        "ranks",
        "steps",
        "collectives",
        "communication",
        "stragglers",
        "operators",
        "launches",
    ):
        assert getattr(once, name) == getattr(each, name), name
    assert once.critical_path.attribution == each.critical_path.attribution
    assert [(g.what, g.saved_ns) for g in once.what_if.gains] == [
        (g.what, g.saved_ns) for g in each.what_if.gains
    ]


@pytest.mark.parametrize(
    "disturbed",
    [
        pytest.param({}, marks=pytest.mark.slow, id="even"),
        pytest.param({"stragglers": {3: 1.4}}, id="straggler"),
    ],
)
def test_figures_of_a_folded_run_are_those_of_looking_at_every_rank(disturbed):
    """Tensor, pipeline and data parallel ranks, folded by the simulator: like ranks count by their number."""
    plan = ck.generate(model="llama-3.1-8b", tp=2, pp=2, dp=4, layers=2, seq=256, global_batch=8)
    run = ck.simulate(plan.traces, "dgx-h100:2", **disturbed).run()
    assert len(run.times) < len(run)
    once, each = analyze(run), analyze(unfolded(run))
    same = (
        "ranks",
        "steps",
        "collectives",
        "communication",
        "stragglers",
        "slow_links",
        "operators",
    )
    for name in ("span_ns", *same, "launches", "memory", "culprits", "delays", "bound"):
        assert getattr(once, name) == getattr(each, name), name
    assert once.critical_path.attribution == each.critical_path.attribution
    assert [g.saved_ns for g in once.what_if.gains] == [g.saved_ns for g in each.what_if.gains]
    assert [*meetings(run)] == [*meetings(unfolded(run))]


def meetings(run: ck.Run):
    """Of every call of every rank: its group, who came last, and the other ranks' calls."""
    matched = analyze_rows(run, lambda _done, _total: None)[1].matched
    for rank, trace in run:
        for row in range(len(trace)):
            if (met := matched.meeting(rank, row)) is not None:
                calls = zip(met.ranks.tolist(), matched.row[met.calls].tolist(), strict=True)
                last = (
                    matched.last_rank(met.call, met.group) if matched.collective[met.call] else None
                )
                yield rank, row, matched.group_names[met.group], last, sorted(calls)
