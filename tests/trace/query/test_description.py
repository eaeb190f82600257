"""What a trace holds, counted."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, Times, Trace, TraceBuilder, TraceSet, write
from chakrakit.errors import ChakraError
from chakrakit.trace.codecs.et import EtWriter
from chakrakit.trace.query import describe, describe_traces
from chakrakit.trace.sets import run_of


def program() -> Trace:
    t = TraceBuilder()
    a = t.comp("gemm", duration_ns=1_500, num_ops=2**62)
    b = t.collective(
        "sync", CollectiveType.ALL_REDUCE, 2**62, deps=[a], ctrl_deps=[a], pg_name="tp"
    )
    t.collective("sync", CollectiveType.ALL_REDUCE, 2**62, deps=[b], pg_name="tp")
    t.send("s", 0, 1, 8, deps=[b])
    t.node("odd", 42)  # type: ignore[arg-type]
    return t.build()


def test_one_file(tmp_path: Path) -> None:
    write(program(), tmp_path / "t.3.et")
    (tmp_path / "t.json").write_text('{"tp": [0, 3]}')
    info = describe(tmp_path / "t.3.et")
    assert (info.ranks, info.world_size, info.groups, info.missing_ranks) == (1, 4, 1, [0])
    assert (info.nodes, info.edges.data, info.edges.ctrl) == (5, 3, 1)
    assert info.types == {
        "COMP_NODE": 1,
        "COMM_SEND_NODE": 1,
        "COMM_COLL_NODE": 2,
        "NODE_TYPE_42": 1,
    }
    assert info.compute_ops == 2**62
    assert [(c.type, c.group, c.count, c.bytes) for c in info.communication] == [
        ("ALL_REDUCE", "tp", 2, 2**63),
        ("SEND", "", 1, 8),
    ]
    assert info.attributes["comm_size"] == 3
    assert "id" not in info.attributes
    assert (info.timed, info.span_ns) == (False, 0)


def test_folded_ranks_count_as_often_as_they_run(tmp_path: Path) -> None:
    traces = TraceSet([program()], {r: Binding(0) for r in range(3)}, Groups({"tp": [0, 1, 2, 8]}))
    write(traces, tmp_path / "d")
    info = describe(tmp_path / "d")
    assert (info.ranks, info.bodies, info.nodes, info.world_size) == (3, 1, 15, 9)
    assert info.compute_ops == 3 * 2**62
    assert info.missing_ranks == [8]


def test_a_run_spans_its_times(tmp_path: Path) -> None:
    times = Times(np.arange(5) * 1_000_000, np.arange(5) * 1_000_000 + 500_000)
    write(run_of(TraceSet([program()]), {0: times}, tick_ps=1), tmp_path / "d")
    info = describe(tmp_path / "d")
    assert (info.timed, info.span_ns) == (True, 4500)


def test_unknown_kinds_of_edges_do_not_matter_here() -> None:
    trace = Trace.from_columns(
        {"name": ["a", "b"], "type": [7, 7], "data_deps": [[], [0]], "edge_kinds": [None, b"\xff"]}
    )
    out = io.BytesIO()

    EtWriter(out).write(trace)
    out.seek(0)
    info = describe(out)
    assert [(c.type, c.count) for c in info.communication] == [("UNKNOWN", 2)]


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ChakraError, match="no such file"):
        describe(tmp_path / "x")


def test_ranks_without_a_kind_of_call_do_not_count_in_its_mean() -> None:
    """Of four ranks two have a group of their own."""
    quiet = TraceBuilder()
    quiet.comp("gemm", duration_ns=10)
    bindings = {0: Binding(0), 1: Binding(0), 2: Binding(1), 3: Binding(1)}
    traces = TraceSet([program(), quiet.build()], bindings, Groups({"tp": (0, 1)}))
    lines = {(c.type, c.group): c for c in describe_traces(traces).communication}
    sync = lines["ALL_REDUCE", "tp"]
    assert (sync.count, sync.ranks) == (4, 2)
