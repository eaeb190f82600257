"""Which rows of a recording are replayed: the outermost operators that do the work themselves.

A wrapper (an annotation, a node of autograd, an operator that only calls others) is opened: what it
called is replayed in its place, since what the backward pass needs was made inside. Whatever runs
inside a chosen row is its own affair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from chakrakit.errors import TraceError
from chakrakit.operators import PARAMETERS, is_record
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.runner import COMPOSITE, FUNCTIONAL, ISSUED, NO_WORK, REFUSED, is_listed
from chakrakit.replayer.tensors import OperatorSchema, parse_schema

_FUSED = re.compile(r"CompiledFxGraph|^triton_|inductor")
"""Code of a compiler: work that no operator says."""
_IN_PYTHON = re.compile(r"^Python(Subclass|Dispatch|TLSSnapshot)")
"""An operator on a tensor of another kind (DTensor): Python calls others on the local parts."""
_SYNCHRONIZE = re.compile(r"^(cuda|hip)(Device|Stream|Event)Synchronize$")


class Do(Enum):
    """What is done with a row."""

    OPEN = "open"
    CALL = "call"
    COLLECTIVE = "collective"
    STAND_IN = "stand-in"
    SYNCHRONIZE = "synchronize"
    INSIDE = "inside"


@dataclass
class ReplayUnit:
    """A row to replay, with the rows inside it and the device rows they launched."""

    row: int
    do: Do
    schema: OperatorSchema | None
    inside: list[int] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)


def find_units(seen: RecordedRows) -> list[ReplayUnit]:
    """Units in order of start."""
    called = _operators_called(seen)
    dispatched = _dispatched(seen)
    owner: dict[int, ReplayUnit | None] = {}
    units: list[ReplayUnit] = []
    for row in seen.order:
        if not seen.host[row]:
            continue
        outer = seen.parents[row]
        unit = owner.get(outer) if outer >= 0 else None
        if unit is None:
            do, schema = _decide(seen, row, row in called, dispatched)
            if do is not Do.OPEN:
                unit = ReplayUnit(row, do, schema)
                units.append(unit)
                if do is Do.STAND_IN and row in called:
                    unit = None  # its own time only: what it called is replayed
        else:
            unit.inside.append(row)
        owner[row] = unit
        if unit is not None:
            unit.kernels += seen.launched.get(row, [])
    return [u for u in units if u.do is not Do.INSIDE]


def _operators_called(seen: RecordedRows) -> set[int]:
    """Rows that called an operator; a call of the runtime is none."""
    return {p for row, p in enumerate(seen.parents) if p >= 0 and seen.schemas[row]}


def _dispatched(seen: RecordedRows) -> set[int]:
    """Operators that passed the call on: to Python, or to themselves for another kind of tensor."""
    found = set()
    for row, outer in enumerate(seen.parents):
        if _IN_PYTHON.match(seen.names[row]):
            found.add(outer)
        elif seen.schemas[row]:
            while outer >= 0 and not seen.schemas[outer]:
                outer = seen.parents[outer]
            if outer >= 0 and seen.schemas[outer] == seen.schemas[row]:
                found.add(outer)
    return found


def _decide(
    seen: RecordedRows, row: int, calls_others: bool, dispatched: set[int]
) -> tuple[Do, OperatorSchema | None]:
    name = seen.names[row]
    if name == PARAMETERS or is_record(name):
        return Do.INSIDE, None  # the operator that issued it is replayed
    schema = parse_schema(seen.schemas[row])
    if schema is None:
        return _decide_bare(seen, row, name), None
    if schema.namespace == "aten" and schema.name in REFUSED:
        raise TraceError(f"{seen.place(row)} {REFUSED[schema.name]}; such a trace is not replayed")
    if schema.full_name in ISSUED or schema.full_name in FUNCTIONAL:
        return Do.COLLECTIVE, schema
    if schema.full_name in NO_WORK or row in dispatched:
        return Do.OPEN, schema
    listed = is_listed(schema.full_name, schema.overload)
    made = schema.without_out
    if made is not None and is_listed(made.full_name, made.overload) and not calls_others:
        return Do.CALL, made  # memory for the result is had by calling the overload that makes it
    if listed and not (calls_others and _only_calls(schema) and row not in seen.launched):
        return Do.CALL, schema
    return (Do.OPEN if calls_others else Do.STAND_IN), schema


def _decide_bare(seen: RecordedRows, row: int, name: str) -> Do:
    """Rows without a schema: annotations, autograd, calls of the device's runtime, fused code."""
    if _SYNCHRONIZE.match(name):
        return Do.SYNCHRONIZE
    fused = seen.on_host_only and _FUSED.search(name)
    if seen.launched.get(row) or seen.backends[row] == "triton" or fused:
        return Do.STAND_IN
    return Do.OPEN


def _only_calls(schema: OperatorSchema) -> bool:
    dot = "." if schema.overload else ""
    return f"{schema.full_name}{dot}{schema.overload}" in COMPOSITE
