"""The layers of a decoder one after another, whether all are alike or each has its kind."""

from __future__ import annotations

from typing import NamedTuple

from chakrakit.errors import ConfigError, nearest
from chakrakit.workloads.description.decoder_layers import (
    Attention,
    Experts,
    FeedForward,
    LatentAttention,
    Layer,
    Mixer,
    Mlp,
)
from chakrakit.workloads.description.description import Decoder


class LayerRows(NamedTuple):
    """Kinds of layers by name, and the kind of each layer."""

    kinds: dict[str, Layer]
    rows: list[str]


def layer_rows(model: Decoder) -> LayerRows:
    """The layers of a model; where it names no kinds, `dense` ones come before those with experts (`moe`)."""
    if model.kinds or model.pattern:
        _check(model)
        return LayerRows(model.kinds, model.pattern)
    mixer = _mixer(model)
    kinds: dict[str, FeedForward] = {"dense": _mlp(model), "moe": _experts(model)}
    dense = model.layers if not model.experts else model.dense_layers
    rows = ["dense"] * dense + ["moe"] * (model.layers - dense)
    return LayerRows({n: Layer(mixer=mixer, ffn=kinds[n]) for n in dict.fromkeys(rows)}, rows)


def _check(model: Decoder) -> None:
    if len(model.pattern) != model.layers:
        raise ConfigError(
            f"{model.name}: pattern names {len(model.pattern):,} layers; there are {model.layers:,}"
        )
    for name in model.pattern:
        if name not in model.kinds:
            raise ConfigError(f"{model.name}: no kind {name!r}; {nearest(name, model.kinds)}")


def _mixer(model: Decoder) -> Mixer:
    if model.kv_lora:
        return LatentAttention(
            heads=model.heads,
            q_lora=model.q_lora,
            kv_lora=model.kv_lora,
            rope_dim=model.rope_dim,
            nope_dim=model.nope_dim,
            value_dim=model.value_dim,
        )
    return Attention(
        heads=model.heads,
        kv_heads=model.kv_heads or model.heads,
        head_dim=model.head_dim or model.hidden // model.heads,
        norm="heads" if model.qk_norm else "",
        bias=model.bias or model.qkv_bias,
        out_bias=model.bias,
    )


def _mlp(model: Decoder) -> Mlp:
    width = model.ffn or 4 * model.hidden
    return Mlp(width=width, gated=model.activation == "swiglu", bias=model.bias)


def _experts(model: Decoder) -> Experts:
    shared = model.shared_ffn or model.shared_experts * (model.expert_ffn or 0)
    return Experts(
        width=model.expert_ffn or model.ffn or 4 * model.hidden,
        gated=model.activation == "swiglu",
        bias=model.bias,
        shared=shared if model.shared_experts else 0,
        router_bias=model.router_bias,
    )
