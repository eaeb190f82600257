"""The card of a workload: its fields, reading it from files and options, and deriving it from traces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from chakrakit import __version__
from chakrakit.configuration import Count, Natural, decode_yaml, read_document
from chakrakit.errors import ConfigError, nearest
from chakrakit.trace.sets import Card, Run, TraceSet
from chakrakit.trace.storage.lenient_cards import fitted

WORKLOAD = "workload"
"""Where in `Card.extra` a workload's card is kept with its traces."""
_PHASES = {
    "train": "training",
    "forward": "inference",
    "prefill": "inference",
    "decode": "inference",
    "serve": "serving",
}
_ARCH = {
    "num_layers": "layers",
    "num_heads": "heads",
    "num_kv_heads": "kv_heads",
    "head_dim": "head_dim",
    "hidden_size": "hidden",
    "intermediate_size": "ffn",
    "vocab_size": "vocab",
    "num_experts": "experts",
    "num_experts_per_tok": "top_k",
    "num_shared_experts": "shared_experts",
}


def derived_card(traces: TraceSet) -> dict[str, Any]:
    """The fields that the traces themselves tell, as nested dictionaries."""
    card = traces.card
    settings = card.settings
    devices: dict[str, Any] = {"total_count": traces.world_size or None}
    collector = _mapping(settings.get("collector"))
    devices |= {"model": _text(collector.get("device"))}
    workload = {**_generated(settings), "hardware": {"xpu_spec": devices}}
    return _without_empty(
        {
            "workload": workload,
            "Model-executor": _executor(settings, collector),
            "versions": {"chakrakit": __version__, **_versions(collector)},
            "collection": _collection(card, collector),
            "measured": _measured(traces),
        }
    )


def _generated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that follow from the options of `chakra generate`."""
    model, step = (_mapping(settings.get(n)) for n in ("model", "step"))
    if not model or not step:
        return {}
    arch = {ours: _count(model.get(name)) or None for ours, name in _ARCH.items()}
    batch = _count(step.get("global_batch"))
    return {
        "model": {
            "phase": _PHASES.get(str(step.get("kind"))),
            "moe": bool(model.get("experts")),
            "model_family": _text(model.get("name")),
            "precision": _text(step.get("dtype")),
            "model_arch": arch,
        },
        "data": {
            "batch_size": batch or None,
            "batch_size_scope": "global" if batch else None,
            "seq_len": _count(step.get("seq")),
        },
    }


def _executor(settings: Mapping[str, Any], collector: Mapping[str, Any]) -> dict[str, Any]:
    plan, step = (_mapping(settings.get(n)) for n in ("plan", "step"))
    framework = {"name": "pytorch" if "torch" in collector else None}
    framework |= {"version": _text(collector.get("torch"))}
    if not plan or not step:
        return {"framework": framework}
    dp, shard = _count(plan.get("dp")) or 1, _count(plan.get("shard")) or 0
    sharded = (shard or dp) if plan.get("data") == "fsdp" else 1
    return {
        "framework": framework,
        "model_plan_parallelization": {
            "dp_replicate": dp // sharded or None,
            "dp_shard": sharded,
            **{n: _count(plan.get(n)) or None for n in ("tp", "pp", "cp", "ep")},
            "schedule": _text(plan.get("schedule")) if _count(plan.get("pp")) != 1 else None,
            "virtual_stages": _count(plan.get("chunks")) or None,
            "sequence_parallel": bool(plan.get("sequence_parallel")),
            "recompute": _text(plan.get("recompute")),
            "optimizer": _text(step.get("optimizer")),
            "grad_precision": _text(step.get("grad_dtype")) or None,
        },
    }


def _versions(collector: Mapping[str, Any]) -> dict[str, Any]:
    return {n: _text(collector.get(n)) for n in ("torch", "python")}


def _collection(card: Card, collector: Mapping[str, Any]) -> dict[str, Any]:
    ours = ("model", "plan", "step", "machine", "collector")  # these have other fields of the card
    settings = {k: v for k, v in card.settings.items() if k not in ours}
    steps = collector.get("steps")
    whole = isinstance(steps, list) and all(type(s) is int for s in steps)
    return {
        "tool": card.tool,
        "source": card.source,
        "settings": settings,
        "passes": card.passes,
        "machine": _text(card.settings.get("machine")),
        "steps": steps if whole else None,
    }


def _measured(traces: TraceSet) -> dict[str, Any]:
    span = {"makespan_ns": traces.makespan_ns} if isinstance(traces, Run) else {}
    return {**span, **traces.card.measured}


def _without_empty(section: Mapping[str, Any]) -> dict[str, Any]:
    """A section without its empty fields and sections."""
    inner = {k: _without_empty(v) if isinstance(v, dict) else v for k, v in section.items()}
    return {k: v for k, v in inner.items() if v is not None and v != {} and v != [] and v != ""}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    """The value if it is a count, else None: cards are files, so a setting may be anything."""
    return value if type(value) is int and value >= 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# The card of a workload: what ran, on what, with which versions, how it was recorded, what was measured.
#
# Its sections and names are CCL-Bench's, so that a card written for it is read here; `versions`,
# `collection` and `measured`, and the plan's last fields, are what it has no place for. Everything is
# optional. What has no field goes into `extra`.


Scalar = str | int | float | bool | None


class _Part(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A section: misspelt fields are refused, and what is not known is left out."""


