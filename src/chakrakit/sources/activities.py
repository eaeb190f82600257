"""Any tracer's host and device events, gathered as the columns that Kineto's reader gives.

Matching, nesting and ordering are decided once, on these columns; a reader of another format only has to
add its events to an `Activities`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.read import (
    NUMBERS,
    TEXTS,
    Extras,
    Flows,
    Kind,
    Kineto,
    TextPool,
    check_times,
)

Numbers = int | Sequence[int] | NDArray[np.int64]


class TextTable:
    """Distinct texts with a number each; the empty one is 0."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {"": 0}

    def numbers(self, values: Iterable[str]) -> NDArray[np.int32]:
        """The number of each text; new ones are added."""
        number_of = self._number
        return np.array([number_of.setdefault(v, len(number_of)) for v in values], np.int32)

    def number(self, value: str) -> int:
        """The number of one text."""
        return self._number.setdefault(value, len(self._number))

    def texts(self) -> TextPool:
        """All texts as one pool, in the order of their numbers."""
        encoded = [s.encode("utf-8", "replace") for s in self._number]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(e) for e in encoded], out=offsets[1:])
        return TextPool(np.frombuffer(b"".join(encoded), np.uint8), offsets)


@dataclass
class Activities:
    """Events in the order they are added; numbers that a format does not give are -1.

    Numbers that do not fit into 64 bits, and times that no clock shows, are errors of the file at `path`.
    """

    path: str = ""
    texts: TextTable = field(default_factory=TextTable)
    left_out: Counter[str] = field(default_factory=Counter)
    _parts: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    _facts: list[tuple[int, int, int]] = field(default_factory=list)
    _length: int = 0
    endless: int = 0
    """Events whose end was lost, which count as moments."""

    def add(
        self,
        kind: Kind | NDArray[np.int8],
        name: Sequence[str],
        start: Numbers,
        end: Numbers,
        **columns: Any,
    ) -> int:
        """Add events; `columns` are numbers by name, or lists of texts. Returns the first event's row."""
        begin = self._whole(start, "start")
        n = len(begin)
        part: dict[str, NDArray[Any]] = {
            "kind": np.broadcast_to(np.asarray(kind, np.int8), (n,)),
            "name": self.texts.numbers(name),
            "start": begin,
            "end": self._ends(end, begin),
        }
        for key in NUMBERS:
            part[key] = np.broadcast_to(self._whole(columns.get(key, -1), key), (n,))
        for key in TEXTS:
            column = columns.get(key)
            part[key] = np.zeros(n, np.int32) if column is None else self.texts.numbers(column)
        first = self._length
        self._parts.append(part)
        self._length += n
        return first

    def _ends(self, end: Numbers, begin: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ends, none before its start: a tracer that lost an event's end says 0, or less than its start."""
        ends = self._whole(end, "end")
        self.endless += int((ends < begin).sum())
        return np.maximum(ends, begin)

    def _whole(self, values: Numbers, column: str) -> NDArray[np.int64]:
        try:
            return np.asarray(values, np.int64)
        except (OverflowError, TypeError, ValueError):
            raise FormatError(
                f"a number ({column}) does not fit into 64 bits; the file is damaged",
                path=self.path or None,
            ) from None

    def say(self, row: int, key: str, value: object) -> None:
        """Note a fact about one event, for facts that only few events have."""
        self._facts.append((row, self.texts.number(key), self.texts.number(str(value))))

    def leave_out(self, description: str, count: int = 1) -> None:
        """Count events that do not become part of the trace, by what they are."""
        if count:
            self.left_out[description] += count

    def kineto(
        self,
        base_ns: int,
        *,
        host_name: str = "",
        distributed: Mapping[str, Any] | None = None,
        devices: Sequence[Mapping[str, Any]] = (),
        truncated: bool = False,
        dropped: int = 0,
    ) -> Kineto:
        """Everything added so far, in the form that Kineto's reader gives."""
        names = ("kind", "name", "start", "end", *NUMBERS, *TEXTS)
        whole = {c: _joined([p[c] for p in self._parts], c) for c in names}
        facts = np.array(self._facts or np.zeros((0, 3)), np.int32).reshape(-1, 3).T
        check_times(whole["start"], whole["end"] - whole["start"], base_ns, self.path)
        texts = self.texts.texts()
        none = np.zeros(0, np.int64)
        return Kineto(
            **{c: whole[c] for c in ("kind", "name", "start", "end", *NUMBERS)},
            text_columns={c: whole[c] for c in TEXTS},
            extras=Extras(facts[0].copy(), facts[1].copy(), facts[2].copy(), texts),
            flows=Flows(none, none, none, none),
            texts=texts,
            base_ns=base_ns,
            host_name=host_name,
            distributed=dict(distributed or {}),
            devices=[dict(d) for d in devices],
            left_out=dict(self.left_out),
            truncated=truncated,
            repaired=0,
            dropped=dropped,
            endless=self.endless,
        )


_TYPES = {"kind": np.int8, "name": np.int32, **dict.fromkeys(TEXTS, np.int32)}


def _joined(parts: list[NDArray[Any]], column: str) -> NDArray[Any]:
    if not parts:
        return np.zeros(0, _TYPES.get(column, np.int64))
    return np.concatenate(parts).astype(_TYPES.get(column, np.int64), copy=False)
