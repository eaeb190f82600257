"""The end of a step: gradients reduced in buckets, clipped and applied, parameters handed round."""

from __future__ import annotations

import pytest

from chakrakit.operators import ADAM
from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.program import Stage, WorkloadLayout, step_end_nodes
from chakrakit.workloads.program.step_end import StepEndNode, optimizer_share

SMALL = Decoder(layers=2, hidden=64, heads=8, vocab=96, ffn=96)
PARAMETERS = 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 2 * 96 * 64 + 64


def tail(stage: int = 0, step: dict | None = None, **plan: object) -> list[StepEndNode]:
    own = Step(seq=16, global_batch=8, **(step or {}))
    layout = WorkloadLayout(Workload(model=SMALL, plan=Plan(**plan), step=own))  # type: ignore[arg-type]
    return step_end_nodes(layout, stage, Stage(layout, stage).held_weights())


def told(nodes: list[StepEndNode]) -> list[tuple[str, str, str]]:
    """(name, collective, group) of all communication."""
    return [(n.node.name, n.node.comm.name, n.node.role) for n in nodes if n.node.comm is not None]


def test_gradients_of_replicas_are_summed_and_the_loss_averaged() -> None:
    nodes = tail(dp=4)
    assert told(nodes) == [("gradients.dp.0", "ALL_REDUCE", "dp"), ("loss", "ALL_REDUCE", "dp")]
    assert nodes[0].node.comm_size == 4 * PARAMETERS
    updates = [n.node for n in nodes if n.node.op == "optimizer"]
    assert len(updates) == 4  # one for each block
    assert sum(n.vector_ops for n in updates) == ADAM * PARAMETERS


def test_buckets_close_when_they_are_full() -> None:
    whole = tail(dp=4)[0].node.comm_size
    buckets = [n.node for n in tail(dp=4, bucket_mb=0.1) if n.node.name.startswith("gradients")]
    assert len(buckets) > 1
    assert sum(b.comm_size for b in buckets) == whole
    assert all(b.comm_size >= 0.1 * 2**20 for b in buckets[:-1])


def test_a_sharded_optimizer_scatters_updates_a_part_and_gathers() -> None:
    nodes = tail(dp=4, data="zero1")
    assert told(nodes) == [
        ("gradients.dp.0", "REDUCE_SCATTER", "dp"),
        ("loss", "ALL_REDUCE", "dp"),
        ("clip", "ALL_REDUCE", "world"),
        ("parameters.dp.0", "ALL_GATHER", "dp"),
    ]
    gather = nodes[-1]
    assert gather.node.out_size == 2 * PARAMETERS
    assert [nodes[i].node.op for i in gather.after] == ["optimizer"]
    shards = [n.node.shapes for n in nodes if n.node.op == "optimizer"]
    assert shards[0] == f"dp {96 * 64}"  # of the embedding


def test_shards_of_replicas_are_summed_across_them() -> None:
    nodes = tail(dp=4, data="fsdp", shard=2)
    across = [n for n in told(nodes) if n[2] == "replica"]
    assert across
    assert {kind for _, kind, _ in across} == {"ALL_REDUCE"}


def test_a_tied_table_of_two_stages_is_summed_between_them() -> None:
    tied = Workload(
        model=SMALL.replace(tied=True), plan=Plan(pp=2), step=Step(seq=16, global_batch=8)
    )
    layout = WorkloadLayout(tied)
    for stage in (0, 1):
        nodes = step_end_nodes(layout, stage, Stage(layout, stage).held_weights())
        [one] = [n.node for n in nodes if n.node.role == "embedding"]
        assert (one.name, one.comm_size) == ("gradients.tied", 4 * 96 * 64)


@pytest.mark.parametrize(
    ("step", "plan"), [({"optimizer": "none"}, {}), ({}, {"dp": 4, "data": "none"})]
)
def test_what_is_left_out_is_left_out(step: dict, plan: dict) -> None:
    nodes = tail(step=step, **plan)
    if step:
        assert not [n for n in nodes if n.node.op == "optimizer"]
    else:
        assert not [n for n in nodes if n.node.name.startswith("gradients")]


def test_a_rank_updates_its_share_rounded_up() -> None:
    layout = WorkloadLayout(
        Workload(model=SMALL, plan=Plan(dp=5, data="zero1"), step=Step(seq=16, global_batch=5))
    )
    held = Stage(layout, 0).held_weights()[0]
    assert held.weight.name == "embedding.weight"
    assert optimizer_share(layout, held) == -(-96 * 64 // 5)
