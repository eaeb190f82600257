"""Tables that AIConfigurator's collectors write: kernels for a profile, collectives for constants.

A table is a Parquet file or CSV (also named `.txt`), one measurement per row, with `latency` in milliseconds
and, mostly, `framework`, `version`, `device`, `op_name` and `kernel_source`. What it measures follows from
its columns, never from its name:

    gemm_dtype    m, n, k: a linear layer of m tokens with k inputs and n outputs
    attn_dtype    batch_size, isl, num_heads, head_dim: attention of whole prompts; with num_key_value_heads
                  and kv_cache_dtype causal, else of an encoder; window_size where one is used
    … and step    above 0: attention of one new token a sequence to isl + step tokens
    nccl_dtype    op_name, num_gpus, message_size in elements: a collective as nccl-tests times it

A folder of such tables is read whole. Kernels of element types, windows and layers that no class of a profile
stands for are left out, and counted.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chakrakit.errors import FormatError
from chakrakit.machines.device import MeasuredRow, Profile
from chakrakit.machines.library import Measurement
from chakrakit.machines.measured_tables import collective_named, read_table
from chakrakit.machines.operator_tables import thinned
from chakrakit.operators import PRODUCT_MARKS, Operation, attention_flops, find_type, gemm_operation

_SUFFIXES = (".parquet", ".csv", ".txt")
_MARKS = ("gemm_dtype", "attn_dtype", "nccl_dtype", "moe_dtype", "allreduce_dtype")
"""The column that names the element type tells which table it is."""
_MOST_SIZE, _LONGEST_MS = 1 << 40, 86_400_000.0
"""A size, and a day in milliseconds: a larger number is a mistake in the table."""


class KernelTables(NamedTuple):
    """The profile of some tables, and how many rows of what were left out."""

    profile: Profile
    left_out: Mapping[str, int]


def performance_tables(source: Path) -> list[Path]:
    """The tables of AIConfigurator that a path is, or that lie in a folder; none if it is something else."""
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    return [f for f in files if f.suffix in _SUFFIXES and f.is_file() and _mark(_names(f))]


def profile_from_tables(paths: list[Path]) -> KernelTables:
    """Products and attention as a profile's classes; of rows of one shape the first counts."""
    left_out: Counter[str] = Counter()
    classes: dict[str, dict[tuple[int, ...], MeasuredRow]] = {}
    device = ""
    for path in paths:
        for row in _rows(path):
            device = device or str(row.values.get("device") or "")
            operation = _operation(row)
            if isinstance(operation, str):
                left_out[f"{path.name}: {operation}"] += 1
                continue
            shapes = classes.setdefault(operation.table, {})
            us = row.milliseconds * 1e3
            shapes.setdefault(
                operation.shape,
                MeasuredRow(list(operation.shape), us, operation.flops, operation.bytes),
            )
    rows = {name: thinned(list(shapes.values())) for name, shapes in classes.items()}
    fitted_on = [path.name for path in paths]
    return KernelTables(Profile(device=device, fitted_on=fitted_on, classes=rows), left_out)


def collective_measurements(path: Path) -> list[Measurement]:
    """The collectives of one table, bytes as nccl-tests count them; of several types those of 16 bits."""
    rows = list(_rows(path))
    if rows and rows[0].mark != "nccl_dtype":
        raise FormatError(
            f"AIConfigurator's table by {rows[0].mark!r} has no collectives of a library; give its nccl_perf",
            path=str(path),
        )
    half = [row for row in rows if row.bits == 16]
    return [_measurement(row) for row in half or rows]


# --- rows ---------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One measurement, with the column that tells which table it is from."""

    mark: str
    values: dict[str, Any]
    where: str

    def size(self, name: str, least: int = 1) -> int:
        """A whole number of a column."""
        value = self.values.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MOST_SIZE:
            raise FormatError(
                f"{name} is {value!r:.40}; it should be {least} or more", path=self.where
            )
        return value

    @property
    def milliseconds(self) -> float:
        """The measured time."""
        value = self.values.get("latency")
        if not isinstance(value, int | float) or not 0 < value < _LONGEST_MS:
            raise FormatError(
                f"a latency of {value!r:.40} ms; it should be more than 0, and below a day",
                path=self.where,
            )
        return float(value)

    @property
    def dtype(self) -> str:
        """The element type as the table spells it."""
        return str(self.values.get(self.mark) or "")

    @property
    def bits(self) -> int:
        """The width of an element; 0 if the type is not one of ours."""
        element = find_type(self.dtype)
        return 0 if element is None else element.bits


