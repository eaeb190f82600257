"""Graph neural networks: what is gathered, computed and written, counted by hand."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.trace.model import NodeType
from chakrakit.workloads.parts import GnnGraph, GnnStep, generate_gnn

GRAPH = GnnGraph(vertices=4000, degree=10, partitions=8)


def sums(trace, kind, column):
    return int(trace.column(column, 0)[trace.is_type(kind)].sum())


def test_every_edge_is_counted_once_and_lies_in_the_graph():
    src, dst = GRAPH.edges
    assert len(src) == 40_000
    assert src.min() >= 0
    assert max(src.max(), dst.max()) < GRAPH.vertices
    assert GRAPH.edges_into.sum() == len(src)
    local = (GRAPH.partition(src) == GRAPH.partition(dst)).mean()
    assert local == pytest.approx(0.5 + 0.5 / 8, abs=0.02)


def test_degrees_follow_a_power_law():
    skewed, even = (
        np.sort(np.bincount(GnnGraph(vertices=4000, degree=10, skew=s, local=0.0).edges[0]))
        for s in (1.0, 0.0)
    )
    assert skewed[-40:].sum() > 5 * even[-40:].sum()


def test_a_partition_reads_each_vertex_it_needs_once():
    src, dst = GRAPH.edges
    into = GRAPH.partition(dst) == 3
    assert sum(GRAPH.needs[3].values()) == len(np.unique(src[into]))


def test_work_and_bytes_by_hand():
    step = GnnStep(features=64, hidden=32, layers=1, training=False, storage="nvme")
    trace = generate_gnn(GRAPH, step).trace(0)
    needed = sum(sum(needs.values()) for needs in GRAPH.needs)
    assert sums(trace, NodeType.MEM_LOAD_NODE, "tensor_size") == needed * 64 * 4
    assert sums(trace, NodeType.MEM_LOAD_NODE, "pieces") == needed
    assert sums(trace, NodeType.MEM_STORE_NODE, "tensor_size") == 4000 * 32 * 4
    assert sums(trace, NodeType.COMP_NODE, "num_ops") == 40_000 * 64 + 2 * 4000 * 64 * 32


def test_whole_partitions_are_read_in_one_piece_each():
    step = GnnStep(layers=1, training=False, storage="nvme", whole=True)
    trace = generate_gnn(GRAPH, step).trace(0)
    assert sums(trace, NodeType.MEM_LOAD_NODE, "tensor_size") == 8 * 4000 * 128 * 4
    assert set(trace.column("pieces", 1).tolist()) == {1}


def test_a_step_runs_on_a_machine_and_training_takes_longer():
    machine = ck.machine(
        {
            "device": {"peak": {"fp32": 1e13}, "memory_bandwidth": 1e12},
            "network": [{"topology": "switch", "size": 1, "bandwidth": 1e9}],
            "storage": {"nvme": {"kind": "local", "bandwidth": "5 GB/s"}},
        }
    )
    times = [
        ck.simulate(generate_gnn(GRAPH, GnnStep(training=t, storage="nvme")), machine).makespan_ns
        for t in (False, True)
    ]
    assert times[1] > times[0] > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"vertices": 10.5},
        {"vertices": 10**12},
        {"partitions": 0},
        {"partitions": 5000},
        {"degree": 0},
        {"local": 2},
        {"skew": -1},
    ],
)
def test_graphs_that_cannot_be_are_refused(bad):
    with pytest.raises(ConfigError, match="give"):
        GnnGraph(**{"vertices": 4000, "degree": 10, **bad})
