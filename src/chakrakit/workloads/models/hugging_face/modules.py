"""The names that files give the matrices of a layer."""

from __future__ import annotations

from collections.abc import Mapping

from chakrakit.workloads.description import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Experts,
    LatentAttention,
    Layer,
    Matrix,
    Mlp,
    Recorded,
    StateSpace,
)

HEAD = "lm_head"

Names = tuple[str, ...]
"""Names of one matrix, of which a file uses one."""


def _in(places: Names, *names: str) -> Names:
    return tuple(f"{place}.{name}" for place in places for name in names)


_SELF: Names = ("self_attn", "mixer", "attention", "attn")
_MLP: Names = ("mlp", "feed_forward", "mixer", "ffn")
_SPARSE: Names = ("mlp", "block_sparse_moe", "feed_forward", "mixer", "moe", "ffn")
_EXPERT: Names = (
    *(f"{p}.experts.0" for p in _SPARSE),
    "experts.0",
    *(f"{p}.experts" for p in _SPARSE),
    "experts",
)
_SHARED: Names = tuple(f"{p}.{n}" for p in _SPARSE for n in ("shared_experts", "shared_expert"))


def modules_of(layer: Layer, fused: bool) -> Mapping[str, list[Names]]:
    """The parts of each matrix of a layer, each by all names that files have for it."""
    modules: dict[str, list[Names]] = {}
    match layer.mixer:
        case Attention() as mixer:
            modules |= _attention(mixer, fused)
        case LatentAttention():
            modules |= _one({
                "attention.q": ("q_proj",), "attention.q_down": ("q_a_proj",),
                "attention.q_up": ("q_b_proj",), "attention.kv_down": ("kv_a_proj_with_mqa",),
                "attention.kv_up": ("kv_b_proj",), "attention.out": ("o_proj",),
                "attention.index.q": ("indexer.wq_b",), "attention.index.k": ("indexer.wk",),
                "attention.index.weights": ("indexer.weights_proj",),
            }, _SELF)  # fmt: skip
        case CompressedAttention():
            modules |= _one({
                "attention.q_down": ("q_a_proj", "wq_a", "fused_wqa_wkv"),
                "attention.q_up": ("q_b_proj", "wq_b"),
                "attention.kv": ("kv_proj", "wkv", "fused_wqa_wkv"),
                "attention.out_down": ("o_a_proj", "wo_a"),
                "attention.out": ("o_b_proj", "wo_b"),
                "attention.index.q": ("compressor.indexer.q_b_proj",),
            }, _SELF)  # fmt: skip
        case DeltaNet():
            modules |= _delta_net()
        case Recorded() as mixer:
            modules |= {
                f"moe.{m.name}" if m.experts else m.name: [_recorded(m)] for m in mixer.matrices
            }
        case StateSpace():
            modules |= _one(
                {"attention.in": ("in_proj",), "attention.out": ("out_proj",)}, ("mixer",)
            )
    match layer.ffn:
        case Mlp():
            modules |= _mlp("mlp", _MLP, layer.ffn.gated, fused)
        case Experts():
            modules |= _experts(layer.ffn, fused)
    return modules


def _recorded(matrix: Matrix) -> Names:
    """A captured matrix by its own name, and an expert's by that of the first expert too."""
    if not matrix.experts:
        return (matrix.name,)
    place, _, name = matrix.name.rpartition(".")
    return (matrix.name, *_in((f"{place}.0", place), name, "gate_proj", "up_proj"))


def _one(names: Mapping[str, Names], places: Names) -> dict[str, list[Names]]:
    return {weight: [_in(places, *spelled)] for weight, spelled in names.items()}


def _attention(mixer: Attention, fused: bool) -> dict[str, list[Names]]:
    parts = {n: _in(_SELF, f"{n}_proj", "qkv_proj") for n in "qkv"}
    if mixer.keys_are_values:
        del parts["v"]
    out = {"attention.out": [_in(_SELF, "o_proj", "out_proj")]}
    index = {
        "attention.index.q": [_in(_SELF, "indexer.q_proj", "index_q_proj")],
        "attention.index.k": [_in(_SELF, "indexer.k_proj", "index_k_proj")],
    }
    if fused:
        return {"attention.qkv": list(parts.values()), **out, **index}
    return {**{f"attention.{n}": [names] for n, names in parts.items()}, **out, **index}


def _delta_net() -> dict[str, list[Names]]:
    place = ("linear_attn",)
    return {
        "attention.qkv": [_in(place, "in_proj_qkv", "in_proj_qkvz")],
        "attention.z": [_in(place, "in_proj_z", "in_proj_qkvz")],
        "attention.ba": [
            _in(place, "in_proj_b", "in_proj_ba"),
            _in(place, "in_proj_a", "in_proj_ba"),
        ],
        "attention.out": [_in(place, "out_proj")],
    }


def _mlp(name: str, places: Names, gated: bool, fused: bool) -> dict[str, list[Names]]:
    down = {f"{name}.down": [_in(places, "down_proj", "w2")]}
    gate, up = (
        _in(places, n, "gate_up_proj", w) for n, w in (("gate_proj", "w1"), ("up_proj", "w3"))
    )
    if not gated:
        return {f"{name}.up": [up], **down}
    if fused:
        return {f"{name}.gate_up": [gate, up], **down}
    return {f"{name}.gate": [gate], f"{name}.up": [up], **down}


def _experts(ffn: Experts, fused: bool) -> dict[str, list[Names]]:
    both = [_in(_EXPERT, "gate_proj", "w1", "gate_up_proj")] if ffn.gated else []
    modules = {
        "moe.router": [_in(_SPARSE, "gate", "router")],
        "moe.experts.up": [*both, _in(_EXPERT, "up_proj", "w3", "gate_up_proj")],
        "moe.experts.down": [_in(_EXPERT, "down_proj", "w2")],
        "moe.shared_gate": [_in(_SPARSE, "shared_expert_gate")],
        "moe.latent_in": [_in(_SPARSE, "fc1_latent_proj")],
        "moe.latent_out": [_in(_SPARSE, "fc2_latent_proj")],
        **_mlp("moe.shared", _SHARED, ffn.gated, fused),
    }
    if ffn.beside:
        modules |= _mlp("mlp", _MLP, True, fused)
    return modules
