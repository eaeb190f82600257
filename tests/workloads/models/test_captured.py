"""Models that are not built in: built on the meta device by transformers, where that is installed."""

from __future__ import annotations

import json
import sys

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.workloads.description import Decoder, Layer, Matrix, Plan, Recorded, Step, Workload
from chakrakit.workloads.generate import model_figures, parameters
from chakrakit.workloads.layers import caches_of, kept, stack_of
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mamba", "falcon_mamba"])
def test_states_of_mamba_are_kept_for_every_sequence(tmp_path, kind) -> None:
    """Each of three layers keeps 512 states of 16 and the last four inputs of its convolution."""
    pytest.importorskip("transformers")
    config = {
        "model_type": kind, "hidden_size": 256, "num_hidden_layers": 3, "state_size": 16, "conv_kernel": 4,
        "expand": 2, "intermediate_size": 512, "vocab_size": 1000, "time_step_rank": 16,
    }  # fmt: skip
    caches = caches_of(model_named(written(tmp_path, config)), 1, Step(kind="serve"))
    assert [(c.per_token, c.per_sequence) for c in caches] == [(0, 2 * 512 * (16 + 4))] * 3


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


def test_a_family_that_is_built_in_asks_transformers_nothing(tmp_path, monkeypatch) -> None:
    def asked(*_parts: object) -> bool:
        raise AssertionError("importing transformers takes seconds")

    monkeypatch.setattr(
        "chakrakit.workloads.models.hugging_face.config.known_to_transformers", asked
    )
    assert model_named(written(tmp_path, NEOX | {"model_type": "llama"})).name


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
def test_a_captured_model_has_the_precision_of_its_file(tmp_path) -> None:
    """Groups of 32 of the layers' matrices have a scale of two bytes and a zero point of half a byte."""
    pytest.importorskip("transformers")
    awq = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True}
    model = model_named(written(tmp_path, NEOX | {"quantization_config": awq}))
    precision = model_figures(model, Step(kind="prefill")).precision
    assert (precision.weights, precision.group, precision.activations) == ("int4", "32", "bf16")
    matrices = 2 * (64 * 192 + 64 * 64 + 2 * 64 * 128)
    others = parameters(Workload(model=model))[0] - matrices
    assert precision.weight_bytes == matrices // 2 + matrices // 32 * 5 // 2 + 2 * others


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


