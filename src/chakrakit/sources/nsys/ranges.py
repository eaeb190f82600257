"""NVTX ranges: PyTorch's operators among them, and what NCCL says in its payloads."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from chakrakit.operators import json_value
from chakrakit.sources.nsys.tables import Tables
from chakrakit.sources.pytorch.read import whole

_OPERATOR = re.compile(r", (?:op_id|seq|sizes|input_op_ids) = ")
_SEQUENCE = re.compile(r", seq = (\d+)")
_NUMBER = re.compile(r", op_id = (\d+)")
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids|$)")

PUSH_POP, START_END = (59, 70), (60, 71)
"""Event types of ranges, of NVTX and of its text import."""


@dataclass(frozen=True)
class Named:
    """What a range's text says: PyTorch writes `aten::mm, seq = 5, op_id = 77, sizes = [[2, 3]]`."""

    name: str
    is_operator: bool
    sequence: int = -1
    number: int = -1
    sizes: str = ""


def named(text: str) -> Named:
    """Read PyTorch's own form of a range's text; any other text is a name."""
    found = _OPERATOR.search(text)
    if found is None:
        return Named(text, False)
    sizes = _SIZES.search(text)
    return Named(
        text[: found.start()],
        True,
        _int(_SEQUENCE.search(text)),
        _int(_NUMBER.search(text)),
        sizes[1] if sizes else "",
    )


def _int(match: re.Match[str] | None) -> int:
    number = whole(match[1]) if match else None
    return -1 if number is None else number


_FIELDS = {
    1: "c",
    2: "b",
    3: "h",
    4: "H",
    5: "i",
    6: "I",
    7: "q",
    8: "Q",
    13: "f",
    14: "d",
    18: "Q",
    19: "Q",
    22: "Q",
}
"""Payload entry types to their binary form; others are not decoded."""


@dataclass
class Payloads:
    """Layouts of binary payloads by (domain, schema), as far as every field has a known form."""

    layouts: dict[tuple[int, int], list[tuple[str, str, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Tables) -> Payloads:
        """The layouts an export lists."""
        columns = ("domainId", "schemaId", "idx", "type", "name", "offset")
        table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
        whole = partial(tables.whole, table=table, missing=0)
        seen: dict[tuple[int, int], dict[int, tuple[str, str, int]]] = {}
        for domain, schema, idx, kind, name, offset in tables.rows(table, columns):
            form = _FIELDS.get(whole(kind), "")
            place = whole(domain), whole(schema)
            seen.setdefault(place, {})[whole(idx)] = (str(name or ""), form, whole(offset))
        return cls({key: [fields[i] for i in sorted(fields)] for key, fields in seen.items()})

    def facts(self, domain: int, text: Any, binary: Any) -> dict[str, Any]:
        """A range's payload by the names of its fields, from its JSON or its bytes."""
        if isinstance(text, str) and text:
            return _from_json(text)
        if isinstance(binary, bytes) and len(binary) >= _HEAD.size:
            schema, _ = _HEAD.unpack_from(binary)
            layout = self.layouts.get((domain, schema & 0xFFFFFFFF), [])
            return _from_bytes(binary[_HEAD.size :], layout)
        return {}


_HEAD = struct.Struct("<QQ")


def _from_json(text: str) -> dict[str, Any]:
    found = json_value(text)
    while isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, dict) else {}


def _from_bytes(data: bytes, layout: list[tuple[str, str, int]]) -> dict[str, Any]:
    out = {}
    for name, form, offset in layout:
        if form and 0 <= offset <= len(data) - struct.calcsize("<" + form):
            out[name] = struct.unpack_from("<" + form, data, offset)[0]
    return out


def communication_facts(payload: Mapping[str, Any]) -> dict[str, str]:
    """NCCL's payload under the names that Kineto's records of communication use."""
    said = {str(k).lower(): v for k, v in payload.items()}
    out: dict[str, str] = {}
    for key, name in (
        ("nccl communicator id", "Process Group Name"),
        ("message size [bytes]", "Message bytes"),
        ("peer rank", "Peer"),
        ("root", "Root"),
        ("no. of ranks", "Group size"),
        ("rank", "Group rank"),
    ):
        if key in said:
            out[name] = str(said[key])
    return out
