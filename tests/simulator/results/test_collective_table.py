"""`collective` prints what the simulator would take, on machines with and without a library."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines import machine as machine_of
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.simulator.results import parse_members, parse_sizes, time_collective

KINDS = {
    "all-reduce": CollectiveType.ALL_REDUCE,
    "all-gather": CollectiveType.ALL_GATHER,
    "reduce-scatter": CollectiveType.REDUCE_SCATTER,
    "all-to-all": CollectiveType.ALL_TO_ALL,
    "broadcast": CollectiveType.BROADCAST,
}


@pytest.mark.first(1)
@pytest.mark.parametrize("network", ["flow", "analytical"])
@pytest.mark.parametrize(("machine", "n"), [("dgx-h200", 8), ("dgx-h200", 3), ("dgx-h100:2", 16)])
def test_a_collective_alone_takes_what_its_library_says(machine, n, network):
    for name, kind in KINDS.items():
        for size in (48 << 8, 3 << 20, 3 << 26):
            t = TraceBuilder()
            t.collective("c", kind, size // n if name == "all-gather" else size)
            traces = TraceSet(
                [t.build()], {r: Binding(0) for r in range(n)}, Groups({"": range(n)})
            )
            took = run(traces, load_machine(machine), SimulationOptions(network=network))
            row = ck.collective(name, machine, n, [size]).rows[0]
            assert took.makespan_ps * 1e-6 == pytest.approx(row.time_us, rel=1e-4), (name, size)
            assert took.instances.algorithm == [row.algorithm]


def test_two_collectives_on_the_same_links_share_them():
    """Large rings of two groups that cross the same node boundary take longer together than apart."""
    machine = load_machine("dgx-h100:2")
    devices = {"a": range(0, 16, 2), "b": range(1, 16, 2)}

    def traces(groups):
        t = TraceBuilder()
        t.collective("c", CollectiveType.ALL_REDUCE, 1 << 28, pg_name="g")
        ranks = {r: Binding(0, {"g": g}) for g in groups for r in devices[g]}
        return TraceSet([t.build()], ranks, Groups({g: devices[g] for g in groups}))

    both = run(traces(["a", "b"]), machine).makespan_ps
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_REDUCE, 1 << 28)
    one = TraceSet([t.build()], {r: Binding(0) for r in range(8)}, Groups({"": range(8)}))
    alone = run(one, machine, SimulationOptions(placement=tuple(devices["a"]))).makespan_ps
    assert both >= alone


def test_bandwidths_are_those_of_nccl_tests():
    row = ck.collective("all-gather", "dgx-h200", 8, [1 << 20]).rows[0]
    assert row.algbw_gbs == pytest.approx((1 << 20) / row.time_us / 1e3)
    assert row.busbw_gbs == pytest.approx(row.algbw_gbs * 7 / 8)
    reduce = ck.collective("all_reduce", "dgx-h200", 8, [1 << 20]).rows[0]
    assert reduce.collective == "all-reduce"
    assert reduce.busbw_gbs == pytest.approx(reduce.algbw_gbs * 7 / 4)


def test_sizes_and_members_are_read_as_people_write_them():
    assert parse_sizes("1KiB:8KiB") == [1024, 2048, 4096, 8192]
    assert parse_sizes("4096, 1MiB") == [4096, 1 << 20]
    assert parse_members("8") == 8
    assert parse_members("0-3,8") == [0, 1, 2, 3, 8]
    for text in ("8KiB:1KiB", "0", "1.5", "none", "4MB:"):
        with pytest.raises(ConfigError, match="size"):
            parse_sizes(text)
    with pytest.raises(ConfigError, match="members"):
        parse_members("a-b")


def test_the_last_device_is_one_less_than_their_number():
    assert ck.collective("all-reduce", "dgx-h100", [0, 7], [1024]).rows
    with pytest.raises(ConfigError, match="8"):
        ck.collective("all-reduce", "dgx-h100", [0, 8], [1024])


def test_placement_matters():
    near = ck.collective("all-reduce", "dgx-h100:2", 4, [1 << 28]).rows[0]
    far = ck.collective("all-reduce", "dgx-h100:2", [0, 1, 8, 9], [1 << 28]).rows[0]
    assert far.time_us > near.time_us


def test_machines_without_a_library_are_simulated():
    row = ck.collective("all-reduce", "ethernet-100g:4", 4, [1 << 24]).rows[0]
    assert row.protocol == "plain"
    assert row.time_us > (1 << 24) * 1.5 / 12.5e9 * 1e6 * 0.99


def test_the_faster_of_engine_and_library_is_named():
    small, large = ck.collective(
        "all-reduce", "dgx-h200", 8, [4096, 1 << 28], kernels="fastest"
    ).rows
    assert (small.algorithm, small.protocol) == ("one-shot", "engine")
    assert large.algorithm == "in-switch"


@pytest.mark.parametrize("machine", ["dgx-h100", "mi300x"])
def test_a_barrier_moves_nothing(machine):
    (row,) = ck.collective("barrier", machine, 8).rows
    assert (row.bytes, row.algbw_gbs, row.busbw_gbs) == (0, 0.0, 0.0)
    assert row.time_us > 0
    assert ck.collective("barrier", machine, 8, "1GiB").rows == [row]


def test_dispatch_counts_tokens():
    rows = ck.collective("dispatch", "dgx-h100:2", 16, tokens=[128, 4096]).rows
    assert [r.bytes for r in rows] == [128 * 8 * 7408, 4096 * 8 * 7408]
    assert rows[0].time_us < rows[1].time_us


def test_exchanges_say_what_was_fitted_and_what_a_slow_port_adds():
    """Fitted on 1, 2 and 8 nodes, where one port of the measured cluster was slow."""
    two, four, eight = (
        ck.collective("dispatch", f"dgx-h100:{n}", 8 * n, tokens=[4096]) for n in (2, 4, 8)
    )
    predicted = "a prediction: dispatch was fitted on measurements of 1, 2 and 8 nodes, not of 4"
    assert two.notes == []
    assert predicted in four.notes
    crowd, _ = eight.notes
    assert crowd.startswith("library.dispatch.crowd 0.29 stands for the slowest port")
    even = float(crowd.split()[-2])
    assert 0.3 < even / eight.rows[0].time_us < 0.5
    quick = ck.collective("combine", "dgx-h100:16", 128, tokens=[64], low_latency=True)
    assert quick.notes == [
        "a prediction: combine was fitted on measurements of 1, 2 and 8 nodes, not of 16"
    ]


@pytest.mark.parametrize(
    ("nodes", "what", "published"),
    [
        (4, "dispatch", {"pull request 130": 1891, "issue 493": 8775}),
        (4, "combine", {"pull request 130": 3723}),
        (8, "dispatch", {"pull request 130": 2370, "SGLang 0.5.6": 6680}),
        (8, "combine", {"pull request 130": 4678, "SGLang 0.5.6": 12788}),
    ],
)
def test_the_interval_of_an_exchange_holds_every_published_cluster(nodes, what, published):
    """4,096 tokens with 24 multiprocessors, in microseconds; DeepEP states GB/s by its own count."""
    table = ck.collective(what, f"dgx-h200:{nodes}", 8 * nodes, tokens=[4096])
    (row,) = table.rows
    low, high = row.interval_us
    assert all(low < us < high for us in (*published.values(), row.time_us))
    assert "slowest cluster that was published" in table.notes[-1]


def test_only_throughput_kernels_on_more_than_two_nodes_have_an_interval():
    for nodes, options in ((2, {}), (1, {}), (8, {"low_latency": True})):
        table = ck.collective("dispatch", f"dgx-h200:{nodes}", 8 * nodes, tokens=[128], **options)
        assert table.rows[0].interval_us is None
    narrow = {
        "base": "dgx-h200", "nodes": 4,
        "network": [
            {"topology": "switch", "size": 8, "bandwidth": "450 GB/s", "latency": "300 ns"},
            {"topology": "switch", "bandwidth": "8 GB/s", "latency": "1350 ns"},
        ],
    }  # fmt: skip
    (row,) = ck.collective("dispatch", ck.machine(narrow), 32, tokens=[4096]).rows
    assert row.interval_us[1] == pytest.approx(row.time_us)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all-reduce", "dgx-h200", 9, [1]), "9"),
        (("all-reduce", "dgx-h200", 1, [1]), "2 or more"),
        (("all-reduce", "dgx-h200", [0, 0], [1]), "different"),
        (("all-reduce", "dgx-h200", 8, [0]), "1 byte or more"),
        (("all-sorts", "dgx-h200", 8, [1]), "no collective 'all-sorts'"),
        (("dispatch", "dgx-h200", 8, [1]), "give --tokens for dispatch"),
        (("all-reduce", "dgx-h200", 8), "--sizes for all others"),
    ],
)
def test_what_cannot_be_timed_is_an_error(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ck.collective(*arguments)


def test_one_byte_reductions_take_longer():
    half, byte = (
        ck.collective("all-reduce", "dgx-h200", 8, [1 << 28], dtype=d).rows[0].time_us
        for d in ("half", "int8")
    )
    assert 1.02 < byte / half < 1.05
    assert np.isfinite(byte)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_without_a_library_a_table_says_what_its_links_take(kind):
    """Four on a switch at 1 GB/s: each sends three quarters of all bytes, in an all-reduce twice."""
    switch = {
        "network": [{"topology": "switch", "size": 4, "bandwidth": "1 GB/s", "latency": "0 s"}]
    }
    (row,) = time_collective(kind, machine_of(switch), 4, [4_000_000]).rows
    assert row.time_us == pytest.approx(3_000 * (2 if kind == "all-reduce" else 1))
