"""What a collective costs with an algorithm and protocol, with constants that add up by hand."""

import math
from dataclasses import replace

import msgspec
import pytest

from chakrakit.machines.library import Library, Span, cost, reduction_factor
from chakrakit.machines.library.constants import ExchangeConstants, InSwitch, Protocol, Tuner
from chakrakit.machines.library.cost import low_latency_us
from support.spanned import spanned

MIB = 1 << 20

LIBRARY = Library(
    launch_us=10.0,
    ll=Protocol(hop_us=1.0, share=0.25),
    simple=Protocol(hop_us=2.0, share=0.5, start_us=3.0, copy=1.0),
    exchange=ExchangeConstants(
        start_us=2.0, peer_us=1.0, low_latency_gbs=1.0, simple_us=20.0, flow_us=5.0, share=0.5
    ),
    tuner=Tuner(bus_gbs=100.0, low_latency_gbs=10.0),
    in_switch=InSwitch(start_us=4.0, share=1.0, least=4),
)
NODE = Span(members=4, nodes=1, local=4, link=100e9, leaving=0.0, reduces=True)
US = 1e-6


def parts(*asked):
    found = cost(LIBRARY, *asked, NODE)
    return [round(seconds / US, 3) for seconds in (found.fixed, found.latency, found.transfer)]


def test_a_ring_is_launch_hops_and_pieces():
    """4 MB in four pieces of 1 MB at 50 GB/s: 20 µs each, six of them in an all-reduce."""
    assert parts("all-reduce", "ring", "Simple", 4e6) == [10 + 3 + 20, 6 * 2, 6 * 20]
    assert parts("all-gather", "ring", "Simple", 4e6) == [10 + 3 + 20, 3 * 2, 3 * 20]


def test_a_broadcast_sends_all_of_it_along_the_ring():
    assert parts("broadcast", "ring", "LL", 1e6) == [10, 3 * 1, 40]


def test_a_switch_that_reduces_sees_everything_once():
    assert parts("all-reduce", "in-switch", "Simple", 1e6) == [10 + 4, 0, 10]


@pytest.mark.parametrize(
    ("collective", "algorithm", "protocol"),
    [
        ("all-gather", "in-switch", "Simple"),
        ("all-reduce", "in-switch-tree", "Simple"),  # on one node
        ("all-reduce", "ring", "LL128"),  # not among the constants
    ],
)
def test_what_does_not_apply_never_ends(collective, algorithm, protocol):
    assert cost(LIBRARY, collective, algorithm, protocol, 1e6, NODE).seconds == math.inf


def test_an_exchange_of_small_pieces_is_quick():
    """A piece of 1 kB at 1 GB/s: 1 µs, two peers beyond the first, and the start."""
    assert low_latency_us(LIBRARY.exchange, "all-to-all", 4e3, 4) == pytest.approx(2 + 2 + 1)
    assert low_latency_us(LIBRARY.exchange, "message", 4e3, 4) == pytest.approx(2 + 4)


def test_one_byte_elements_take_a_little_longer_to_reduce():
    assert reduction_factor("all-reduce", 1) == 1.04
    assert reduction_factor("all-reduce", 2) == reduction_factor("all-gather", 1) == 1.0


def test_a_simple_ring_is_launch_hops_bytes_and_the_own_piece():
    library, span = spanned("dgx-h200", 4)
    p, size = library.simple, 512 * MIB
    piece = size / 4 / (p.share * 450e9)
    transfer = 3 * piece * (1 + p.fill * p.in_flight / size)
    expected = (library.launch_us + p.start_us + 3 * p.hop_us) * 1e-6 + p.copy * piece + transfer
    found = cost(library, "all-gather", "ring", "Simple", size, span)
    assert found.seconds == pytest.approx(expected, rel=1e-12)


def test_links_twice_as_fast_halve_what_flows_and_nothing_else():
    library, span = spanned("dgx-h200", 4)
    slow = cost(library, "all-gather", "ring", "Simple", 512 * MIB, span)
    fast = cost(
        library, "all-gather", "ring", "Simple", 512 * MIB, replace(span, link=2 * span.link)
    )
    assert fast.transfer == pytest.approx(slow.transfer / 2, rel=1e-12)
    assert fast.latency == slow.latency


def test_between_nodes_the_ports_of_all_devices_carry_the_ring():
    library, span = spanned("dgx-a100:4", 32)
    assert (span.nodes, span.local, span.leaving) == (4, 8, 200e9)
    found = cost(library, "all-gather", "ring", "Simple", 4096 * MIB, span)
    assert found.transfer == pytest.approx(31 / 32 * 4096 * MIB / (0.92 * 200e9), rel=0.01)


@pytest.mark.parametrize(("nodes", "leaving", "us"), [(2, 50e9, 20), (4, 50e9, 40), (4, 400e9, 10)])
def test_trees_in_switches_are_as_fast_as_the_slower_of_links_and_network(nodes, leaving, us):
    """1 MB at the links' 100 GB/s; what leaves nodes goes once between two of them and both ways in trees."""
    network = msgspec.structs.replace(LIBRARY.network, share=1.0)
    library = msgspec.structs.replace(LIBRARY, network=network)
    span = replace(NODE, members=4 * nodes, nodes=nodes, leaving=leaving)
    transfer = cost(library, "all-reduce", "in-switch-tree", "Simple", 1e6, span).transfer
    assert transfer == pytest.approx(us * US)


def test_beyond_the_fitted_members_a_hop_takes_at_least_one_of_low_latency():
    """Two members were fitted: the first of seven hops takes nothing, the six beyond 1 µs each."""
    fitted = msgspec.structs.replace(
        LIBRARY, ll128=Protocol(hop_us=0.0, share=0.5, start_us=5.0), fitted_members=2
    )
    eight = replace(NODE, members=8, local=8)
    for algorithm, hops in (("ring", 2), ("tree", 2)):
        took = cost(fitted, "all-reduce", algorithm, "LL128", 0.0, eight)
        assert took.latency == pytest.approx(hops * 6 * US)
    two = replace(NODE, members=2, local=2)
    assert cost(fitted, "all-reduce", "ring", "LL128", 0.0, two).latency == 0.0
    assert cost(fitted, "all-reduce", "ring", "Simple", 0.0, eight).latency == 14 * 2 * US