def built_by_transformers(folder: str, name: str) -> int:
    """Parameters of a class that transformers builds from the file, shared ones once."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    with torch.device("meta"):
        model = getattr(transformers, name)(transformers.AutoConfig.from_pretrained(folder))
    return sum(p.numel() for p in model.parameters())


@pytest.mark.slow
def test_an_encoder_meets_all_tokens_and_generates_none(tmp_path) -> None:
    bert = NEOX | {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    folder = written(tmp_path, bert)
    expected = built_by_transformers(folder, "BertForMaskedLM")
    model = model_named(folder)
    assert parameters(Workload(model=model))[0] == expected
    assert not model.causal
    (kind,) = model.kinds.values()
    assert (kind.mixer.flops_per_pair, kind.mixer.cache) == (4 * 64, 0)
    forward = stack_of(model, Plan(), Step(seq=32)).block("recorded").forward
    assert {n.name: n.flops for n in forward}["attention.core"] == 32**2 * 4 * 64
    with pytest.raises(ConfigError, match="has an encoder, whose tokens meet all others"):
        ck.generate(model=model, kind="prefill", seq=32)


@pytest.mark.slow
def test_an_encoder_with_a_decoder_has_both(tmp_path) -> None:
    """A decoder's layer meets half of its own square and all of the encoder's tokens."""
    t5 = {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 64, "d_kv": 16,
        "num_heads": 4, "d_ff": 128, "num_layers": 2, "num_decoder_layers": 3, "vocab_size": 100,
        "is_encoder_decoder": True,
    }  # fmt: skip
    folder = written(tmp_path, t5)
    expected = built_by_transformers(folder, "T5ForConditionalGeneration")
    model = model_named(folder)
    assert (parameters(Workload(model=model))[0], model.layers) == (expected, 5)
    pairs = [model.kinds[name].mixer.flops_per_pair for name in model.pattern]
    assert pairs == [4 * 64] * 2 + [(4 // 2 + 4) * 64] * 3
    matrices = [len(model.kinds[name].mixer.matrices) for name in model.pattern]
    assert matrices == [6, 6, 10, 10, 10]


@pytest.mark.slow
def test_the_class_that_a_file_names_is_built(tmp_path) -> None:
    """A decoder with places to look at an encoder has those matrices and does not run them."""
    bart = {
        "model_type": "bart", "architectures": ["BartForCausalLM"], "d_model": 64, "decoder_layers": 2,
        "encoder_layers": 3, "decoder_attention_heads": 4, "encoder_attention_heads": 4,
        "decoder_ffn_dim": 128, "encoder_ffn_dim": 128, "vocab_size": 100,
    }  # fmt: skip
    folder = written(tmp_path, bart)
    expected = built_by_transformers(folder, "BartForCausalLM")
    model = model_named(folder)
    assert (parameters(Workload(model=model))[0], model.layers) == (expected, 2)
    (kind,) = model.kinds.values()
    assert [m.name for m in kind.mixer.matrices if "encoder_attn" in m.name] == []
    with pytest.raises(ConfigError, match="BartModel has no head over words"):
        model_named(written(tmp_path, bart | {"architectures": ["BartModel"]}))


@pytest.mark.slow
def test_a_model_that_reads_no_words_is_refused_by_what_it_reads(tmp_path) -> None:
    pytest.importorskip("transformers")
    vit = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
    with pytest.raises(ConfigError, match="reads pixel_values, and models here read words"):
        model_named(written(tmp_path, vit))


def test_a_matrix_that_layers_share_counts_once() -> None:
    shared = LAYER.replace(
        matrices=[m.replace(tied=not m.experts) for m in LAYER.matrices], vectors=0
    )
    model = MODEL.replace(
        layers=2, kinds={"it": Layer(mixer=LAYER), "again": Layer(mixer=shared)}, pattern=["it", "again"]
    )  # fmt: skip
    once, both = (parameters(Workload(model=m))[0] for m in (MODEL, model))
    assert both - once == 4 * (64 * 32 + 16 * 64)
    with pytest.raises(ConfigError, match="share matrices with others; use pp 1"):
        ck.generate(model=model, pp=2, seq=32)


@pytest.mark.slow
def test_keys_that_a_module_copies_for_every_head_are_kept_once(tmp_path) -> None:
    """Falcon's modules keep 8 heads where the configuration has 2."""
    pytest.importorskip("transformers")
    falcon = {
        "model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8,
        "num_kv_heads": 2, "new_decoder_architecture": True, "vocab_size": 100,
    }  # fmt: skip
    model = model_named(written(tmp_path, falcon))
    assert isinstance(model, Decoder)
    kinds = model.kinds.values()
    assert {layer.mixer.cache for layer in kinds if isinstance(layer.mixer, Recorded)} == {
        2 * 2 * 8
    }


def parameters_of_class(kind: str, name: str, **sizes) -> int:
    """Parameters of a class of transformers with these sizes."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    with torch.device("meta"):
        model = getattr(transformers, name)(transformers.AutoConfig.for_model(kind, **sizes))
    return int(model.num_parameters())


@pytest.mark.slow
def test_a_text_inside_a_file_is_what_differs_from_its_class(tmp_path) -> None:
    """As LLaVA's files are stored: `text_config` without a width or a depth."""
    tower = {"model_type": "clip_vision_model", "hidden_size": 32, "num_hidden_layers": 1,
             "num_attention_heads": 2, "intermediate_size": 64, "image_size": 28,
             "patch_size": 14}  # fmt: skip
    sizes = {"text_config": {"model_type": "llama", "vocab_size": 64}, "vision_config": tower}
    expected = parameters_of_class("llava", "LlavaForConditionalGeneration", **sizes)
    config = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "vocab_size": 64,
    }
    model = model_named(written(tmp_path, config | sizes))
    figures = model_figures(model, Step(kind="prefill"))
    assert figures.parameters + figures.vision_parameters == expected


@pytest.mark.slow
def test_a_key_that_transformers_passes_over_is_named(tmp_path) -> None:
    pytest.importorskip("transformers")
    cohere = {"model_type": "cohere", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100}  # fmt: skip
    repeated = cohere | {"n_layer": 2, "d_model": 64}
    assert model_named(written(tmp_path, repeated)).layers == 2
    with pytest.raises(ConfigError, match=r"moe_expert_count \(8\) is not understood in a cohere"):
        model_named(written(tmp_path, cohere | {"moe_expert_count": 8}))
