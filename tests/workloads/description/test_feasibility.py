"""Plans that cannot be are refused with what, why, and what would fit."""

from __future__ import annotations

from typing import Any

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import (
    Attention,
    Decoder,
    Layer,
    Lengths,
    Matrix,
    Mlp,
    Plan,
    Recorded,
    Step,
    Workload,
)
from chakrakit.workloads.generate import dry_run, generated, refuse_over_capacity
from chakrakit.workloads.models import model_named

SMALL = Decoder(layers=4, hidden=64, heads=8, kv_heads=4, vocab=96)
MOE = SMALL.replace(experts=8, top_k=2, expert_ffn=32)

OF_KINDS = Decoder(
    layers=1, hidden=1344, heads=21, vocab=99, pattern=["it"],
    kinds={"it": Layer(mixer=Attention(heads=21, kv_heads=7, head_dim=64), ffn=Mlp(width=2688))},
)  # fmt: skip
"""As files of configurations are read: layers say what they are made of."""
CAPTURED = OF_KINDS.replace(
    kv_heads=7,
    kinds={
        "it": Layer(
            mixer=Recorded(
                matrices=[Matrix(name="q", inputs=1344, outputs=1344, cut="columns")],
                flops_per_pair=1.0,
            )
        )
    },
)

REFUSED: list[tuple[Decoder, dict[str, Any], dict[str, Any], str]] = [
    (SMALL, {"tp": 3}, {}, "tp 3 does not divide decoder's 8 heads; use 1, 2, 4"),
    (
        SMALL,
        {"dp": 2, "data": "zero1", "sync": "micro_batch"},
        {"global_batch": 8},
        "sync micro_batch is for data fsdp and zero2; zero1 reduces gradients once a step: leave sync out",
    ),
    (SMALL, {"tp": 8}, {}, "tp 8 does not divide decoder's 4 kv_heads; use 1, 2, 4"),
    (
        OF_KINDS,
        {"tp": 2},
        {},
        "tp 2 does not divide the 21 heads of decoder's it layers; use 1, 7 ",
    ),
    (OF_KINDS, {"tp": 3}, {"seq": 66}, "the 7 kv_heads of decoder's it layers; use 1, 7$"),
    (
        CAPTURED,
        {"tp": 2},
        {},
        "tp 2 does not divide the 21 heads of decoder's it layers; use 1, 7 ",
    ),
    (CAPTURED, {"tp": 3}, {"seq": 66}, "the 7 kv_heads of decoder's it layers; use 1, 7$"),
    (
        OF_KINDS,
        {"cp": 2, "context": "ulysses"},
        {},
        r"tp × cp \(ulysses\) 1 × 2 does not divide the 21 heads",
    ),
    (
        SMALL,
        {"tp": 2, "cp": 4, "context": "ulysses"},
        {},
        r"tp × cp \(ulysses\) 2 × 4 does not divide",
    ),
    (
        SMALL,
        {"pp": 8},
        {"global_batch": 8},
        "4 layers cannot fill 8 pipeline pieces; use .* at most 4",
    ),
    (
        SMALL,
        {"pp": 2, "split": [1, 2]},
        {},
        r"adding up to 3; it needs 2 adding up to 4, such as \[2, 2\]",
    ),
    (
        SMALL,
        {"ep": 2, "dp": 2},
        {"global_batch": 2},
        "decoder has no experts to spread over ep 2; use ep 1",
    ),
    (
        MOE,
        {"ep": 16, "dp": 16},
        {"global_batch": 16},
        "ep 16 is more than .* 8 experts; use 1, 2, 4, 8",
    ),
    (MOE, {"ep": 4, "dp": 2}, {"global_batch": 2}, "ep 4 is nested in dp × cp = 2, .*; use 1, 2"),
    (
        SMALL,
        {"dp": 3},
        {"global_batch": 8},
        "not a multiple of dp × micro_batch = 3 × 1; use global_batch 6 or 9",
    ),
    (SMALL, {"cp": 3}, {"seq": 64}, "cp = 3 does not divide 64 tokens; use seq 63 or 66"),
    (SMALL, {"schedule": "2f2b"}, {}, "no schedule '2f2b'; there are gpipe, 1f1b"),
    (SMALL, {"pp": 2, "schedule": "interleaved", "chunks": 2}, {"global_batch": 3}, "rounds of 2"),
    (SMALL, {"pp": 2, "schedule": "dualpipe"}, {"global_batch": 2}, "use pp 2 and 4 micro-batches"),
    (SMALL, {"chunks": 2}, {}, "chunks 2 is for the interleaved schedule"),
    (
        SMALL,
        {"dp": 4, "shard": 3, "data": "fsdp"},
        {"global_batch": 4},
        "shard 3 must divide dp × cp = 4",
    ),
    (SMALL, {"order": "tp-dp"}, {}, "it should name tp, cp, dp and pp once each"),
    (SMALL, {"dp": 0}, {}, "dp is 0; it must be 1 or more"),
    (SMALL.replace(positions=32), {}, {"seq": 64}, "seq 64 is more than decoder's 32 positions"),
    (SMALL, {}, {"imbalance": 0.5}, "imbalance is about experts"),
    (SMALL, {}, {"lengths": Lengths(mean=-1)}, "mean is -1; it must be 0 or more"),
    (SMALL, {}, {"lengths": Lengths(sigma=-1.0)}, "sigma is -1.0; it must be a number from 0"),
    (SMALL, {}, {"kind": "decode", "new_tokens": 0}, "new_tokens is 0; it must be 1 or more"),
    (model_named("vit-b-16"), {}, {"kind": "decode"}, "decode is for decoders"),
    (model_named("dlrm-criteo"), {"tp": 2}, {}, "no parts for tp, cp or pp; use dp"),
]


