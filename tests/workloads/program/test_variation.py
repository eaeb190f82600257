"""Ranks that differ: documents of many lengths, and tokens that favour some experts."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.workloads.description import Decoder, Lengths, Plan, Step, Workload
from chakrakit.workloads.program import WorkloadLayout, stage_program, variants, varied
from chakrakit.workloads.samples import document_lengths

SMALL = Decoder(layers=2, hidden=64, heads=8, vocab=96, ffn=96)
MOE = SMALL.replace(experts=4, top_k=2, expert_ffn=32)


def layout(model: Decoder = SMALL, plan: Plan = Plan(dp=2), **step: object) -> WorkloadLayout:  # noqa: B008
    own = Step(seq=64, global_batch=4, **step)  # type: ignore[arg-type]
    return WorkloadLayout(Workload(model=model, plan=plan, step=own))


def test_ranks_are_alike_unless_documents_or_experts_tell_them_apart() -> None:
    [alike] = variants(layout(), 0)
    assert (alike.name, alike.ranks.tolist()) == ("stage 0", [0, 1])
    for mean in (1, 16, 63):
        documents = list(variants(layout(lengths=Lengths(mean=mean)), 0))
        assert [v.name for v in documents] == ["stage 0 dp0", "stage 0 dp1"]
    for mean in (0, 64):  # no documents, and one as long as the sequence
        assert [v.name for v in variants(layout(lengths=Lengths(mean=mean)), 0)] == ["stage 0"]
    skewed = list(variants(layout(MOE, Plan(dp=2, ep=2), imbalance=0.5), 0))
    assert [v.name for v in skewed] == ["stage 0 ep0 edp0", "stage 0 ep1 edp0"]


def test_attention_costs_the_squares_of_the_documents() -> None:
    """Four documents of 16 in a sequence of 64 cost a quarter of one of 64."""
    one = layout(lengths=Lengths(mean=16))
    whole = stage_program(one, 0)
    [first, _] = variants(one, 0)
    core = whole.columns["core"] > 0
    part = varied(one, whole, first)
    assert (4 * part.columns["flops"][core] == whole.columns["flops"][core]).all()
    assert (part.columns["flops"][~core] == whole.columns["flops"][~core]).all()


def test_tokens_of_all_experts_of_a_group_add_up() -> None:
    one = layout(MOE, Plan(dp=2, ep=2), imbalance=0.5)
    whole = stage_program(one, 0)
    parts = [varied(one, whole, v) for v in variants(one, 0)]
    routed = (whole.columns["routed"] > 0) & (whole.columns["flops"] > 0)
    assert routed.any()
    sums = sum(p.columns["flops"][routed] for p in parts)
    assert (sums == 2 * whole.columns["flops"][routed]).all()
    assert (parts[0].columns["flops"][routed] != parts[1].columns["flops"][routed]).any()


@pytest.mark.parametrize("distribution", ["fixed", "uniform", "lognormal"])
def test_lengths_are_whole_and_have_about_the_mean(distribution: str) -> None:
    lengths = Lengths(distribution=distribution, mean=50, sigma=0.5)  # type: ignore[arg-type]
    drawn = document_lengths(lengths, 50, 4000, np.random.default_rng(1))
    assert (drawn == np.rint(drawn)).all()
    assert drawn.min() >= 1
    assert drawn.mean() == pytest.approx(50, rel=0.05)
