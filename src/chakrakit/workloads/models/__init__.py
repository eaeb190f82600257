"""Models by name, Hugging Face `config.json` files, and workloads as files."""

from __future__ import annotations

from chakrakit.workloads.models.fields import (
    field_defaults,
    field_docs,
    field_types,
    workload_of,
    workload_with,
)
from chakrakit.workloads.models.files import (
    from_plain,
    generated_from,
    model_named,
    read_workload,
    with_models,
)
from chakrakit.workloads.models.published import catalog

__all__ = [
    "catalog",
    "field_defaults",
    "field_docs",
    "field_types",
    "from_plain",
    "generated_from",
    "model_named",
    "read_workload",
    "with_models",
    "workload_of",
    "workload_with",
]
