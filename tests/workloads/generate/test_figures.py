"""What a workload amounts to before anything is written: work, bytes, the bubble, and whether it fits."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import (
    Decoder,
    PipelineTask,
    Plan,
    Step,
    Workload,
    schedule_named,
    schedule_of,
)
from chakrakit.workloads.generate import Figures, dry_run, generated, refuse_over_capacity, with_fit
from chakrakit.workloads.generate.figures import parameters, waiting_share

SMALL = Decoder(layers=4, hidden=64, heads=8, kv_heads=4, ffn=96, vocab=96)


def figures(model: Decoder = SMALL, plan: Plan = Plan(), **step: int) -> Figures:  # noqa: B008
    return dry_run(generated(Workload(model=model, plan=plan, step=Step(seq=16, **step))))


def test_all_parameters_count_and_of_experts_those_a_token_meets() -> None:
    layer = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96 + 2 * 64
    dense = 4 * layer + 2 * 96 * 64 + 64
    assert parameters(Workload(model=SMALL)) == (dense, dense)
    expert = 3 * 64 * 32
    moe = SMALL.replace(experts=8, top_k=2, expert_ffn=32)
    rest = 4 * (layer - 3 * 64 * 96 + 64 * 8) + 2 * 96 * 64 + 64
    assert parameters(Workload(model=moe)) == (rest + 4 * 8 * expert, rest + 4 * 2 * expert)
    tied, _ = parameters(Workload(model=SMALL.replace(tied=True)))
    assert tied == dense - 96 * 64


def test_communication_is_listed_by_type_and_group() -> None:
    found = figures(plan=Plan(tp=2, dp=2, sequence_parallel=False), global_batch=2)
    [one] = found.per_rank
    rows = {(c.type, c.group): (c.ranks, c.count, c.bytes) for c in one.comm}
    # Two sums of 16 tokens of 64 in each way of four layers, one for the embedding and one for the head;
    # three numbers per token for the loss.
    assert rows["ALL_REDUCE", "tp"][0] == 2
    assert rows["ALL_REDUCE", "tp"][2] == (2 * 2 * 4 + 2) * 16 * 64 * 2 + 3 * 16 * 4
    assert found.ranks == 4
    assert found.flops_total == 4 * one.flops


def test_work_that_several_ranks_do_in_full_is_told() -> None:
    moe = SMALL.replace(experts=8, top_k=2, expert_ffn=32)
    found = figures(moe, Plan(tp=2, sequence_parallel=False))
    again = {r.name: (r.times, r.flops) for r in found.replicated}
    assert again["moe.router"] == (2, 4 * 2 * 16 * 64 * 8)  # each of four layers once too often
    assert figures().replicated == []


def test_tasks_wait_for_the_stage_before_and_for_their_own_forward() -> None:
    """One micro-batch on two stages: forwards of 2 and 4, backwards of 6 and 3, each after the one before.

    The pipeline takes 15, in which its stages work 5 and 10.
    """
    plan = schedule_of([["F0", "B0"], ["F0", "B0"]], 1)
    assert plan.tasks[0][0] == PipelineTask("F", 0, 0)
    assert waiting_share(plan, [[2, 3], [4, 6]]) == 1 - (5 + 10) / (2 * 15)


@pytest.mark.parametrize(
    ("name", "even"),
    [
        ("1f1b", 1 - 24 / 33),
        ("zb-h1", 1 - 24 / 27),
        ("zb-v", 1 - 48 / 51),
        ("dualpipe", 1 - 24 / 25),
    ],
)
def test_one_definition_of_the_bubble_for_every_schedule(name: str, even: float) -> None:
    """Four stages and eight micro-batches, of 3 units on each stage, or in two parts of 3 each.

    If the first stage takes three times as long, it never waits, and the others work a third of its time.
    """
    plan = schedule_named(name, 4, 8)
    work = [[2 if task.kind == "B" else 1 for task in stage] for stage in plan.tasks]
    assert waiting_share(plan, work) == pytest.approx(even)
    slow = [[3 * n for n in work[0]], *work[1:]]
    assert waiting_share(plan, slow) == pytest.approx(1 - (1 + 3 / 3) / 4)


def test_the_bubble_is_that_of_all_stages() -> None:
    model = SMALL.replace(layers=16, vocab=1)
    found = figures(model, Plan(pp=4), global_batch=4)
    assert found.bubble_fraction == pytest.approx(3 / 7, rel=0.02)
    assert figures().bubble_fraction == 0


def test_a_verdict_says_what_is_needed_and_what_there_is() -> None:
    found = figures()
    need = found.per_rank[0].memory["total"]
    fits = with_fit(found, need)
    assert (fits.fits, fits.needs_bytes, fits.has_bytes) == (True, need, need)
    assert with_fit(found, need - 1).fits is False
    assert found.fits is None
    with pytest.raises(ConfigError, match=r"stage 0 needs .* GiB .* and mine has 0\.0; shard more"):
        refuse_over_capacity(found, need - 1, "mine")
    refuse_over_capacity(found, need, "mine")


def test_training_in_narrow_products_keeps_its_weights_wide() -> None:
    """They are cast for each product; inference reads narrow ones."""
    narrow = {"model": "llama3.1-8b", "layers": 1, "matmul_dtype": "fp8", "seq": 64}
    train = ck.generate(global_batch=1, **narrow).figures.precision
    serve = ck.generate(kind="decode", **narrow).figures.precision
    assert (train.weights, train.activations, serve.weights) == ("bf16", "fp8", "fp8")
    assert serve.weight_bytes < train.weight_bytes
