"""A strategy as directives on one global trace gives what the generator's own plan gives."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.passes.directives import Stream
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import Trace, TraceBuilder
from chakrakit.trace.sets import TraceSet

MODEL = {"family": "decoder", "layers": 4, "hidden": 64, "heads": 4, "vocab": 1000}
STEP = {"seq": 32, "global_batch": 8}
COLUMNS = (
    "type", "num_ops", "tensor_size", "comm_type", "comm_size", "out_size", "micro_batch", "layer", "phase",
    "mem_alloc", "mem_free", "inputs_shapes", "pg_name",
)  # fmt: skip


def generated(step: dict[str, Any] | None = None, **plan: Any) -> TraceSet:
    return ck.generate({"model": MODEL, "plan": plan, "step": {**STEP, **(step or {})}}).traces


def nodes(trace: Trace) -> Counter[tuple[Any, ...]]:
    """The nodes without their numbers; collectives of a block by the last part of their names."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in trace.nodes.to_pylist():
        inside = row["comm_type"] is not None and row["micro_batch"] is not None
        name = row["name"].rpartition(".")[2] if inside else row["name"]
        group = "".join(c for c in row["pg_name"] or "" if c.isalpha())
        found[name, *(row[c] or 0 for c in COLUMNS[:-1]), bool(group or row["pg_name"])] += 1
    return found


def gates(trace: ck.Trace) -> dict[str, set[str]]:
    """What every bucket of gradients waits for."""
    names = trace.names.to_pylist()
    found: dict[str, set[str]] = {}
    for before, after in zip(trace.edges.src.tolist(), trace.edges.dst.tolist(), strict=True):
        if names[after].startswith("gradients.") and not names[before].startswith("gradients."):
            found.setdefault(names[after], set()).add(names[before])
    return found


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("directives", "plan"),
    [
        (["replicate:ranks=4"], {"dp": 4}),
        (["replicate:ranks=4", "shard:what=optimizer"], {"dp": 4, "data": "zero1"}),
        (["replicate:ranks=4", "shard:what=gradients"], {"dp": 4, "data": "zero2"}),
        # Buckets that end within a layer wait for no more than their own weights.
        (
            ["replicate:ranks=4", "shard:what=gradients,bucket_mb=0.02"],
            {"dp": 4, "data": "zero2", "bucket_mb": 0.02},
        ),
        (["replicate:ranks=4", "shard:what=parameters"], {"dp": 4, "data": "fsdp"}),
        (["place:stages=[1,3]", "order", "replicate:ranks=2"], {"pp": 2, "dp": 2, "split": [1, 3]}),
    ],
)
def test_directives_give_the_generators_nodes_bytes_memory_and_time(
    directives: list[str], plan: dict[str, Any]
) -> None:
    mine = ck.transform(generated(data="zero1"), directives).traces
    theirs = generated(**plan)
    assert list(mine.ranks) == list(theirs.ranks)
    for rank in theirs.ranks:
        assert nodes(mine.trace(rank)) == nodes(theirs.trace(rank))
        assert mine.trace(rank).metadata.attributes == theirs.trace(rank).metadata.attributes
        assert gates(mine.trace(rank)) == gates(theirs.trace(rank))
    times = [ck.simulate(t, machine="dgx-h100").makespan_ns for t in (mine, theirs)]
    assert times[0] == times[1]
    assert ck.validate(mine).ok


def test_a_split_micro_batch_is_what_smaller_micro_batches_are() -> None:
    large = generated({"micro_batch": 8}, data="zero1")
    split = ck.transform(large, ["split:ways=8"]).traces
    assert nodes(split.trace(0)) == nodes(generated(data="zero1").trace(0))


def test_an_order_of_ones_own_and_a_stream() -> None:
    tasks = "[[F0,F1,F2,B0,F3,B1,B2,B3],[F0,B0,F1,B1,F2,B2,F3,B3]]"
    steps = ["place:stages=[2,2]", f"order:tasks={tasks}", "stream:match=optimizer,to=9"]
    traces = ck.transform(generated({"global_batch": 4}, data="zero1"), steps).traces
    first = traces.trace(0)
    begun = [
        (r["phase"], r["micro_batch"])
        for r in first.nodes.to_pylist()
        if r["name"] in ("embedding", "send_forward", "recv_backward")
    ]
    assert next(b for b in begun if b[0] == "backward") == ("backward", 0)
    assert begun.index(("forward", 2)) < begun.index(("backward", 0)) < begun.index(("forward", 3))
    assert set(first.column("stream", 0)[first.column("type", 0) == 4].tolist()) == {0, 9}
    assert ck.simulate(traces, machine="dgx-h100").makespan_ns > 0


