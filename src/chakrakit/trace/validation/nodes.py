"""Rules about nodes one by one: their type, times and attributes. Each looks at a piece of a trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.errors import FormatError
from chakrakit.trace.model import (
    Attribute,
    CollectiveType,
    Member,
    NodeType,
    Trace,
    by_name,
    columns,
    wire,
)
from chakrakit.trace.timing import CLOCK_NS
from chakrakit.trace.validation.findings import Findings

# Attributes that a trace keeps as bytes: which they are, and why they are not in a column.


_NAME_FIELD = 1
"""The schema's number of an attribute's name."""


@dataclass(frozen=True)
class RawAttribute:
    """An attribute of the vocabulary that could not be read, and the finding it makes."""

    row: int
    name: str
    code: str
    why: str


def raw_attributes(piece: Trace) -> Iterator[RawAttribute]:
    """The known attributes of a piece that are kept raw, row by row."""
    if "_raw" not in piece.table.column_names:
        return
    column = piece.table.column("_raw")
    rows = np.flatnonzero(column.is_valid().to_numpy())
    readable = {n: piece.has(columns.column_name(n)) for n in by_name()}
    for row, packed in zip(rows.tolist(), column.drop_null().to_pylist(), strict=True):
        names: set[str] = set()
        for data in wire.frames(packed):
            attribute = by_name().get(_name(data))
            if attribute is None:
                continue
            twice = attribute.name in names or readable[attribute.name][row]
            names.add(attribute.name)
            code, why = ("attribute-twice", "is there twice") if twice else _reason(data, attribute)
            yield RawAttribute(row, attribute.name, code, why)


def _name(data: bytes) -> str:
    """The attribute's name."""
    if data[:1] == b"\x0a" and len(data) > 1 and data[1] < 0x80:  # as every writer puts it
        return data[2 : 2 + data[1]].decode("utf-8", "replace")
    for field, value in _fields(data):
        if field == _NAME_FIELD and isinstance(value, bytes):
            return value.decode("utf-8", "replace")
    return ""


def _reason(data: bytes, attribute: Attribute) -> tuple[str, str]:
    fields = dict(_fields(data))
    members = [f for f in fields if f in set(Member)]
    if not members:
        return "attribute-empty", f"has no value; it should be {attribute.member.name}"
    member = Member(members[-1])
    expected_storage, actual_storage = (
        columns.storage_of_member(m) for m in (attribute.member, member)
    )
    if {expected_storage, actual_storage} <= {
        columns.INT,
        columns.BOOL,
    } or expected_storage == actual_storage:
        value = fields[member]
        if expected_storage == columns.BOOL and value not in (0, 1):
            return "attribute-range", f"is {value!r}; it should be true or false"
        if expected_storage == columns.INT and isinstance(value, int) and value >= 2**63:
            return (
                "attribute-range",
                f"is {value}, as if a negative number had been written unsigned",
            )
        if set(fields) - {_NAME_FIELD, member}:
            return "attribute-raw", "carries a doc string or unknown fields, so it is not read"
        return "attribute-type", "holds what cannot be read, such as text that is not UTF-8"
    return "attribute-type", f"is a {member.name}; it should be {attribute.member.name}"


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    try:
        yield from wire.fields(data)
    except FormatError:
        return  # a group, which the decoder passes over and nothing in the schema has


_T = NodeType
_MEMORY = (_T.MEM_LOAD_NODE, _T.MEM_STORE_NODE)
_MESSAGE = (_T.COMM_SEND_NODE, _T.COMM_RECV_NODE)
_SIZES = (
    "comm_size",
    "num_ops",
    "tensor_size",
    "out_size",
    "y_tensor_size",
    "side_ops",
    "mem_alloc",
    "mem_free",
)


@dataclass(frozen=True)
class Hit:
    """Rows that break a rule, and what to say about each."""

    code: str
    rows: I64
    message: Callable[[int], str]


class CheckedPiece:
    """A piece of a trace, with which of its known attributes are there but could not be read."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.raw = list(raw_attributes(trace))
        self._unread: dict[str, Mask] = defaultdict(lambda: np.zeros(len(trace), np.bool_))
        for attribute in self.raw:
            self._unread[attribute.name][attribute.row] = True

    def lacks(self, name: str) -> Mask:
        """Rows without this attribute; those where it could not be read are another finding."""
        readable = self.trace.has(name)
        return ~(readable | self._unread[name]) if name in self._unread else ~readable

    def values(self, name: str, default: Any = 0) -> NDArray[Any]:
        """The attribute's values, `default` where a row has none."""
        return self.trace.column(name, default)


def check_nodes(trace: Trace, rank: int | None, findings: Findings) -> None:
    """Applies all rules of this file to a piece."""
    piece = CheckedPiece(trace)
    for rule in RULES:
        for hit in rule(piece):
            if len(hit.rows):
                findings.add_rows(hit.code, rank, trace, hit.rows.tolist(), hit.message)


def _where(code: str, mask: Mask, text: str) -> Hit:
    return Hit(code, np.flatnonzero(mask), lambda _row: text)


