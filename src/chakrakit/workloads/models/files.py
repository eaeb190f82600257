"""Workloads from YAML files and plain dictionaries, with models by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import read_document, read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.workloads.description import Decoder, Model, Workload
from chakrakit.workloads.models.published import catalog

# Hugging Face `config.json` → Decoder. Fields the workload does not depend on are ignored.


def read_config(path: Path) -> Decoder:
    """The model a configuration describes; what is not understood is refused by name."""
    config = read_json(path, dict[str, Any], "a config.json")
    kind = str(config.get("model_type", ""))
    readers = {"gpt2": _gpt2, "deepseek_v2": _deepseek, "deepseek_v3": _deepseek}
    plain = {"llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe"}
    if kind not in readers and kind not in plain:
        supported = ", ".join(sorted({*readers, *plain}))
        raise ConfigError(
            f"{path}: model_type {kind!r} is not one of {supported}; describe the model in YAML"
        )
    try:
        fields = {"name": path.parent.name or kind, **readers.get(kind, _llama)(config, kind)}
        return msgspec.convert({k: v for k, v in fields.items() if v is not None}, Decoder)
    except KeyError as error:
        raise ConfigError(f"{path}: {kind} configuration without {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {kind} configuration: {error}") from None


def _llama(c: dict[str, Any], kind: str) -> dict[str, Any]:
    fields = {
        "layers": c["num_hidden_layers"],
        "hidden": c["hidden_size"],
        "heads": c["num_attention_heads"],
        "kv_heads": c.get("num_key_value_heads") or c["num_attention_heads"],
        "head_dim": c.get("head_dim"),
        "ffn": c["intermediate_size"],
        "vocab": c["vocab_size"],
        "tied": bool(c.get("tie_word_embeddings", False)),
        "qkv_bias": bool(c.get("attention_bias", kind in ("qwen2", "qwen2_moe"))),
        "qk_norm": kind.startswith("qwen3"),
    }
    return {**fields, **_experts(c)}


def _experts(c: dict[str, Any]) -> dict[str, Any]:
    count = c.get("num_local_experts") or c.get("num_experts") or c.get("n_routed_experts") or 0
    if not count:
        return {}
    width = c.get("moe_intermediate_size") or c["intermediate_size"]
    shared = c.get("shared_expert_intermediate_size")
    return {
        "experts": count,
        "top_k": c["num_experts_per_tok"],
        "expert_ffn": width,
        "shared_experts": c.get("n_shared_experts") or (1 if shared else 0),
        "shared_ffn": shared,
        "dense_layers": c.get("first_k_dense_replace") or 0,
    }


def _deepseek(c: dict[str, Any], kind: str) -> dict[str, Any]:
    fields = {k: v for k, v in _llama(c, kind).items() if k not in ("head_dim", "kv_heads")}
    return {
        **fields,
        "q_lora": c.get("q_lora_rank") or 0,
        "kv_lora": c["kv_lora_rank"],
        "nope_dim": c["qk_nope_head_dim"],
        "rope_dim": c["qk_rope_head_dim"],
        "value_dim": c["v_head_dim"],
    }


def _gpt2(c: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "layers": c["n_layer"],
        "hidden": c["n_embd"],
        "heads": c["n_head"],
        "ffn": c.get("n_inner") or 4 * c["n_embd"],
        "vocab": c["vocab_size"],
        "positions": c["n_positions"],
        "norm": "layer",
        "activation": "gelu",
        "bias": True,
        "tied": bool(c.get("tie_word_embeddings", True)),
        "dropout": c.get("resid_pdrop", 0.0) not in (0, None),
    }


# Models by name: from the catalog, or from a Hugging Face `config.json`.


def model_named(name: str) -> Model:
    """A model by its name in the catalog, or from a `config.json` (or the directory that has one)."""
    if not isinstance(name, str):  # descriptions come from files
        raise ConfigError(f"a model is named by a text, not by {name!r:.40}")
    models = catalog()
    spelled = {_letters(k): k for k in models}
    if _letters(name) in spelled:
        return models[spelled[_letters(name)]]
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return read_config(path)
    raise ConfigError(
        f"no model {name!r}; {nearest(name, models)} See `chakra models`; a path to a Hugging Face "
        "config.json works too"
    )


def _letters(name: str) -> str:
    """A name however it is hyphenated: llama-3.1-8b and llama3.1-8b are one."""
    return "".join(c for c in name.lower() if c.isalnum() or c == ".")


def from_plain(data: dict[str, Any], where: str = "description") -> Workload:
    """A workload from nested dictionaries; errors say which field is wrong."""
    if isinstance(data.get("model"), str):
        data = {**data, "model": msgspec.to_builtins(model_named(data["model"]))}
    elif isinstance(data.get("model"), dict) and "base" in data["model"]:
        overrides = dict(data["model"])
        data = {
            **data,
            "model": {**msgspec.to_builtins(model_named(overrides.pop("base"))), **overrides},
        }
    try:
        return _with_batch(msgspec.convert(data, Workload), data)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from None


def _with_batch(workload: Workload, data: dict[str, Any]) -> Workload:
    """Where nothing says the batch of a training step, one micro-batch for every replica."""
    step = workload.step
    if step.kind != "train" or "global_batch" in (data.get("step") or {}):
        return workload
    batch = workload.plan.dp * step.micro_batch
    return msgspec.structs.replace(workload, step=msgspec.structs.replace(step, global_batch=batch))


def read_workload(path: str | Path) -> Workload:
    """A workload from a YAML (or JSON) file."""
    document = read_document(path, "model, plan and step")
    try:
        return from_plain(document.content, str(path))
    except ConfigError as error:
        raise document.pointed(str(error)) from None
