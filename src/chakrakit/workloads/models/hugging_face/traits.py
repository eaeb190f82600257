"""What families of models have in common that their configurations do not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The habits of one `model_type`. Texts that name a bias are the key that switches it on."""

    qkv_bias: bool | str = False
    out_bias: bool | str = False
    mlp_bias: bool | str = False
    qk_norm: Literal["", "heads", "width"] = ""
    qk_norm_key: str = ""
    """The key that switches the norm of queries and keys on; empty: it is always there."""
    norm: Literal["rms", "layer"] = "rms"
    norm_weights: Literal["full", "scale", "none"] = "full"
    norms: Literal["before", "around", "after"] = "before"
    gated: bool = True
    gate: bool = False
    """Whether attention's result is gated by half of the query projection."""
    sinks: bool = False
    tied: bool = False
    """Whether head and embedding are one table where the file does not say."""
    head_bias: bool | str = False
    windows: Literal["", "all", "even", "pattern", "switch"] = ""
    """Which layers have the file's sliding window where it does not list their types: none, all, every
    second one beginning with the first, all but every `sliding_window_pattern`-th, or those that
    `use_sliding_window` and `max_window_layers` say."""
    shared_gate: bool = False
    """Whether shared experts are scaled by a projection to one number."""
    router_bias: bool = False
    experts_gated: bool = True
    experts_bias: bool = False
    recurrent: bool = False
    """Whether every layer is a state space and nothing else."""


_T = Traits
_KEY = "attention_bias"
_LLAMA = _T(qkv_bias=_KEY, out_bias=_KEY, mlp_bias="mlp_bias")
_QWEN3 = _T(qkv_bias=_KEY, out_bias=_KEY, qk_norm="heads", windows="switch")
_GATED = _T(qkv_bias=_KEY, out_bias=_KEY, qk_norm="heads", gate=True, shared_gate=True)
_DEEPSEEK = _T(qkv_bias=_KEY, out_bias=_KEY)
_GEMMA = _T(qkv_bias=_KEY, out_bias=_KEY, tied=True)

