"""Precision from files: weights, activations and cache, and the bytes that follow."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Format, Step
from chakrakit.workloads.generate import model_figures
from chakrakit.workloads.models import model_named
from chakrakit.workloads.models.hugging_face.quantized import matcher

QWEN = {
    "model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "vocab_size": 1000,
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "torch_dtype": "bfloat16",
}  # fmt: skip
HEAD = EMBEDDING = 1000 * 256
ROUTERS, NORMS = 2 * 256 * 4, 256 + 2 * (2 * 256 + 2 * 64)
ATTENTION = 2 * (256 * 512 + 256 * 256)
EXPERTS = 2 * 4 * 3 * 256 * 128
PLAIN = 2 * (HEAD + EMBEDDING + ROUTERS + NORMS)
FP8 = {
    "quant_method": "fp8",
    "fmt": "e4m3",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}


def served(tmp_path, stated=None, beside=None):
    """The precision in which a configuration would be served."""
    config = QWEN | ({"quantization_config": stated} if stated else {})
    (tmp_path / "config.json").write_text(json.dumps(config))
    if beside:
        (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": beside}))
    return model_figures(model_named(str(tmp_path)), Step(kind="serve")).precision


def test_blocks_of_fp8_have_a_scale_each(tmp_path) -> None:
    """All matrices but router and head; every matrix here is cut evenly into blocks."""
    found = served(tmp_path, FP8)
    assert (found.weights, found.group, found.activations, found.cache) == (
        "fp8_e4m3", "128x128", "fp8", "bf16",
    )  # fmt: skip
    quantized = ATTENTION + EXPERTS
    assert found.weight_bytes == PLAIN + quantized + quantized // 128**2 * 4


def test_modules_that_are_left_out_stay_as_they_are(tmp_path) -> None:
    names = ["lm_head", "model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj",
             "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.o_proj"]  # fmt: skip
    found = served(tmp_path, FP8 | {"modules_to_not_convert": names})
    quantized = ATTENTION // 2 + EXPERTS
    assert found.excluded == 5
    assert found.weight_bytes == PLAIN + ATTENTION + quantized + quantized // 128**2 * 4


def test_nvfp4_in_the_file_beside(tmp_path) -> None:
    beside = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
              "exclude_modules": ["lm_head", "*.mlp.gate", "model.layers.*.self_attn*"]}  # fmt: skip
    found = served(tmp_path, beside=beside)
    assert (found.weights, found.group, found.activations, found.cache) == (
        "nvfp4",
        "16",
        "nvfp4",
        "fp8",
    )
    assert found.weight_bytes == PLAIN + 2 * ATTENTION + EXPERTS // 2 + EXPERTS // 16
    del beside["group_size"]  # then blocks are the format's own
    assert served(tmp_path, beside=beside).weight_bytes == found.weight_bytes


def test_mixed_precision_names_every_module(tmp_path) -> None:
    layers = {
        f"model.layers.{i}.self_attn.{n}_proj": {"quant_algo": "FP8"}
        for i in (0, 1)
        for n in "qkvo"
    }
    for i in (0, 1):
        for n in ("gate", "up", "down"):
            layers[f"model.layers.{i}.mlp.experts.0.{n}_proj"] = {
                "quant_algo": "W4A16_NVFP4",
                "group_size": 16,
            }
    found = served(tmp_path, beside={"quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    assert (found.weights, found.activations) == ("w4a16_nvfp4 + fp8_e4m3", "bf16 + fp8")
    scales = 2 * 2 * 4  # of two attention matrices in two layers
    assert found.weight_bytes == PLAIN + ATTENTION + scales + EXPERTS // 2 + EXPERTS // 16


def test_groups_of_whole_numbers(tmp_path) -> None:
    group = {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"},
             "input_activations": None, "targets": ["Linear"]}  # fmt: skip
    stated = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group},
              "ignore": ["lm_head", "re:.*self_attn.*", "re:.*mlp\\.gate$"]}  # fmt: skip
    found = served(tmp_path, stated)
    assert (found.weights, found.group, found.activations) == ("int4", "32", "bf16")
    assert found.weight_bytes == PLAIN + 2 * ATTENTION + EXPERTS // 2 + EXPERTS // 32 * 2


@pytest.mark.parametrize(("size", "kind", "scale"), [(32, "mxfp4", 32), (16, "nvfp4", 16)])
def test_floats_of_four_bits_are_told_by_their_groups(tmp_path, size, kind, scale) -> None:
    group = {"weights": {"num_bits": 4, "type": "float", "group_size": size, "strategy": "group"},
             "input_activations": None, "targets": ["Linear"]}  # fmt: skip
    stated = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group},
              "ignore": ["lm_head", "re:.*self_attn.*", "re:.*mlp\\.gate$"]}  # fmt: skip
    found = served(tmp_path, stated)
    assert found.weights == kind
    assert found.weight_bytes == PLAIN + 2 * ATTENTION + EXPERTS // 2 + EXPERTS // scale


def test_training_does_not_use_what_is_for_inference(tmp_path) -> None:
    served(tmp_path, FP8)
    used = model_figures(model_named(str(tmp_path)), Step()).precision
    assert (used.weights, used.in_files) == ("bf16", "fp8_e4m3")


def test_names_match_whole_parts_and_patterns() -> None:
    excluded = matcher(["gate", "mtp.layers.0*", "model.layers.3.self_attn*", "re:.*shared.*"])
    assert excluded("layers.0.mlp.gate")
    assert not excluded("layers.0.mlp.gate_proj")
    assert excluded("layers.3.self_attn.q_proj")
    assert not excluded("layers.30.self_attn.q_proj")
    assert excluded("layers.1.mlp.shared_experts.up_proj")


def test_scales_of_blocks_that_do_not_come_out_even() -> None:
    """A matrix of 576 × 300 has five by three blocks."""
    form = Format(dtype="fp8_e4m3", block=(128, 128))
    assert form.size(300, 576) == 300 * 576 + 5 * 3 * 4


MATRICES = ATTENTION + EXPERTS


@pytest.mark.parametrize(
    ("stated", "weights", "group", "activations", "scales"),
    [
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
             "bnb_4bit_use_double_quant": True},
            "nf4", "64", "bf16", MATRICES // 64,
        ),
        (
            {"quant_method": "auto-round", "bits": 4, "group_size": 128, "data_type": "int"},
            "int4", "128", "bf16", MATRICES // 128 * 5 // 2,
        ),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            "int4", "128", "bf16", MATRICES // 128 * 5 // 2,
        ),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": False},
            "int4", "128", "bf16", MATRICES // 128 * 2,
        ),
        (
            {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
            "int4", "64", "bf16", MATRICES // 64 * 4,
        ),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
             "_data": {"group_size": 64}}}},
            "int4", "64", "bf16", MATRICES // 64 * 4,
        ),
        (
            {"quant_method": "torchao", "quant_type": "int4_weight_only",
             "quant_type_kwargs": {"group_size": 32}},
            "int4", "32", "bf16", MATRICES // 32 * 4,
        ),
    ],
)  # fmt: skip
def test_four_bits_of_every_method(tmp_path, stated, weights, group, activations, scales) -> None:
    """All matrices but router and head, half a byte each; a scale for each group, and mostly a zero point."""
    found = served(tmp_path, stated)
    assert (found.weights, found.group, found.activations) == (weights, group, activations)
    assert found.weight_bytes == PLAIN + MATRICES // 2 + scales


def test_scales_of_whole_channels_are_called_so(tmp_path) -> None:
    found = served(tmp_path, {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})
    assert (found.weights, found.group, found.activations) == ("fp8_e4m3", "channel", "fp8")
    eight = served(tmp_path, {"quant_method": "bitsandbytes", "load_in_8bit": True})
    assert (eight.weights, eight.group, eight.activations) == ("int8", "channel", "int8")


@pytest.mark.parametrize("size", [-1, 0])
def test_a_group_of_no_size_is_a_whole_channel(tmp_path, size) -> None:
    found = served(tmp_path, {"quant_method": "awq", "bits": 4, "group_size": size})
    assert (found.weights, found.group) == ("int4", "channel")


def test_quark_excludes_by_pattern_and_has_a_cache_of_its_own(tmp_path) -> None:
    stated = {
        "quant_method": "quark",
        "global_quant_config": {
            "weight": {"dtype": "fp4", "group_size": 32, "qscheme": "per_group"},
            "input_tensors": {"dtype": "fp4", "group_size": 32, "qscheme": "per_group"},
        },
        "exclude": ["lm_head", "*self_attn*", "*mlp.gate"],
        "kv_cache_quant_config": {
            "*k_proj": {"output_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}
        },
    }
    found = served(tmp_path, stated)
    assert (found.weights, found.activations, found.cache) == ("mxfp4", "mxfp4", "fp8")
    assert found.weight_bytes == PLAIN + 2 * ATTENTION + EXPERTS // 2 + EXPERTS // 32


def test_modules_with_bits_of_their_own_have_them(tmp_path) -> None:
    """GPTQ's `dynamic`: left out with a minus, other bits with a plus."""
    own = {"-:.*self_attn.*": {}, r"+:.*layers\.1\..*experts.*": {"bits": 8}}
    stated = {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": own}
    found = served(tmp_path, stated)
    half = EXPERTS // 2
    zeros = half // 128 // 2 + half // 128
    expected = PLAIN + 2 * ATTENTION + half // 2 + half + EXPERTS // 128 * 2 + zeros
    assert (found.weights, found.weight_bytes) == ("int4 + int8", expected)


def test_groups_of_compressed_tensors_are_found_by_expression(tmp_path) -> None:
    """Targets that are expressions: they were once taken for names, and nothing was quantized."""
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    groups = {"group_0": {"targets": ["re:.*experts.*"], "weights": weights}}
    found = served(tmp_path, {"quant_method": "compressed-tensors", "config_groups": groups})
    assert found.weights == "int4"
    assert found.weight_bytes == PLAIN + 2 * ATTENTION + EXPERTS // 2 + EXPERTS // 128 * 2


def test_a_method_that_is_not_understood_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="quant_method is 'aqlm'"):
        served(tmp_path, {"quant_method": "aqlm"})
    with pytest.raises(ConfigError, match="bits is 3; it should be 2, 4 or 8"):
        served(tmp_path, {"quant_method": "gptq", "bits": 3})
    sparse = {
        "quant_method": "compressed-tensors",
        "sparsity_config": {"sparsity_structure": "2:4"},
    }
    with pytest.raises(ConfigError, match="sparsity_config is '2:4'"):
        served(tmp_path, sparse)


def test_a_key_that_changes_the_precision_and_is_not_understood_is_named(tmp_path) -> None:
    """What says how weights were packed or found is passed over; what says more is not."""
    assert served(tmp_path, FP8 | {"scale_fmt": "ue8m0"}) == served(tmp_path, FP8)
    with pytest.raises(
        ConfigError, match=r"kv_cache_scheme \(.*is not understood in a precision by fp8"
    ):
        served(tmp_path, FP8 | {"kv_cache_scheme": {"num_bits": 8}})
    with pytest.raises(ConfigError, match="modules_in_block_to_quantize"):
        served(
            tmp_path,
            {"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": [["self_attn.q"]]},
        )
    with pytest.raises(ConfigError, match="act_bits is 8; it should be 16"):
        served(tmp_path, {"quant_method": "auto-round", "bits": 4, "act_bits": 8})


def test_files_from_before_the_method_had_a_key(tmp_path) -> None:
    stated = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    assert served(tmp_path, stated) == served(tmp_path, {"quant_method": "bitsandbytes"} | stated)
