"""Memory from the tensors that operators name: `[tensor, storage, offset, elements, bytes, device]`.

A storage lives from the operator that first gives it out to the end of the last that takes it; one that is
taken before it was given out was there before, and stays. What no node names (workspaces, memory kept by
the allocator, tensors only Python held) is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I8, I64, Mask
from chakrakit.operators import LARGEST, is_optimizer, json_list, mentioned_tensors
from chakrakit.trace.memory.allocations import BEFORE, BEFORE_LABEL, KINDS, Allocations
from chakrakit.trace.model import Trace

_SIDES = ("inputs", "outputs")
_ROUND = 512
"""PyTorch's caching allocator hands out multiples of this many bytes."""
_DEVICES = ("cuda", "hip", "xpu", "privateuse")


@dataclass(frozen=True, eq=False)
class Uses:
    """Every mention of a storage: by which row, how many bytes of it at least, on which side.

    Rows in order of start; within a row inputs come first. `device` numbers `devices`.
    """

    row: I64
    storage: I64
    bytes: I64
    output: Mask
    device: I64
    devices: list[str]

    def __len__(self) -> int:
        return len(self.row)


def from_storages(trace: Trace, start: I64, end: I64) -> Allocations | None:
    """The account of the tensors that operators name; None where they name none."""
    if not any(f"{side}_values" in trace.table.column_names for side in _SIDES):
        return None
    ran = end >= np.maximum(start, 0)
    uses = _on_device(_uses_of(trace, start, ran))
    return _account(trace, start, end, ran, uses) if len(uses) else None


# --- mentions -----------------------------------------------------------------------------------


def _uses_of(trace: Trace, start: I64, ran: Mask) -> Uses:
    mentions: list[tuple[int, int, int, bool, int]] = []
    devices: dict[str, int] = {}
    for is_output, side in enumerate(_SIDES):
        parsed = [_distinct(trace, f"{side}_{field}") for field in ("values", "shapes", "strides")]
        codes = parsed[0][0]
        for row in np.flatnonzero((codes >= 0) & ran).tolist():
            values, shapes, strides = (
                values[code[row]] if code[row] >= 0 else [] for code, values in parsed
            )
            for tensor, shape, stride in mentioned_tensors(values, shapes, strides):
                size = tensor.extent(shape, stride)
                if 0 < size <= LARGEST:
                    number = devices.setdefault(tensor.device, len(devices))
                    mentions.append((row, tensor.storage, size, bool(is_output), number))
    table = np.array(mentions, np.int64).reshape(-1, 5)
    table = table[np.lexsort((table[:, 3], table[:, 0], start[table[:, 0]]))]
    output = table[:, 3].astype(np.bool_)
    return Uses(table[:, 0], table[:, 1], table[:, 2], output, table[:, 4], list(devices))


def _distinct(trace: Trace, column: str) -> tuple[Any, list[Any]]:
    """A column's code per row, and each distinct text parsed once."""
    if column not in trace.table.column_names:
        return np.full(len(trace), -1), []
    coded = trace.table.column(column).cast(pa.string()).combine_chunks().dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, [json_list(text) for text in coded.dictionary.to_pylist()]


def _on_device(uses: Uses) -> Uses:
    """Only the device's tensors, where there is one."""
    device = np.array([d.startswith(_DEVICES) for d in uses.devices] or [False])
    if not len(uses) or not device.any():
        return uses
    on_device = device[uses.device]
    return Uses(
        uses.row[on_device],
        uses.storage[on_device],
        uses.bytes[on_device],
        uses.output[on_device],
        uses.device[on_device],
        uses.devices,
    )


# --- lives --------------------------------------------------------------------------------------


