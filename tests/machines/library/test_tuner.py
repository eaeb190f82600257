"""What the library believes of the machine, and therefore chooses."""

import math

import pytest
from msgspec import structs

from chakrakit.machines.library import Choice, Library, Span, choose
from chakrakit.machines.library.constants import ExchangeConstants, Protocol, Tuner
from chakrakit.machines.library.tuner import estimates, exchange_protocol
from support.spanned import spanned

MIB = 1 << 20

LIBRARY = Library(
    launch_us=10.0,
    ll=Protocol(hop_us=1.0, share=0.25),
    simple=Protocol(hop_us=2.0, share=0.5),
    exchange=ExchangeConstants(
        start_us=2.0, peer_us=1.0, low_latency_gbs=1.0, simple_us=20.0, flow_us=5.0, share=0.5
    ),
    tuner=Tuner(bus_gbs=100.0, low_latency_gbs=10.0),
)
NODE = Span(members=4, nodes=1, local=4, link=100e9, leaving=0.0)
TWO = Span(members=8, nodes=2, local=4, link=100e9, leaving=50e9)


def test_only_protocols_that_the_links_allow_are_considered():
    assert set(estimates(LIBRARY, "all-reduce", 1e6, NODE)) == {
        Choice("ring", "LL"),
        Choice("ring", "Simple"),
    }


def test_trees_are_for_several_nodes_and_all_reduce():
    assert Choice("tree", "LL") in estimates(LIBRARY, "all-reduce", 1e6, TWO)
    assert Choice("tree", "LL") not in estimates(LIBRARY, "all-gather", 1e6, TWO)


def test_an_estimate_is_latency_and_bytes():
    """LL: 6.6 + 6 × 0.6 µs, and 1 MB at 10 GB/s × 4 / 6."""
    found = estimates(LIBRARY, "all-reduce", 1e6, NODE)[Choice("ring", "LL")]
    assert found == pytest.approx((6.6 + 6 * 0.6) * 1e-6 + 1e6 / (10e9 * 4 / 6))


def test_small_sizes_take_low_latency_and_large_ones_bandwidth():
    assert choose(LIBRARY, "all-reduce", 1e3, NODE).protocol == "LL"
    assert choose(LIBRARY, "all-reduce", 1e9, NODE).protocol == "Simple"


def test_exchanges_have_one_algorithm_and_two_protocols():
    assert choose(LIBRARY, "all-to-all", 1e3, NODE) == ("direct", "LL")
    assert exchange_protocol(LIBRARY, "message", 1e6, NODE) == "Simple"


def test_low_latency_is_expected_to_carry_less_between_nodes_and_least_between_more_than_two():
    """At most 39.0 and 20.4 GB/s with Intel's hosts, as NCCL's tuner says; here of 100 GB/s within a node."""
    fast = structs.replace(LIBRARY, tuner=Tuner(bus_gbs=1000.0, low_latency_gbs=100.0))
    for nodes, gbs in ((1, 100.0), (2, 39.0), (4, 20.4), (8, 20.4)):
        span = Span(members=4 * nodes, nodes=nodes, local=4, link=1e12, leaving=1e12)
        small, large = (
            estimates(fast, "broadcast", s, span)[Choice("ring", "LL")] for s in (0, 1e9)
        )
        assert 1e9 / (large - small) / 1e9 == pytest.approx(gbs)


def test_every_estimate_is_finite():
    assert all(0 < s < math.inf for s in estimates(LIBRARY, "reduce", 1.0, TWO).values())


@pytest.mark.parametrize(
    ("machine", "members", "size", "algorithm", "protocol"),
    [
        ("dgx-h200", 8, 4096, "ring", "LL"),
        ("dgx-h200", 8, 8 * MIB, "ring", "LL128"),
        ("dgx-h200", 8, 512 * MIB, "in-switch", "Simple"),
        ("dgx-h200", 4, 512 * MIB, "ring", "Simple"),
        ("dgx-a100", 8, 512 * MIB, "ring", "Simple"),
        ("dgx-a100", 2, MIB // 2, "ring", "LL"),
        ("dgx-a100", 2, MIB, "ring", "Simple"),
        ("l40s-pcie", 8, 8 * MIB, "ring", "Simple"),
        ("dgx-h100:4", 32, 4096, "tree", "LL"),
        ("dgx-h100:4", 32, 512 * MIB, "in-switch-tree", "Simple"),
    ],
)
def test_the_library_chooses_as_its_tuner_does(machine, members, size, algorithm, protocol):
    library, span = spanned(machine, members)
    assert choose(library, "all-reduce", size, span) == (algorithm, protocol)
