"""Hugging Face configurations become decoders; what is not understood is refused by name."""

import json

import pytest

from chakrakit.errors import ChakraError, ConfigError
from chakrakit.serving.session import attention_kinds
from chakrakit.workloads.description import Experts, Step, Workload
from chakrakit.workloads.generate import model_figures
from chakrakit.workloads.generate.figures import parameters
from chakrakit.workloads.layers import caches_of
from chakrakit.workloads.models import model_named
from chakrakit.workloads.models.hugging_face import read_config

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100, "num_key_value_heads": 2,
}  # fmt: skip


def read(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return read_config(path)


def layer(tmp_path, config):
    """The last layer that a configuration describes."""
    found = read(tmp_path, config)
    return found.kinds[found.pattern[-1]]


def test_a_llama(tmp_path):
    found = read(tmp_path, LLAMA)
    assert (found.layers, found.hidden, found.heads, found.kv_heads) == (2, 64, 4, 2)
    assert (found.ffn, found.vocab, found.tied, found.qkv_bias) == (128, 100, False, False)


def test_a_family_has_its_own_habits(tmp_path):
    assert layer(tmp_path, LLAMA | {"model_type": "qwen2"}).mixer.bias
    assert layer(tmp_path, LLAMA | {"model_type": "qwen3"}).mixer.norm == "heads"


def test_a_mixture_of_experts(tmp_path):
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    found = read(tmp_path, LLAMA | {"model_type": "mixtral"} | experts)
    assert (found.experts, found.top_k, found.expert_ffn) == (8, 2, 128)
    assert found.kinds["moe"].ffn == Experts(width=128)


def test_latent_attention(tmp_path):
    latent = {
        "model_type": "deepseek_v3", "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
        "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": None,
    }  # fmt: skip
    found = read(tmp_path, LLAMA | latent)
    mixer, ffn = found.kinds["moe"].mixer, found.kinds["moe"].ffn
    assert (mixer.kv_lora, mixer.q_lora, mixer.rope_dim, mixer.value_dim) == (16, 0, 4, 8)
    assert (found.experts, ffn.width, ffn.shared) == (4, 32, 32)
    assert found.pattern == ["dense", "moe"]


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
        ({"model_type": "llama"}, "configuration without 'num_hidden_layers'"),
        (
            LLAMA | {"num_hidden_layers": "two"},
            "num_hidden_layers is 'two'; it should be a whole number",
        ),
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


@pytest.mark.slow
def test_a_key_that_looks_as_if_it_mattered_is_named_and_can_be_ignored(tmp_path):
    config = LLAMA | {"num_memory_heads": 4, "rope_theta": 1e6, "some_flag": False}
    with pytest.raises(ConfigError, match=r"num_memory_heads \(4\) is not understood"):
        read(tmp_path, config)
    path = tmp_path / "config.json"
    assert model_named(f"{path}{{ignore=num_memory_heads}}").layers == 2


def test_experts_under_another_key_are_no_dense_model(tmp_path):
    with pytest.raises(ConfigError, match="num_moe_experts"):
        read(tmp_path, LLAMA | {"num_moe_experts": 8, "num_experts_per_tok": 2})


def test_json_as_python_writes_it(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")], "x": float("nan")}))
    assert read_config(path).layers == 2
    assert read(tmp_path, LLAMA | {"num_hidden_layers": "3", "hidden_size": 64.0}).layers == 3
    with pytest.raises(ConfigError, match="num_hidden_layers is inf"):
        read(tmp_path, LLAMA | {"num_hidden_layers": float("inf")})


def test_a_shared_expert_of_width_0_is_none(tmp_path):
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    config = LLAMA | {"model_type": "qwen3_moe", "shared_expert_intermediate_size": 0} | experts
    assert layer(tmp_path, config).ffn.shared == 0


def test_a_file_that_calls_itself_two_things_is_refused(tmp_path):
    config = LLAMA | {"model_type": "qwen2", "architectures": ["Qwen3ForCausalLM"]}
    with pytest.raises(ConfigError, match="contradict each other"):
        read(tmp_path, config)


NEXT = {
    "model_type": "qwen3_next", "num_hidden_layers": 4, "full_attention_interval": 4, "head_dim": 32,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 24,
}  # fmt: skip
HYBRID = {
    "model_type": "nemotron_h", "hybrid_override_pattern": "M*-", "mamba_num_heads": 4, "mamba_head_dim": 8,
    "n_groups": 2, "ssm_state_size": 16, "mlp_hidden_act": "relu2", "num_hidden_layers": 3,
}  # fmt: skip
WINDOWS = {"model_type": "gpt_oss", "sliding_window": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
           "layer_types": ["sliding_attention", "full_attention"], "attention_bias": True}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "pattern"),
    [
        (NEXT, ["delta_moe", "delta_moe", "delta_moe", "moe"]),
        (HYBRID, ["state_space", "attention", "dense"]),
        (WINDOWS, ["window_moe", "moe"]),
        ({"model_type": "gemma2", "sliding_window": 16}, ["window_dense", "dense"]),
    ],
    ids=["every fourth", "letters", "listed", "every second"],
)
def test_layers_of_several_kinds(tmp_path, config, pattern):
    found = read(tmp_path, LLAMA | config)
    assert found.pattern == pattern


