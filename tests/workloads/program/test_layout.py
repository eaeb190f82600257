"""Which blocks each stage runs, and what its ranks share."""

from __future__ import annotations

import pytest

from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.program import WorkloadLayout

SMALL = Decoder(layers=4, hidden=64, heads=8, vocab=96, ffn=96)


def layout(batch: int = 8, model: Decoder = SMALL, **plan: object) -> WorkloadLayout:
    step = Step(seq=16, global_batch=batch)
    return WorkloadLayout(Workload(model=model, plan=Plan(**plan), step=step))  # type: ignore[arg-type]


def test_layers_are_split_evenly_with_the_ends_at_the_ends() -> None:
    pieces = layout(pp=2).pieces
    assert [[p.block for p in piece] for piece in pieces] == [
        ["embedding", "dense", "dense"],
        ["dense", "dense", "head"],
    ]
    assert [p.layer for p in pieces[1]] == [2, 3, -1]
    assert [len(p) for p in layout(pp=2, split=[1, 3]).pieces] == [2, 4]


def test_a_step_is_shared_by_the_replicas() -> None:
    assert layout(dp=2).micro_batches == 4
    assert layout(dp=8).micro_batches == 1


def test_chunks_know_who_is_before_and_after_them() -> None:
    first, last = (layout(pp=2).chunks(stage)[0] for stage in (0, 1))
    assert first.source is None
    assert first.sink is not None
    assert (first.sink.stage, first.sink.size) == (1, 16 * 64 * 2)
    assert last.source is not None
    assert (last.source.stage, last.sink) == (0, None)


def test_chunks_of_one_rank_are_linked_without_a_message() -> None:
    """Zero-bubble V: the last rank has both halves of the bend."""
    bend = layout(pp=2, schedule="zb-v").chunks(1)
    assert bend[0].sink is not None
    assert bend[0].sink.stage is None


@pytest.mark.parametrize(
    ("plan", "reshard"),
    [
        ({"data": "fsdp", "dp": 4}, [True, True, True, True, True, False]),
        ({"data": "fsdp", "dp": 4, "reshard": "always"}, [True] * 6),
        ({"data": "fsdp", "dp": 4, "reshard": "never"}, [False] * 6),
    ],
)
def test_every_block_is_a_unit_that_is_freed_or_stays(plan: dict, reshard: list[bool]) -> None:
    one = layout(**plan)
    parts = one.pieces[0]
    units = [one.units(parts, i) for i in range(len(parts))]
    assert [u.reshard for [u] in units] == reshard
    assert {(u.role, u.ranks) for [u] in units} == {("dp", 4)}


def test_a_root_unit_holds_all_but_the_layers() -> None:
    one = layout(data="fsdp", dp=4, units="root")
    parts = one.pieces[0]
    sizes = [[u.elements for u in one.units(parts, i)] for i in range(len(parts))]
    assert sizes[0] == [2 * 96 * 64 + 64]  # table, head and the last norm
    assert [len(s) for s in sizes] == [1, 1, 1, 1, 1, 0]


def test_groups_that_reduce_gradients_follow_the_plan() -> None:
    assert layout(dp=4).sync_role(expert=False) == "dp"
    assert layout(dp=4, data="fsdp", shard=2).sync_role(expert=False) == "shard"
    assert layout(dp=4).sync_role(expert=True) == "edp"
    twice = layout(dp=2, pp=2, schedule="dualpipe")
    assert twice.has_copies
    assert twice.sync_role(expert=False) == "copy"


def test_a_tied_table_is_held_once_where_both_ends_are_on_one_rank() -> None:
    tied = SMALL.replace(tied=True)
    for pp, local in ((1, True), (2, False)):
        one = layout(model=tied, pp=pp)
        assert one.tie_is_local is local
        head = one.stack.block("head").weights
        assert one.unsharded_elements(head) == (0 if local else 96 * 64) + 64
