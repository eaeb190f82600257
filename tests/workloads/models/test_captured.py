"""Models that are not built in: built on the meta device by transformers, where that is installed."""

from __future__ import annotations

import json
import sys

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.workloads.description import Decoder, Layer, Matrix, Plan, Recorded, Step, Workload
from chakrakit.workloads.generate import parameters
from chakrakit.workloads.layers import kept, stack_of
from chakrakit.workloads.models import model_named

NEOX = {
    "model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
}  # fmt: skip
LAYER = Recorded(
    matrices=[
        Matrix(name="q", inputs=64, outputs=96, cut="columns"),
        Matrix(name="o", inputs=96, outputs=64, cut="rows"),
        Matrix(name="experts.up", inputs=64, outputs=32, experts=4),
        Matrix(name="experts.down", inputs=16, outputs=64, experts=4),
    ],
    vectors=7,
    flops_per_pair=10.0,
    flops_per_token=3.0,
    cache=24,
    fixed=5,
)  # fmt: skip
MODEL = Decoder(
    layers=1, hidden=64, heads=4, vocab=100, extra=11, norm_weights="none", experts=4, top_k=2,
    kinds={"it": Layer(mixer=LAYER)}, pattern=["it"],
)  # fmt: skip


def written(tmp_path, config) -> str:
    (tmp_path / "config.json").write_text(json.dumps(config))
    return str(tmp_path)


def test_a_captured_layer_has_its_parameters_and_its_work() -> None:
    matrices = 2 * 64 * 96 + 4 * (64 * 32 + 16 * 64)
    assert parameters(Workload(model=MODEL))[0] == 2 * 100 * 64 + 11 + matrices + 7
    forward = stack_of(MODEL, Plan(), Step(seq=32)).block("it").forward
    flops = {n.name: n.flops for n in forward if n.flops}
    assert flops["attention.core"] == 32**2 / 2 * 10 + 32 * 3
    assert flops["q"] == 2 * 32 * 64 * 96
    assert flops["moe.experts.up"] == 2 * 32 * 2 * 64 * 32


def test_a_captured_layer_keeps_what_grows_and_what_does_not() -> None:
    cache = kept(LAYER, 2, 2.0, "bf16")
    assert (cache.per_token, cache.per_sequence) == (24 * 2 / 2, 5 * 2 / 2)


def test_a_captured_layer_is_cut_and_trained() -> None:
    figures = ck.generate(model=MODEL, dp=2, tp=2, ep=2, seq=32, global_batch=2).figures
    assert figures.ranks == 4
    with pytest.raises(ConfigError, match="tp 5 does not divide the 96 of decoder's q"):
        ck.generate(model=MODEL, tp=5, seq=40)


def test_without_transformers_the_extra_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        MissingExtra, match=r"'gpt_neox', which is not built in, .*chakrakit\[models\]"
    ):
        model_named(written(tmp_path, NEOX))


@pytest.mark.slow
def test_a_model_in_the_local_cache_has_a_name(tmp_path, monkeypatch) -> None:
    snapshot = tmp_path / "hub" / "models--some--Model-1B" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    llama = NEOX | {"model_type": "llama"}
    (snapshot / "config.json").write_text(json.dumps(llama))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    assert model_named("some/Model-1B").name == "Model-1B"
    with pytest.raises(ConfigError, match="no model 'some/other'"):
        model_named("some/other")


@pytest.mark.slow
def test_an_unknown_type_is_captured(tmp_path) -> None:
    """Four matrices of attention in two, two of an MLP, all with biases, two layer norms; no tied head."""
    pytest.importorskip("transformers")
    model = model_named(written(tmp_path, NEOX))
    layer = 64 * 192 + 192 + 64 * 64 + 64 + 2 * 64 * 128 + 128 + 64 + 4 * 64
    assert parameters(Workload(model=model))[0] == 2 * layer + 2 * 100 * 64 + 2 * 64
    (kind,) = model.kinds.values()
    assert kind.mixer.flops_per_pair == 4 * 64
    assert kind.mixer.cache == 2 * 64


@pytest.mark.slow
def test_built_in_and_captured_agree(tmp_path) -> None:
    pytest.importorskip("transformers")
    from chakrakit.workloads.models.hugging_face import config as reader
    from chakrakit.workloads.models.hugging_face.keys import read_keys

    written(tmp_path, NEOX | {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16})
    path = tmp_path / "config.json"
    built, keys = reader.read_config(path), read_keys(path)
    captured = reader._captured(keys, keys, path)
    totals = [ck.generate(model=m, seq=64).figures for m in (built, captured)]
    assert totals[0].parameters == totals[1].parameters
    assert totals[0].flops_total == totals[1].flops_total


@pytest.mark.slow
def test_a_program_of_a_repository_is_not_run(tmp_path) -> None:
    pytest.importorskip("transformers")
    config = NEOX | {"model_type": "brand_new", "auto_map": {"AutoConfig": "evil.Config"}}
    with pytest.raises(ConfigError, match="which is never run"):
        model_named(written(tmp_path, config))
