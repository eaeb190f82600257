"""Card: who made a trace or run, from what, under which settings, with which measured figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from chakrakit.configuration import read_json
from chakrakit.results import short_repr
from chakrakit.trace.files import BundlePath


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Free to extend: what has no field of its own goes into `settings`, `measured` or `extra`."""

    name: str = "trace"
    kind: str = "traces"
    """`traces` or `run`."""
    tool: str = ""
    source: list[str] = []
    """Files or commands it was made from."""
    settings: dict[str, Any] = {}
    measured: dict[str, Any] = {}
    passes: list[str] = []
    """What was done to it since, in order."""
    epoch_ns: int = 0
    tick_ps: Annotated[int, msgspec.Meta(ge=1)] = 1000
    partial: list[int] = []
    """Ranks known from the groups that were not recorded."""
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        return short_repr(self)

    def replace(self, **changes: Any) -> Card:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


def write_card(card: Card, path: Path) -> None:
    """Indented, so that people can read it."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")


def read_card(path: Path | BundlePath) -> Card:
    """A card file, with errors that say which field is wrong."""
    return read_json(path, Card, "a card")