def _names(path: Path) -> list[str]:
    """The columns of a table; none of what cannot be one."""
    if path.suffix != ".parquet":
        with path.open("rb") as file:
            head = file.readline(1 << 16).decode(errors="replace")
        return next(csv.reader(head.lstrip("\ufeff").splitlines()), [])
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError, TypeError):
        return []


def _mark(names: list[str]) -> str:
    """The column of the element type if these are columns of AIConfigurator, else an empty text."""
    marks = [name for name in _MARKS if name in names]
    return marks[0] if marks and "latency" in names else ""


def _rows(path: Path) -> Iterator[_Row]:
    table = read_table(path)
    mark = _mark(table.column_names)
    for number, values in enumerate(table.to_pylist()):
        yield _Row(mark, values, f"{path}: row {number + 1}")


def _measurement(row: _Row) -> Measurement:
    kind = collective_named(row.values.get("op_name"))
    if kind is None or row.bits < 8:
        what = row.values.get("op_name") if kind is None else row.dtype
        raise FormatError(f"{what!r:.40} is not a collective or element type", path=row.where)
    elements, members = row.size("message_size"), row.size("num_gpus", 2)
    return Measurement(kind, members, elements * row.bits // 8, row.milliseconds * 1e-3)


# --- kernels ------------------------------------------------------------------------------------


def _operation(row: _Row) -> Operation | str:
    """What a row measured; or in words what it is that no class of a profile stands for."""
    if row.mark == "gemm_dtype":
        return _product(row)
    if row.mark == "attn_dtype":
        return _attention(row)
    return {"moe_dtype": "experts of a whole layer"}.get(row.mark, "communication (--collectives)")


def _product(row: _Row) -> Operation | str:
    element = find_type(row.dtype)
    if element is None or element.kind != "float":
        return f"products of {row.dtype or 'no type'}"
    m, n, k = (row.size(name) for name in ("m", "n", "k"))
    whole = gemm_operation(m, n, k, element.bits // 8)
    mark = "" if element.bits == 16 else PRODUCT_MARKS.get(element.name, f".{element.bits}")
    return whole._replace(table=f"{whole.kind}{mark}.nt")


def _attention(row: _Row) -> Operation | str:
    cache = row.values.get("kv_cache_dtype")
    cached = find_type(str(cache or row.dtype))
    if row.bits != 16 or cached is None or cached.bits != 16:
        return f"attention of {row.dtype or 'no type'} with a cache of {cache or row.dtype}"
    if row.values.get("window_size"):
        return "attention with a window"
    batch, heads, head = (row.size(name) for name in ("batch_size", "num_heads", "head_dim"))
    if "num_key_value_heads" not in row.values:
        return _prompt(batch, row.size("isl"), heads, heads, head, causal=False)
    key_heads = row.size("num_key_value_heads", 0) or heads
    if heads % key_heads:
        raise FormatError(f"{heads} heads share {key_heads} heads of keys", path=row.where)
    before = row.size("step", 0) if row.values.get("step") is not None else 0
    if before and "context" in str(row.values.get("op_name")):
        return "attention of prompts whose beginning is cached"
    if before:
        return _decode(batch, row.size("isl") + before, heads, key_heads, head)
    return _prompt(batch, row.size("isl"), heads, key_heads, head, causal=True)


def _prompt(
    batch: int, query: int, heads: int, key_heads: int, head: int, causal: bool
) -> Operation:
    """Attention of every token of a prompt to those before it, or to all."""
    flops = attention_flops(batch * heads * query * query, head, head, causal=causal)
    moved = 4.0 * batch * query * head * (heads + key_heads)
    table = "attention.cudnn" + ".causal" * causal + ".grouped" * (heads != key_heads)
    return Operation("attention", (batch * heads, query, query, head), flops, moved, table)


def _decode(batch: int, context: int, heads: int, key_heads: int, head: int) -> Operation:
    """Attention of one new token of every sequence to its cache."""
    moved = 4.0 * batch * head * (key_heads * context + heads)
    flops = attention_flops(batch * heads * context, head, head)
    shape = (batch * key_heads, heads // key_heads, context, head)
    return Operation("attention", shape, flops, moved, "decode.cudnn")
