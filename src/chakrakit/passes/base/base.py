"""Pass: traces in, traces out. How a pass is spelled as text, and the ways to change every body once."""

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

# --- spelling: `name{field=value, field=[a, b]}`, or `name:field=value,field=[a,b]` --------------

_SPEC = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\{(.*)\}|:(.*))?\s*", re.DOTALL)
"""Braces, or a colon, which no shell expands where somebody forgot the quotes."""
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+(?::+[A-Za-z0-9_./-]+)*")
"""Text that YAML reads as it stands, without quotes, in any place."""
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
    """Splits `name{field=value}` or `name:field=value` into a name and fields.

    Numbers stay text; the fields' types decide later. `option` is the command-line option that the text
    came from; errors name it.
    """
    name, inside = head_and_inside(spec, option)
    return name, dict(_field(part, spec, option) for part in _parts(inside, spec, option))


def head_and_inside(spec: str, option: str = "--pass") -> tuple[str, str]:
    """The name of a spelling, and the text of its fields."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ConfigError(
            f"{option} {spec!r}: should look like name, name{{field=value, field=[a, b]}} in quotes, or "
            "name:field=value,field=[a,b]"
        )
    name, braced, after_colon = match.groups()
    return name, braced or after_colon or ""


def _field(part: str, spec: str, option: str) -> tuple[str, Any]:
    field, equals, text = part.partition("=")
    if not equals or not field.strip():
        raise ConfigError(f"{option} {spec!r}: {part.strip()!r} should be field=value")
    return field.strip().replace("-", "_"), _read(text.strip(), spec, option)


def _read(text: str, spec: str, option: str) -> Any:
    """Reads a value in YAML's flow style; anything but a list, a mapping or quoted text stays text."""
    if text[:1] not in ("[", "{", '"', "'"):
        return text
    return decode_yaml(text, f"{option} {spec!r}: cannot read {text!r}", typed=False)


def _parts(inside: str, spec: str, option: str) -> Iterator[str]:
    """Cuts the text at commas that are outside of brackets and quotes."""
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
    """The name on the command line, in kebab case."""
    preserves: ClassVar[str]
    """What is the same before and after, in words; tests check it."""

    @abstractmethod
    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the changed traces; the original ones are not touched."""

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Says what the pass did to these traces, as plain data for people and for `--json`."""
        return {}

    def __ror__(self, traces: TraceSet) -> TraceSet:
        after = self.apply(traces)
        return after.with_card(after.card.replace(passes=[*after.card.passes, str(self)]))

    def __str__(self) -> str:
        """Spells the pass as on the command line; fields at their defaults are left out."""
        changed_fields = {
            field.name: value
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, field.name)) != default_of(field)
        }
        return spelled(self.name, changed_fields)


def default_of(field: dataclasses.Field[Any]) -> object:
    """Returns a field's default, or dataclasses.MISSING where there is none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def map_bodies(traces: TraceSet, change: Change) -> TraceSet:
    """Returns the same ranks with every body changed once, when it is first used.

    A run's times are dropped.
    """
    return with_bodies(traces, _changed_bodies(traces, change))


def with_bodies(traces: TraceSet, bodies: Sequence[Body]) -> TraceSet:
    """Returns the same ranks with body i replaced by `bodies[i]`. A run's times are dropped."""
    return TraceSet(bodies, traces.bindings, traces.groups, traces.card.replace(kind="traces"))


def narrow(traces: TraceSet, change: Change) -> TraceSet:
    """Does what `map_bodies` does for a change that only removes nodes.

    A run keeps the times of the others.
    """
    if not isinstance(traces, Run):
        return map_bodies(traces, change)
    bodies = _changed_bodies(traces, change)
    run = Run(bodies, traces.bindings, traces.groups, traces.card, counters=traces.counters)
    if traces.times is None:
        return run
    first = {number: rank for rank, number in reversed(traces.timing.items())}
    times = [
        _times_of_remaining(traces, run, first[i]) if i in first else t
        for i, t in enumerate(traces.times)
    ]
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


def _times_of_remaining(before: Run, after: Run, rank: int) -> Times:
    """Returns the times of the nodes that remain, without what each waited for, which may be gone."""
    old, new = before.body(rank).ids, after.body(rank).ids
    order = np.argsort(old, kind="stable")
    rows = order[np.searchsorted(old, new, sorter=order)]
    times = before.times_of(rank)
    return Times(times.start[rows], times.end[rows])
