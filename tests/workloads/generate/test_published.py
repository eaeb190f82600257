"""Figures other people measured or published."""

from __future__ import annotations

import pytest

from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import dry_run, generated
from chakrakit.workloads.models import model_named

REAL_RUNS = {
    # Llama-3.1-8B under torchtitan on A100: all-gather and reduce-scatter bytes of rank 0, in GB
    "FSDP-4, always resharded": (
        Plan(dp=4, data="fsdp", reshard="always"),
        Step(seq=512, global_batch=16, micro_batch=4),
        "8.03026",
        "32.121",
    ),
    "FSDP-8": (
        Plan(dp=8, data="fsdp"),
        Step(seq=512, global_batch=32, micro_batch=4),
        "3.8838",
        "32.121",
    ),
    "TP-4": (
        Plan(tp=4),
        Step(seq=512, global_batch=4, micro_batch=4, dtype="fp32"),
        "1.09052",
        "4.36208",
    ),
    "TP-2 PP-2": (
        Plan(tp=2, pp=2),
        Step(seq=512, global_batch=4, micro_batch=4, dtype="fp32"),
        "1.09052",
        "2.18104",
    ),
    "FSDP-2 TP-2": (
        Plan(tp=2, dp=2, data="fsdp", reshard="always"),
        Step(seq=512, global_batch=8, micro_batch=4),
        "9.12105",
        "18.2421",
    ),
}


def to_digits(value: float, text: str) -> str:
    """A value with as many decimals as a text has."""
    return f"{value:.{len(text.partition('.')[2])}f}"


@pytest.mark.parametrize("run", REAL_RUNS)
def test_real_torchtitan_runs(run: str) -> None:
    plan, step, gathered, scattered = REAL_RUNS[run]
    found = dry_run(generated(Workload(model=model_named("llama3.1-8b"), plan=plan, step=step)))
    comm = found.per_rank[0].comm
    for kind, expected in (("ALL_GATHER", gathered), ("REDUCE_SCATTER", scattered)):
        total = sum(c.bytes for c in comm if c.type == kind) / 1e9
        assert to_digits(total, expected) == expected


def test_deepseek_expert_exchange() -> None:
    """2.6172 GB with even routing (a real run with uneven routing moved 2.729)."""
    plan, step = Plan(dp=8, ep=8, data="fsdp", reshard="never"), Step(seq=1024, global_batch=8)
    found = dry_run(generated(Workload(model=model_named("deepseek-v3-16b"), plan=plan, step=step)))
    comm = {(c.type, c.group): c for c in found.per_rank[0].comm}
    assert comm["ALL_TO_ALL", "ep"].bytes == 4 * 26 * 1024 * 6 * 2048 * 2 == 2_617_245_696
    rest = comm["REDUCE_SCATTER", "dp"].bytes / 4
    assert f"{rest / 1e9:.4f}" == "1.3116"
    assert comm["ALL_GATHER", "dp"].bytes == rest * 2 / 8


def test_uneven_routing_moves_more_on_the_way_back() -> None:
    plan = Plan(dp=8, ep=8)
    model = model_named("deepseek-v3-16b")
    made = [
        dry_run(
            generated(
                Workload(model=model, plan=plan, step=Step(seq=1024, global_batch=8, imbalance=i))
            )
        )
        for i in (0.0, 0.2)
    ]
    even, uneven = made
    assert len(even.per_rank) == 1
    assert len(uneven.per_rank) == 8
    sent = [sum(c.bytes for c in r.comm if c.type == "ALL_TO_ALL") for r in uneven.per_rank]
    assert len(set(sent)) == 8
    assert sum(sent) == 8 * 2_617_245_696  # tokens move between ranks, none are made
    assert uneven.flops_total == even.flops_total


# Korthikanti et al. 2022 (arXiv 2205.05198): GiB of activations of the layers of the first stage
# without any measure, with sequence parallelism and selective recompute, and of model state
MEMORY = {
    "22b": (8, 1, 1, 4, 59.25, 9.5625, 45.5625),
    "175b": (8, 8, 3, 1, 66.84375, 12.3515625, 45.5625),
    "530b": (8, 35, 3, 1, 114.0234375, 23.076171875, 31.640625),
    "1t": (8, 64, 1, 1, 131.25, 26.5625, 32.958984375),
}


@pytest.mark.parametrize(
    "size", [pytest.param(s, marks=[pytest.mark.slow] * (s in ("530b", "1t"))) for s in MEMORY]
)
def test_activation_and_state_memory(size: str) -> None:
    tp, pp, chunks, b, plain, selective, state = MEMORY[size]
    schedule = "interleaved" if chunks > 1 else "1f1b"
    step = Step(seq=2048, global_batch=2 * pp * b, micro_batch=b, dtype="fp16")
    for expected, measures in (
        (plain, {"sequence_parallel": False}),
        (selective, {"save_gathered": False, "recompute": "selective"}),
    ):
        plan = Plan(tp=tp, pp=pp, schedule=schedule, chunks=chunks, **measures)
        made = generated(Workload(model=model_named(f"megatron-{size}"), plan=plan, step=step))
        program = made.classes[0].program
        columns = program.columns
        in_layers = columns["layer"] >= 0
        held = ((columns["alloc"] - columns["free"]) * in_layers).cumsum()
        # between tasks, when nothing that is computed again is held
        assert held[columns["phase"] == 0].max() / 2**30 == expected
    matrices = sum(
        h.weight.tensor.elements({"tp": tp})
        for h in program.weights
        if h.weight.kind == "matrix" and not h.weight.tied
    )
    assert 18 * matrices / 2**30 == state


def test_full_recompute_keeps_only_inputs() -> None:
    model = model_named("megatron-22b")
    for sp, part in ((False, 1), (True, 8)):
        plan = Plan(tp=8, recompute="full", sequence_parallel=sp)
        step = Step(seq=2048, global_batch=4, micro_batch=4)
        columns = generated(Workload(model=model, plan=plan, step=step)).classes[0].program.columns
        forward = (columns["layer"] >= 0) & (columns["phase"] == 0)
        assert columns["alloc"][forward].sum() == 48 * 2 * 2048 * 4 * 6144 // part


def test_megatron_flops() -> None:
    """Narayanan et al. 2021, equation 3: four passes with full recompute, and three for the model's own."""
    model = model_named("megatron-18.4b")
    b, s, layers, d, v = 8, 2048, 40, 6144, 51200
    step = Step(seq=s, global_batch=b)
    full = dry_run(generated(Workload(model=model, plan=Plan(tp=8, recompute="full"), step=step)))
    plain = dry_run(generated(Workload(model=model, plan=Plan(tp=8), step=step)))
    # the equation counts the head three times, not four: 96·V/16 = 72·V/12 = 6 FLOPs per element
    assert (
        full.flops_total
        == 96 * b * s * layers * d**2 + 16 * b * s**2 * layers * d + 6 * b * s * d * v
    )
    assert (
        plain.flops_total
        == 72 * b * s * layers * d**2 + 12 * b * s**2 * layers * d + 6 * b * s * d * v
    )
    selective = dry_run(
        generated(Workload(model=model, plan=Plan(tp=8, recompute="selective"), step=step))
    )
    # one more pass of attention itself: + S/18D within the bracket
    assert selective.flops_total - plain.flops_total == 4 * layers * b * s**2 * d