TRAITS: dict[str, Traits] = {
    "llama": _LLAMA,
    "mistral": _T(windows="all"),
    "ministral": _T(windows="all"),
    "ministral3": _T(windows="all"),
    "mixtral": _T(windows="all"),
    "yi": _LLAMA,
    "qwen2": _T(qkv_bias=True, windows="switch"),
    "qwen2_moe": _T(qkv_bias="qkv_bias", shared_gate=True, windows="switch"),
    "qwen2_vl_text": _T(qkv_bias=True, windows="switch"),
    "qwen2_5_vl_text": _T(qkv_bias=True, windows="switch"),
    "qwen2_vl": _T(qkv_bias=True, windows="switch"),
    "qwen2_5_vl": _T(qkv_bias=True, windows="switch"),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _GATED,
    "qwen3_5_text": _GATED,
    "qwen3_5_moe_text": _GATED,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "deepseek_v4": _T(),
    "kimi_k2": _DEEPSEEK,
    "glm4_moe_lite": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "glm": _T(qkv_bias=_KEY),
    "glm4": _T(qkv_bias=_KEY, norms="around"),
    "glm4_moe": _T(qkv_bias=_KEY, qk_norm="heads", qk_norm_key="use_qk_norm"),
    "glm4v_moe_text": _T(qkv_bias=_KEY),
    "minimax_m2": _T(qk_norm="width"),
    "minimax_m3": _T(qk_norm="heads"),
    "minimax_m3_vl_text": _T(qk_norm="heads"),
    "mimo_v2_flash": _T(qkv_bias=_KEY),
    "gpt_oss": _T(qkv_bias=_KEY, out_bias=_KEY, sinks=True, router_bias=True, experts_bias=True),
    "llama4_text": _T(qkv_bias=_KEY, out_bias=_KEY),
    "nemotron_h": _T(
        qkv_bias=_KEY, out_bias=_KEY, mlp_bias="mlp_bias", gated=False, experts_gated=False
    ),
    "mamba2": _T(recurrent=True),
    "nemotron-nas": _LLAMA,
    "nemotron": _T(qkv_bias=_KEY, out_bias=_KEY, mlp_bias="mlp_bias", norm="layer", gated=False),
    "gemma": _GEMMA,
    "gemma2": _T(qkv_bias=_KEY, out_bias=_KEY, norms="around", tied=True, windows="even"),
    "gemma3_text": _T(
        qkv_bias=_KEY, out_bias=_KEY, norms="around", qk_norm="heads", tied=True, windows="pattern"
    ),
    "gemma4_text": _T(
        qkv_bias=_KEY, out_bias=_KEY, norms="around", qk_norm="heads", tied=True, windows="pattern"
    ),
    "phi3": _T(windows="all"),
    "phimoe": _T(qkv_bias=_KEY, out_bias=_KEY, norm="layer", head_bias="lm_head_bias"),
    "olmo": _T(qkv_bias=_KEY, out_bias=_KEY, norm="layer", norm_weights="none"),
    "olmo2": _T(qkv_bias=_KEY, out_bias=_KEY, norms="after", qk_norm="width"),
    "olmo3": _T(qkv_bias=_KEY, out_bias=_KEY, norms="after", qk_norm="width"),
    "olmoe": _T(qkv_bias=_KEY, out_bias=_KEY, qk_norm="width"),
    "granite": _LLAMA,
    "granitemoe": _T(qkv_bias=_KEY, out_bias=_KEY),
    "granitemoeshared": _T(qkv_bias=_KEY, out_bias=_KEY),
    "starcoder2": _T(
        qkv_bias="use_bias",
        out_bias="use_bias",
        mlp_bias="use_bias",
        norm="layer",
        gated=False,
        tied=True,
        windows="all",
    ),
    "smollm3": _T(qkv_bias=_KEY, out_bias=_KEY, mlp_bias="mlp_bias", tied=True),
    "seed_oss": _T(qkv_bias=_KEY, out_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "arcee": _T(qkv_bias=_KEY, out_bias=_KEY, mlp_bias="mlp_bias", gated=False),
    "exaone4": _T(norms="after", qk_norm="heads"),
    "ernie4_5": _T(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias"),
    "ernie4_5_moe": _T(
        qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", router_bias=True
    ),
    "hunyuan_v1_dense": _T(qkv_bias=_KEY, out_bias=_KEY, qk_norm="heads"),
    "hunyuan_v1_moe": _T(qkv_bias=_KEY, out_bias=_KEY, qk_norm="heads"),
    "dots1": _T(qkv_bias=_KEY, out_bias=_KEY, qk_norm="heads"),
    "helium": _T(),
    "cwm": _LLAMA,
    "dbrx": _T(norm="layer", norm_weights="scale"),
    # Families that only their own programs build, which are never run.
    "internlm2": _T(qkv_bias="bias", out_bias="bias"),
    "baichuan": _T(),
    "chatglm": _T(qkv_bias="add_qkv_bias", out_bias="add_bias_linear", mlp_bias="add_bias_linear"),
    "exaone": _T(),
    "minicpm": _T(tied=True),
    "mimo": _T(qkv_bias=_KEY, windows="switch"),
    "deepseek": _DEEPSEEK,
    "bailing_moe": _T(
        qkv_bias="use_qkv_bias",
        out_bias="use_bias",
        mlp_bias="use_bias",
        qk_norm="heads",
        qk_norm_key="use_qk_norm",
    ),
}
"""By `model_type`; checked against transformers' own models, parameter by parameter."""

SPELLINGS: dict[str, dict[str, str]] = {
    "mamba2": {
        "num_heads": "mamba_num_heads",
        "head_dim": "mamba_head_dim",
        "state_size": "ssm_state_size",
    },
    "exaone": {"num_layers": "num_hidden_layers"},
    "dbrx": {
        "d_model": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "kv_n_heads": "num_key_value_heads",
        "ffn_hidden_size": "moe_intermediate_size",
        "moe_top_k": "num_experts_per_tok",
    },
    "chatglm": {
        "num_layers": "num_hidden_layers",
        "ffn_hidden_size": "intermediate_size",
        "multi_query_group_num": "num_key_value_heads",
        "kv_channels": "head_dim",
        "padded_vocab_size": "vocab_size",
    },
}
"""Keys of families that have names of their own for what others call the same."""

SPREAD = {"dbrx": ("attn_config", "ffn_config")}
"""Parts of files that others write beside the rest."""

INSIDE = {
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "kimi_k25": "kimi_k2",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral3": "mistral",
    "glm4v_moe": "glm4v_moe_text",
}
"""The `model_type` of the text inside models of several kinds of input, where the part does not say."""

TEXTS = ("text_config", "llm_config", "language_config")
"""Names of the part of a file that describes its language model."""


def kind_called(architecture: str) -> str:
    """The type of a class by its name, `LlamaForCausalLM`; empty for none of ours."""
    called = architecture.lower()
    for ending in ("forcausallm", "forconditionalgeneration"):
        called = called.removesuffix(ending)
    plain = {kind.replace("_", "").replace("-", ""): kind for kind in TRAITS}
    return plain.get(called, "")
