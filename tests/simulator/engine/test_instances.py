"""What ranks say of one collective or message must agree: else an error that names both nodes."""

import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ChakraError, TraceError
from chakrakit.machines import load_machine, parse_machine
from chakrakit.simulator.engine import SimulationOptions, native, run
from support.bounded import memory_below
from support.simulated import machine_of

networks = pytest.mark.parametrize("network", ["flow", "analytical"])
ALL_REDUCE, BROADCAST = CollectiveType.ALL_REDUCE, CollectiveType.BROADCAST
ALL_TO_ALL = CollectiveType.ALL_TO_ALL


def calls(*of_ranks, groups=None):
    """One collective per rank: (kind, bytes, other attributes)."""
    bodies = []
    for rank, (kind, size, more) in enumerate(of_ranks):
        t = TraceBuilder()
        t.collective(f"call of {rank}", kind, size, **more)
        bodies.append(t.build())
    return TraceSet(bodies, None, groups)


def messages(*of_ranks):
    """(sends, receives) by rank, each a list of (peer, bytes)."""
    bodies = []
    for rank, (sends, receives) in enumerate(of_ranks):
        t = TraceBuilder()
        for peer, size in sends:
            t.send("give", rank, peer, size)
        for peer, size in receives:
            t.recv("take", peer, rank, size)
        t.comp("work", duration_ns=1)
        bodies.append(t.build())
    return TraceSet(bodies)


def finished(traces, network, **options):
    return run(traces, load_machine("dgx-h100"), SimulationOptions(network=network, **options))


@networks
@pytest.mark.parametrize(
    ("traces", "says"),
    [
        (
            calls((ALL_REDUCE, 1000, {}), (ALL_REDUCE, 2000, {})),
            "has 1,000 bytes on rank 0 at node 0 ('call of 0') "
            "and has 2,000 bytes on rank 1 at node 0 ('call of 1')",
        ),
        (calls((ALL_REDUCE, 1000, {}), (ALL_REDUCE, -5, {})), "-5 bytes on rank 1 at node 0"),
        (calls((BROADCAST, 9, {}), (BROADCAST, -9, {})), "-9 bytes on rank 1 at node 0"),
        (
            calls((ALL_REDUCE, 9, {}), (BROADCAST, 9, {})),
            "is ALL_REDUCE on rank 0 at node 0 ('call of 0') and is BROADCAST on rank 1",
        ),
        (
            calls((BROADCAST, 9, {"comm_src": 0}), (BROADCAST, 9, {"comm_src": 1})),
            "has the root 0 on rank 0 at node 0 ('call of 0') and has the root 1 on rank 1",
        ),
        (
            calls((BROADCAST, 9, {"comm_src": 7}), (BROADCAST, 9, {})),
            "has the root 7 on rank 0 at node 0 ('call of 0'), and no member is that rank",
        ),
        (
            messages(([(1, 100)], []), ([], [(0, 200)])),
            "rank 0 at node 0 ('give') sends 100 bytes (tag 0) that rank 1 at node 0 ('take') "
            "receives as 200",
        ),
        (messages(([(1, -1)], []), ([], [(0, -1)])), "sends -1 bytes"),
        (messages(([(1, 100)], []), ([], [])), "which never receives it"),
        (messages(([], []), ([], [(0, 100)])), "which never sends it"),
        (
            calls(
                (ALL_REDUCE, 9, {"pg_name": "1"}),
                (ALL_REDUCE, 9, {"pg_name": "1"}),
                groups=Groups({"1": [0, 1, 1]}),
            ),
            "group '1' lists rank 1 twice",
        ),
    ],
)
def test_what_disagrees_is_said_with_both_nodes(traces, says, network):
    with pytest.raises(TraceError) as error:
        finished(traces, network)
    assert says in str(error.value)


@pytest.mark.parametrize("seq", [-(2**63), -1, 0, 2**62, 2**63 - 1])
def test_any_number_of_a_call_is_a_number(seq):
    """Numbers only say which calls meet: the time is that of calls without one."""
    given = calls(*[(ALL_REDUCE, 1 << 20, {"comm_seq": seq})] * 2)
    plain = calls(*[(ALL_REDUCE, 1 << 20, {})] * 2)
    assert finished(given, "flow").makespan_ps == finished(plain, "flow").makespan_ps


def folded(kind, ranks):
    t = TraceBuilder()
    t.collective("c", kind, 10**6)
    bindings = {r: Binding(0) for r in range(ranks)}
    return TraceSet([t.build()], bindings, Groups({"": range(ranks)}))


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kind", "ranks", "says"),
    [
        (ALL_TO_ALL, 12_000, "more than 60,000,000 transfers"),
        (ALL_REDUCE, 131_080, "131,080 members; a collective of 131,072 is the largest"),
    ],
)
def test_a_collective_too_large_is_refused_before_it_is_made(kind, ranks, says):
    traces, machine = folded(kind, ranks), load_machine(f"dgx-h100:{ranks // 8}")
    with memory_below(200e6), pytest.raises(ChakraError, match=says):
        run(traces, machine)


def test_an_exchange_over_more_links_than_fit_in_memory_is_refused():
    """A thousand places on a ring are 268 million links apart, all pairs together."""
    ring = {"network": [{"topology": "ring", "size": 1024, "bandwidth": "1 GB/s"}]}
    with memory_below(1.5e9), pytest.raises(ChakraError, match="pairs of devices have more than"):
        run(folded(ALL_TO_ALL, 1024), parse_machine(ring, "m"))


@networks
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        # The largest part of an all-to-all counts for all.
        (((ALL_TO_ALL, 1000, {}), (ALL_TO_ALL, 2000, {})), (ALL_TO_ALL, 2000, {})),
        # What one leaves open is what the other says.
        (((ALL_REDUCE, 1000, {}), (ALL_REDUCE, 0, {})), (ALL_REDUCE, 1000, {})),
        (((BROADCAST, 9, {"comm_src": 1}), (BROADCAST, 9, {})), (BROADCAST, 9, {"comm_src": 1})),
    ],
)
def test_sizes_of_an_all_to_all_and_sizes_not_said_may_differ(said, meant, network):
    found = finished(calls(*said), network)
    assert found.instances.size == [meant[1]]
    assert found.makespan_ps == finished(calls(meant, meant), network).makespan_ps


def test_a_message_to_oneself_takes_the_same_in_both_networks():
    took = {n: finished(messages(([(0, 10**6)], [(0, 10**6)])), n) for n in ("flow", "analytical")}
    assert took["flow"].makespan_ps == took["analytical"].makespan_ps > 0


@pytest.mark.parametrize("fold", [True, False])
def test_the_root_of_a_collective_is_whom_the_rank_means(fold):
    """On a line, a broadcast from the middle is over sooner than one from the end."""
    line = machine_of("line", 5)

    def end(root, peers):
        t = TraceBuilder()
        t.collective("b", CollectiveType.BROADCAST, 10**6, comm_src=root)
        bound = {r: Binding(0, peers=peers) for r in range(5)}
        traces = TraceSet([t.build()], bound, Groups({"": range(5)}))
        options = native.SimulationOptions(
            fold=fold, algorithms=native.Algorithms({"broadcast": "direct"})
        )
        return native.run(traces, line, options).makespan_ps

    assert end(2, {}) < end(0, {})
    assert end(9, {9: 2}) == end(2, {})
    assert end(9, {9: 0}) == end(0, {})
