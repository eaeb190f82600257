"""A trace's header: a version and attributes, kept as bytes so that nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

import chakrakit.core as core
from chakrakit.errors import FormatError
from chakrakit.trace.model import wire
from chakrakit.trace.model.schema import Member

GENERATED_CODE = "generated_code"
"""Attribute of a trace's header: kernels that a compiler wrote for the recorded program, as JSON."""


@dataclass(frozen=True)
class Metadata:
    """A GlobalMetadata message. `raw` is None for a file that has none."""

    raw: bytes | None = b""

    @classmethod
    def of(cls, version: str = "", **attributes: str | int | float | bool) -> Metadata:
        """A header with these attributes; integers become int64_val, text string_val, and so on."""
        body = wire.field_bytes(1, version.encode()) if version else b""
        for name, value in attributes.items():
            body += wire.field_bytes(2, wire.attribute(name, _member_of(value), value))
        return cls(body)

    @classmethod
    def checked(cls, raw: bytes | None, path: str) -> Metadata:
        """From untrusted bytes; damaged ones are a FormatError."""
        try:
            if raw:
                core.check_metadata(raw)
        except core.FormatError as error:
            raise FormatError(f"the header is damaged: {error.args[0]}", path=path) from None
        return cls(raw)

    @cached_property
    def as_dict(self) -> dict[str, Any]:
        """The message as its JSON object: `version`, `attr`."""
        if self.raw is None:
            return {}
        message: dict[str, Any] = msgspec.json.decode(core.json_metadata(self.raw))
        return message

    @property
    def version(self) -> str:
        """The writer's version text, often empty."""
        return str(self.as_dict.get("version", ""))

    @property
    def attributes(self) -> dict[str, Any]:
        """Attribute values by name."""
        return {a["name"]: _value(a) for a in self.as_dict.get("attr", [])}


def _member_of(value: object) -> Member:
    if isinstance(value, bool):
        return Member.bool_val
    if isinstance(value, int):
        return Member.int64_val
    return Member.double_val if isinstance(value, float) else Member.string_val


def _value(attribute: dict[str, Any]) -> Any:
    return next((v for k, v in attribute.items() if k.endswith(("_val", "_list"))), None)
