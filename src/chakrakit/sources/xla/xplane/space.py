"""An `xplane.pb` as planes, lines and events, with the names that their numbers stand for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.sources.xla.hlo import Message

_PLACES = (b"/host:", b"/device:", b"Task Environment", b"/task:")


def is_xplane(head: bytes) -> bool:
    """Whether a file's first bytes are those of a profile: planes of hosts and devices."""
    return head[:1] == b"\x0a" and any(place in head[:4096] for place in _PLACES)


@dataclass(frozen=True)
class Event:
    """One event in ns on the profile's clock; `stats` by name."""

    name: str
    start: int
    end: int
    stats: Mapping[str, Any]


class Plane:
    """A host or a device, or the profile's own data."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.name = message.text(2)
        self._stat_names = {m.integer(1): m.text(2) for m in _values(message.messages(5))}
        self._events = {m.integer(1): m for m in _values(message.messages(4))}

    @cached_property
    def stats(self) -> dict[str, Any]:
        """What is said of the plane itself."""
        return self._stats(self._message.messages(6))

    @cached_property
    def metadata(self) -> list[tuple[str, dict[str, Any]]]:
        """Kinds of events with what is said of each: where modules are kept."""
        return [(m.text(2), self._stats(m.messages(5))) for m in self._events.values()]

    def lines(self) -> Iterator[tuple[str, int, list[Event]]]:
        """(name, number, events) of each thread or stream."""
        for line in self._message.messages(3):
            base = line.integer(3) * 1000
            events = [self._event(m, base) for m in line.messages(4)]
            yield line.text(11) or line.text(2), line.integer(1), events

    def _event(self, message: Message, base_ps: int) -> Event:
        kind = self._events.get(message.integer(1))
        begin = base_ps + _signed(message.integer(2))
        end = begin + max(_signed(message.integer(3)), 0)
        name = (kind.text(4) or kind.text(2)) if kind is not None else ""
        shared = self._stats(kind.messages(5)) if kind is not None else {}
        return Event(name, begin // 1000, end // 1000, shared | self._stats(message.messages(4)))

    def _stats(self, messages: list[Message]) -> dict[str, Any]:
        return {self._stat_names.get(m.integer(1), ""): self._value(m) for m in messages}

    def _value(self, stat: Message) -> Any:
        if 7 in stat:  # a reference to a text that many share
            return self._stat_names.get(stat.integer(7), "")
        if 5 in stat:
            return stat.text(5)
        if stat.raw(6):
            return stat.raw(6)[-1]
        if 2 in stat and stat.raw(2):
            return struct.unpack("<d", stat.raw(2)[-1])[0]
        return _signed(stat.integer(4)) if 4 in stat else stat.integer(3)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _values(entries: list[Message]) -> Iterator[Message]:
    """The values of a map."""
    for entry in entries:
        value = entry.message(2)
        if value is not None:
            yield value


def read_planes(data: bytes, path: str = "") -> list[Plane]:
    """The planes of a profile's bytes (uncompressed)."""
    try:
        return [Plane(m) for m in Message(data).messages(1)]
    except (FormatError, struct.error, RecursionError) as error:
        raise FormatError(
            f"not a profile of XLA: {error}; give the xplane.pb that jax.profiler wrote",
            path=path or None,
        ) from None
