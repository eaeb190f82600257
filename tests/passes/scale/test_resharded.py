"""Shards of another number: what is gathered stays whole, a member's part is a share rounded up."""

from __future__ import annotations

import pytest

from chakrakit import Binding, CollectiveType, Groups, Trace, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.passes.scale import ScaleRanks
from chakrakit.passes.scale.resharded import KEPT, Resharded
from support.replicas import AR, DP, set_of

TO_EIGHT = Resharded({"dp": (4, 8)}, (4, 8), optimizer=True)
TO_FOUR = Resharded({"dp": (8, 4)}, (8, 4), optimizer=True)


def gathered(share: int, **more: object) -> Trace:
    t = TraceBuilder()
    t.collective("g", CollectiveType.ALL_GATHER, share, pg_name="dp", **more)
    return t.build()


def test_a_whole_that_the_node_tells_is_shared_by_more() -> None:
    trace = TO_EIGHT(gathered(25, out_size=100))
    assert (trace.column("comm_size").tolist(), trace.column("out_size").tolist()) == ([13], [100])
    assert "unsharded" not in trace.table.column_names
    halves = TO_EIGHT(gathered(50, out_size=200, comm_dtype="bf16"))  # 100 elements of 2 bytes
    assert halves.column("comm_size").tolist() == [26]


def test_a_whole_that_does_not_follow_from_the_share_is_kept_until_it_does() -> None:
    before = gathered(25)
    trace = TO_EIGHT(before)
    assert trace.column("comm_size").tolist() == [13]  # of 100, rounded up
    assert trace.table.column("unsharded").to_pylist() == [[100, 0, 0, 0, 0]]
    assert KEPT[0] == "comm_size"
    back = TO_FOUR(trace)
    assert back.nodes.to_pylist() == before.nodes.to_pylist()


def test_the_result_of_a_scatter_is_a_share_and_other_groups_stay() -> None:
    t = TraceBuilder()
    scatter = CollectiveType.REDUCE_SCATTER
    t.collective("mine", scatter, 400, pg_name="dp", out_size=100)
    t.collective("other", scatter, 400, pg_name="tp", out_size=100)
    trace = TO_EIGHT(t.build())
    assert trace.column("out_size").tolist() == [50, 100]
    assert trace.column("comm_size").tolist() == [400, 400]


@pytest.mark.parametrize(
    ("shards", "operations"),
    [
        ("dp 100", 104),  # 25 of 100 weights before, 13 after, 8 operations each
        ("dp 60,40", 104),  # 15 + 10 before, 8 + 5 after
        ("dp many", 100),  # no such list: half of all it does
        (None, 100),
    ],
)
def test_an_optimizer_works_on_the_weights_of_its_shard(
    shards: str | None, operations: int
) -> None:
    t = TraceBuilder()
    t.comp("adam", duration_ns=1000, num_ops=200, phase="optimizer", shards=shards)
    t.comp("gemm", duration_ns=1000, num_ops=200, phase="forward")
    trace = TO_EIGHT(t.build())
    assert trace.column("num_ops").tolist() == [operations, 200]
    assert trace.own_ns.tolist() == [500, 1000]


def test_numbers_that_no_set_has_are_refused():
    with pytest.raises(TraceError, match="a group names rank 2,000,000,000"):
        _ = set_of({**DP, "x": [2_000_000_000]}, (AR, "ab", 1000, "backward")) | ScaleRanks(8)
    t = TraceBuilder()
    t.collective("c", CollectiveType.ALL_GATHER, 2**62, pg_name="dp")
    bindings = {rank: Binding(0, {"dp": "1"}) for rank in range(4)}
    with pytest.raises(TraceError, match="which no trace can hold"):
        (TraceSet([t.build()], bindings, Groups({"1": range(4)})) | ScaleRanks(8)).trace(0)