def test_a_model_of_state_spaces_alone_keeps_a_state_per_sequence(tmp_path):
    """Mamba-2 2.7B: 64 states of 80 heads × 64 × 128 with their convolutions, and nothing per token."""
    sizes = {
        "model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 128,
        "num_heads": 80, "head_dim": 64, "n_groups": 1, "vocab_size": 50288, "tie_word_embeddings": True,
    }  # fmt: skip
    model = read(tmp_path, sizes)
    assert parameters(Workload(model=model))[0] == 2_702_599_680
    kept = caches_of(model, 1, Step())
    assert {layer.per_token for layer in kept} == {0}
    state = 80 * 64 * 128 + 3 * (80 * 64 + 2 * 128)
    assert sum(layer.per_sequence for layer in kept) == 64 * 2 * state
    assert attention_kinds(model) == ["no"]


def test_parameters_of_layers_of_several_kinds(tmp_path):
    """Written out: three delta layers, one gated attention, experts with a gated shared one in all four."""
    delta = 64 * (2 * 32 + 64 + 64 + 8) + 128 * 4 + 4 + 4 + 16 + 64 * 64
    attention = 64 * (2 * 4 * 32 + 2 * 2 * 32) + 4 * 32 * 64 + 2 * 32
    experts = 64 * 4 + 4 * 3 * 64 * 16 + 3 * 64 * 24 + 64
    whole = 3 * delta + attention + 4 * (experts + 2 * 64) + 64 + 2 * 100 * 64
    assert parameters(Workload(model=read(tmp_path, LLAMA | NEXT)))[0] == whole


def test_what_a_file_leaves_out_is_what_its_class_says(tmp_path) -> None:
    """Gemma 3 states a few keys of its text; the others, and that its head is tied, are the family's."""
    text = {
        "hidden_size": 3840, "intermediate_size": 15360, "model_type": "gemma3_text",
        "num_attention_heads": 16, "num_hidden_layers": 48, "num_key_value_heads": 8, "sliding_window": 1024,
    }  # fmt: skip
    vision = {
        "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16,
        "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
    }  # fmt: skip
    config = {"model_type": "gemma3", "text_config": text, "vision_config": vision}
    (tmp_path / "config.json").write_text(json.dumps(config))
    figures = model_figures(model_named(str(tmp_path)), Step(kind="prefill"))
    assert figures.parameters + figures.vision_parameters == 12_187_325_040


def test_numbers_of_every_layer_and_infinity_are_read_as_written(tmp_path) -> None:
    """A list that says the same of all layers, and Infinity in either of its spellings."""
    plain = LLAMA | {"num_key_value_heads": 2}
    listed = LLAMA | {
        "num_key_value_heads": [2] * 2,
        "time_step_limit": [0.0, {"__float__": "Infinity"}],
    }
    models = []
    for config in (plain, listed):
        (tmp_path / "config.json").write_text(json.dumps(config))
        models.append(model_named(str(tmp_path)))
    assert models[0] == models[1]