@pytest.mark.parametrize(("model", "plan", "step", "message"), REFUSED)
def test_refused(model: Decoder, plan: dict[str, Any], step: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dry_run(
            generated(Workload(model=model, plan=Plan(**plan), step=Step(**{"seq": 64, **step})))
        )


def test_a_vocabulary_of_any_model_is_filled_up_to_a_multiple_of_tp() -> None:
    """Of 99 rows each of 7 ranks has 15, in the embedding and in the head."""
    plan, step = Plan(tp=7), Step(seq=70)
    odd, even = (
        dry_run(generated(Workload(model=OF_KINDS.replace(vocab=n), plan=plan, step=step)))
        for n in (99, 105)
    )
    assert odd.per_rank[0].memory["parameters"] == even.per_rank[0].memory["parameters"]
    assert even.parameters - odd.parameters == 2 * (105 - 99) * 1344


def test_more_than_the_device_holds() -> None:
    found = dry_run(generated(Workload(model=model_named("llama3.1-70b"), step=Step(seq=128))))
    with pytest.raises(
        ConfigError, match=r"stage 0 needs 1,1.* GiB .* and an-a100 has 80\.0; shard more"
    ):
        refuse_over_capacity(found, 80 << 30, "an-a100")
    refuse_over_capacity(found, 2000 << 30, "a-dream")


@pytest.mark.parametrize(
    ("dp", "tp", "sequence_parallel", "refused", "degrees"),
    [
        (4, 1, False, 16, (1, 2, 4)),
        (4, 2, True, 64, (1, 2, 4, 8)),  # 8 is folded over tp
        (4, 2, False, 64, (1, 2, 4)),
        (12, 1, False, 12, (1, 2, 4)),  # 3 and 6 do not divide the experts
    ],
)
def test_degrees_of_experts_that_are_named_are_all_that_work(
    dp: int, tp: int, sequence_parallel: bool, refused: int, degrees: tuple[int, ...]
) -> None:
    def workload(ep: int) -> Workload:
        plan = Plan(dp=dp, tp=tp, ep=ep, sequence_parallel=sequence_parallel)
        return Workload(model=MOE, plan=plan, step=Step(seq=64, global_batch=dp))

    with pytest.raises(ConfigError, match=f"; use {', '.join(map(str, degrees))}(, or|$)"):
        dry_run(generated(workload(refused)))
    for ep in range(1, dp * tp + 1):
        if ep in degrees:
            dry_run(generated(workload(ep)))
        else:
            with pytest.raises(ConfigError):
                dry_run(generated(workload(ep)))
