"""Inference workloads as traces: prefill and decode apart, and the cache that moves between them."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.trace.validation import validate
from chakrakit.workloads.description import Decoder, Mesh, Plan, Step, Workload
from chakrakit.workloads.description.description import Disaggregation
from chakrakit.workloads.generate import dry_run, generated
from chakrakit.workloads.generate.serving import cache_shares
from support.joined import join

SMALL = Decoder(layers=4, hidden=64, heads=8, kv_heads=4, ffn=96, vocab=96)


APART = [
    (SMALL, Plan(tp=2, dp=2), Plan(tp=4, pp=2)),
    (SMALL, Plan(tp=4, pp=2), Plan(tp=2, dp=3)),
    (SMALL, Plan(pp=4), Plan(pp=2, tp=2)),
    (SMALL.replace(kv_lora=24, rope_dim=4, nope_dim=8, value_dim=8), Plan(tp=2), Plan(tp=4, dp=2)),
]


@pytest.mark.first(1)
@pytest.mark.parametrize(("model", "prefill", "decode"), APART)
def test_disaggregated(model: Decoder, prefill: Plan, decode: Plan) -> None:
    """All of the cache arrives, once on every rank that needs it."""
    step = Step(kind="decode", seq=20, global_batch=6, new_tokens=2)
    apart = Disaggregation(prefill=prefill, decode=decode)
    made = generated(Workload(model=model, step=step, disaggregated=apart))
    found, traces = dry_run(made), made.traces()
    assert found.ranks == prefill.world + decode.world == len(traces)
    assert not validate(traces).findings
    joined = join(traces)
    joined.run(np.ones(joined.n, np.int64))
    each = (24 + 4) * decode.tp if model.kv_lora else 2 * 4 * 8
    cache = model.layers * each * 2 * 20 * 6
    for side, op in ((0, "SEND"), (1, "RECV")):
        ranks = range(prefill.world) if side == 0 else range(prefill.world, len(traces))
        moved = sum(
            c.bytes
            for f in found.per_rank
            if f.first_rank in ranks
            for c in f.comm
            if c.type == op and c.group.startswith("rank:")
        )
        assert moved == cache


def shares(own: Plan, other: Plan, rank: int, stage: int = 0) -> list[tuple[int, int]]:
    """Who gets how much of ten tokens' cache from a prefill rank."""
    workload = Workload(model=SMALL, step=Step(kind="decode", seq=10))
    meshes = Mesh(own), Mesh(other, first=own.world)
    return list(cache_shares(workload, (own, other), meshes, (rank, stage, 0), 10))


def test_a_cache_goes_where_its_layers_and_heads_are() -> None:
    """4 layers of 4 key and value heads of 8 in bf16: 10 tokens are 4 · 10 · 2 · 4 · 8 · 2 bytes."""
    whole = 4 * 10 * 2 * 4 * 8 * 2
    assert shares(Plan(), Plan(), 0) == [(1, whole)]
    assert shares(Plan(), Plan(tp=2), 0) == [(1, whole // 2), (2, whole // 2)]
    assert shares(Plan(tp=2), Plan(), 1) == [(2, whole // 2)]
    assert shares(Plan(), Plan(pp=2), 0) == [(1, whole // 2), (2, whole // 2)]


def test_stages_share_the_layers_that_both_have() -> None:
    """Of 4 layers in 2 stages and in 4, a stage of the first meets two of the second."""
    layer = 10 * 2 * 4 * 8 * 2
    assert shares(Plan(pp=2), Plan(pp=4), 1, stage=1) == [(4, layer), (5, layer)]


def test_requests_of_one_mesh_are_counted_with_what_they_get() -> None:
    step = Step(kind="decode", seq=20, global_batch=6, new_tokens=2)
    made = generated(Workload(model=SMALL, plan=Plan(tp=2), step=step))
    assert (made.size, made.passes, made.tokens) == (2, 2, 6 * 2)
