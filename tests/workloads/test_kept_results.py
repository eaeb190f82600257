"""What generated workloads consist of, column by column."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.workloads.generate import dry_run, generate, generated, model_list
from chakrakit.workloads.models import catalog
from chakrakit.workloads.models.hugging_face import read_config
from chakrakit.workloads.models.hugging_face.defaults import DEFAULTS
from chakrakit.workloads.parts import GnnGraph, generate_gnn
from chakrakit.workloads.spatial import SpatialPlan, generate_spatial
from support.damaged import compare_outcomes, damages, printed
from support.kept_results import checksum, checksums, compare, of_set
from support.random_plans import random_workload

MODELS = {
    "dense": {
        "model": "llama3.1-8b",
        "dp": 2,
        "tp": 2,
        "pp": 2,
        "global_batch": 8,
        "seq": 512,
        "layers": 2,
    },
    "interleaved": {
        "model": "llama3.1-8b",
        "pp": 2,
        "schedule": "interleaved",
        "chunks": 2,
        "global_batch": 8,
        "layers": 4,
    },
    "sharded": {
        "model": "llama3.1-8b",
        "dp": 4,
        "data": "fsdp",
        "global_batch": 8,
        "layers": 2,
        "clip": True,
    },
    "experts": {
        "model": "mixtral-8x7b",
        "dp": 4,
        "ep": 4,
        "global_batch": 4,
        "seq": 256,
        "layers": 2,
    },
    "latent": {
        "model": "deepseek-v3",
        "ep": 8,
        "dp": 8,
        "global_batch": 8,
        "seq": 128,
        "layers": 4,
    },
    "vision": {"model": "vit-l-16", "dp": 2, "global_batch": 8, "layers": 2},
    "diffusion": {"model": "dit-b-2", "dp": 2, "global_batch": 8, "layers": 2},
    "video": {"model": "wan2.1-1.3b", "dp": 2, "global_batch": 2, "layers": 2},
    "recommender": {"model": "dlrm-criteo", "dp": 4, "global_batch": 64},
    "crossed": {"model": "dlrm-dcnv2", "dp": 4, "global_batch": 64},
    "context": {"model": "llama3.1-8b", "cp": 4, "global_batch": 1, "seq": 4096, "layers": 2},
    "overlapped": {
        "model": "gpt3-1.3b",
        "tp": 4,
        "tp_overlap": True,
        "global_batch": 2,
        "layers": 2,
    },
    "recomputed": {"model": "gpt3-1.3b", "recompute": "full", "global_batch": 2, "layers": 2},
    "decode": {
        "model": "llama3.1-8b",
        "kind": "decode",
        "tp": 2,
        "global_batch": 4,
        "new_tokens": 3,
        "layers": 2,
    },
    "prefill": {"model": "llama3.1-8b", "kind": "prefill", "tp": 2, "global_batch": 2, "layers": 2},
}


@pytest.mark.parametrize("name", MODELS)
def test_kept_workloads_of_models(name: str) -> None:
    generated = ck.generate(**MODELS[name])
    compare(f"generated-{name}", of_set(generated.traces))


def test_kept_random_workloads() -> None:
    rng = Random(7)
    workloads = [random_workload(rng) for _ in range(25)]
    figures = {str(k): of_set(generate(w)) for k, w in enumerate(workloads)}
    compare("generated-random", figures)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_kept_figures_of_many_random_workloads(part: int) -> None:
    """Sixty more in each part: their traces, and what the dry run says of them."""
    rng, figures = Random(100 + part), {}
    for number in range(60):
        programs = generated(random_workload(rng))
        dry = msgspec.to_builtins(dry_run(programs))
        figures[str(number)] = {"traces": of_set(programs.traces()), "figures": dry}
    compare(f"generated-random-{part}", checksums(figures))


SMALL: dict[str, Any] = {"model": "gpt3-125m", "layers": 4, "seq": 256, "global_batch": 8}
LENGTHS: dict[str, Any] = SMALL | {"dp": 2, "distribution": "lognormal", "mean": 90, "sigma": 0.8}
VARIED: dict[str, dict[str, Any]] = {
    **{
        f"batcher {b}": LENGTHS | {"batcher": b}
        for b in ("fixed", "tokens", "best-fit", "power", "online")
    },
    **{
        f"context {c}": SMALL | {"cp": 4, "context": c}
        for c in ("ring", "gather", "ulysses", "blocks")
    },
    **{
        f"assignment {a}": LENGTHS | {"dp": 1, "cp": 4, "context": "blocks", "assignment": a}
        for a in ("flops", "mixed", "per-document", "whole")
    },
    **{
        f"schedule {s}": SMALL | {"pp": 2, "schedule": s}
        for s in ("gpipe", "1f1b", "zb-h1", "zb-v", "interleaved", "dualpipe")
    },
    **{
        f"data {d}": SMALL | {"dp": 4, "data": d} for d in ("none", "ddp", "zero1", "zero2", "fsdp")
    },
    **{
        f"reshard {r}": SMALL | {"dp": 4, "data": "fsdp", "reshard": r} for r in ("always", "never")
    },
    **{f"sync {s}": SMALL | {"dp": 2, "data": "zero2", "sync": s} for s in ("micro_batch", "step")},
    **{f"recompute {r}": SMALL | {"tp": 2, "recompute": r} for r in ("none", "selective", "full")},
    **{f"optimizer {o}": SMALL | {"dp": 2, "optimizer": o} for o in ("adam", "sgd", "none")},
    "unfused": SMALL | {"kernel": "unfused", "fused": False, "weight_grads": "separate"},
    "eight bits": SMALL | {"matmul_dtype": "fp8", "tp": 2, "sequence_parallel": False},
    "float32": SMALL | {"dtype": "fp32", "grad_dtype": "fp32", "loss_reduce": True, "clip": True},
    "buckets": SMALL | {"dp": 4, "bucket_mb": 3.0, "tp": 2, "order": "dp-tp-cp-pp"},
    "vocabulary": SMALL | {"tp": 4, "vocab_parallel": False},
    "served": {"model": "llama3.1-8b", "layers": 2, "kind": "serve", "tp": 2, "concurrency": 4},
    "several steps": SMALL | {"dp": 2, "steps": 3, "seed": 5},
}


@pytest.mark.parametrize(
    "half", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_kept_workloads_with_every_option(half: int) -> None:
    """One option after the other on a small model; or how a plan is refused."""
    figures = {}
    for name in list(VARIED)[half::3]:
        try:
            result = ck.generate(**VARIED[name])
            figures[name] = [of_set(result.traces), msgspec.to_builtins(result.figures)]
        except ChakraError as refusal:
            figures[name] = str(refusal)
    compare(f"generated-options-{half}", checksums(figures))


@pytest.mark.slow
def test_kept_workloads_of_the_whole_catalog() -> None:
    """Every model by name, two layers of it, trained and, where it decodes, decoding."""
    figures = {}
    for name in catalog():
        for kind in ("train", "decode"):
            try:
                result = ck.generate(model=name, layers=2, kind=kind, global_batch=2, seq=64)
                figures[f"{name}, {kind}"] = [
                    of_set(result.traces),
                    msgspec.to_builtins(result.figures),
                ]
            except ChakraError as refusal:
                figures[f"{name}, {kind}"] = str(refusal)
    compare("generated-catalog", checksums(figures))


def test_kept_models_of_the_catalog() -> None:
    """Their parameters, and all that is said of their layers."""
    rows = {row.name: [row.parameters, row.active_parameters] for row in model_list().models}
    said = {name: json.dumps(msgspec.to_builtins(model)) for name, model in catalog().items()}
    compare("models", {name: [*rows[name], said[name]] for name in rows})


NOT_BY_DEFAULT = {"deepseek_v2": {"num_experts_per_tok": 6}}
"""What a file must say of a family besides its size: its class has no value for it."""


def test_kept_models_of_configurations_that_say_no_more_than_their_size(tmp_path: Path) -> None:
    """What a family's configuration class adds."""
    compare("models-by-default", {kind: _by_default(kind, tmp_path) for kind in DEFAULTS})


