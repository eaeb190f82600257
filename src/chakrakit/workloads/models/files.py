"""Workloads from YAML files and plain dictionaries, with models by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import read_document
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Workload
from chakrakit.workloads.models.naming import named


def from_plain(data: dict[str, Any], where: str = "description") -> Workload:
    """A workload from nested dictionaries; errors say which field is wrong."""
    if isinstance(data.get("model"), str):
        data = {**data, "model": msgspec.to_builtins(named(data["model"]))}
    elif isinstance(data.get("model"), dict) and "base" in data["model"]:
        own = dict(data["model"])
        data = {**data, "model": {**msgspec.to_builtins(named(own.pop("base"))), **own}}
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