def types(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds types that the schema does not have."""
    codes = piece.trace.types
    yield _where("invalid-type", codes == _T.INVALID_NODE, "has no type, or INVALID_NODE")
    odd = np.flatnonzero((codes < 0) | (codes > max(NodeType)))
    yield Hit(
        "unknown-type",
        odd,
        lambda row: f"has type {codes[row]}, which the schema does not have; kept",
    )


def names(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds empty names."""
    empty = [
        np.isin(
            c.indices.to_numpy(), np.flatnonzero(pc.binary_length(c.dictionary).to_numpy() == 0)
        )
        for c in piece.trace.names.chunks
    ]
    yield _where(
        "empty-name", np.concatenate(empty) if empty else np.zeros(0, np.bool_), "has no name"
    )


def times(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds negative durations and times that no clock shows."""
    yield _negative(piece, "duration_ns", "negative-duration")
    yield _negative(piece, "own_ns", "negative-duration")
    trace = piece.trace
    start, end = trace.start_ns, np.maximum(trace.end_ns, trace.own_ns)
    off_clock = np.flatnonzero((np.maximum(start, end) > CLOCK_NS) | (start < -CLOCK_NS))
    yield Hit("time-range", off_clock, lambda row: _time_text(piece, row))


_TIMES = (
    ("start_time_ns", 1),
    ("duration_ns", 1),
    ("own_ns", 1),
    ("start_time_micros", 1000),
    ("duration_micros", 1000),
)
"""Names of times, and how many ns their units have."""


def _time_text(piece: CheckedPiece, row: int) -> str:
    """The time of a row that is too far off, as the trace writes it."""
    for name, unit in _TIMES:
        number = int(piece.values(name)[row])
        if abs(number) * unit > CLOCK_NS:
            return f"{name} is {number}"
    return f"it ends at {int(piece.trace.end_ns[row])} ns"


def sizes(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds negative sizes and operations, and memory nodes without a size."""
    for name in _SIZES:
        yield _negative(piece, name, "negative-value")
    bare = piece.trace.is_type(*_MEMORY) & piece.lacks("tensor_size")
    yield _where(
        "missing-tensor-size", bare, "a memory node without tensor_size (uint64_val, bytes)"
    )


def _negative(piece: CheckedPiece, name: str, code: str) -> Hit:
    values = piece.values(name)
    return Hit(code, np.flatnonzero(values < 0), lambda row: f"{name} is {values[row]}")


def collectives(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds collectives without a type, size or group."""
    is_collective = piece.trace.is_type(_T.COMM_COLL_NODE)
    if not is_collective.any():
        return
    kind = piece.values("comm_type", -1)
    without = is_collective & piece.lacks("comm_type")
    yield _where("missing-comm-type", without, "a collective without comm_type (int64_val)")
    odd = np.flatnonzero(
        is_collective & piece.trace.has("comm_type") & ((kind < 0) | (kind > max(CollectiveType)))
    )
    yield Hit(
        "unknown-comm-type", odd, lambda row: f"comm_type {kind[row]} is not in the schema; kept"
    )
    sized = is_collective & (kind != CollectiveType.BARRIER)
    yield _where(
        "missing-comm-size",
        sized & piece.lacks("comm_size"),
        "a collective without comm_size (int64_val, bytes)",
    )
    yield _where(
        "missing-group",
        is_collective & piece.lacks("pg_name"),
        'a collective without pg_name (string_val; "" says all ranks)',
    )


def messages(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds sends and receives without a size or a peer."""
    is_message = piece.trace.is_type(*_MESSAGE)
    if not is_message.any():
        return
    yield _where(
        "missing-comm-size",
        is_message & piece.lacks("comm_size"),
        "a message without comm_size (int64_val, bytes)",
    )
    for kind, name in zip(_MESSAGE, ("comm_dst", "comm_src"), strict=True):
        bare = piece.trace.is_type(kind) & piece.lacks(name)
        yield _where("missing-peer", bare, f"a {kind.name} without {name} (int32_val, a rank)")
    for name in ("comm_src", "comm_dst"):
        yield _negative(piece, name, "negative-peer")


def members(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds known attributes in another oneof member than the vocabulary's."""
    layouts = piece.trace.layout_rows
    for (name, member), numbers in misplaced(piece.trace).items():
        rows = np.flatnonzero(np.isin(layouts, numbers))
        yield _misplaced_hit(rows, name, member)


def _misplaced_hit(rows: I64, name: str, member: int) -> Hit:
    expected = by_name()[name].member.name
    text = f"{name} is written as {Member(member).name}; tools that read {expected} do not see it"
    return Hit("attribute-member", rows, lambda _row: text)


def misplaced(trace: Trace) -> dict[tuple[str, int], list[int]]:
    """(attribute, wrong member) → numbers of the layouts that have the attribute in that member."""
    layout_numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    used = np.unique(trace.layout_rows).tolist()
    vocabulary = by_name()
    for number in used:
        for name, member in trace.layouts.items[number].entries:
            if name in vocabulary and member != vocabulary[name].member:
                layout_numbers[name, member].append(number)
    return layout_numbers


def unreadable(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds known attributes that had to be kept as bytes."""
    by_code: dict[str, list[RawAttribute]] = defaultdict(list)
    for attribute in piece.raw:
        by_code[attribute.code].append(attribute)
    for code, attributes in by_code.items():
        # A row can have several: they are told one after another, as often as the row comes.
        texts = iter([f"{a.name} {a.why}" for a in attributes])
        yield Hit(code, np.array([a.row for a in attributes]), lambda _row, t=texts: next(t))  # type: ignore[misc]


def unknown_fields(piece: CheckedPiece) -> Iterator[Hit]:
    """Finds fields that the schema does not have."""
    has = piece.trace.has("_unknown")
    yield _where("unknown-fields", has, "has fields the schema does not have; they are kept")


RULES = (types, names, times, sizes, collectives, messages, members, unreadable, unknown_fields)
