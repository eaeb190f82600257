"""The passes there are, for people and programs that choose one."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from chakrakit.passes.base.base import Pass, default_of
from chakrakit.passes.base.registry import PASSES, pass_class
from chakrakit.results import Result


class Listed(Result, msgspec.Struct):
    """A pass that there is."""

    name: str
    what: str
    fields: dict[str, str]
    """Field → its type, and its default where it has one."""
    preserves: str


class Listing(Result, msgspec.Struct):
    """All of them."""

    passes: list[Listed]


def listing() -> Listing:
    """Every pass with its fields and what it preserves."""
    return Listing([_listed(pass_class(name)) for name in PASSES])


def _listed(kind: type[Pass]) -> Listed:
    what = (kind.__doc__ or "").strip().splitlines()[0]
    fields = {f.name: _described(f) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return Listed(kind.name, what, fields, kind.preserves)


def _described(field: dataclasses.Field[Any]) -> str:
    default = default_of(field)
    return str(field.type) if default is dataclasses.MISSING else f"{field.type} = {default!r}"
