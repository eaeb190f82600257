"""Protobuf's wire form, read field by field: enough for messages whose numbers are known."""

from __future__ import annotations

from chakrakit.trace.model import wire

Value = int | bytes


class Message:
    """The fields of a message by number, in their order; numbers are ints, all else bytes."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value in wire.fields(data):
            self._fields.setdefault(number, []).append(value)

    def integer(self, number: int, default: int = 0) -> int:
        """The last value of a varint field."""
        found = self._fields.get(number)
        return found[-1] if found and isinstance(found[-1], int) else default

    def text(self, number: int) -> str:
        """The last value of a string field."""
        found = self._fields.get(number)
        last = found[-1] if found else b""
        return last.decode("utf-8", "replace") if isinstance(last, bytes) else ""

    def messages(self, number: int) -> list[Message]:
        """All values of a message field."""
        return [Message(v) for v in self._fields.get(number, ()) if isinstance(v, bytes)]

    def message(self, number: int) -> Message | None:
        """The last value of a message field."""
        found = [v for v in self._fields.get(number, ()) if isinstance(v, bytes)]
        return Message(found[-1]) if found else None

    def raw(self, number: int) -> list[bytes]:
        """All values of a length-delimited field, as they are."""
        return [v for v in self._fields.get(number, ()) if isinstance(v, bytes)]

    def integers(self, number: int) -> list[int]:
        """All values of a repeated integer field, packed or not, as signed numbers."""
        out: list[int] = []
        for value in self._fields.get(number, ()):
            out += [value] if isinstance(value, int) else _packed(value)
        return [v - (1 << 64) if v >= 1 << 63 else v for v in out]

    def __contains__(self, number: int) -> bool:
        return number in self._fields


def _packed(data: bytes) -> list[int]:
    out, at = [], 0
    while at < len(data):
        value, at = wire.read_varint(data, at)
        out.append(value)
    return out