class ModelArch(_Part):
    """The model in numbers; an embedding's parameters also count in `num_params`."""

    num_params: Natural | None = None
    num_params_active: Natural | None = None
    num_params_embedding: Natural | None = None
    num_layers: Natural | None = None
    num_heads: Natural | None = None
    num_kv_heads: Natural | None = None
    head_dim: Natural | None = None
    hidden_size: Natural | None = None
    intermediate_size: Natural | None = None
    vocab_size: Natural | None = None
    num_experts: Natural | None = None
    num_experts_per_tok: Natural | None = None
    num_shared_experts: Natural | None = None


class ModelSection(_Part):
    """Which model, and which part of its work."""

    phase: Literal["training", "inference", "serving"] | None = None
    moe: bool | None = None
    granularity: Literal["model_fwd_bwd_pass", "model_fwd", "layer", "kernel"] | None = None
    model_family: str | None = None
    precision: str | None = None
    epochs: Natural | None = None
    iteration: Natural | None = None
    model_arch: ModelArch | None = None


class DataSection(_Part):
    """What it was fed. `batch_size` is of all ranks together unless `batch_size_scope` says local."""

    batch_size: Count | None = None
    batch_size_scope: Literal["global", "local"] | None = None
    seq_len: Natural | None = None
    input_len: Natural | None = None
    output_len: Natural | None = None
    dataset: str | None = None


class NetworkCard(_Part):
    """The fabric; bandwidths are of scale-out and scale-up, in Gbit/s."""

    topology: str | None = None
    bandwidth_gbps: list[float] | None = None


class Devices(_Part):
    """What computes."""

    type: str | None = None
    model: str | None = None
    total_count: Count | None = None
    count_per_node: Count | None = None


class Hardware(_Part):
    """The machine."""

    network_topo: NetworkCard | None = None
    xpu_spec: Devices | None = None
    driver_version: str | None = None


class WorkloadSection(_Part):
    """What ran, and on what."""

    model: ModelSection | None = None
    data: DataSection | None = None
    hardware: Hardware | None = None


class FrameworkCard(_Part):
    """The program."""

    name: str | None = None
    version: str | None = None
    compiler_tool_selection: str | None = None


class PlanSection(_Part):
    """How the model is spread. `pp_mb` is the micro-batches of a step."""

    dp_replicate: Count | None = None
    dp_shard: Count | None = None
    tp: Count | None = None
    pp: Count | None = None
    cp: Count | None = None
    ep: Count | None = None
    pp_mb: Count | None = None
    schedule: str | None = None
    virtual_stages: Count | None = None
    sequence_parallel: bool | None = None
    recompute: str | None = None
    optimizer: str | None = None
    grad_precision: str | None = None


class CommunicationLibrary(_Part):
    """What moves the data."""

    name: str | None = None
    version: str | None = None
    env: dict[str, Scalar] | None = None


class Executor(_Part):
    """How it ran."""

    framework: FrameworkCard | None = None
    model_plan_parallelization: PlanSection | None = None
    communication_library: CommunicationLibrary | None = None
    protocol_selection: list[str] | None = None


