"""Pass: traces in, traces out. What a pass is, and the ways to change every body once."""

from __future__ import annotations

import dataclasses
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from chakrakit.configuration import decode_yaml
from chakrakit.errors import ConfigError
from chakrakit.trace.communication import Body
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, Times, TraceSet

# How a pass is written: `name{field=value, field=[a, b]}`, to text and back to plain values.


_SPEC = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+(?::+[A-Za-z0-9_./-]+)*")
"""Text that YAML reads as itself, whatever stands around it."""
_PAIRS = {"[": "]", "{": "}"}


def spelled(name: str, fields: Mapping[str, Any]) -> str:
    """A pass and its fields as text; `split` reads it back."""
    inside = ", ".join(f"{field}={_value(value)}" for field, value in fields.items())
    return f"{name}{{{inside}}}" if inside else name


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_value(k)}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else f'"{"".join(map(_escaped, value))}"'
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return _value(str(value.name))  # a Machine, say, is known by its name


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def split(spec: str, option: str = "--pass") -> tuple[str, dict[str, Any]]:
    """A name and its fields; numbers are still text, which the fields' types decide.

    `option` is where the text was given, for errors.
    """
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise ConfigError(
            f"{option} {spec!r}: should look like name or name{{field=value, field=[a, b]}}"
        )
    name, inside = found.groups()
    return name, dict(_field(part, spec, option) for part in _parts(inside or "", spec, option))


def _field(part: str, spec: str, option: str) -> tuple[str, Any]:
    field, equals, text = part.partition("=")
    if not equals or not field.strip():
        raise ConfigError(f"{option} {spec!r}: {part.strip()!r} should be field=value")
    return field.strip().replace("-", "_"), _read(text.strip(), spec, option)


def _read(text: str, spec: str, option: str) -> Any:
    """A value in YAML's flow style; what is no list, mapping or quoted text is taken as it stands."""
    if text[:1] not in ("[", "{", '"', "'"):
        return text
    return decode_yaml(text, f"{option} {spec!r}: cannot read {text!r}", typed=False)


def _parts(inside: str, spec: str, option: str) -> Iterator[str]:
    """Cut at the commas that stand in no bracket and no quotes."""
    closers: list[str] = []
    quote, begin, before = "", 0, ""
    for place, char in enumerate(inside):
        if quote:
            quote = "" if char == quote and before != "\\" else quote
        elif char in "\"'" and (closers or before in "=,[{: "):
            quote = char
        elif char in _PAIRS:
            closers.append(_PAIRS[char])
        elif closers and char == closers[-1]:
            closers.pop()
        elif char == "," and not closers:
            yield inside[begin:place]
            begin = place + 1
        before = "" if before == "\\" and char == "\\" else char
    if quote or closers:
        raise ConfigError(f"{option} {spec!r}: {quote or closers[-1]} is missing")
    if inside[begin:].strip() or begin:
        yield inside[begin:]


Change = Callable[[Trace], Trace]


class Pass(ABC):
    """A change to traces: pure, and small enough to say what it preserves.

    A subclass is a frozen dataclass. Its fields are its options, in Python, on the command line and
    in YAML. `traces | Pass(…)` applies it and notes its spelling in the card. Bodies are changed,
    not ranks, so that a folded set stays folded and costs what its bodies cost.

    A Run in gives a Run out where the times of the nodes that stay are still true (`select`,
    `compact`). Every other pass gives traces to be timed again: recorded starts stay in the nodes,
    where they only tell the order in which work was issued.
    """

    name: ClassVar[str]
    """In kebab case, as the command line has it."""
    preserves: ClassVar[str]
    """What is the same before and after, in words; the tests hold it."""

    @abstractmethod
    def apply(self, traces: TraceSet) -> TraceSet:
        """The changed traces; the ones given stay as they are."""

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """What it did to these traces, as plain data for people and for `--json`."""
        return {}

    def __ror__(self, traces: TraceSet) -> TraceSet:
        after = self.apply(traces)
        return after.with_card(after.card.replace(passes=[*after.card.passes, str(self)]))

    def __str__(self) -> str:
        """As the command line spells it; fields at their defaults are left out."""
        given = {
            field.name: value
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, field.name)) != default_of(field)
        }
        return spelled(self.name, given)


def default_of(field: dataclasses.Field[Any]) -> object:
    """A field's default; dataclasses.MISSING where it must be given."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def map_bodies(traces: TraceSet, change: Change) -> TraceSet:
    """The same ranks with every body changed once, when it is first used; a run's times are let go."""
    return with_bodies(traces, _changed_bodies(traces, change))


def with_bodies(traces: TraceSet, bodies: Sequence[Body]) -> TraceSet:
    """The same ranks running other bodies, number by number; a run's times are let go."""
    return TraceSet(bodies, traces.bindings, traces.groups, traces.card.replace(kind="traces"))


def narrow(traces: TraceSet, change: Change) -> TraceSet:
    """As `map_bodies`, for a change that only leaves nodes out: a run keeps the times of the others."""
    if not isinstance(traces, Run):
        return map_bodies(traces, change)
    bodies = _changed_bodies(traces, change)
    run = Run(bodies, traces.bindings, traces.groups, traces.card, counters=traces.counters)
    if traces.times is None:
        return run
    first = {number: rank for rank, number in reversed(traces.timing.items())}
    times = [_kept(traces, run, first[i]) if i in first else t for i, t in enumerate(traces.times)]
    return Run(
        bodies,
        run.bindings,
        run.groups,
        run.card,
        times=times,
        timing=traces.timing,
        counters=traces.counters,
    )


def _changed_bodies(traces: TraceSet, change: Change) -> list[Body]:
    return [partial(_changed, traces, number, change) for number in range(traces.body_count)]


def _changed(traces: TraceSet, number: int, change: Change) -> Trace:
    return change(traces.body_at(number))


def _kept(before: Run, after: Run, rank: int) -> Times:
    """The times of the nodes that are still there. What each waited for may not be."""
    old, new = before.body(rank).ids, after.body(rank).ids
    order = np.argsort(old, kind="stable")
    rows = order[np.searchsorted(old, new, sorter=order)]
    times = before.times_of(rank)
    return Times(times.start[rows], times.end[rows])
