"""Inputs that make ASTRA-sim hang, crash or silently answer wrong: one clear error, or the right answer."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.errors import ChakraError, ConfigError, DeadlockError, TraceError
from support.astra_cases import (
    Case,
    case_of,
    coll,
    comp,
    figures,
    network,
    node,
    on_all,
    recv,
    run,
    send,
    system,
)

MB = 1 << 20
TWO = network(("Switch", 2))
FOUR = network(("Switch", 4))


def both(first: list[Any], second: list[Any], **keys: Any) -> Case:
    return case_of([first, second], TWO, **keys)


ROOFLINE = system(roofline_enabled=1, peak_perf=100)
SIX = network(("Ring", 6))
PLANE = network(("Ring", 4), ("Ring", 4))
GROUPED = {"comm_group": {"1": [0, 1], "2": [2]}}

ERRORS: dict[str, tuple[Case, type[ChakraError], str]] = {
    "a zero-time node with nothing in flight": (
        on_all([node("INVALID_NODE", 0), comp(1, 5, [0])]),
        DeadlockError,
        r"rank 0, node 0 \(invalid node\) takes no time",
    ),
    "roofline without data": (
        on_all(
            [comp(0, 0, num_ops=10, tensor_size=0), comp(1, 0, [0], num_ops=9, tensor_size=9)],
            sys=ROOFLINE,
        ),
        DeadlockError,
        r"rank 0, node 0 \(compute\) takes no time",
    ),
    "roofline without operations": (
        on_all([comp(0, 0, num_ops=0, tensor_size=10)], sys=ROOFLINE),
        TraceError,
        r"rank 0, node 0 \(compute\): roofline gives no time: `num_ops`",
    ),
    "roofline without attributes": (
        on_all([comp(0, 5)], sys=ROOFLINE),
        TraceError,
        "node 0 .*`num_ops` and `tensor_size`",
    ),
    "a receive that nobody sends": (
        both([recv(3, 1, 64, tag=7)], [comp(0, 5)]),
        DeadlockError,
        r"rank 0, node 3 \(receive\) waits for 64 bytes with tag 7 from rank 1",
    ),
    "a rank that misses a collective": (
        case_of([[coll(4, MB)]] * 3 + [[comp(0, 5)]], FOUR),
        DeadlockError,
        r"3 of 4 ranks never finish: rank 0, node 4 \(all-reduce of 1048576 bytes, all ranks\).*"
        r"rank 3, which finished at tick 5000",
    ),
    "halvingDoubling on 6": (
        on_all([coll(0, MB)], SIX, sys=system("halvingDoubling")),
        TraceError,
        "rank 0, node 0 .*halvingDoubling needs a power of two members, not 6",
    ),
    "a dependency cycle": (
        on_all([comp(0, 5), comp(1, 5, [2]), comp(2, 5, [1])]),
        DeadlockError,
        r"rank 0: 2 nodes never run \(1, 2.*dependency cycle",
    ),
    "a repeated id": (
        on_all([comp(7, 5), comp(7, 6)]),
        TraceError,
        "rank 0, node 7: two nodes have this id",
    ),
    "fewer algorithms than dimensions": (
        on_all([coll(0, MB)], PLANE),
        TraceError,
        "node 0 .*`all-reduce-implementation` has 1 entries and the network 2 dimensions",
    ),
    "more algorithms than dimensions": (
        on_all([coll(0, MB)], sys=system(["ring", "ring"])),
        TraceError,
        "2 entries",
    ),
    "a tree for an all-gather": (
        on_all([coll(0, MB, kind="all_gather")], sys=system("doubleBinaryTree")),
        TraceError,
        "doubleBinaryTree would run this all-gather as an all-reduce",
    ),
    "no local memory bandwidth": (
        on_all([coll(0, MB)], sys=system(local_mem_bw=None)),
        TraceError,
        "`local-mem-bw` is missing",
    ),
    "an all-gather of nothing": (
        on_all([coll(0, 0, kind="all_gather")]),
        TraceError,
        "an all-gather of 0 bytes",
    ),
    "an all-gather smaller than its chunks": (
        on_all([coll(0, 3, kind="all_gather")]),
        TraceError,
        "3 bytes cannot be cut into 4 chunks",
    ),
    "a send to oneself": (
        on_all([send(0, 0, 64)]),
        TraceError,
        r"rank 0, node 0 \(send\): sends to rank 0",
    ),
    "a send to nobody": (
        on_all([send(0, 9, 64)]),
        TraceError,
        "sends to rank 9; give another rank below 4",
    ),
    "a send of another rank": (
        on_all([node("COMM_SEND_NODE", 0, comm_src=2, comm_dst=1, comm_size=4, comm_tag=0)]),
        TraceError,
        "rank 0, node 0: `comm_src` of a send must be the rank itself, not 2",
    ),
    "an empty trace": (on_all([]), TraceError, "rank 0: has no nodes"),
    "no splits": (
        on_all([coll(0, MB)], sys=system(preferred_dataset_splits=None)),
        TraceError,
        "`preferred-dataset-splits` is missing or 0",
    ),
    "no algorithm": (
        on_all([coll(0, MB)], sys=system(all_reduce_implementation=None)),
        TraceError,
        "no `all-reduce-implementation`",
    ),
    "a tree on 6": (
        on_all([coll(0, MB)], SIX, sys=system("doubleBinaryTree")),
        TraceError,
        "doubleBinaryTree needs a power of two members, not 6",
    ),
    "a tree in a group": (
        case_of(
            [[coll(0, MB, pg_name="1")]] * 2 + [[comp(0, 1)]] * 2,
            FOUR,
            system("doubleBinaryTree"),
            **GROUPED,
        ),
        TraceError,
        "group smaller than the network",
    ),
    "a reduce": (
        on_all([coll(0, MB, kind="reduce")]),
        TraceError,
        "`comm_type` 1 is not simulated",
    ),
    "a barrier": (
        on_all([coll(0, MB, kind="barrier")]),
        TraceError,
        "`comm_type` 9 is not simulated",
    ),
    "halvingDoubling for an all-to-all": (
        on_all([coll(0, MB, kind="all_to_all")], sys=system("halvingDoubling")),
        TraceError,
        "halvingDoubling cannot do an all-to-all",
    ),
    "a congested ring of 2": (
        on_all([coll(0, MB)], network(("Ring", 2)), backend="aware"),
        ConfigError,
        "no Ring of 2 ranks",
    ),
    "congestion in two dimensions": (
        on_all([coll(0, MB)], PLANE, backend="aware"),
        ConfigError,
        "--backend unaware",
    ),
    "a group of one": (
        case_of(
            [[comp(0, 1)], [comp(0, 1)], [coll(5, MB, pg_name="2")], [comp(0, 1)]], FOUR, **GROUPED
        ),
        TraceError,
        r"rank 2, node 5 \(all-reduce of 1048576 bytes, group 2\): it has nothing to do",
    ),
    "an unknown group": (
        on_all([coll(0, MB, pg_name="8")]),
        TraceError,
        "node 0: communicator group 8 is not defined",
    ),
    "a rank outside its group": (
        on_all([coll(0, MB, pg_name="1")], **GROUPED),
        TraceError,
        "rank 2, node 0 .*the rank is not a member of group 1",
    ),
    "no dimension taking part": (
        on_all([coll(0, MB, involved_dim=[False])]),
        TraceError,
        "it has nothing to do",
    ),
    "a missing attribute": (
        on_all([node("COMM_COLL_NODE", 0, comm_type=0)]),
        TraceError,
        "`comm_size` is missing",
    ),
    "a missing dependency": (
        on_all([comp(0, 5, [9])]),
        TraceError,
        "rank 0, node 0: depends on node 9, which is not",
    ),
    "communication on the CPU": (
        on_all([coll(0, MB, is_cpu_op=True)]),
        TraceError,
        "cannot be a CPU op",
    ),
    "memory that is not there": (
        on_all([node("MEM_LOAD_NODE", 0, tensor_size=64)]),
        TraceError,
        "NO_MEMORY_EXPANSION",
    ),
    "collectives of different sizes": (
        both([coll(0, MB)], [coll(0, 2 * MB)]),
        TraceError,
        "another member runs a different collective",
    ),
    "a time beyond counting": (
        on_all([comp(i, 1 << 50, [i - 1] if i else []) for i in range(9)]),
        TraceError,
        "time is too long",
    ),
    "a duration beyond counting": (
        on_all([comp(0, 1 << 60)]),
        TraceError,
        "its duration is too long",
    ),
    "bytes beyond counting": (on_all([coll(0, 1 << 60)]), TraceError, "bytes are too many"),
    "a send that nobody receives": (
        both([send(0, 1, 64, tag=3)], [comp(0, 5)]),
        DeadlockError,
        "64 bytes with tag 3 are sent to rank 1, which never receives them",
    ),
    "a send that nobody receives, with rendezvous": (
        both([send(0, 1, 64)], [comp(0, 5)], args=["--rendezvous-protocol=true"]),
        DeadlockError,
        r"rank 0, node 0 \(send\) waits for rank 1 to post a receive of 64 bytes",
    ),
    "collectives in another order": (
        case_of(
            [
                [coll(0, MB, pg_name="1"), coll(1, MB, [0], pg_name="3")],
                [coll(0, MB, pg_name="3"), coll(1, MB, [0], pg_name="1")],
                [comp(0, 1)],
                [comp(0, 1)],
            ],
            FOUR,
            comm_group={"1": [0, 1], "3": [1, 0]},
        ),
        DeadlockError,
        r"group 1\) waits .*rank 1, which waits in group 3",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("fold", [True, False])
def test_an_error_names_the_place_and_the_cause(name: str, fold: bool) -> None:
    case, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        run(case, fold=fold)


LENIENT: dict[str, tuple[Case, Any]] = {
    "a dependency cycle": (on_all([comp(0, 5), comp(1, 5, [2]), comp(2, 5, [1])]), 5000),
    "a repeated id": (on_all([comp(7, 5), comp(7, 6)]), 6000),
    "a zero-time node with nothing in flight": (
        on_all([node("INVALID_NODE", 0), comp(1, 5, [0])]),
        -1,
    ),
    "a receive that nobody sends": (both([recv(0, 1, 64)], [comp(0, 5)]), [-1, 5000]),
    "a send that nobody receives": (both([send(0, 1, 64)], [comp(0, 5)]), [1001, 5000]),
}


@pytest.mark.parametrize("name", LENIENT)
def test_lenient_gives_what_it_would_have_given(name: str) -> None:
    case, cycles = LENIENT[name]
    result = run(case, lenient=True)
    assert figures(result)[0] == cycles
    assert bool(result.stuck) == (-1 in result.cycles)


def test_lenient_uses_only_the_first_dimensions() -> None:
    """A 4×4 network with one algorithm all-reduces 4 ranks only."""
    lenient = run(on_all([coll(0, MB)], PLANE), lenient=True)
    assert figures(lenient) == figures(run(on_all([coll(0, MB)], network(("Ring", 4)))))


def test_lenient_reduces_for_nothing_without_memory_bandwidth() -> None:
    free = run(on_all([coll(0, MB)], sys=system(local_mem_bw=None)), lenient=True)
    paid = run(on_all([coll(0, MB)]))
    assert free.cycles[0] < paid.cycles[0]


def test_a_zero_time_node_is_passed_over_while_something_runs() -> None:
    """Its children are looked at when the next node completes."""
    nodes = [comp(0, 5), node("INVALID_NODE", 1), comp(2, 3, [1], is_cpu_op=True)]
    assert figures(run(on_all(nodes)))[0] == 8000


def test_a_compute_node_of_no_time_at_the_start_runs() -> None:
    nodes = [comp(0, 0, num_ops=1, tensor_size=1), comp(1, 0, [0], num_ops=10**9, tensor_size=1)]
    assert figures(run(on_all(nodes, sys=ROOFLINE)))[0] == 10_000
