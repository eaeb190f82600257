"""Layers as operators on a tape: what a decoder does to a micro-batch, and what moves between ranks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import Decoder, layer_rows
from chakrakit.workloads.layers import Block, Core, Tape, Tokens
from chakrakit.workloads.layers.layers import decoder_layer, embedding, head
from chakrakit.workloads.layers.tape import Settings

MODEL = Decoder(layers=1, hidden=16, heads=4, vocab=32, ffn=24)
MOE = MODEL.replace(experts=4, top_k=2, expert_ffn=24)
C = CollectiveType


def tokens(*axes: str, **more: int) -> Tokens:
    """Eight tokens of one sequence."""
    return Tokens(1, 8, Core(Fraction(32)), axes or ("cp",), **more)


def layer(model: Decoder = MODEL, *axes: str, **degrees: int) -> Block:
    tape = Tape("layer", Settings(degrees))
    kinds, rows = layer_rows(model)
    return tape.finish(decoder_layer(tape, model, tokens(*axes), kinds[rows[-1]]))


def names(block: Block) -> list[str]:
    return [n.name for n in block.forward]


def test_a_layer_is_attention_and_an_mlp_behind_norms_and_beside_residuals() -> None:
    block = layer()
    assert names(block) == [
        "attention_norm",
        "attention.qkv",
        "attention.core",
        "attention.out",
        "attention.add",
        "mlp_norm",
        "mlp.gate_up",
        "mlp.act",
        "mlp.down",
        "mlp.add",
    ]
    qkv, out, up, down = 16 * 48, 16 * 16, 16 * 48, 24 * 16
    core = 2 * 32 * 4 * 8
    assert sum(n.flops for n in block.forward) == 2 * 8 * (qkv + out + up + down) + core
    assert sum(w.all_elements for w in block.weights) == qkv + out + up + down + 2 * 16


@pytest.mark.parametrize(
    ("change", "mlp"),
    [
        ({"activation": "gelu"}, ["mlp.up", "mlp.act", "mlp.down"]),
        ({"fused": False}, ["mlp.gate", "mlp.up", "mlp.act", "mlp.down"]),
        ({"dropout": True}, ["mlp.gate_up", "mlp.act", "mlp.down", "mlp.dropout"]),
    ],
)
def test_models_differ_in_their_mlps(change: dict, mlp: list[str]) -> None:
    found = [n for n in names(layer(MODEL.replace(**change))) if n.startswith("mlp.")]
    assert found == [*mlp, "mlp.add"]


def test_latent_attention_makes_queries_and_keys_from_small_vectors() -> None:
    model = MODEL.replace(kv_lora=6, rope_dim=2, nope_dim=4, value_dim=4, q_lora=5)
    found = [n for n in names(layer(model)) if n.startswith("attention.")]
    assert found == [
        "attention.q_down",
        "attention.q_norm",
        "attention.q_up",
        "attention.kv_down",
        "attention.kv_norm",
        "attention.kv_up",
        "attention.core",
        "attention.out",
        "attention.add",
    ]


def test_tensor_parallelism_sums_twice_or_gathers_and_scatters() -> None:
    plain = [(n.comm, n.comm_size) for n in layer(MODEL, tp=2).forward if n.comm is not None]
    assert plain == [(C.ALL_REDUCE, 8 * 16 * 2)] * 2
    sequence = [n.comm for n in layer(MODEL, "cp", "tp", tp=2).forward if n.comm is not None]
    assert sequence == [C.ALL_GATHER, C.REDUCE_SCATTER] * 2


def test_tokens_go_to_their_experts_and_back() -> None:
    """Eight tokens twice each: 16 rows of 16 in bf16, half of which stay."""
    block = layer(MOE, ep=2)
    moved = [(n.name, n.comm_size) for n in block.forward if n.comm is C.ALL_TO_ALL]
    assert moved == [
        ("moe.dispatch.all_to_all_ep", 16 * 16 * 2),
        ("moe.combine.all_to_all_ep", 16 * 16 * 2),
    ]
    up = next(n for n in block.forward if n.name == "moe.experts.up")
    assert up.flops == 2 * 16 * 16 * 48  # as many rows as all tokens have, on two experts
    assert up.routed
    shared = names(layer(MOE.replace(shared_experts=1)))
    assert [n for n in shared if "shared" in n] == [
        "moe.shared.gate_up",
        "moe.shared.act",
        "moe.shared.down",
    ]


def test_the_embedding_has_positions_where_the_model_learns_them() -> None:
    tape = Tape("embedding", Settings({}))
    tape.finish(embedding(tape, MODEL.replace(positions=64), tokens(), ()))
    assert [n.name for n in tape.forward] == ["embedding", "positions", "positions.add"]
    assert [w.all_elements for w in tape.weights] == [32 * 16, 64 * 16]


def test_the_head_gives_a_loss_in_training_and_logits_of_sampled_tokens_in_inference() -> None:
    tape = Tape("head", Settings({"tp": 2}))
    head(tape, MODEL.replace(tied=True), tokens(), ("tp",))
    assert [n.op for n in tape.forward[:3]] == ["vector", "matmul", "vector"]
    assert tape.weights[-1].tied
    serving = Tape("head", Settings({"tp": 2}, training=False, samples=True))
    head(serving, MODEL, tokens(sampled=3), ("tp",))
    logits = next(n for n in serving.forward if n.name == "head")
    assert logits.flops == 2 * 3 * 16 * 16  # half of 32 words
    assert serving.forward[-1].name == "sample.all_gather_tp"


def test_training_in_fp8_keeps_head_and_router_in_the_type_of_activations():
    """Trainers cast products of layers alone; `narrow_head` casts the head as well, fp4 the same products."""
    from chakrakit import generate

    plan = {"model": "qwen3-30b-a3b", "layers": 1, "dp": 2, "ep": 2, "seq": 64, "global_batch": 2}

    def narrow(**step):
        trace = generate(**plan, **step).traces[0]
        codes, names = trace.texts("name")
        kinds, types = trace.texts("dtype")
        rows = zip(codes, kinds, trace.texts("op_type")[0], strict=True)
        op_types = trace.texts("op_type")[1]
        return {
            names[n]: types[k] for n, k, o in rows if o >= 0 and op_types[o] == "matmul" and k >= 0
        }

    plain, head, fp4 = (
        narrow(matmul_dtype="fp8"),
        narrow(matmul_dtype="fp8", narrow_head=True),
        narrow(matmul_dtype="fp4"),
    )
    assert {n for n, kind in plain.items() if kind == "bf16"} == {
        f"{name}{part}" for name in ("head", "layers.0.moe.router") for part in ("", ".dx", ".dw")
    }
    assert {n for n, kind in head.items() if kind == "bf16"} == {
        f"layers.0.moe.router{part}" for part in ("", ".dx", ".dw")
    }
    assert fp4 == {n: kind.replace("fp8", "fp4") for n, kind in plain.items()}


def test_unfused_experts_clamp_and_add_their_biases_in_kernels_of_their_own():
    from chakrakit import generate
    from chakrakit.workloads.description import Decoder, Experts, Layer
    from chakrakit.workloads.models import model_named

    small = model_named("qwen3-30b-a3b").replace(layers=1)
    assert isinstance(small, Decoder)
    kinds = {
        name: {"moe": Layer(mixer=_mixer(small), ffn=Experts(width=64, bias=True, unfused=unfused))}
        for name, unfused in (("fused", False), ("unfused", True))
    }
    names = {}
    for name, layer in kinds.items():
        model = small.replace(kinds=layer, pattern=["moe"])
        trace = generate(model=model, seq=64, global_batch=1).traces[0]
        names[name] = {n for n in trace.texts("name")[1] if "experts" in n}
    parts = ("clamp", "join", "bias", "bias.join", "bias.cast")
    added = {f"layers.0.experts.{part}{back}" for part in parts for back in ("", ".dx")}
    assert names["unfused"] - names["fused"] == added


def _mixer(model):
    from chakrakit.workloads.description import Attention

    return Attention(heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_dim)
