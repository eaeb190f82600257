"""Cards as people write them for CCL-Bench: what has no field, or does not fit one, is kept under `extra`.

Real cards leave fields null or empty, write a bandwidth as text, one text for a list, the model's numbers
beside its architecture, and fields of their own. A field that is nearly the name of another is a mistake
and refused.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

_ALIKE = 0.85
"""How alike two names are, by difflib, for one to be a misspelling of the other."""
_MOST = 10_000
"""Fields of a card, all sections together."""


def fitted(content: Mapping[str, Any], card: type[msgspec.Struct]) -> dict[str, Any]:
    """The card's fields as they fit, and what does not under `extra` by its whole name."""
    others: dict[str, Any] = {}
    sections = _section(dict(content), card, "", others)
    if not others:
        return sections
    kept = sections.get("extra")
    return {**sections, "extra": {**(kept if isinstance(kept, dict) else {}), **others}}


def _section(
    content: dict[str, Any], struct: type[msgspec.Struct], where: str, others: dict[str, Any]
) -> dict[str, Any]:
    known = {f.encode_name: f.type for f in msgspec.structs.fields(struct)}
    content = _architecture(content, known)
    out: dict[str, Any] = {}
    for name, value in content.items():
        if value is None or value in ("", [], {}) or value == [None]:
            continue
        if name not in known:
            if get_close_matches(str(name), known, 1, _ALIKE) or len(others) > _MOST:
                out[name] = value  # refused, with the name that was meant
            else:
                others[f"{where}{name}"] = value
        elif (inner := _struct_of(known[name])) is not None and isinstance(value, dict):
            out[name] = _section(value, inner, f"{where}{name}.", others)
        elif (fitting := _fitting(value, known[name])) is not None:
            out[name] = fitting
        elif inner is not None or (isinstance(value, list | dict) and not _takes_list(known[name])):
            out[name] = value  # refused: a section, or one value, belongs there
        else:
            others[f"{where}{name}"] = value
    return out


def _architecture(content: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The model's numbers, which some write beside `model_arch`, inside it."""
    arch = _struct_of(known.get("model_arch"))
    if arch is None:
        return content
    names = {f.encode_name for f in msgspec.structs.fields(arch)}
    beside = {k: v for k, v in content.items() if k in names and k not in known}
    inside = content.get("model_arch")
    merged = {**beside, **(inside if isinstance(inside, dict) else {})}
    rest = {k: v for k, v in content.items() if k not in beside}
    return {**rest, "model_arch": merged} if merged else rest


def _struct_of(annotation: Any) -> type[msgspec.Struct] | None:
    for part in (annotation, *typing.get_args(annotation)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return part
    return None


def _takes_list(annotation: Any) -> bool:
    return any(typing.get_origin(part) is list for part in typing.get_args(annotation))


def _fitting(value: Any, annotation: Any) -> Any:
    """The value as its field takes it; None where it cannot."""
    candidates = [value]
    if _takes_list(annotation):
        items = value if isinstance(value, list) else [value]
        candidates.append([item for item in items if item is not None])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        candidates.append(str(value))
    for candidate in candidates:
        try:
            return msgspec.convert(candidate, annotation)
        except msgspec.ValidationError:
            continue
    return None
