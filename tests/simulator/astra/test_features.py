"""What recorded answers do not reach: memory modes, slots, messages."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.errors import TraceError
from support.astra_cases import case_of, coll, comp, figures, network, node, recv, run, send

MB = 1 << 20


def remote(kind: str, **keys: int) -> dict[str, Any]:
    given = {"memory-type": kind, "remote-mem-latency": 1000, "remote-mem-bw": 100}
    return given | {key.replace("_", "-"): value for key, value in keys.items()}


@pytest.mark.parametrize(
    ("memory", "cycles"),
    [
        (remote("PER_NPU_MEMORY_EXPANSION"), 2000),
        (remote("PER_NODE_MEMORY_EXPANSION", num_nodes=2, num_npus_per_node=2), [2000, 4000] * 2),
        (remote("MEMORY_POOL"), [2000, 4000, 6000, 8000]),
    ],
)
def test_remote_memory_is_shared_by_rank_node_or_all(memory: Any, cycles: Any) -> None:
    """A load of 100,000 bytes takes 1000 + 1000 ns; sharers are served in rank order."""
    ranks = [[node("MEM_LOAD_NODE", 0, tensor_size=100_000)] for _ in range(4)]
    result = run(case_of(ranks, network(("Ring", 4)), memory=memory))
    assert figures(result)[0] == cycles


def test_memory_time_is_bytes_by_bytes_per_nanosecond() -> None:
    """By way of seconds, 200,500 B at 50 GB/s would come out as 4,009 ns and not as 4,010."""
    memory = {
        "memory-type": "PER_NPU_MEMORY_EXPANSION",
        "remote-mem-latency": 100,
        "remote-mem-bw": 50,
    }
    ranks = [[node("MEM_LOAD_NODE", 0, tensor_size=200_500)] for _ in range(2)]
    result = run(case_of(ranks, network(("Ring", 2)), memory=memory))
    assert list(result.cycles) == [4_110, 4_110]


def test_memory_nodes_must_exist() -> None:
    memory = remote("PER_NODE_MEMORY_EXPANSION", num_nodes=1, num_npus_per_node=2)
    ranks = [[node("MEM_LOAD_NODE", 0, tensor_size=64)] for _ in range(4)]
    with pytest.raises(TraceError, match=r"rank 2, node 0 .*memory node 1, but `num-nodes` is 1"):
        run(case_of(ranks, network(("Ring", 4)), memory=memory))


def test_one_op_of_each_kind_runs_at_a_time() -> None:
    """CPU, GPU and communication slots are apart; within one, the lowest id goes first."""
    nodes = [
        comp(9, 5),
        comp(3, 7),
        comp(4, 2, is_cpu_op=True),
        coll(5, MB, kind="broadcast"),
        coll(6, MB, kind="broadcast"),
    ]
    result = run(case_of([nodes, nodes], network(("Switch", 2))))
    ids = result.table(0)["id"].tolist()
    start = dict(zip(ids, result.start(0).tolist(), strict=True))
    assert start == {3: 0, 4: 0, 5: 0, 6: 1, 9: 7000}


def test_a_receive_needs_no_slot_and_an_early_message_waits() -> None:
    first = [send(0, 1, MB), comp(1, 1)]
    second = [comp(0, 100), recv(1, 0, MB, [0])]
    result = run(case_of([first, second], network(("Switch", 2))))
    assert result.start(1).tolist() == [0, 100_000]
    assert result.end(1).tolist() == [100_000, 100_000]
    assert result.cycles.tolist() == [20_531, 100_000]


def test_rendezvous_waits_for_the_receiver() -> None:
    """The notice of 8,192 bytes takes 1,152 ns, then the message its 20,531."""
    ranks = [[send(0, 1, MB)], [comp(0, 100), recv(1, 0, MB, [0])]]
    case = case_of(ranks, network(("Switch", 2)), args=["--rendezvous-protocol=true"])
    assert figures(run(case))[0] == 100_000 + 1_152 + 20_531
