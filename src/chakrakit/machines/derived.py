"""Machines derived from others: a description with `base:` says only what differs from a preset.

Mappings are merged key by key and everything else is replaced. A network with as many dimensions as the
base's is merged dimension by dimension, so that `network: [{}, {bandwidth: 100 Gb/s}]` changes the outer one
alone. What is not mentioned stays: a library is never lost on the way, and goes only with `library: null`.
The base's number of `nodes` stays only where the network does not state how many places its outer one has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chakrakit.configuration import read_document
from chakrakit.errors import ConfigError, nearest

_PRESETS = Path(__file__).parent / "presets"
_DEEPEST = 8
"""Descriptions that derive from each other in a row."""


def with_base(content: Any, where: str, depth: int = 0) -> Any:
    """The description with everything that it takes over from its base."""
    if not isinstance(content, Mapping) or "base" not in content:
        return content
    name = content["base"]
    names = sorted(f.stem for f in _PRESETS.glob("*.yaml"))
    if name not in names or depth > _DEEPEST:
        raise ConfigError(f"{where}.base: {name!r} is not a preset; {nearest(str(name), names)}")
    preset = read_document(_PRESETS / f"{name}.yaml", "a preset").content
    base = with_base(preset, name, depth + 1)
    rest = {key: value for key, value in content.items() if key != "base"}
    if "nodes" not in rest and _counts_places(rest.get("network")):
        base = {key: value for key, value in base.items() if key != "nodes"}
    return _merged(base, {"name": f"{name}, changed", **rest})


def _counts_places(network: Any) -> bool:
    """Whether a network says how many places its outermost dimension has."""
    outermost = network[-1] if isinstance(network, list) and network else None
    return isinstance(outermost, Mapping) and bool({"size", "arity", "dims"} & set(outermost))


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{k: _merged(base.get(k), v) for k, v in over.items()}}
    lists = isinstance(base, list) and isinstance(over, list) and len(base) == len(over)
    if lists and all(isinstance(x, Mapping) for x in (*base, *over)):
        return [_merged(old, new) for old, new in zip(base, over, strict=True)]
    return over
