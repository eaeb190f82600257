"""Models by name, Hugging Face `config.json` files, and workloads as files."""

from __future__ import annotations

from chakrakit.workloads.models.files import from_plain, read_workload, write_workload
from chakrakit.workloads.models.naming import named
from chakrakit.workloads.models.published import catalog

__all__ = ["catalog", "from_plain", "named", "read_workload", "write_workload"]
