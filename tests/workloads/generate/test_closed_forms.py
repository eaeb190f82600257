"""Totals over grids of plans equal closed forms, to the last FLOP and byte."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.generate import Figures, dry_run, generated
from support.examples import examples
from support.forms import BYTES, rank_weights, training_flops

FEW = examples(60)
powers = st.sampled_from([1, 2, 4])


@st.composite
def decoders(draw, experts: bool | None = None) -> Decoder:
    moe = draw(st.booleans()) if experts is None else experts
    latent = draw(st.booleans())
    extra = (
        {
            "experts": 8,
            "top_k": draw(st.sampled_from([1, 2])),
            "expert_ffn": 48,
            "shared_experts": draw(st.sampled_from([0, 1])),
            "dense_layers": draw(st.sampled_from([0, 1])),
        }
        if moe
        else {}
    )
    if latent:
        extra |= {
            "kv_lora": 24,
            "rope_dim": 4,
            "nope_dim": 8,
            "value_dim": 8,
            "q_lora": draw(st.sampled_from([0, 16])),
        }
    return Decoder(
        layers=4,
        hidden=64,
        heads=8,
        kv_heads=draw(st.sampled_from([4, 8])),
        ffn=96,
        vocab=draw(st.sampled_from([96, 101])),
        fused=draw(st.booleans()),
        activation=draw(st.sampled_from(["swiglu", "gelu"])),
        kernel=draw(st.sampled_from(["flash", "unfused"])),
        causal=draw(st.booleans()),
        tied=draw(st.booleans()),
        **extra,
    )


@st.composite
def plans(draw) -> Plan:
    dp, cp = draw(powers), draw(st.sampled_from([1, 2]))
    return Plan(
        dp=dp,
        cp=cp,
        tp=draw(powers),
        pp=draw(st.sampled_from([1, 2, 4])),
        sequence_parallel=draw(st.booleans()),
        vocab_parallel=draw(st.booleans()),
        save_gathered=draw(st.booleans()),
        context=draw(st.sampled_from(["gather", "ring", "ulysses"])),
        data=draw(st.sampled_from(["ddp", "zero1", "zero2", "fsdp", "none"])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        schedule=draw(st.sampled_from(["gpipe", "1f1b", "zb-h1"])),
    )


def figures(model: Decoder, plan: Plan, step: Step) -> Figures:
    return dry_run(generated(Workload(model=model, plan=plan, step=step)))


@FEW
@given(decoders(), plans(), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_flops_over_all_ranks(model: Decoder, plan: Plan, batches: int, micro: int) -> None:
    """Every matmul is done once over all ranks, but for those listed as replicated."""
    assume(plan.context != "ulysses" or (model.kv_heads or 8) % (plan.tp * plan.cp) == 0)
    if model.experts:
        plan = plan.replace(ep=min(plan.dp * plan.cp, 4))
    step = Step(seq=32, global_batch=plan.dp * batches * micro, micro_batch=micro)
    found = figures(model, plan, step)
    extra = sum(r.flops for r in found.replicated)
    assert found.flops_total - extra == training_flops(model, plan, step)
    whole = plan.tp == 1 or plan.sequence_parallel
    alike = {
        r.name.removesuffix(".again").removesuffix(".dx").removesuffix(".dw")
        for r in found.replicated
    }
    assert alike <= (
        set()
        if whole
        else {
            "moe.router",
            "attention.q_down",
            "attention.kv_down",
            *([] if plan.vocab_parallel else ["head"]),
        }
    )


def test_attention_is_quadratic_in_the_sequence() -> None:
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96)
    at = [figures(model, Plan(tp=2), Step(seq=s)).flops_total for s in (64, 128, 192)]
    per_pair = (
        2 * 2 * 64 // 2
    )  # scores and values, two FLOPs per element, half of them hidden by the mask
    assert at[2] - 2 * at[1] + at[0] == 3 * 2 * per_pair * 2 * 64**2


def communication(found: Figures, stage: int) -> dict[tuple[str, str], tuple[int, int]]:
    (one,) = [c for c in found.per_rank if c.rank_class == f"stage {stage}"]
    total: Counter[tuple[str, str]] = Counter()
    count: Counter[tuple[str, str]] = Counter()
    for c in one.comm:
        group = c.group.partition(":")[0]
        total[c.type, group] += c.bytes
        count[c.type, group] += c.count
    return {k: (count[k], total[k]) for k in total}


@FEW
@given(
    powers,
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2, 4]),
    powers,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["gather", "ring", "ulysses"]),
    st.sampled_from(["ddp", "zero1", "fsdp"]),
    st.sampled_from([1, 3]),
)
def test_bytes_of_every_kind(
    t: int, c: int, p: int, n: int, sp: bool, gathered: bool, context: str, data: str, m: int
) -> None:
    """Counts and bytes of all communication of every stage."""
    model = Decoder(layers=4, hidden=64, heads=8, kv_heads=8, ffn=96, vocab=96)
    plan = Plan(
        tp=t,
        cp=c,
        pp=p,
        dp=n,
        sequence_parallel=sp,
        save_gathered=gathered,
        context=context,
        data=data,
        reshard="always",
    )
    b, seq = 2, 32
    step = Step(seq=seq, global_batch=n * m * b, micro_batch=b, dtype="bf16")
    found = figures(model, plan, step)
    for stage in range(p):
        expected = _expected(model, plan, b, seq, m, stage)
        assert communication(found, stage) == {k: v for k, v in expected.items() if v[0]}


def _expected(model, plan, b, seq, m, stage):
    t, c, p, n = plan.tp, plan.cp, plan.pp, plan.dp
    layers, first, last = model.layers // p, stage == 0, stage == p - 1
    sp = plan.sequence_parallel and t > 1
    beta, gamma = 2, 4
    a = beta * b * (seq // c) * model.hidden
    out: Counter = Counter()
    size: Counter = Counter()

    def put(kind: str, group: str, count: int, each: int) -> None:
        out[kind, group] += count
        size[kind, group] += count * each

    if t > 1:
        put("ALL_REDUCE", "tp", 3 * m * last, 4 * b * (seq // c))  # the loss: max, target, sum
    if t > 1 and not sp:
        put("ALL_REDUCE", "tp", m * (4 * layers + first + last), a)
    if sp:
        again = 0 if plan.save_gathered else 2 * layers + last
        put("ALL_GATHER", "tp", m * (4 * layers + first + last + again), a // t)
        put("REDUCE_SCATTER", "tp", m * (4 * layers + first + last), a)
        put("ALL_REDUCE", "tp", 1, gamma * (2 * layers + last) * model.hidden)
    kv = a // t  # as many key heads as heads
    if c > 1 and plan.context == "gather":
        put("ALL_GATHER", "cp", 2 * m * layers, kv)
        put("REDUCE_SCATTER", "cp", 2 * m * layers, kv * c)
    if c > 1 and plan.context == "ulysses":
        put("ALL_TO_ALL", "cp", 8 * m * layers, kv)
    if c > 1 and plan.context == "ring":
        for op, peer in (("SEND", "cp_next"), ("RECV", "cp_prev")):
            put(op, peer, m * layers * (c - 1), 2 * kv)
            put(op, peer, m * layers * (c - 1), 4 * kv)
    for op, count in (("SEND", (not last) + (not first)), ("RECV", (not last) + (not first))):
        put(op, "pp", m * count, a // t if sp else a)
    weights, ranks = rank_weights(model, plan, layers, first, last), n * c
    _data(put, plan.data, weights, ranks, m, layers + first + last)
    put("ALL_REDUCE", "dp", int(last and ranks > 1), 4)  # the loss, for people to see
    role, world = ("mp", t * p) if plan.data == "ddp" else ("world", t * p * ranks)
    put("ALL_REDUCE", role, int(world > 1), 4)  # the norm of gradients
    return {k: (out[k], round(size[k])) for k in out}


def _data(put, data, weights, ranks, m, units):
    if ranks == 1:
        return
    if data == "ddp":
        put("ALL_REDUCE", "dp", 1, 4 * weights)
    if data == "zero1":
        put("REDUCE_SCATTER", "dp", 1, 4 * weights)
        put("ALL_GATHER", "dp", 1, 2 * -(-weights // ranks))
    if data == "fsdp":
        # the units differ in size: count them, then say what they add up to
        put("ALL_GATHER", "dp", 2 * m * units, 2 * weights // ranks / units)
        put("REDUCE_SCATTER", "dp", m * units, 4 * weights / units)


@FEW
@given(st.sampled_from([2, 4]), st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.booleans())
def test_expert_exchange(ep: int, copies: int, tp: int, sp: bool) -> None:
    """Four exchanges a layer; experts are reduced over dp / ep ranks, everything else over dp."""
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96, experts=8, top_k=2, expert_ffn=32)
    plan = Plan(dp=ep * copies, ep=ep, tp=tp, sequence_parallel=sp)
    found = figures(model, plan, Step(seq=32, global_batch=ep * copies))
    comm = communication(found, 0)
    tokens = 32 // tp if sp else 32
    assert comm["ALL_TO_ALL", "ep"] == (4 * 2, 4 * 2 * tokens * 2 * 64 * 2)
    experts = 2 * 8 * 3 * 64 * 32 // (ep * tp)
    if copies > 1:
        assert comm["ALL_REDUCE", "edp"][1] == 4 * experts


def test_expert_parameters_are_spread_not_copied() -> None:
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96, experts=8, top_k=2, expert_ffn=32)
    held = [
        figures(model, Plan(dp=4, ep=ep), Step(seq=32, global_batch=4))
        .per_rank[0]
        .memory["parameters"]
        for ep in (1, 4)
    ]
    assert held[0] - held[1] == 2 * (2 * 8 * 3 * 64 * 32) * 3 // 4


@pytest.mark.parametrize(
    ("data", "each"),
    [("ddp", (2, 4, 12)), ("zero1", (2, 4, 3)), ("zero2", (2, 1, 3)), ("fsdp", (0.5, 1, 3))],
)
def test_model_state(data: str, each: tuple[float, float, float]) -> None:
    """Bytes a parameter over four data ranks, with bf16 parameters, fp32 gradients and Adam."""
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96, ffn=96)
    found = figures(model, Plan(dp=4, data=data), Step(seq=32, global_batch=4))
    memory = found.per_rank[0].memory
    kinds = ("parameters", "gradients", "optimizer")
    assert [memory[k] for k in kinds] == [e * found.parameters for e in each]


@pytest.mark.parametrize(
    ("data", "sync", "batches", "kept", "reduced"),
    [
        ("zero1", "auto", 3, 4, 1),
        ("zero2", "auto", 3, 1, 3),
        ("zero2", "micro_batch", 3, 1, 3),
        ("zero2", "step", 3, 4, 1),
        ("zero2", "auto", 1, 1, 1),
        ("fsdp", "auto", 3, 1, 3),
        ("fsdp", "step", 3, 4, 1),
        ("fsdp", "step", 1, 1, 1),
    ],
)
def test_gradients_are_kept_whole_or_reduced_every_time(
    data: str, sync: str, batches: int, kept: int, reduced: int
) -> None:
    """Over four ranks: four bytes a parameter until the last micro-batch, or one and a reduction of each."""
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96, ffn=96)
    plan = Plan(dp=4, data=data, sync=sync)
    found = figures(model, plan, Step(seq=32, global_batch=4 * batches))
    one = found.per_rank[0]
    assert one.memory["gradients"] == kept * found.parameters
    moved = sum(c.bytes for c in one.comm if c.type == "REDUCE_SCATTER")
    assert moved == reduced * 4 * found.parameters


def test_hsdp_reduces_shards_across_replicas() -> None:
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96, ffn=96)
    plan = Plan(dp=8, data="fsdp", shard=4, reshard="always")
    found = figures(model, plan, Step(seq=32, global_batch=16))
    comm, m = communication(found, 0), 2
    assert comm["ALL_GATHER", "shard"][1] == m * 2 * 2 * found.parameters // 4
    assert comm["REDUCE_SCATTER", "shard"][1] == m * 4 * found.parameters
    assert comm["ALL_REDUCE", "replica"][1] == 4 * found.parameters // 4


def test_bytes_element_width_follows_dtype() -> None:
    model = Decoder(layers=2, hidden=64, heads=8, vocab=96)
    for dtype, width in BYTES.items():
        found = figures(
            model, Plan(tp=2, sequence_parallel=False), Step(seq=32, dtype=dtype, clip=False)
        )
        assert communication(found, 0)["ALL_REDUCE", "tp"] == (
            10 + 3,
            10 * 32 * 64 * width + 3 * 4 * 32,
        )
