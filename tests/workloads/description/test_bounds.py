"""Numbers of a workload that no trace could hold: refused before anything is generated."""

import json

import pytest

from chakrakit.errors import ConfigError
from chakrakit.workloads.description import check
from chakrakit.workloads.models import from_plain, model_named

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
    "intermediate_size": 1024, "vocab_size": 1000,
}  # fmt: skip

LATENT = {
    "num_experts_per_tok": 1, "moe_intermediate_size": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "n_routed_experts": 2, "kv_lora_rank": 2**31, "qk_nope_head_dim": 2**31, "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"step": {"global_batch": 2**31}}, "2,147,483,648 passes of 32 layers are too much"),
        ({"step": {"global_batch": 2**12}}, "passes of 32 layers are too much for one trace; 131,072"),
        ({"step": {"global_batch": 2**62}}, "global_batch is 4,611,686,018,427,387,904"),
        ({"step": {"seq": 2**53}}, "seq is 9,007,199,254,740,992"),
        ({"step": {"seq": 2**32}}, "operations; 2^62 is the most"),
        ({"step": {"kind": "decode", "new_tokens": 2**40}}, "passes of 32 layers are too much"),
        ({"step": {"kind": "decode", "new_tokens": 2**14}}, "too much for one trace; 262,144 layers"),
        ({"step": {"lengths": {"mean": 10**22}}}, "mean is 10,000,000,000,000,000,000,000"),
        ({"step": {"lengths": {"distribution": "lognormal", "sigma": -1}}}, "sigma is -1.0; it must be"),
        ({"step": {"lengths": {"distribution": "lognormal", "sigma": 9}}}, "a number from 0 to 8"),
        ({"plan": {"cp": 2, "context": "blocks", "block": 2**70}}, "it is a number of tokens"),
        ({"step": {"bucket": 1}}, "unknown field"),
        ({"plan": {"dp": 2**31}, "step": {"global_batch": 2**31}}, "dp is 2,147,483,648; 1,048,576"),
        ({"plan": {"tp": 2**12, "pp": 2**12}}, "the plan has 16,777,216 ranks"),
        ({"plan": {"dp": 2}, "step": {"global_batch": 2**39 + 1}}, "are too much"),
    ],
)  # fmt: skip
def test_a_step_or_plan_too_large(part, says):
    with pytest.raises(ConfigError) as error:
        check(from_plain({"model": "llama3.1-8b", **part}))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"num_attention_heads": 2**53},
            "num_attention_heads is 9007199254740992; it should be a whole number",
        ),
        ({"num_attention_heads": 1024}, "1,024 heads are more than hidden 512; give head_dim"),
        ({"num_attention_heads": 0}, "heads is 0"),
        ({"num_hidden_layers": 9 * 10**8}, "layers is 900,000,000; 2,048 is the most"),
        (
            {"num_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 10**9},
            "first_k_dense_replace is 1000000000; it should be at most 2",
        ),
        ({"num_hidden_layers": "two"}, "num_hidden_layers is 'two'; it should be a whole number"),
        ({"hidden_size": 1.5}, "hidden_size is 1.5; it should be a whole number"),
        ({"hidden_size": None}, "configuration without 'hidden_size'"),
        (
            {"hidden_size": 2**70},
            "hidden_size is 1180591620717411303424; it should be a whole number",
        ),
        ({"num_experts": 2**40, "num_experts_per_tok": 2}, "operations; 2^62 is the most"),
        ({"model_type": "deepseek_v3", **LATENT}, "operations; 2^62 is the most"),
        ({"model_type": "gpt2"}, "configuration without 'n_embd'"),
    ],
)
def test_a_config_too_large_or_of_other_types(change, says, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
    with pytest.raises(ConfigError) as error:
        check(from_plain({"model": str(tmp_path / "config.json")}))
    assert says in str(error.value)


@pytest.mark.parametrize("content", [b"\xff{}", b'{"model_type": "llama", "x": ' + b"[" * 100_000])
def test_a_config_that_is_no_text_or_too_deep(content, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"not a config|not text in UTF-8"):
        model_named(str(tmp_path / "config.json"))
