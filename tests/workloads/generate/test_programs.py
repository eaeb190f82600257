"""The programs of a workload: one for each distinct one, with the groups and peers that it names."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.workloads.description import Decoder, Plan, Step, Vision, Workload
from chakrakit.workloads.generate import Generated

SMALL = Decoder(layers=4, hidden=64, heads=8, kv_heads=4, ffn=96, vocab=96)


def made(plan: Plan, batch: int = 4) -> Generated:
    return Generated(Workload(model=SMALL, plan=plan, step=Step(seq=16, global_batch=batch)))


def test_ranks_of_a_stage_share_a_program_in_the_order_of_their_lowest() -> None:
    found = made(Plan(dp=2, pp=2)).classes
    assert [(c.name, c.ranks.tolist()) for c in found] == [("stage 0", [0, 1]), ("stage 1", [2, 3])]


def test_a_program_names_the_groups_and_peers_that_it_uses() -> None:
    first, last = made(Plan(dp=2, tp=2, pp=2)).classes
    assert {"dp", "tp"} <= set(first.roles)
    assert first.peers == ("pp:1",)
    assert last.peers == ("pp:0",)


def test_every_rank_is_bound_to_groups_of_its_own() -> None:
    traces = made(Plan(dp=2, tp=2)).traces()
    assert traces.bindings[0].body == traces.bindings[3].body
    tp = [traces.groups[traces.bindings[r].groups["tp"]] for r in (0, 3)]
    dp = [traces.groups[traces.bindings[r].groups["dp"]] for r in (0, 3)]
    assert tp == [(0, 1), (2, 3)]
    assert dp == [(0, 2), (1, 3)]


def test_passes_and_tokens_count_the_whole_step() -> None:
    found = made(Plan(dp=2), batch=8)
    assert (found.size, found.passes, found.tokens) == (2, 4, 8 * 16)
    images = Workload(model=Vision(layers=1, hidden=64, heads=4, ffn=96), step=Step(global_batch=3))
    assert Generated(images).tokens == 3 * images.model.tokens


def test_forward_passes_do_a_third_of_the_work_and_keep_nothing():
    plan = {"tp": 2, "pp": 2, "schedule": "interleaved", "chunks": 2}
    both = [
        ck.generate(model="gpt3-125m", seq=128, global_batch=4, kind=kind, **plan).figures
        for kind in ("train", "forward")
    ]
    assert both[0].flops_total == 3 * both[1].flops_total
    assert all(c.memory["activations"] == 0 for c in both[1].per_rank)
    image = ck.generate(model="vit-b-16", kind="forward")
    assert set(image.traces.trace(0).nodes.column("phase").to_pylist()) == {"forward"}


@pytest.mark.parametrize(
    "plan",
    [
        Plan(dp=2, tp=2),
        Plan(pp=2, schedule="1f1b", data="zero1", recompute="selective"),
        Plan(pp=2, schedule="interleaved", chunks=2),
        Plan(pp=4, schedule="gpipe", dp=2, data="fsdp"),
        Plan(pp=2, schedule="zb-h1", recompute="full"),
        Plan(pp=2, schedule="zb-v"),
        Plan(pp=2, schedule="dualpipe"),
    ],
)
def test_nodes_are_counted_before_they_are_made(plan: Plan) -> None:
    programs = made(plan, 96 * plan.dp)
    assert programs.nodes_ahead() == [(len(c.program), len(c.ranks)) for c in programs.classes]


def test_nodes_of_few_micro_batches_are_not_counted_ahead() -> None:
    """There, making them tells."""
    assert made(Plan(pp=2), 8).nodes_ahead() is None
