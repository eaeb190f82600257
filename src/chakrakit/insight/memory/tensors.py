"""Tensors named in a trace's inputs and outputs: which storage, how large, used where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.insight.rank import RankView

_SIDES = ("inputs", "outputs")


@dataclass(frozen=True, eq=False)
class Uses:
    """Every mention of a storage: by which row, how many bytes of it at least, on which side.

    Host rows in order of start; within a row inputs come first. `device` numbers `devices`.
    """

    row: I64
    storage: I64
    bytes: I64
    output: Mask
    device: I64
    devices: list[str]

    def __len__(self) -> int:
        return len(self.row)


def uses_of(view: RankView) -> Uses:
    """Reads the observer's `[tensor, storage, offset, elements, element bytes, device]` tuples."""
    found: list[tuple[int, int, int, bool, int]] = []
    devices: dict[str, int] = {}
    for is_output, side in enumerate(_SIDES):
        parsed = [_distinct(view, f"{side}_{what}") for what in ("values", "shapes", "strides")]
        codes = parsed[0][0]
        for row in np.flatnonzero((codes >= 0) & view.ran).tolist():
            values, shapes, strides = (
                values[code[row]] if code[row] >= 0 else [] for code, values in parsed
            )
            for storage, size, device in _tensors(values, shapes, strides):
                number = devices.setdefault(device, len(devices))
                found.append((row, storage, size, bool(is_output), number))
    table = np.array(found, np.int64).reshape(-1, 5)
    order = np.lexsort((table[:, 3], table[:, 0], view.start[table[:, 0]]))
    table = table[order]
    return Uses(
        table[:, 0],
        table[:, 1],
        table[:, 2],
        table[:, 3].astype(np.bool_),
        table[:, 4],
        list(devices),
    )


def _distinct(view: RankView, column: str) -> tuple[Any, list[Any]]:
    """Codes, and each distinct text parsed once."""
    if column not in view.trace.table.column_names:
        return np.full(len(view), -1), []
    coded = view.trace.table.column(column).cast(pa.string()).combine_chunks().dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, [_parse(text) for text in coded.dictionary.to_pylist()]


def _parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return []


def _tensors(values: Any, shapes: Any, strides: Any) -> list[tuple[int, int, str]]:
    """(storage, bytes, device) of every tensor in a list of arguments, lists of tensors included."""
    if not isinstance(values, list):
        return []
    if _is_tensor(values):
        size = _extent(values, shapes, strides)
        return [(values[1], size, values[5])] if size > 0 else []
    out = []
    for i, value in enumerate(values):
        if isinstance(value, list):
            out += _tensors(value, _at(shapes, i), _at(strides, i))
    return out


def _at(items: Any, i: int) -> Any:
    return items[i] if isinstance(items, list) and i < len(items) else []


def _is_tensor(value: list[Any]) -> bool:
    return (
        len(value) == 6 and isinstance(value[5], str) and all(isinstance(v, int) for v in value[:5])
    )


def _extent(value: list[Any], shape: Any, stride: Any) -> int:
    """Bytes from the storage's begin to the tensor's last element; an expanded tensor is small."""
    offset, elements, width = value[2:5]
    if (
        isinstance(shape, list)
        and isinstance(stride, list)
        and shape
        and len(shape) == len(stride)
        and all(isinstance(v, int) for v in (*shape, *stride))
    ):
        last = sum((n - 1) * s for n, s in zip(shape, stride, strict=True) if n > 1)
        elements = min(elements, last + 1) if 0 <= last < elements else max(elements, last + 1)
    return int((offset + elements) * width)