def _account(trace: Trace, start: I64, end: I64, ran: Mask, uses: Uses) -> Allocations:
    order = np.lexsort((np.arange(len(uses)), uses.storage))
    row, storage = uses.row[order], uses.storage[order]
    makes = _makes(uses)[order]
    first = np.flatnonzero(_begins(start, end, storage, row, makes))
    size = -(-np.maximum.reduceat(uses.bytes[order], first) // _ROUND) * _ROUND
    made_in_window = makes[first]
    maker = np.where(made_in_window, row[first], BEFORE)
    kind = _kinds(trace, maker, row, first)
    # What was there before is not the window's to free, unless its number is given away again.
    number_reused = np.r_[storage[first[1:]] == storage[first[:-1]], False]
    dies = np.flatnonzero(made_in_window | number_reused)
    last = _last_users(end, row, first)
    label, labels = _labels(trace, maker)
    lives = np.arange(len(first))
    life_of_change = np.r_[lives, dies]
    at = np.r_[np.where(made_in_window, start[row[first]], start[ran].min()), end[last[dies]]]
    at[len(lives) :] = np.maximum(at[len(lives) :], at[: len(lives)][dies] + 1)
    signed = np.r_[size, -size[dies]]
    # Frees come before what begins at the same time.
    sequence = np.lexsort((signed, at))
    return Allocations(
        row=np.r_[maker, last[dies]][sequence],
        at_end=np.r_[np.zeros(len(lives), np.bool_), np.ones(len(dies), np.bool_)][sequence],
        bytes=signed[sequence],
        kind=kind[life_of_change][sequence],
        label=label[life_of_change][sequence],
        labels=labels,
        source="tensors named by the nodes",
        tensors=len(lives),
    )


def _last_users(end: I64, row: I64, first: I64) -> I64:
    """Of each life, the row that ends last."""
    life = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(row)]))
    order = np.lexsort((end[row], life))
    closing = np.r_[np.flatnonzero(np.diff(life[order])), len(row) - 1]
    last_rows: I64 = row[order[closing]]
    return last_rows


def _makes(uses: Uses) -> Mask:
    """Mentions as an output of a storage that is not among the row's inputs."""
    _, storage = np.unique(uses.storage, return_inverse=True)
    key = uses.row * (int(storage.max()) + 1) + storage
    return np.asarray(uses.output & ~np.isin(key, key[~uses.output]))


def _begins(start: I64, end: I64, storage: I64, row: I64, makes: Mask) -> Mask:
    """Where a life begins: at a storage's first mention, and where an operator makes it anew.

    Numbers of storages are used again. A mention inside the operator that made the storage does
    not begin another life.
    """
    fresh = np.r_[True, storage[1:] != storage[:-1]]
    # Times by their rank among all times, so that groups fit beside them in one number.
    moments = np.unique(np.r_[start[row], end[row]])
    begin, finish = (np.searchsorted(moments, t[row]) + 1 for t in (start, end))
    group = np.cumsum(fresh) * (len(moments) + 2)
    reach = np.maximum.accumulate(np.where(makes, finish, 0) + group)
    before = np.r_[0, reach[:-1]] - group
    return np.asarray(fresh | (makes & (begin >= before)))


def _kinds(trace: Trace, maker: I64, row: I64, first: I64) -> I8:
    """The kind of each life, from when it was made and used: see docs/insight.md."""
    phases = _texts(trace, "phase")
    optimizer = _in_optimizer(trace) | (phases == "optimizer")
    forward = phases == "forward"
    only_optimizer = np.minimum.reduceat(optimizer[row].astype(np.int8), first) > 0
    in_forward = np.maximum.reduceat(forward[row].astype(np.int8), first) > 0
    marked = bool((phases != "").any())
    before = np.where(
        only_optimizer,
        KINDS.index("optimizer"),
        np.where(in_forward | (not marked), KINDS.index("parameters"), KINDS.index("gradients")),
    )
    words = {"forward": "activations", "recompute": "activations", "backward": "gradients"}
    names, codes = np.unique(phases, return_inverse=True)
    by_phase = np.array([KINDS.index(words.get(n, "other")) for n in names.tolist()])
    kind_if_made = by_phase[codes[np.maximum(maker, 0)]] if len(phases) else before
    return np.where(maker == BEFORE, before, kind_if_made).astype(np.int8)


def _texts(trace: Trace, column: str) -> Any:
    if column not in trace.table.column_names:
        return np.full(len(trace), "", object).astype(str)
    values = trace.table.column(column).cast(pa.string()).fill_null("")
    return np.asarray(values.to_numpy(zero_copy_only=False), object).astype(str)


def _in_optimizer(trace: Trace) -> Mask:
    codes, texts = trace.texts("name")
    return np.array([is_optimizer(t or "") for t in texts] or [False])[codes]


def _labels(trace: Trace, maker: I64) -> tuple[Any, tuple[str, ...]]:
    rows, codes = np.unique(maker, return_inverse=True)
    texts = [BEFORE_LABEL if r < 0 else trace[int(r)].name for r in rows.tolist()]
    labels = tuple(dict.fromkeys(texts))
    number = {text: i for i, text in enumerate(labels)}
    return np.array([number[t] for t in texts], np.int32)[codes], labels
