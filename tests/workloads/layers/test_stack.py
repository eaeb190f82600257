"""A model as a row of blocks under a plan."""

from __future__ import annotations

import pytest

from chakrakit.workloads.description import Decoder, Plan, Recommender, Step, Vision
from chakrakit.workloads.layers import stack_of
from chakrakit.workloads.layers.stack import settings_of, token_axes, training_tokens

MODEL = Decoder(layers=3, hidden=16, heads=4, vocab=33, ffn=24)
STEP = Step(seq=8, micro_batch=2)


@pytest.mark.parametrize(
    ("plan", "axes"),
    [(Plan(), ("cp",)), (Plan(tp=2), ("cp", "tp")), (Plan(tp=2, sequence_parallel=False), ("cp",))],
)
def test_the_sequence_is_cut_by_tp_only_with_sequence_parallelism(
    plan: Plan, axes: tuple[str, ...]
) -> None:
    assert token_axes(plan) == axes


def test_flash_attention_skips_what_a_causal_mask_hides() -> None:
    pairs = {
        kernel: training_tokens(MODEL.replace(kernel=kernel), Plan(), STEP).core.pairs
        for kernel in ("flash", "unfused")
    }
    assert pairs == {"flash": 2 * 64 / 2, "unfused": 2 * 64}


def test_layers_are_dense_first_and_then_of_experts() -> None:
    moe = MODEL.replace(experts=4, top_k=2, expert_ffn=8, dense_layers=1)
    assert stack_of(MODEL, Plan(), STEP).rows == ["dense"] * 3
    assert stack_of(moe, Plan(), STEP).rows == ["dense", "moe", "moe"]
    stack = stack_of(MODEL, Plan(), STEP)
    assert (stack.first, stack.last) == (["embedding"], ["head"])


def test_a_vocabulary_is_filled_up_to_the_ranks_that_share_it() -> None:
    tables = {}
    for whole in (True, False):
        stack = stack_of(MODEL, Plan(tp=2, vocab_parallel=whole), STEP)
        tables[whole] = stack.block("embedding").weights[0].all_elements
    assert tables == {True: 34 * 16, False: 33 * 16}


def test_a_block_is_made_once_and_recomputed_only_within_the_row() -> None:
    stack = stack_of(MODEL, Plan(recompute="full"), STEP)
    assert stack.block("dense") is stack.block("dense")
    assert any(n.recompute for n in stack.block("dense").backward)
    assert not any(n.recompute for n in stack.block("head").backward)


def test_inference_has_no_backward_and_touches_some_experts() -> None:
    step = Step(kind="prefill", seq=8)
    assert not settings_of(Plan(), step).training
    assert settings_of(Plan(tp=2, ep=4), step, touched=0.5).touched == 0.5
    assert settings_of(Plan(tp=2, ep=4), step).degrees == {"tp": 2, "cp": 1, "ep": 4}
    assert stack_of(MODEL, Plan(), step).block("dense").backward == []


def test_other_families_start_backward_in_their_last_block() -> None:
    vision = stack_of(Vision(layers=2, hidden=16, heads=4, ffn=24), Plan(), Step())
    assert len(vision.rows) == 2
    assert vision.starts_backward == {vision.last[-1]}
    tables = Recommender(tables=[8, 8], dim=4, bottom=[4], top=[4, 1])
    assert stack_of(tables, Plan(), Step()).last
