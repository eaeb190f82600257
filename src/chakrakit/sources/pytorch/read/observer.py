"""The execution-trace observer's JSON as columns: what ran, with which arguments, without times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.operators import json_list
from chakrakit.sources.pytorch.read.texts import TextPool, columns_of, plain_strings

KNOWN_SCHEMAS = ("1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1")
_ROOT = r"^\[pytorch\|profiler\|execution_(trace|graph)\|(process|thread)\]$"
_GROUPS = "process_group:init"


@dataclass(frozen=True)
class TensorTable:
    """Every tensor an operator read or wrote: one row per mention, in the order of the operators."""

    node: I32
    is_output: Mask
    tensor: I64
    storage: I64
    offset: I64
    elements: I64
    itemsize: I64
    device: I32


@dataclass(frozen=True)
class Extras:
    """Attributes only few rows have: (row, key, value), all text."""

    row: I32
    key: I32
    value: I32
    texts: TextPool

    def column(self, key: str) -> dict[int, str]:
        """Row → value of one attribute."""
        number = self.texts.number(key)
        hit = self.key == number
        strings = self.texts.strings
        return {int(r): strings[v] for r, v in zip(self.row[hit], self.value[hit], strict=True)}


@dataclass(frozen=True)
class Observer:
    """Nodes of one observer file in ascending id, which is the order in which they started.

    The process and thread roots and `process_group:init` are not operators: `is_operator` is false
    for them. `parent` is the id the observer wrote, which asynchronous work can corrupt.
    """

    id: I64
    parent: I64
    rf_id: I64
    fw_parent: I64
    seq_id: I64
    scope: I64
    tid: I64
    fw_tid: I64
    name: I32
    op_schema: I32
    kernel_backend: I32
    kernel_file: I32
    tensor_range: I32
    text_columns: dict[str, I32]
    in_values: pa.Array
    out_values: pa.Array
    tensors: TensorTable
    extras: Extras
    texts: TextPool
    is_operator: Mask
    schema: str
    pid: int
    truncated: bool
    repaired: int
    dropped: int
    short_strides: int

    def __len__(self) -> int:
        return len(self.id)

    @property
    def known_schema(self) -> bool:
        """Whether the file's schema is one of KNOWN_SCHEMAS; newer ones are read all the same."""
        return self.schema.split("-")[0] in KNOWN_SCHEMAS

    @property
    def values(self) -> int:
        """How many values were written: numbers and texts, of which a tensor has six."""
        total = 0
        for column in (self.in_values, self.out_values):
            filled = pc.sum(pc.not_equal(column, "[]")).as_py() or 0
            total += filled + (pc.sum(pc.count_substring(column, ",")).as_py() or 0)
        return total

    def groups(self) -> list[dict[str, Any]]:
        """The process groups listed by all `process_group:init` nodes."""
        rows = np.flatnonzero(self.texts.where(lambda s: _GROUPS in s)[self.name])
        groups: list[dict[str, Any]] = []
        for row in rows:
            groups += _groups_in(self.in_values[int(row)].as_py())
        return groups


def _groups_in(values: str) -> list[dict[str, Any]]:
    first = next(iter(json_list(values)), None)
    # Old files cut strings at 8,192 characters, which leaves nothing to read.
    groups = json_list(first) if isinstance(first, str) else []
    return [g for g in groups if isinstance(g, dict) and "pg_name" in g]


def read_observer(data: bytes, path: str = "") -> Observer:
    """Columns of an observer file's bytes (uncompressed)."""
    raw = columns_of(core.read_observer, data, path, "ExecutionTraceObserver")
    return _observer(raw)


_NUMBERS = ("id", "parent", "rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_TEXTS = ("name", "op_schema", "kernel_backend", "kernel_file", "tensor_range")
_IO_TEXTS = ("in_shapes", "in_types", "in_strides", "out_shapes", "out_types", "out_strides")


def _observer(raw: dict[str, Any]) -> Observer:
    order = np.argsort(raw["id"], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    texts = TextPool(*raw["texts"])
    text_columns = {c: raw[c][order] for c in _IO_TEXTS}
    in_values, out_values = (
        plain_strings(*raw[c]).take(order) for c in ("in_values", "out_values")
    )
    not_operator = texts.matching(_ROOT) | texts.where(lambda s: _GROUPS in s)
    return Observer(
        **{c: raw[c][order] for c in (*_NUMBERS, *_TEXTS)},
        text_columns=text_columns,
        in_values=in_values,
        out_values=out_values,
        tensors=_tensors(raw, rank),
        extras=Extras(rank[raw["extra_node"]], raw["extra_key"], raw["extra_value"], texts),
        texts=texts,
        is_operator=~not_operator[raw["name"][order]],
        schema=texts[raw["schema"]],
        pid=raw["pid"],
        truncated=raw["truncated"],
        repaired=raw["repaired"],
        dropped=raw["dropped"],
        short_strides=_short_strides(texts, text_columns),
    )


def _tensors(raw: dict[str, Any], rank: I32) -> TensorTable:
    node = rank[raw["tensor_node"]]
    order = np.argsort(node, kind="stable")
    return TensorTable(
        node=node[order],
        is_output=raw["tensor_is_output"][order].astype(np.bool_),
        tensor=raw["tensor_id"][order],
        storage=raw["tensor_storage"][order],
        offset=raw["tensor_offset"][order],
        elements=raw["tensor_elements"][order],
        itemsize=raw["tensor_itemsize"][order],
        device=raw["tensor_device"][order],
    )


def _short_strides(texts: TextPool, columns: dict[str, I32]) -> int:
    """How many operators list fewer strides than shapes, as Triton kernels do."""
    keys = columns["in_shapes"].astype(np.int64) << 32 | columns["in_strides"]
    distinct, counts = np.unique(keys, return_counts=True)
    short = (_items(texts[k >> 32]) > _items(texts[k & 0xFFFFFFFF]) > 0 for k in distinct.tolist())
    return int(counts[np.fromiter(short, np.bool_, len(distinct))].sum())


def _items(text: str) -> int:
    return len(json_list(text))
