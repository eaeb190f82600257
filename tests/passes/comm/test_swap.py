"""Another algorithm for a call; an all-reduce as its two halves, and back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chakrakit import CollectiveType, TraceBuilder
from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.passes.comm import Comm
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import simulate
from support.comm_cases import alike, case, edges_of, generated, sorted_edges, values_of

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def _simulated(traces, **fixed):
    options = SimulationOptions(
        algorithms=Algorithms(fixed and {k.replace("_", "-"): v for k, v in fixed.items()})
    )
    return simulate(traces, "ethernet-100g:4", options=options)


@pytest.mark.parametrize("name", ["ring", "direct", "double-tree"])
def test_a_call_gets_the_algorithm_it_asks_for(name):
    traces = alike(_one_all_reduce(), 4)
    asked, given = (
        _simulated(traces | Comm("algorithm", algorithm=name)),
        _simulated(traces, all_reduce=name),
    )
    assert asked.makespan_ns == given.makespan_ns
    assert [c.algorithm for c in asked.summary.collectives] == [name]


def test_only_the_chosen_calls_ask_and_auto_takes_it_back():
    t = TraceBuilder()
    t.collective("small", AR, 100)
    t.collective("large", AR, 10_000_000)
    traces = alike(t, 4)
    asked = traces | Comm("algorithm", algorithm="direct", min_size="1 MB")
    assert asked.body(0).table.column("comm_algorithm").to_pylist() == [None, "direct"]
    back = asked | Comm("algorithm", algorithm="auto")
    assert _simulated(back).makespan_ns == _simulated(traces).makespan_ns


def test_an_algorithm_that_is_none_is_refused_by_the_simulator():
    with pytest.raises(ConfigError, match="no algorithm 'rings' for all-reduce"):
        _simulated(alike(_one_all_reduce(), 4) | Comm("algorithm", algorithm="rings"))


def _one_all_reduce(**extra):
    t = TraceBuilder()
    a = t.comp("grad", duration_ns=100)
    b = t.collective("sync", AR, 1002, deps=[a], comm_dtype="bf16", **extra)
    t.comp("step", duration_ns=100, deps=[b])
    return t


def test_an_all_reduce_becomes_its_two_halves_with_shards_of_whole_elements():
    out = (alike(_one_all_reduce(comm_seq=5), 4) | Comm("split-all-reduce")).body(0)
    assert values_of(out, "comm_type", "comm_size", "out_size", "comm_seq") == {
        "grad": (-1, -1, -1, -1),
        "sync.reduce-scatter": (RS, 1002, 252, 5),
        "sync.all-gather": (AG, 252, 1002, 6),
        "step": (-1, -1, -1, -1),
    }
    chain = ["grad", "sync.reduce-scatter", "sync.all-gather", "step"]
    assert edges_of(out) == set(pairwise(chain))


@pytest.mark.parametrize("name", ["ddp", "dp-tp-pp", "gpt_fsdp_tp_4", "cnn_ddp_2"])
def test_joining_what_was_split_gives_the_set_back(name):
    traces, _, _ = case(name)
    back = traces | Comm("split-all-reduce") | Comm("join-all-reduce")
    for number in range(traces.body_count):
        a, b = traces.body_at(number), back.body_at(number)
        assert a.names.to_pylist() == b.names.to_pylist()
        for field in ("src", "dst", "kind", "form", "lag", "ctrl"):
            assert sorted_edges(a, field) == sorted_edges(b, field)
        for column in ("type", "comm_type", "duration_ns"):
            if column in a.table.column_names:
                assert a.table.column(column).to_pylist() == b.table.column(column).to_pylist()
        sums = a.column("comm_type", -1) == AR
        assert a.column("comm_size", 0)[sums].tolist() == b.column("comm_size", 0)[sums].tolist()


def test_an_update_between_the_halves_keeps_them_apart():
    """ZeRO: what is gathered is not what was scattered, but what the optimizer made of it."""
    traces = generated("zero1")
    out = traces | Comm("join-all-reduce")
    assert out.body_at(0).table.equals(traces.body_at(0).table)


@pytest.mark.parametrize("ranks", [2, 4])
def test_with_rings_two_halves_take_as_long_as_the_whole(ranks):
    """A ring all-reduce is a ring reduce-scatter and a ring all-gather; only the overhead is paid twice."""
    ring = {"topology": "ring", "size": ranks, "bandwidth": 1e9, "latency": 0}
    machine = parse_machine({"network": [ring]}, "ring")
    fixed = Algorithms({"all-reduce": "ring", "reduce-scatter": "ring", "all-gather": "ring"})
    t = TraceBuilder()
    t.collective("sync", AR, 4_000_000)
    traces = alike(t, ranks)
    times = [
        simulate(s, machine, options=SimulationOptions(algorithms=fixed)).makespan_ns
        for s in (traces, traces | Comm("split-all-reduce"))
    ]
    assert times[0] == times[1]
