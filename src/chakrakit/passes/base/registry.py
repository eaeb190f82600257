"""The passes by name; a pass is imported when it is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from chakrakit.configuration import decode_yaml, read_text_file
from chakrakit.errors import ConfigError, nearest
from chakrakit.passes.base.base import Pass, default_of, split
from chakrakit.results import Result

if TYPE_CHECKING:
    from chakrakit.passes.base.base import Pass

PASSES = {
    "select": "select:Select",
    "compact": "compact:Compact",
    "edit": "edit:Edit",
    "recost": "recost:Recost",
    "scale-ranks": "scale:ScaleRanks",
    "comm": "comm:Comm",
    "storage": "storage:Storage",
    "portable": "portable:Portable",
    "anonymize": "anonymize:Anonymize",
}
"""Name → module of passes and class in it."""


def pass_class(name: str) -> type[Pass]:
    """The class of a pass; a ConfigError names the nearest there is."""
    if name not in PASSES:
        raise ConfigError(f"no pass {name!r}; {nearest(name, PASSES)}")
    module, _, made = PASSES[name].partition(":")
    found: type[Pass] = getattr(import_module(f"chakrakit.passes.{module}"), made)
    return found


# The passes there are, for people and programs that choose one.


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


# From text and YAML to passes, with errors that say which field of which pass is wrong.


_MOST = 256
"""Passes of one list: each goes over all traces."""


def parse(spec: str) -> Pass:
    """`name{field=value, …}` as a pass."""
    name, fields = split(spec)
    return make(name, fields, f"--pass {spec!r}")


def read_passes(path: str | Path) -> list[Pass]:
    """A YAML list of passes: `- compact`, `- edit{scale=2}` or `- edit: {scale: 2}`."""
    found = decode_yaml(read_text_file(path), str(path), typed=False)
    if not isinstance(found, list):
        raise ConfigError(f"{path}: should be a list of passes, such as '- compact'")
    if len(found) > _MOST:
        raise ConfigError(f"{path}: has {len(found):,} passes; {_MOST} is the most")
    return [_entry(entry, f"{path}: pass {i}") for i, entry in enumerate(found, 1)]


def _entry(entry: Any, place: str) -> Pass:
    if isinstance(entry, str):
        name, fields = split(entry)
    elif isinstance(entry, dict) and len(entry) == 1:
        name, fields = next(iter(entry.items()))
        fields = {str(k).replace("-", "_"): v for k, v in _mapping(fields, place).items()}
    else:
        raise ConfigError(f"{place} should be name{{field=value}} or name: {{field: value}}")
    return make(str(name), fields, place)


def _mapping(fields: Any, place: str) -> Mapping[str, Any]:
    if fields in ("", None):
        return {}
    if not isinstance(fields, dict):
        raise ConfigError(f"{place} should have its fields as a mapping, field: value")
    return fields


def make(name: str, fields: Mapping[str, Any], place: str) -> Pass:
    """A pass from plain values, which may all be text."""
    try:
        kind = pass_class(name)
        _known(kind, fields)
        _one_of(kind, fields)
        return msgspec.convert(_spec_listed(kind, fields), kind, strict=False)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: {error}".replace("`$.", "`")) from None


def _spec_listed(kind: type[Pass], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with one value made a list of one where a list is wanted: `ranks=3` is `ranks=[3]`."""
    hints = get_type_hints(kind)
    lists = {name for name, hint in hints.items() if get_origin(hint) is tuple}
    return {
        name: [value] if name in lists and not isinstance(value, (list, tuple)) else value
        for name, value in fields.items()
    }


def _one_of(kind: type[Pass], fields: Mapping[str, Any]) -> None:
    """A field with a few possible words has one of them."""
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is Literal and name in fields and fields[name] not in get_args(hint):
            raise ConfigError(
                f"{kind.name}: {name} is {fields[name]!r}; {nearest(fields[name], get_args(hint))}"
            )


def _known(kind: type[Pass], fields: Mapping[str, Any]) -> None:
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for field in fields:
        if field not in names:
            raise ConfigError(f"{kind.name} has no field {field!r}; {nearest(field, names)}")
