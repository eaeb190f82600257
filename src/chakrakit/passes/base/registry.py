"""The passes by name, listed for people and read from text or YAML; a pass is imported when first used."""

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
    "unsync": "unsync:Unsync",
    "recost": "recost:Recost",
    "scale-ranks": "scale:ScaleRanks",
    "comm": "comm:Comm",
    "storage": "storage:Storage",
    "launched": "launched:Launched",
    "graphed": "fused:Graphed",
    "fused-optimizer": "fused:FusedOptimizer",
    "fused-attention": "fused:FusedAttention",
    "channels-last": "fused:ChannelsLast",
    "ahead": "fused:Ahead",
    "units": "units:Units",
    "offload": "tiers:Offload",
    "cache": "tiers:Cache",
    "split": "directives:SplitBatch",
    "place": "directives:Place",
    "replicate": "directives:Replicate",
    "shard": "directives:Shard",
    "order": "directives:Order",
    "stream": "directives:Stream",
    "portable": "portable:Portable",
    "anonymize": "anonymize:Anonymize",
}
"""Name → module of passes and class in it."""


def pass_class(name: str) -> type[Pass]:
    """Returns the class of a pass; a ConfigError names the nearest pass there is."""
    if name not in PASSES:
        raise ConfigError(f"no pass {name!r}; {nearest(name, PASSES)}")
    module, _, class_name = PASSES[name].partition(":")
    pass_type: type[Pass] = getattr(import_module(f"chakrakit.passes.{module}"), class_name)
    return pass_type


# --- the list of passes -------------------------------------------------------------------------


class ListedPass(Result, msgspec.Struct):
    """One pass: what it does, its fields, and what it preserves."""

    name: str
    what: str
    fields: dict[str, str]
    """Field → its type, and its default where it has one."""
    preserves: str


class PassList(Result, msgspec.Struct):
    """All passes."""

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
    summary = (kind.__doc__ or "").strip().splitlines()[0]
    fields = {f.name: _described(f) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return ListedPass(kind.name, summary, fields, kind.preserves)


def _described(field: dataclasses.Field[Any]) -> str:
    default = default_of(field)
    return str(field.type) if default is dataclasses.MISSING else f"{field.type} = {default!r}"


# --- from text and YAML to passes ---------------------------------------------------------------

_MOST = 256
"""The most passes in one list. Each reads all traces, so a longer list is more likely a mistake than a
plan."""


def parse(spec: str) -> Pass:
    """Reads `name{field=value, …}` or `name:field=value,…` as a pass."""
    name, fields = split(spec)
    return make(name, fields, f"--pass {spec!r}")


def read_passes(path: str | Path) -> list[Pass]:
    """Reads a YAML list of passes: `- compact`, `- edit{scale=2}` or `- edit: {scale: 2}`."""
    entries = decode_yaml(read_text_file(path), str(path), typed=False)
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: should be a list of passes, such as '- compact'")
    if len(entries) > _MOST:
        raise ConfigError(f"{path}: has {len(entries):,} passes; {_MOST} is the most")
    return [_entry(entry, f"{path}: pass {i}") for i, entry in enumerate(entries, 1)]


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
    """Builds a pass from plain values, which may all be text.

    Errors say which field of which pass is wrong.
    """
    try:
        kind = pass_class(name)
        _check_fields(kind, fields)
        _one_of(kind, fields)
        return msgspec.convert(_spec_listed(kind, fields), kind, strict=False)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: {error}".replace("`$.", "`")) from None


def _spec_listed(kind: type[Pass], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields.

    Where a field takes a list, a single value becomes a list of one: `ranks=3` is `ranks=[3]`.
    """
    hints = get_type_hints(kind)
    lists = {name for name, hint in hints.items() if get_origin(hint) is tuple}
    return {
        name: [value] if name in lists and not isinstance(value, (list, tuple)) else value
        for name, value in fields.items()
    }


def _one_of(kind: type[Pass], fields: Mapping[str, Any]) -> None:
    """Refuses a word that is not one of a field's choices."""
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is Literal and name in fields and fields[name] not in get_args(hint):
            raise ConfigError(
                f"{kind.name}: {name} is {fields[name]!r}; {nearest(fields[name], get_args(hint))}"
            )


def _check_fields(kind: type[Pass], fields: Mapping[str, Any]) -> None:
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for field in fields:
        if field not in names:
            raise ConfigError(f"{kind.name} has no field {field!r}; {nearest(field, names)}")
