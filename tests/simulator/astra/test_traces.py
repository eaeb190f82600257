"""From traces in memory to the core's graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrakit import Binding, CollectiveType, NodeType, Trace, TraceBuilder, TraceSet, write
from chakrakit.errors import TraceError
from chakrakit.simulator.astra import make_config, simulate
from chakrakit.simulator.astra.traces import load_traces, trace_columns
from chakrakit.simulator.astra.workload import BITS
from support.astra_cases import network, system

MB = 1 << 20


def test_files_and_traces_in_memory_give_the_same(tmp_path: Path) -> None:
    traces = TraceSet([_mixture(rank) for rank in range(4)])
    write(traces, tmp_path / "w.N.et")
    config = make_config(
        system(), network(("Ring", 2), ("Switch", 2)), {}, {"1": [0, 1], "2": [3, 2]}
    )
    config.system.all_reduce_implementation = ["ring", "ring"]
    files, memory = simulate(str(tmp_path / "w"), config), simulate(traces, config)
    for rank in range(4):
        assert files.table(rank)["id"].tolist() == memory.table(rank)["id"].tolist()
        assert files.start(rank).tolist() == memory.start(rank).tolist()
        assert files.end(rank).tolist() == memory.end(rank).tolist()


def _mixture(rank: int) -> Trace:
    graph = TraceBuilder()
    first = graph.comp("a", duration_ns=3_000 * (rank + 1))
    group = graph.collective(
        "g", CollectiveType.ALL_REDUCE, MB, deps=[first], pg_name="12"[rank // 2]
    )
    along = graph.collective(
        "d", CollectiveType.ALL_REDUCE, MB, deps=[group], involved_dim=[True, False]
    )
    other = graph.comp("cpu", duration_ns=9_000, is_cpu_op=True, ctrl_deps=[first])
    graph.send("to", rank, rank ^ 1, 4096, deps=[along, other])
    graph.recv("from", rank ^ 1, rank, 4096, deps=[along])
    return graph.build()


def test_attributes_become_columns_and_bits_say_which_are_there() -> None:
    t = TraceBuilder()
    first = t.comp("a", duration_ns=3_000, num_ops=5)
    t.collective("c", CollectiveType.ALL_GATHER, 64, ctrl_deps=[first], pg_name="12")
    t.collective("d", CollectiveType.ALL_GATHER, 64, deps=[first], involved_dim=[False, True, True])
    columns = trace_columns(t.build())
    assert columns["duration_micros"].tolist() == [3, 0, 0]
    assert columns["group"].tolist() == [0, 12, 0]
    assert columns["involved_dim"].tolist() == [0, 0, 0b110]
    assert columns["dep_offsets"].tolist() == [0, 0, 1, 2]
    assert columns["deps"].tolist() == [0, 0]
    sized = BITS["comm_type"] | BITS["comm_size"]
    assert columns["has"].tolist() == [
        BITS["num_ops"],
        sized | BITS["group"],
        sized | BITS["involved_dim"],
    ]


@pytest.mark.parametrize("name", ["tp", "-1", "1.5", "9" * 23])
def test_groups_must_have_numbers(name: str) -> None:
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 64, pg_name=name)
    with pytest.raises(TraceError, match=f"'{name}' is not the number of a communicator group"):
        trace_columns(t.build())


def test_every_rank_of_the_network_needs_a_trace() -> None:
    t = TraceBuilder()
    t.comp("a")
    with pytest.raises(TraceError, match="has 3 ranks and the workload none for rank 1"):
        load_traces(TraceSet([t.build()]), 3, lenient=False)


def test_ranks_that_run_a_body_alike_share_a_graph() -> None:
    """A body that names its own rank in a message is each rank's own."""
    alike, own = TraceBuilder(), TraceBuilder()
    alike.comp("a", duration_ns=1_000)
    own.node("r", NodeType.COMM_RECV_NODE, comm_src=2, comm_size=64, comm_tag=0)
    shared = load_traces(TraceSet([alike.build()], {0: Binding(0), 1: Binding(0)}), 2, lenient=True)
    apart = load_traces(TraceSet([own.build()], {0: Binding(0), 1: Binding(0)}), 2, lenient=True)
    assert list(shared.body_of) == [0, 0]
    assert list(apart.body_of) == [0, 1]
