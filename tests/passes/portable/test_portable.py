"""Portable traces: any reader of plain dependencies gets the run's own schedule.

The reader here is independent: it takes the `.et` files apart with the protobuf runtime, knows `data_deps`,
`ctrl_deps` and `duration_micros`, and nothing else.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.commands import main
from support.oracle import bodies_of, message
from support.recorded import linked

LINKED = [
    "gpt2_124m_b8_s1024",
    "cnn_ddp_2",
    "gpt_pp_2",
    "gpt_fsdp_tp_4",
    "two_streams",
    "mlp_ddp_nccl_1",
]
GENERATED = {
    "pipeline": {"dp": 2, "tp": 2, "pp": 2, "seq": 256, "global_batch": 8},
    "fsdp": {"dp": 4, "data": "fsdp", "seq": 256, "global_batch": 8},
    "sequence": {"tp": 4, "seq": 512, "global_batch": 2},
}


def nodes_of(path: Path) -> list[Any]:
    found = []
    for body in list(bodies_of(path.read_bytes()))[1:]:
        node = message("Node")()
        node.ParseFromString(body)
        found.append(node)
    return found


def plain_micros(nodes: list[Any]) -> int:
    """The longest path, node by node, as the simplest of simulators would take it."""
    duration = {n.id: n.duration_micros for n in nodes}
    parents = {n.id: [*n.data_deps, *n.ctrl_deps] for n in nodes}
    end: dict[int, int] = {}
    waiting = list(parents)
    while waiting:
        node = waiting[-1]
        later = [p for p in parents[node] if p not in end]
        if node not in end and later:
            waiting += later
            continue
        waiting.pop()
        end[node] = max((end[p] for p in parents[node]), default=0) + duration[node]
    return max(end.values())


def makespan_ns(run: ck.Run) -> int:
    low, high = [], []
    for rank in run.ranks:
        times = run.times_of(rank)
        ran = times.end >= np.maximum(times.start, 0)
        low.append(int(times.start[ran].min()))
        high.append(int(times.end[ran].max()))
    return (max(high) - min(low)) * run.tick_ps // 1000


def simulated(name: str) -> ck.Run:
    traces = ck.generate(model="gpt3-125m", **GENERATED[name]).traces
    return ck.simulate(traces, "dgx-h100", compute="roofline").run()


@pytest.fixture(params=[*LINKED, *GENERATED], scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run, and the folder of its portable files."""
    name = request.param
    run = linked(name) if name in LINKED else simulated(name)
    home = tmp_path_factory.mktemp(name)
    ck.write(run, home / "run")
    main(["convert", str(home / "run"), str(home / "w.N.et"), "--portable"], standalone_mode=False)
    return run, home


@pytest.mark.first(1)
def test_the_plain_reading_of_every_rank_is_the_makespan(case: Any) -> None:
    run, home = case
    for rank in run.ranks:
        found = plain_micros(nodes_of(home / f"w.{rank}.et"))
        assert found == pytest.approx(makespan_ns(run) / 1000, rel=1e-3)


@pytest.mark.first(1)
def test_operators_keep_their_time(case: Any) -> None:
    """Pieces of an operator on the device add up to its duration; gaps come on top of nothing."""
    run, home = case
    for rank in run.ranks[:1]:
        trace, plain = run.timed_trace(rank), ck.read(home / "w")[rank]
        host = np.asarray(trace.column("is_cpu_op", False), np.bool_)
        work = ~host & trace.is_type(ck.NodeType.COMP_NODE)
        ran = np.flatnonzero(work & (trace.duration_ns > 0))
        before: dict[str, int] = defaultdict(int)
        after: dict[str, int] = defaultdict(int)
        for row in ran.tolist():
            before[trace[row].name] += int(trace.duration_ns[row])
        for node in (plain[i] for i in range(len(plain))):
            after[node.name] += node.duration_ns if node.type == "COMP_NODE" else 0
        assert {n: after[n] for n in before} == before


