"""The precision that files state is used and shown by every command, from generating to the report."""

from __future__ import annotations

import json

import pytest

from support.commands import data, succeeded

CONFIG = {
    "model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 512, "vocab_size": 1000,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
COUNT = 2 * 1000 * 256 + 256 + 2 * (256 * 512 + 256 * 256 + 3 * 256 * 512 + 2 * 256 + 2 * 64)
STREAM = "poisson{rate=4,n=8,prompt=64,output=8}"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "config.json"


@pytest.mark.slow
def test_generate_serve_and_search_count_and_use_the_same(model) -> None:
    generated = data("generate", "--model", model, "--kind", "prefill", "--seq", 64, "--dry-run")
    served = data("serve", "--model", model, "--machine", "dgx-h100", "--requests", STREAM)
    words = (
        "--machine",
        "dgx-h100",
        "--serve",
        "--requests",
        STREAM,
        "--slo",
        "ttft=5000",
        "--tp",
        "1",
    )
    found = data("search", "--model", model, "--gpus", 1, *words)
    assert generated["parameters"] == served["model"]["parameters"] == COUNT
    assert found["model"]["parameters"] == COUNT
    for precision in (
        generated["precision"],
        served["model"]["precision"],
        found["model"]["precision"],
    ):
        assert (precision["weights"], precision["group"]) == ("fp8_e4m3", "128x128")
    assert (
        generated["per_rank"][0]["memory"]["parameters"] == generated["precision"]["weight_bytes"]
    )


def test_fp8_weights_take_half_the_memory_and_less_time(model, tmp_path) -> None:
    plain = tmp_path / "plain" / "config.json"
    plain.parent.mkdir()
    plain.write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "quantization_config"}))
    words = ("--machine", "dgx-h100", "--requests", STREAM, "--compute", "roofline")
    half, whole = (data("serve", "--model", m, *words) for m in (model, plain))
    assert half["model"]["precision"]["weight_bytes"] < whole["model"]["precision"]["weight_bytes"]
    assert half["tpot_ms"]["mean"] <= whole["tpot_ms"]["mean"]


@pytest.mark.slow
def test_people_read_it_too(model) -> None:
    words = ("--kind", "decode", "--seq", 64, "--dry-run")
    text = succeeded("generate", "--model", model, *words)
    assert "weights fp8_e4m3 in groups of 128x128" in text
    assert "cache bf16, from config.json" in text


GPT_OSS = {
    "model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 256, "vocab_size": 1000,
    "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"], "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head",
        ],
    },
}  # fmt: skip


@pytest.mark.slow
def test_experts_in_mxfp4_are_shown_from_the_file_to_the_report(tmp_path) -> None:
    """Four bits an element and a scale of eight for every 32; everything else stays in 16 bits."""
    (tmp_path / "config.json").write_text(json.dumps(GPT_OSS))
    model, traces, run = tmp_path / "config.json", tmp_path / "w", tmp_path / "run"
    words = ("--model", model, "--kind", "decode", "--seq", 64, "-o", traces)
    precision = data("generate", *words)["precision"]
    assert (precision["weights"], precision["group"]) == ("mxfp4", "32")
    served = data("serve", "--model", model, "--machine", "dgx-b200", "--requests", STREAM)
    assert served["model"]["precision"]["weights"] == "mxfp4"
    said = "weights mxfp4, activations bf16, cache bf16"
    assert said in succeeded("info", traces)
    succeeded("simulate", traces, "--machine", "dgx-b200", "-o", run)
    assert said in succeeded("analyze", run, "--full")
    assert data("analyze", run)["precision"] == said
    succeeded("report", run, "-o", tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()
