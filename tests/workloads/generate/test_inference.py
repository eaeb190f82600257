"""Inference: FLOPs, cache and transfers against closed forms; pieces and ranks fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.trace.validation import validate
from chakrakit.workloads.description import Decoder, Lengths, Plan, Step, Workload
from chakrakit.workloads.generate import Figures, Generated, dry_run, generated, touched_experts
from chakrakit.workloads.models import model_named
from support.examples import examples
from support.forms import matmul_weights
from support.joined import join

SMALL = Decoder(layers=4, hidden=64, heads=8, kv_heads=4, ffn=96, vocab=96)
MOE = SMALL.replace(experts=8, top_k=2, expert_ffn=32)


def make(model: Decoder, plan: Plan, **step: Any) -> tuple[Generated, Figures]:
    made = generated(Workload(model=model, plan=plan, step=Step(**step)))
    return made, dry_run(made)


@examples(30)
@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(2, 40))
def test_prefill(tp: int, pp: int, seq: int) -> None:
    """2·N·S + 2·L·S²·D a request, the head for its last token only."""
    _, found = make(SMALL, Plan(tp=tp, pp=pp), kind="prefill", seq=seq, global_batch=3)
    layers = SMALL.layers * (2 * matmul_weights(SMALL, False) * seq + 2 * seq**2 * SMALL.hidden)
    assert found.flops_total == 3 * (layers + 2 * SMALL.hidden * SMALL.vocab)
    cache = 2 * SMALL.layers * 4 * 8 * 2 * seq
    held = sum(c.memory["kv_cache"] * c.ranks for c in found.per_rank)
    assert held == cache


@pytest.mark.slow
@examples(30)
@given(
    st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(1, 40), st.integers(1, 5)
)
def test_decode(tp: int, pp: int, context: int, count: int) -> None:
    """2·N + 4·L·context·D a token, context growing by one; caches are read and kept."""
    requests = 4
    _, found = make(
        SMALL,
        Plan(tp=tp, pp=pp),
        kind="decode",
        seq=context,
        global_batch=requests,
        new_tokens=count,
    )
    weights = SMALL.layers * matmul_weights(SMALL, False) + SMALL.hidden * SMALL.vocab
    seen = sum(context + i + 1 for i in range(count))
    expected = count * 2 * weights + 4 * SMALL.layers * seen * SMALL.hidden
    assert found.flops_total == requests * expected
    cache = 2 * SMALL.layers * 4 * 8 * 2
    held = sum(c.memory["kv_cache"] * c.ranks for c in found.per_rank)
    full = requests * cache * (context + count)
    assert (
        held == full if pp == 1 else full - requests * cache <= held <= full
    )  # groups end in turn


def test_tensor_parallel_bytes() -> None:
    """Two all-reduces a layer of every token's activation, and one for the embedding."""
    _, found = make(SMALL, Plan(tp=2), kind="decode", seq=10, global_batch=4, new_tokens=3)
    comm = {c.type: c for c in found.per_rank[0].comm}
    assert comm["ALL_REDUCE"].count == 3 * (2 * 4 + 1)
    assert comm["ALL_REDUCE"].bytes == 3 * (2 * 4 + 1) * 4 * 64 * 2
    assert comm["ALL_GATHER"].bytes == 3 * 4 * 96 * 2 // 2  # logits of the sampled tokens


def test_latent_cache() -> None:
    """DeepSeek-V3 keeps 70,272 bytes per token."""
    _, found = make(model_named("deepseek-v3"), Plan(), kind="prefill", seq=7, global_batch=1)
    assert found.per_rank[0].memory["kv_cache"] == 7 * 70_272


def test_touched_experts() -> None:
    assert touched_experts(MOE, 1) == pytest.approx(2 / 8)
    assert touched_experts(MOE, 3) == pytest.approx(1 - (6 / 8) ** 3)
    assert touched_experts(SMALL, 3) == 1
    read = []
    for requests in (1, 64):
        made, _ = make(MOE, Plan(), kind="decode", seq=4, global_batch=requests, new_tokens=1)
        columns, names = made.classes[0].program.columns, made.layout.book.names.texts
        rows = columns["name"] == names.index("moe.experts.up")
        read.append(int(columns["bytes"][rows][0]) - requests * 2 * 2 * (64 + 64))
    weights = 8 * 64 * 64 * 2
    assert read == [weights // 4, pytest.approx(weights, rel=1e-3)]


@pytest.mark.first(3)
@pytest.mark.parametrize("plan", [Plan(tp=2, pp=2, dp=2), Plan(dp=4, ep=4), Plan(pp=4, dp=2, ep=2)])
@pytest.mark.parametrize("kind", ["prefill", "decode", "serve"])
def test_ranks_fit_together(plan: Plan, kind: str) -> None:
    lengths = Lengths(distribution="lognormal", mean=12)
    made, _ = make(
        MOE, plan, kind=kind, seq=16, global_batch=8, new_tokens=3, lengths=lengths, token_budget=16
    )
    traces = made.traces()
    assert not [f for f in validate(traces).findings if f.severity == "error"]
    joined = join(traces)
    joined.run(np.ones(joined.n, np.int64))