@pytest.mark.first(1)
def test_the_rules_that_simulators_check(case: Any) -> None:
    """Positive groups with members here, no communication on the host, collectives of a group in order."""
    run, home = case
    groups = json.loads((home / "w.json").read_text())
    assert all(int(name) > 0 for name in groups)
    for rank in run.ranks:
        nodes = nodes_of(home / f"w.{rank}.et")
        attributes = {n.id: {a.name: a for a in n.attr} for n in nodes}
        by_group: dict[str, list[Any]] = defaultdict(list)
        for node in nodes:
            given = attributes[node.id]
            if node.type in (5, 6, 7):
                assert not given["is_cpu_op"].bool_val
            elif node.type == 4:
                assert "num_ops" in given
                assert "tensor_size" in given
            if node.type == 7:
                name = given["pg_name"].string_val
                assert rank in groups[name]
                by_group[name].append(node)
        for members in by_group.values():
            order = sorted(members, key=lambda n: (n.start_time_micros, n.id))
            for first, second in itertools.pairwise(order):
                assert first.id in second.data_deps


def test_it_validates_and_its_own_times_agree_with_the_plain_reading(case: Any) -> None:
    _, home = case
    report = ck.validate(home / "w")
    assert report.ok
    assert report.plain_span_ns == pytest.approx(report.span_ns, rel=1e-3)


def test_validate_says_how_far_a_linked_trace_is_from_its_plain_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ck.write(linked("gpt2_124m_b8_s1024"), tmp_path / "r.N.et")
    report = ck.validate(tmp_path / "r")
    assert report.plain_span_ns is not None
    assert report.span_ns is not None
    assert report.plain_span_ns > 1.3 * report.span_ns
    main(["validate", str(tmp_path / "r")], standalone_mode=False)
    assert "--pass portable` makes them agree" in capsys.readouterr().out


def test_traces_without_times_are_refused() -> None:
    traces = ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces
    with pytest.raises(ck.TraceError, match="simulate the traces first"):
        ck.transform(traces, "portable")


def test_a_wait_becomes_a_dependency_and_a_launch_a_cut() -> None:
    """An operator of 10 launches a kernel at 2, waits for it until 30, and ends at 31."""
    builder = ck.TraceBuilder()
    op = builder.comp("op", is_cpu_op=True, start_time_ns=0, duration_ns=31, own_ns=3, tid=1)
    builder.comp("kernel", start_time_ns=5, duration_ns=25, stream=7)
    trace = builder.build()
    edges = ck.Edges(
        np.array([op, 1], np.int32),
        np.array([1, op], np.int32),
        np.array([ck.EdgeKind.LAUNCH, ck.EdgeKind.SYNC], np.int8),
        np.array([ck.EdgeForm.START_START, ck.EdgeForm.FINISH_FINISH], np.int8),
        np.array([2, 0], np.int64),
        np.zeros(2, np.bool_),
    )
    run = ck.Run([trace.with_edges(edges)])
    plain = ck.transform(run, ck.Portable()).traces[0]
    shown = sorted(
        (n.start_ns, n.start_ns + n.duration_ns, n.name)
        for n in map(plain.__getitem__, range(len(plain)))
    )
    assert shown == [(0, 2, "op"), (2, 5, "gap"), (5, 30, "kernel"), (30, 31, "op")]


def test_overlapping_collectives_of_a_group_follow_each_other_without_losing_time() -> None:
    builder = ck.TraceBuilder()
    for start, end in ((0, 10), (6, 14)):
        builder.collective(
            "c", ck.CollectiveType.ALL_REDUCE, 4, start_time_ns=start, duration_ns=end - start
        )
    run = ck.Run([builder.build()], groups=ck.Groups({"1": [0]}))
    plain = ck.transform(run, ck.Portable()).traces[0]
    calls = [n for n in map(plain.__getitem__, range(len(plain))) if n.name == "c"]
    assert [(n.start_ns, n.duration_ns) for n in calls] == [(0, 6), (6, 8)]
    assert calls[0].id in [p.id for p, _ in calls[1].parents]


def test_the_makespan_is_that_of_all_timing_classes_of_a_body() -> None:
    """Two ranks run one body, and the second takes longer: both end when the run does."""
    t = ck.TraceBuilder()
    t.comp("w", duration_ns=10_000, stream=7)
    traces = ck.TraceSet([t.build()], {0: ck.Binding(0), 1: ck.Binding(0)})
    times = [ck.Times(np.array([0]), np.array([n])) for n in (10_000, 30_000)]
    run = ck.Run(traces.bodies, traces.bindings, times=times, timing={0: 0, 1: 1})
    run = run.with_card(run.card.replace(tick_ps=1000))
    explained = ck.transform(run, "portable")
    assert run.span_ns == (0, 30_000)
    assert explained.traces.trace(1).duration_ns.sum() == 30_000