def _by_default(kind: str, folder: Path) -> str:
    config = {"model_type": kind, "num_hidden_layers": 4, "hidden_size": 4096}
    path = folder / "config.json"
    path.write_text(json.dumps(config | NOT_BY_DEFAULT.get(kind, {})))
    return json.dumps(msgspec.to_builtins(read_config(path)))


def test_kept_layers_that_were_pruned(tmp_path: Path) -> None:
    """Parts that were left out, replaced, narrowed, or given fewer heads for keys."""
    attention = [
        {"n_heads_in_group": 2},
        {"n_heads_in_group": 4, "window_length": 128},
        {"no_op": True},
        {"replace_with_linear": True},
    ]
    ffn = [{"ffn_mult": 1.5}, {"ffn_mult": 0.1}, {"intermediate_size": 96}, {"no_op": True}]
    blocks = [{"attention": a, "ffn": f} for a, f in zip(attention, ffn, strict=True)]
    size = {"num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8}
    path = tmp_path / "config.json"
    figures = {}
    for name, given in {"whole": blocks, "refused": [{"attention": {}, "ffn": ffn[0]}] * 4}.items():
        config = {"model_type": "nemotron-nas", "vocab_size": 1000, **size, "block_configs": given}
        path.write_text(json.dumps(config))
        try:
            figures[name] = msgspec.to_builtins(read_config(path))
        except ChakraError as refusal:
            figures[name] = str(refusal).replace(str(tmp_path), "")
    compare("pruned-layers", figures)


@pytest.mark.slow
def test_kept_steps_of_every_family(tmp_path: Path) -> None:
    """What a training step and a token of each family consist of, cut in two; or why it cannot be."""
    figures = {}
    for kind in DEFAULTS:
        _by_default(kind, tmp_path)
        for step in ({"kind": "train"}, {"kind": "decode", "new_tokens": 1}):
            plan = {"tp": 2, "seq": 64, "global_batch": 2, **step}
            try:
                kept = of_set(ck.generate(model=str(tmp_path / "config.json"), **plan).traces)
            except ChakraError as refusal:
                kept = {"refused": str(refusal).replace(str(tmp_path), "")}
            figures[f"{kind}, {step['kind']}"] = kept
    compare("generated-families", {name: checksum(json.dumps(v)) for name, v in figures.items()})


@pytest.mark.parametrize("name", ["apart", "whole", "shared"])
def test_kept_models_of_several_sections(name: str) -> None:
    """An encoder before a language model: on ranks of its own, handed on whole, and two on the same ranks."""
    vision = {
        "family": "vision",
        "layers": 2,
        "hidden": 32,
        "heads": 4,
        "ffn": 64,
        "image": 32,
        "patch": 8,
    }
    language = {"family": "decoder", "layers": 2, "hidden": 64, "heads": 4, "vocab": 128}
    plan = {"tp": 2, "dp": 2, "sequence_parallel": name != "whole"}
    sections = {
        "vision": {"model": vision | {"class_token": False}, "plan": {"dp": 4}, "share": 0.5},
        "language": {"model": language, "plan": plan, "after": ["vision"]},
    }
    if name == "shared":
        sections = {"sound": sections["vision"], **sections}
        sections["vision"] = sections["vision"] | {"after": ["sound"], "ranks_of": "sound"}
        sections["language"]["ranks_of"] = "sound"
    described = {"sections": sections, "step": {"seq": 32, "global_batch": 8}}
    compare(f"sections-{name}", of_set(ck.generate(described).traces))


def test_kept_graphs_and_grids() -> None:
    """Neighbours of vertices in parts, layer by layer; networks on grids, cut in every way."""
    graphs = {
        "even": GnnGraph(vertices=400, degree=6, partitions=3, skew=0.0),
        "skewed": GnnGraph(vertices=400, degree=6, partitions=4, skew=0.8, local=0.5),
        "by rank": GnnGraph(vertices=300, degree=4, partitions=2, skew=1.0),
    }
    plans = {
        "grid": SpatialPlan(rows=2, columns=2),
        "grid, both passes": SpatialPlan(rows=3, columns=2, batch=2, backward=True, element=4),
        "channels": SpatialPlan(split="channels", rows=4),
        "layers": SpatialPlan(split="layers", columns=3),
    }
    figures = {name: of_set(generate_gnn(graph)) for name, graph in graphs.items()}
    for name in ("convolutions", "grid-attention", "mobilenet-v2"):
        for cut, plan in plans.items():
            try:
                figures[f"{name}, {cut}"] = of_set(generate_spatial(name, plan))
            except ChakraError as refusal:
                figures[f"{name}, {cut}"] = {"refused": str(refusal)}
    compare("graphs-and-grids", {name: checksum(json.dumps(v)) for name, v in figures.items()})


@damages(12, 100)
@pytest.mark.parametrize("name", ["workload", "workload-shared"])
def test_kept_outcomes_of_damaged_workloads(name: str, numbers: range, tmp_path: Path) -> None:
    """What described workloads come to, and what is said to those that were damaged."""
    command = printed("generate {in}/w.yaml --dry-run")
    compare_outcomes(name, tmp_path, command, numbers)


@damages(40, 300)
@pytest.mark.parametrize("name", ["config", "config-moe"])
def test_kept_outcomes_of_damaged_configurations(
    name: str, numbers: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What configurations of models are read as, and what is said to those that were damaged."""
    monkeypatch.setitem(sys.modules, "transformers", None)  # as where it is not installed
    compare_outcomes(name, tmp_path, _configured, numbers)


def _configured(folder: Path) -> object:
    return msgspec.to_builtins(read_config(folder / "config.json"))
