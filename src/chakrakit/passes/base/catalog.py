"""The passes there are, for people and programs that choose one."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from chakrakit.passes.base.base import Pass, default_of
from chakrakit.passes.base.registry import PASSES, pass_class
from chakrakit.results import Result


class ListedPass(Result, msgspec.Struct):
    """One pass: what it does, its fields, and what it preserves."""

    name: str
    what: str
    fields: dict[str, str]
    """Field → its type, and its default where it has one."""
    preserves: str


class PassList(Result, msgspec.Struct):
    """Every pass that there is."""

    passes: list[ListedPass]


def list_passes() -> PassList:
    """List the passes that `transform` knows by name, with their fields and what each preserves.

    Examples
    --------
    >>> [p.what for p in ck.list_passes().passes if p.name == "compact"]
    ['Merge host nodes that carry no edge of their own.']

    """
    return PassList([_listed(pass_class(name)) for name in PASSES])


def _listed(kind: type[Pass]) -> ListedPass:
    what = (kind.__doc__ or "").strip().splitlines()[0]
    fields = {f.name: _described(f) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return ListedPass(kind.name, what, fields, kind.preserves)


def _described(field: dataclasses.Field[Any]) -> str:
    default = default_of(field)
    return str(field.type) if default is dataclasses.MISSING else f"{field.type} = {default!r}"