class MetricSource(_Part):
    """Which recordings figures come from."""

    traces: list[str] | None = None
    metrics_specific_trace: list[str] | None = None


class CollectionCard(_Part):
    """How the trace came to be: the tool, what it was made from, and what was done to it since.

    `machine` is the name or file of one that was simulated; `steps` the first and last that were recorded.
    """

    tool: str | None = None
    machine: str | None = None
    source: list[str] | None = None
    settings: dict[str, Any] | None = None
    passes: list[str] | None = None
    steps: list[int] | None = None
    command: str | None = None


class WorkloadCard(_Part):
    """The whole card."""

    version: int | str = 1
    description: str | None = None
    hf_url: str | None = None
    trace_url: str | None = None
    contributor: str | None = None
    contact: str | None = None
    workload: WorkloadSection | None = None
    executor: Executor | None = msgspec.field(default=None, name="Model-executor")
    metric_source: MetricSource | None = None
    versions: dict[str, str] | None = None
    collection: CollectionCard | None = None
    measured: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None


# --- from files and command lines -----------------------------------------------------------------


def card_from(plain: Any, where: str) -> WorkloadCard:
    """A card from nested dictionaries; an error says which field is wrong and what belongs there."""
    try:
        return msgspec.convert(plain, WorkloadCard)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_explained(str(error))}") from None


def _explained(text: str) -> str:
    problem, _, place = text.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem)
    if unknown is None:
        return f"{place}: {problem}{_choices(place)}" if place else problem
    name = ".".join(filter(None, (place, unknown[1])))
    leaves = {f.rpartition(".")[2]: f for f in fields()}
    hint = nearest(unknown[1], leaves)
    for leaf, whole in leaves.items():
        hint = hint.replace(repr(leaf), whole)
    return f"{name}: a card has no such field; {hint} (others go under `extra`)"


def _choices(name: str) -> str:
    options = [s["enum"] for s in fields().get(name, {}).get("anyOf", ()) if "enum" in s]
    return f"; use {', '.join(options[0])}" if options else ""


def fields() -> dict[str, dict[str, Any]]:
    """Every field, as `--field` names it, and its JSON Schema."""
    return dict(_leaves(msgspec.json.schema(WorkloadCard)["$defs"], "WorkloadCard", ""))


def _leaves(
    schemas: Mapping[str, Any], name: str, prefix: str
) -> Iterable[tuple[str, dict[str, Any]]]:
    for field, schema in schemas[name]["properties"].items():
        parts = [s["$ref"].rpartition("/")[2] for s in schema.get("anyOf", ()) if "$ref" in s]
        if parts:
            yield from _leaves(schemas, parts[0], f"{prefix}{field}.")
        else:
            yield prefix + field, schema


def read_card_file(path: Path) -> dict[str, Any]:
    """A card from a YAML (or JSON) file, checked, as nested dictionaries."""
    document = read_document(path, "the fields of a card, as in `description: …`")
    content = fitted(document.content, WorkloadCard)
    try:
        card_from(content, str(path))
    except ConfigError as error:
        raise document.pointed(str(error)) from None
    return content


def fields_from(texts: Iterable[str]) -> dict[str, Any]:
    """`a.b=value` texts as nested dictionaries; values are read as YAML reads them."""
    fields: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(
                f"--field {text!r}: give NAME=VALUE, as in workload.data.seq_len=4096"
            )
        try:
            nested: Any = decode_yaml(value, name)
        except ConfigError:
            nested = value
        for part in reversed(name.split(".")):
            nested = {part: nested}
        card_from(nested, f"--field {text}")
        fields = overlaid(fields, nested)
    return fields


def overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The two merged section by section; `over` wins where both have a field."""
    joined = dict(under)
    for name, value in over.items():
        below = joined.get(name)
        both = isinstance(below, dict) and isinstance(value, dict)
        joined[name] = overlaid(below, value) if both else value  # type: ignore[arg-type]
    return joined


def plain_card(card: WorkloadCard) -> dict[str, Any]:
    """A card as nested dictionaries, without empty fields."""
    sections: dict[str, Any] = msgspec.to_builtins(card)
    return {"version": card.version, **sections}