def test_a_file_may_name_the_class_of_a_family_that_is_the_same(tmp_path) -> None:
    """Kimi K2 is a DeepSeek-V3 with another model_type."""
    config = {
        "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 2,
        "hidden_size": 64, "num_attention_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "intermediate_size": 128,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "vocab_size": 100,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert model_named(str(tmp_path)).experts == 4


def test_a_type_that_nobody_knows_is_that_of_the_class_it_names(tmp_path) -> None:
    named = LLAMA | {"model_type": "of_our_own", "architectures": ["LlamaForCausalLM"]}
    assert read(tmp_path, named) == read(tmp_path, LLAMA)
    with pytest.raises(ChakraError, match="model_type 'of_our_own'"):
        read(tmp_path, named | {"architectures": ["OurOwnForCausalLM"]})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Totals that the publishers state.
        (
            {"model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "bias": False,
             "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
             "vocab_size": 92544},
            7_737_708_544,
        ),
        (
            {"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "kv_channels": 128,
             "add_qkv_bias": True, "multi_query_attention": True, "multi_query_group_num": 2,
             "num_attention_heads": 32, "num_layers": 28, "padded_vocab_size": 65024, "rmsnorm": True},
            6_243_584_000,
        ),
        (  # keys and values of all heads, unless the switch is on
            {"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "kv_channels": 128,
             "add_qkv_bias": True, "multi_query_attention": False, "multi_query_group_num": 2,
             "num_attention_heads": 32, "num_layers": 28, "padded_vocab_size": 65024, "rmsnorm": True},
            6_243_584_000 + 28 * 2 * 30 * 128 * (4096 + 1),
        ),
        (
            {"model_type": "exaone", "hidden_size": 4096, "intermediate_size": 14336, "num_layers": 32,
             "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 102400},
            7_818_448_896,
        ),
        (
            {"model_type": "minicpm", "hidden_size": 2304, "intermediate_size": 5760, "vocab_size": 122753,
             "num_attention_heads": 36, "num_hidden_layers": 40, "num_key_value_heads": 36},
            2_724_880_896,
        ),
        (
            {"model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944, "vocab_size": 102400,
             "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 16,
             "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_layer_freq": 1,
             "moe_intermediate_size": 1408, "first_k_dense_replace": 1},
            16_375_728_128,
        ),
        (
            {"model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 125696,
             "num_attention_heads": 32, "num_hidden_layers": 32},
            7_505_973_248,
        ),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_families_that_only_their_own_programs_build(tmp_path, config, expected) -> None:
    assert model_figures(read(tmp_path, config), Step(kind="prefill")).parameters == expected


def test_parts_that_others_write_beside_the_rest(tmp_path) -> None:
    """DBRX: 16 experts of three matrices, eight heads of keys, norms with a scale alone."""
    dbrx = {
        "model_type": "dbrx", "architectures": ["DbrxForCausalLM"], "d_model": 6144, "n_heads": 48,
        "n_layers": 40, "max_seq_len": 32768, "vocab_size": 100352, "tie_word_embeddings": False,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "", "rope_theta": 500000},
        "ffn_config": {"ffn_hidden_size": 10752, "model_type": "", "moe_jitter_eps": 0.01,
                       "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4},
        "emb_pdrop": 0.0, "resid_pdrop": 0.0, "router_aux_loss_coef": 0.05, "torch_dtype": "bfloat16",
    }  # fmt: skip
    model = read(tmp_path, dbrx)
    attention = 6144 * (6144 + 2 * 1024) + 6144**2
    experts = 6144 * 16 + 16 * 3 * 6144 * 10752
    whole = 2 * 100352 * 6144 + 40 * (attention + experts + 2 * 6144) + 6144
    assert model_figures(model, Step(kind="prefill")).parameters == whole == 131_596_523_520
    assert (model.experts, model.top_k, model.kv_heads) == (16, 4, 8)


def test_parts_of_a_head_must_add_up(tmp_path) -> None:
    """DeepSeek-V4 states a head's width, and some files what of it has no positions."""
    compressed = LLAMA | {
        "model_type": "deepseek_v4", "head_dim": 16, "q_lora_rank": 8, "o_lora_rank": 8, "o_groups": 2,
        "sliding_window": 8, "compress_ratios": [0, 128], "qk_rope_head_dim": 4, "qk_nope_head_dim": 12,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
    }  # fmt: skip
    assert read(tmp_path, compressed).layers == 2
    with pytest.raises(ConfigError, match="qk_nope_head_dim is 8; it should be 12"):
        read(tmp_path, compressed | {"qk_nope_head_dim": 8})


@pytest.mark.parametrize(("stated", "context"), [(32768, 32768), (None, 0), ("long", 0)])
def test_a_file_says_how_many_tokens_a_model_takes(tmp_path, stated, context):
    assert read(tmp_path, LLAMA | {"max_position_embeddings": stated}).context == context
