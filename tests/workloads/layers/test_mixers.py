"""Layers of every kind: parameters and FLOPs against closed forms written out here."""

from __future__ import annotations

import pytest

from chakrakit.workloads.description import (
    Attention,
    CompressedAttention,
    Decoder,
    DeltaNet,
    Experts,
    Index,
    LatentAttention,
    Layer,
    Mlp,
    Plan,
    StateSpace,
    Step,
)
from chakrakit.workloads.layers import stack_of
from chakrakit.workloads.layers.kept import kept

HIDDEN, SEQ = 64, 256
INDEX = Index(heads=4, dim=16, most=32)


def block(layer: Layer, plan: Plan | None = None, **model):
    """One layer of a model under a plan, in training."""
    decoder = Decoder(
        layers=1, hidden=HIDDEN, heads=8, vocab=128, kinds={"it": layer}, pattern=["it"], **model
    )
    return stack_of(decoder, plan or Plan(), Step(seq=SEQ)).block("it")


def core_flops(layer: Layer) -> list[int]:
    return [n.flops for n in block(layer).forward if n.op in ("attention", "recurrence")]


def matrix_flops(layer: Layer) -> int:
    return sum(n.flops for n in block(layer).forward if n.op == "matmul")


def window_pairs(most: int) -> float:
    """Keys that the queries of one sequence meet: a triangle, then a band."""
    return most**2 / 2 + (SEQ - most) * most


def test_a_window_meets_a_band_of_the_square() -> None:
    mixer = Attention(heads=8, kv_heads=2, head_dim=16)
    assert core_flops(Layer(mixer=mixer)) == [4 * 8 * 16 * SEQ**2 / 2]
    assert core_flops(Layer(mixer=mixer.replace(window=32))) == [4 * 8 * 16 * window_pairs(32)]
    chunks = SEQ // 64 * 64**2 / 2
    assert core_flops(Layer(mixer=mixer.replace(chunk=64))) == [4 * 8 * 16 * chunks]


def test_sparse_attention_scores_all_keys_with_a_small_head_and_meets_few() -> None:
    latent = LatentAttention(
        heads=8, q_lora=24, kv_lora=32, rope_dim=8, nope_dim=16, value_dim=16, index=INDEX
    )
    chosen = 2 * 4 * 16 * SEQ**2 / 2
    met = 2 * 8 * (24 + 16) * window_pairs(32)
    assert core_flops(Layer(mixer=latent)) == [chosen, met]
    index = 24 * 4 * 16 + HIDDEN * 16 + 2 * 16 + HIDDEN * 4
    plain = Layer(mixer=latent.replace(index=None))
    assert parameters(Layer(mixer=latent)) == parameters(plain) + index


@pytest.mark.parametrize(("kind", "dtype", "each"), [("train", "bf16", 2), ("prefill", "fp8", 1)])
def test_an_index_of_eight_bits_has_them_in_inference(kind: str, dtype: str, each: int) -> None:
    """Its queries and keys then have one byte an element; those of attention itself stay."""
    latent = LatentAttention(
        heads=8, q_lora=24, kv_lora=32, rope_dim=8, nope_dim=16, value_dim=16,
        index=INDEX.replace(dtype="fp8"),
    )  # fmt: skip
    decoder = Decoder(
        layers=1, hidden=HIDDEN, heads=8, vocab=128, kinds={"it": Layer(mixer=latent)}, pattern=["it"]
    )  # fmt: skip
    nodes = stack_of(decoder, Plan(), Step(kind=kind, seq=SEQ)).block("it").forward
    index, core = (n for n in nodes if n.op == "attention")
    assert (index.dtype, core.dtype) == (dtype, "bf16")
    assert index.bytes == SEQ * (4 + 1) * 16 * each


def test_keys_of_an_index_of_eight_bits_are_kept_with_their_scales() -> None:
    """DeepSeek-V3.2's: 128 bytes and a scale of four, whatever type the latent cache has."""
    index = Index(heads=64, dim=128, most=2048, dtype="fp8")
    latent = LatentAttention(
        heads=128, q_lora=1536, kv_lora=512, rope_dim=64, nope_dim=128, value_dim=128, index=index
    )
    assert [kept(latent, 8, each, "bf16").per_token for each in (2, 1)] == [
        576 * 2 + 132,
        576 + 132,
    ]
    plain = latent.replace(index=index.replace(dtype=""))
    assert kept(plain, 8, 2, "bf16").per_token == (576 + 128) * 2


def test_recurrences_work_in_proportion_to_tokens() -> None:
    delta = DeltaNet(key_heads=2, value_heads=4, key_dim=8, value_dim=16)
    assert core_flops(Layer(mixer=delta)) == [6 * 4 * 8 * 16 * SEQ]
    space = StateSpace(heads=4, head_dim=8, groups=2, state=16)
    assert core_flops(Layer(mixer=space)) == [4 * 4 * 8 * 16 * SEQ]


