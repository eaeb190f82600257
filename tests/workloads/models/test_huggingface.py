"""Hugging Face configurations become decoders; what is not understood is refused by name."""

import json

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate.figures import parameters
from chakrakit.workloads.models import model_named
from chakrakit.workloads.models.files import read_config

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100, "num_key_value_heads": 2,
}  # fmt: skip


def read(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return read_config(path)


def test_a_llama(tmp_path):
    found = read(tmp_path, LLAMA)
    assert (found.layers, found.hidden, found.heads, found.kv_heads) == (2, 64, 4, 2)
    assert (found.ffn, found.vocab, found.tied, found.qkv_bias) == (128, 100, False, False)


def test_a_family_has_its_own_habits(tmp_path):
    assert read(tmp_path, LLAMA | {"model_type": "qwen2"}).qkv_bias
    assert read(tmp_path, LLAMA | {"model_type": "qwen3"}).qk_norm


def test_a_mixture_of_experts(tmp_path):
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    found = read(tmp_path, LLAMA | {"model_type": "mixtral"} | experts)
    assert (found.experts, found.top_k, found.expert_ffn, found.shared_experts) == (8, 2, 128, 0)


def test_latent_attention(tmp_path):
    latent = {
        "model_type": "deepseek_v3", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "n_shared_experts": 1, "first_k_dense_replace": 1,
    }  # fmt: skip
    found = read(tmp_path, LLAMA | latent)
    assert (found.kv_lora, found.q_lora, found.rope_dim, found.value_dim) == (16, 0, 4, 8)
    assert (found.experts, found.expert_ffn, found.shared_experts, found.dense_layers) == (
        4,
        32,
        1,
        1,
    )


def test_a_gpt2(tmp_path):
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 9,
              "n_positions": 32}  # fmt: skip
    found = read(tmp_path, config)
    assert (found.ffn, found.positions, found.norm, found.tied, found.bias) == (
        256,
        32,
        "layer",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' is not one of"),
        ({"model_type": "llama"}, "llama configuration without 'num_hidden_layers'"),
        (LLAMA | {"num_hidden_layers": "two"}, "llama configuration: Expected `int`"),
        ([1], "not a config.json"),
    ],
)
def test_what_is_no_such_model_is_refused(tmp_path, config, problem):
    with pytest.raises(ConfigError, match=problem):
        read(tmp_path, config)


def test_reads_hugging_face_configs(tmp_path) -> None:
    llama = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "rope_theta": 500000.0,
    }
    mixtral = {
        **llama,
        "model_type": "mixtral",
        "vocab_size": 32000,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }
    deepseek = {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "intermediate_size": 18432,
        "vocab_size": 129280,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    known = (("llama3.1-8b", llama), ("mixtral-8x7b", mixtral), ("deepseek-v3", deepseek))
    for name, config in known:
        (tmp_path / "config.json").write_text(json.dumps(config))
        for path in (tmp_path, tmp_path / "config.json"):
            found = parameters(Workload(model=model_named(str(path))))
            assert found == parameters(Workload(model=model_named(name)))
