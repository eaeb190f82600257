"""A recorded launch of a CUDA graph as the operators that were captured in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from chakrakit.replayer.compile.builder import Builder
from chakrakit.replayer.compile.from_shapes import Written, made_call
from chakrakit.replayer.compile.pool import Pool
from chakrakit.replayer.plan import Call, StandIn, Unsupported
from chakrakit.replayer.recording import Recording, Unit
from chakrakit.replayer.runner import ALLOWED


@dataclass(frozen=True)
class _Captured:
    """One call of a capture, and its rows on the device."""

    call: Written
    rows: list[int]


class GraphMaker:
    """Makes the steps of graph launches; the graphs of a plan are numbered from 1."""

    def __init__(self, seen: Recording, build: Builder) -> None:
        self.seen, self.build = seen, build
        self.pool = Pool(seen.main_device)
        self._number = 0

    def is_graph(self, unit: Unit) -> bool:
        """Whether a unit launched kernels of which a capture says what they work for."""
        operators = self.seen.texts("operator")
        return not self.seen.schemas[unit.row] and any(operators[k] for k in unit.kernels)

    def steps(self, unit: Unit) -> Iterator[tuple[Call | StandIn, int]]:
        """The steps of a launch, each with the recorded time of its kernels."""
        self._number += 1
        for captured in self._calls(unit):
            ns = sum(int(self.seen.trace.duration_ns[k]) for k in captured.rows)
            self.pool.begin()
            step: Call | StandIn
            try:
                step = self._call(captured, unit)
                step.ns = ns
            except Unsupported as why:
                named = captured.call.name or self.seen.names[captured.rows[0]]
                step = StandIn(name=f"{named} ({why})", device_ns=ns)
            step.graph = self._number
            yield step, ns

    def _call(self, captured: _Captured, unit: Unit) -> Call:
        name = captured.call.name
        if name.removeprefix("aten::") not in ALLOWED or "::" not in name:
            raise Unsupported("not an operator that a replay calls")
        return made_call(
            captured.call,
            lambda dtype, shape, strides: self.build.use(
                self.pool.tensor(dtype, shape, strides), unit
            ),
        )

    def _calls(self, unit: Unit) -> list[_Captured]:
        """Kernels together that one call launched, in the order of the capture."""
        told = {k: self._told(k) for k in unit.kernels}
        found: dict[Any, _Captured] = {}
        for row in sorted(unit.kernels, key=lambda k: (told[k][0], k)):
            number, strides, values = told[row]
            key = number if number >= 0 else ("row", row)
            if key not in found:
                shapes, types = (self._list(f"inputs_{what}", row) for what in ("shapes", "types"))
                name = self.seen.texts("operator")[row]
                found[key] = _Captured(Written(name, shapes, types, strides, values), [])
            found[key].rows.append(row)
        return list(found.values())

    def _told(self, row: int) -> tuple[int, list[Any], list[Any]]:
        text = self.seen.texts("operator_call")[row]
        try:
            return msgspec.json.decode(text, type=tuple[int, list[Any], list[Any]])
        except msgspec.MsgspecError:
            return -1, [], []

    def _list(self, column: str, row: int) -> list[Any]:
        text = self.seen.texts(column)[row]
        try:
            return msgspec.json.decode(text, type=list[Any]) if text else []
        except msgspec.MsgspecError:
            return []