@pytest.mark.parametrize(
    ("directives", "says"),
    [
        (["shard"], "replicate first"),
        (["replicate:ranks=3"], "shared evenly"),
        (["place:stages=[1,1]"], "2 layers in all"),
        (["replicate:ranks=2", "replicate:ranks=2"], "groups already"),
        (["order:tasks=[[F0,B0]]"], "every task once"),
        (["stream:match=(,to=3"], "regular expression"),
    ],
)
def test_directives_that_do_not_fit_say_why(directives: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ck.transform(generated(data="zero1"), directives)


def test_directives_on_a_trace_from_a_file_give_what_they_give_in_memory(tmp_path: Path) -> None:
    """A file of one rank has no columns of communication, which generated traces in memory have."""
    made = generated(data="zero1")
    ck.write(made, tmp_path / "global")
    file = ck.read(tmp_path / "global")
    for passes in (
        ["replicate{ranks=4}", "shard{what=parameters}"],
        ["place{stages=[2, 2]}", "order{schedule=1f1b}", "replicate{ranks=2}"],
    ):
        read, kept = (ck.transform(traces, passes).traces for traces in (file, made))
        for rank in kept.bindings:
            assert nodes(read.trace(rank)) == nodes(kept.trace(rank))
        times = [
            ck.simulate(t, "dgx-h100", compute="roofline").summary.makespan_s for t in (read, kept)
        ]
        assert times[0] == times[1]


def test_a_stream_counts_the_nodes_of_the_first_body() -> None:
    """The first of two stages has two nodes of the name, the last one."""
    first, last = TraceBuilder(), TraceBuilder()
    for builder, count in ((first, 2), (last, 1)):
        for _ in range(count):
            builder.comp("gemm", duration_ns=1)
        builder.comp("norm", duration_ns=1)
    traces = TraceSet([first.build(), last.build()], {0: Binding(0), 1: Binding(1)})
    directive = Stream(match="gemm", to=9)
    assert directive.explain(traces, directive.apply(traces)) == {"nodes": 2}


def test_a_stream_for_names_that_no_node_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="no node's name matches 'all_reduse'"):
        ck.transform(generated(data="ddp", dp=2), ["stream{match=all_reduse, to=9}"])


def test_the_report_says_how_many_ranks_there_are_and_what_one_reduces():
    """As much as a rank of the plan that the generator has for it."""
    report = ck.transform(generated(data="zero1"), ["replicate:ranks=4"]).report.applied[-1]
    reduced = generated(dp=4).trace(0)
    sizes = reduced.column("comm_size", 0)[reduced.column("comm_type", -1) >= 0]
    assert report.notes == {"ranks": 4, "reduced_bytes": int(sizes.sum())}


@pytest.mark.parametrize("directive", ["split", "order", "replicate", "place{stages=[4]}"])
@pytest.mark.parametrize("lost", ["stream", "phase", "tensor_size", "dtype", "inputs_shapes"])
def test_a_trace_that_is_not_a_global_one_is_refused_or_changed_to_a_valid_one(
    directive: str, lost: str
) -> None:
    """Directives read what the generator writes of every node; where it is not there, the error says so."""
    trace = generated(data="zero1").trace(0)
    values = [None] * len(trace) if lost != "inputs_shapes" else ["[[3]]"] * len(trace)
    odd = TraceSet([trace.with_columns({lost: values})])
    with contextlib.suppress(ConfigError):
        assert ck.validate(ck.transform(odd, [directive]).traces).ok


@pytest.mark.parametrize("directive", ["split", "order", "order{tasks=[[B0, F0]]}"])
def test_a_directive_writes_no_circle(directive: str) -> None:
    """In the file, or in the order that is asked for, a node stands before one that it waits for."""
    trace = generated(data="zero1", step={"global_batch": 1}).trace(0)
    backwards = TraceSet([trace.select(range(len(trace))[::-1]).with_edges(_reversed(trace))])
    for traces in (backwards, TraceSet([trace])):
        with contextlib.suppress(ConfigError):
            assert ck.validate(ck.transform(traces, [directive]).traces).ok


def _reversed(trace: Trace) -> ck.Edges:
    """The edges of a trace whose rows were put in the opposite order."""
    e, last = trace.edges, len(trace) - 1
    return ck.Edges.of(last - e.src, last - e.dst, e.kind, e.form, e.lag)


def test_replicas_of_a_group_that_nothing_defines_are_not_sharded() -> None:
    traces = ck.transform(generated(data="zero1"), ["replicate:ranks=2"]).traces
    undefined = TraceSet([traces.body_at(0)], traces.bindings, card=traces.card)
    with pytest.raises(ConfigError, match="no replicas to shard over"):
        ck.transform(undefined, ["shard"])