def test_compressed_attention_meets_a_window_and_entries() -> None:
    mixer = CompressedAttention(
        heads=8, head_dim=32, q_lora=16, window=64, ratio=4, overlap=True, groups=2, out_lora=8,
        index=INDEX,
    )  # fmt: skip
    window = 4 * 8 * 32 * window_pairs(64)
    chosen = 2 * 4 * 16 * SEQ**2 / 2 / 4
    entries = 4 * 8 * 32 * ((4 * 32) ** 2 / 8 + (SEQ - 4 * 32) * 32)
    assert core_flops(Layer(mixer=mixer)) == [window, chosen, entries]


def parameters(layer: Layer, **model) -> int:
    return sum(w.all_elements for w in block(layer, **model).weights)


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        (
            Layer(mixer=Attention(heads=8, kv_heads=2, head_dim=16, gate=True, sinks=True, norm="width")),
            HIDDEN * (2 * 128 + 2 * 32) + 128 * HIDDEN + 8 + 128 + 32,
        ),
        (
            Layer(mixer=Attention(heads=8, kv_heads=2, head_dim=16, keys_are_values=True)),
            HIDDEN * (128 + 32) + 128 * HIDDEN,
        ),
        (
            Layer(mixer=DeltaNet(key_heads=2, value_heads=4, key_dim=8, value_dim=16)),
            HIDDEN * (32 + 64 + 64 + 8) + 96 * 4 + 4 + 4 + 16 + 64 * HIDDEN,
        ),
        (
            Layer(mixer=StateSpace(heads=4, head_dim=8, groups=2, state=16)),
            HIDDEN * (32 + 32 + 64 + 4) + 96 * 4 + 96 + 3 * 4 + 32 + 32 * HIDDEN,
        ),
        (Layer(ffn=Mlp(width=100, gated=False, bias=True)), 2 * HIDDEN * 100 + 100 + HIDDEN),
        (
            Layer(ffn=Experts(width=20, shared=30, shared_gate=True)),
            HIDDEN * 4 + 4 * 3 * HIDDEN * 20 + 3 * HIDDEN * 30 + HIDDEN,
        ),
        (
            Layer(ffn=Experts(width=20, gated=False, latent=16)),
            HIDDEN * 4 + 2 * 16 * HIDDEN + 4 * 2 * 16 * 20,
        ),
    ],
    ids=["gated", "keys are values", "delta", "state space", "mlp", "shared", "latent experts"],
)  # fmt: skip
def test_parameters_of_a_layer(layer, count) -> None:
    """One norm before the one part that each of them has."""
    assert parameters(layer, experts=4, top_k=2) == count + HIDDEN


def test_experts_are_counted_as_routed() -> None:
    """Every token meets two of four experts, whatever eager code computes."""
    layer = Layer(ffn=Experts(width=20))
    flops = sum(n.flops for n in block(layer, experts=4, top_k=2).forward if n.op == "matmul")
    assert flops == 2 * SEQ * (HIDDEN * 4 + 2 * 3 * HIDDEN * 20)


@pytest.mark.parametrize(
    "mixer",
    [
        Attention(heads=8, kv_heads=2, head_dim=16, window=32),
        DeltaNet(key_heads=2, value_heads=4, key_dim=8, value_dim=16),
        StateSpace(heads=4, head_dim=8, groups=2, state=16),
        LatentAttention(heads=8, q_lora=24, kv_lora=32, rope_dim=8, nope_dim=16, value_dim=16, index=INDEX),
    ],
    ids=["window", "delta", "state space", "sparse"],
)  # fmt: skip
def test_tensor_parallelism_cuts_the_work_of_heads_in_two(mixer) -> None:
    """Queries of the part that chooses keys are shared by sequence, those of attention by heads."""
    whole, half = (block(Layer(mixer=mixer), Plan(tp=tp)) for tp in (1, 2))
    for one, two in zip(_cores(whole), _cores(half), strict=True):
        assert 2 * two.flops == one.flops


def _cores(made):
    return [n for n in made.forward if n.op in ("attention", "recurrence")]


def test_backward_frees_what_forward_kept() -> None:
    for mixer in (
        Attention(heads=8, kv_heads=2, head_dim=16, gate=True),
        DeltaNet(key_heads=2, value_heads=4, key_dim=8, value_dim=16),
        StateSpace(heads=4, head_dim=8, groups=2, state=16),
        LatentAttention(heads=8, q_lora=24, kv_lora=32, rope_dim=8, nope_dim=16, value_dim=16, index=INDEX),
    ):  # fmt: skip
        made = block(Layer(mixer=mixer, ffn=Mlp(width=96)))
        assert sum(n.alloc for n in made.forward) == sum(n.free for n in made.backward)
