"""What the configuration classes of built-in families say where a file does not.

Files often state no more than what differs from it. Read off transformers 5.23. What a class computes from
other keys, such as a head's width from the hidden size, is left to the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chakrakit.workloads.models.hugging_face.keys import EXPERTS, HEAD_DIM, TOP_K, Keys


def fill_in(keys: Keys, kind: str) -> None:
    """Adds to a configuration what its class adds to it; a key that is null stays so.

    How wide and how deep a model is, is never added: a file that says neither describes no model.
    """
    content = keys.content
    missing = {n: v for n, v in DEFAULTS.get(kind, {}).items() if not any(_spelled(content, n))}
    keys.content = missing | content
    keys.skip(*missing)


def _spelled(content: dict[str, Any], name: str) -> Iterator[bool]:
    """Whether a key is there, under each of its names."""
    names = next((g for g in (EXPERTS, TOP_K, HEAD_DIM) if name in g), (name,))
    return (n in content for n in names)


# fmt: off
DEFAULTS: dict[str, dict[str, int | bool | str]] = {
    "llama": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "vocab_size": 32000,
    },
    "mistral": {
        "intermediate_size": 14336, "num_attention_heads": 32,
        "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 32000,
    },
    "ministral": {
        "intermediate_size": 14336, "num_attention_heads": 32,
        "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 32000,
    },
    "ministral3": {
        "head_dim": 128, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 131072,
    },
    "mixtral": {
        "intermediate_size": 14336, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_key_value_heads": 8,
        "num_local_experts": 8, "vocab_size": 32000,
    },
    "qwen2": {
        "intermediate_size": 22016, "max_window_layers": 28,
        "num_attention_heads": 32, "num_key_value_heads": 32,
        "vocab_size": 151936,
    },
    "qwen2_moe": {
        "decoder_sparse_step": 1, "intermediate_size": 5632,
        "max_window_layers": 28, "moe_intermediate_size": 1408, "num_attention_heads": 16,
        "num_experts": 60, "num_experts_per_tok": 4, "num_key_value_heads": 16,
        "qkv_bias": True, "shared_expert_intermediate_size": 5632, "vocab_size": 151936,
    },
    "qwen2_vl_text": {
        "intermediate_size": 29568, "max_window_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 152064,
    },
    "qwen2_5_vl_text": {
        "intermediate_size": 29568, "max_window_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 152064,
    },
    "qwen3": {
        "head_dim": 128, "intermediate_size": 22016, "max_window_layers": 28,
        "num_attention_heads": 32, "num_key_value_heads": 32,
        "vocab_size": 151936,
    },
    "qwen3_moe": {
        "decoder_sparse_step": 1, "intermediate_size": 6144,
        "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts_per_tok": 8,
        "num_key_value_heads": 4, "num_local_experts": 128,
        "vocab_size": 151936,
    },
    "qwen3_vl_text": {
        "head_dim": 128, "intermediate_size": 22016, "num_attention_heads": 32,
        "num_key_value_heads": 32, "vocab_size": 151936,
    },
    "qwen3_vl_moe_text": {
        "decoder_sparse_step": 1, "intermediate_size": 5632,
        "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts_per_tok": 4,
        "num_key_value_heads": 16, "num_local_experts": 60,
        "tie_word_embeddings": True, "vocab_size": 151936,
    },
    "qwen3_next": {
        "decoder_sparse_step": 1, "head_dim": 256, "intermediate_size": 5632,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_value_head_dim": 128, "moe_intermediate_size": 512,
        "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
        "num_key_value_heads": 2, "shared_expert_intermediate_size": 512,
        "vocab_size": 151936,
    },
    "qwen3_5_text": {
        "head_dim": 256, "intermediate_size": 12288, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_value_head_dim": 128, "num_attention_heads": 16,
        "num_key_value_heads": 4, "vocab_size": 248320,
    },
    "qwen3_5_moe_text": {
        "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
        "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 256,
        "num_experts_per_tok": 8, "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 512, "vocab_size": 248320,
    },
    "deepseek_v2": {
        "intermediate_size": 11008, "kv_lora_rank": 512,
        "moe_intermediate_size": 1407, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_attention_heads": 32, "q_lora_rank": 1536,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400,
    },
    "deepseek_v3": {
        "first_k_dense_replace": 3, "intermediate_size": 18432,
        "kv_lora_rank": 512, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 129280,
    },
    "deepseek_v32": {
        "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
        "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128,
        "num_experts_per_tok": 8, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 129280,
    },
    "glm4_moe_lite": {
        "intermediate_size": 10240, "kv_lora_rank": 512,
        "moe_intermediate_size": 1536, "n_routed_experts": 64, "n_shared_experts": 1,
        "num_attention_heads": 20, "num_experts_per_tok": 4,
        "num_key_value_heads": 20, "q_lora_rank": 768, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
        "v_head_dim": 256, "vocab_size": 154880,
    },
    "glm_moe_dsa": {
        "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048,
        "intermediate_size": 12288, "kv_lora_rank": 512, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64,
        "num_experts_per_tok": 8, "num_key_value_heads": 64,
        "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256,
        "vocab_size": 154880,
    },
    "glm": {
        "attention_bias": True, "head_dim": 128, "intermediate_size": 13696,
        "num_attention_heads": 32, "num_key_value_heads": 2,
        "vocab_size": 151552,
    },
    "glm4": {
        "attention_bias": True, "head_dim": 128, "intermediate_size": 13696,
        "num_attention_heads": 32, "num_key_value_heads": 2,
        "vocab_size": 151552,
    },
    "glm4_moe": {
        "first_k_dense_replace": 1, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1,
        "num_attention_heads": 96, "num_experts_per_tok": 8,
        "num_key_value_heads": 8, "vocab_size": 151552,
    },
    "glm4v_moe_text": {
        "attention_bias": True, "first_k_dense_replace": 1,
        "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128,
        "n_shared_experts": 1, "num_attention_heads": 96, "num_experts_per_tok": 8,
        "num_key_value_heads": 8, "vocab_size": 151424,
    },
    "minimax_m2": {
        "head_dim": 128, "intermediate_size": 1536, "num_attention_heads": 48,
        "num_experts_per_tok": 8, "num_key_value_heads": 8,
        "num_local_experts": 256, "vocab_size": 200064,
    },
    "gpt_oss": {
        "attention_bias": True, "head_dim": 64, "intermediate_size": 2880,
        "num_attention_heads": 64, "num_experts_per_tok": 4,
        "num_key_value_heads": 8, "num_local_experts": 128, "sliding_window": 128, "vocab_size": 201088,
    },
    "llama4_text": {
        "attention_chunk_size": 8192, "head_dim": 128,
        "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "no_rope_layer_interval": 4, "num_attention_heads": 40, "num_experts_per_tok": 1,
        "num_key_value_heads": 8, "num_local_experts": 16, "use_qk_norm": True,
        "vocab_size": 202048,
    },
    "nemotron_h": {
        "conv_kernel": 4, "expand": 2, "head_dim": 128, "intermediate_size": 21504,
        "mamba_head_dim": 64, "mamba_num_heads": 128,
        "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688, "n_groups": 8,
        "n_routed_experts": 8, "n_shared_experts": 1, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_key_value_heads": 8, "ssm_state_size": 128,
        "use_conv_bias": True, "vocab_size": 131072,
    },
    "mamba2": {
        "conv_kernel": 4, "expand": 2, "mamba_head_dim": 64, "mamba_num_heads": 128, "n_groups": 8,
        "ssm_state_size": 128, "use_conv_bias": True, "vocab_size": 32768,
    },
    "nemotron": {
        "intermediate_size": 24576, "num_attention_heads": 48,
        "vocab_size": 256000,
    },
    "gemma": {
        "head_dim": 256, "intermediate_size": 24576, "num_attention_heads": 16,
        "num_key_value_heads": 16, "tie_word_embeddings": True,
        "vocab_size": 256000,
    },
    "gemma2": {
        "head_dim": 256, "intermediate_size": 9216, "num_attention_heads": 8,
        "num_key_value_heads": 4, "sliding_window": 4096,
        "tie_word_embeddings": True, "vocab_size": 256000,
    },
    "gemma3_text": {
        "head_dim": 256, "intermediate_size": 9216, "num_attention_heads": 8,
        "num_key_value_heads": 4, "sliding_window": 4096,
        "tie_word_embeddings": True, "vocab_size": 262208,
    },
    "phi3": {
        "intermediate_size": 8192, "num_attention_heads": 32,
        "vocab_size": 32064,
    },
    "phimoe": {
        "intermediate_size": 6400, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_key_value_heads": 8,
        "num_local_experts": 16, "vocab_size": 32064,
    },
    "olmo": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "vocab_size": 50304,
    },
    "olmo2": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "vocab_size": 50304,
    },
    "olmo3": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "sliding_window": 4096, "vocab_size": 50304,
    },
    "olmoe": {
        "intermediate_size": 2048, "num_attention_heads": 16, "num_experts": 64,
        "num_experts_per_tok": 8, "vocab_size": 50304,
    },
    "granite": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "vocab_size": 32000,
    },
    "granitemoe": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_local_experts": 8, "vocab_size": 32000,
    },
    "granitemoeshared": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_local_experts": 8, "vocab_size": 32000,
    },
    "starcoder2": {
        "intermediate_size": 12288, "num_attention_heads": 24,
        "num_key_value_heads": 2, "tie_word_embeddings": True,
        "use_bias": True, "vocab_size": 49152,
    },
    "smollm3": {
        "intermediate_size": 11008, "no_rope_layer_interval": 4,
        "num_attention_heads": 16, "num_key_value_heads": 4,
        "tie_word_embeddings": True, "vocab_size": 128256,
    },
    "seed_oss": {
        "attention_bias": True, "head_dim": 128, "intermediate_size": 27648,
        "num_attention_heads": 80, "num_key_value_heads": 8,
        "vocab_size": 155136,
    },
    "arcee": {
        "intermediate_size": 18432, "num_attention_heads": 32,
        "vocab_size": 32000,
    },
    "exaone4": {
        "intermediate_size": 16384, "num_attention_heads": 32,
        "num_key_value_heads": 32, "sliding_window": 4096,
        "sliding_window_pattern": 4, "vocab_size": 102400,
    },
    "ernie4_5": {
        "head_dim": 128, "intermediate_size": 3072, "num_attention_heads": 16,
        "num_key_value_heads": 2, "tie_word_embeddings": True,
        "vocab_size": 103424,
    },
    "ernie4_5_moe": {
        "intermediate_size": 12288, "moe_intermediate_size": 1536, "moe_k": 6,
        "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 64,
        "moe_num_shared_experts": 2, "num_attention_heads": 20,
        "num_key_value_heads": 4, "tie_word_embeddings": True, "vocab_size": 103424,
    },
    "hunyuan_v1_dense": {
        "intermediate_size": 11008, "num_attention_heads": 32,
        "vocab_size": 290943,
    },
    "hunyuan_v1_moe": {
        "intermediate_size": 11008, "moe_topk": 1, "num_attention_heads": 32,
        "num_experts": 1, "vocab_size": 290943,
    },
    "dots1": {
        "intermediate_size": 10944, "max_window_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 32,
        "vocab_size": 152064,
    },
    "helium": {
        "head_dim": 128, "intermediate_size": 7040, "num_attention_heads": 20,
        "num_key_value_heads": 20, "vocab_size": 48000,
    },
    "cwm": {
        "head_dim": 128, "intermediate_size": 21504, "num_attention_heads": 48,
        "num_key_value_heads": 8, "sliding_window": 8192, "vocab_size": 128256,
    },
}
# fmt: on
